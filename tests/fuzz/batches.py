"""`python -m fuzz.batches RUN.json … --commit COMMIT --into FILE`: several runs of the fuzzer as one file.

Each run is what `python -m fuzz --out RUN.json` wrote, all on one commit. Counts are added up, the seeds
of failures kept.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any


def together(runs: list[dict[str, Any]], commit: str) -> dict[str, Any]:
    """What all runs are together."""
    counts = sum((Counter(run["counts"]) for run in runs), Counter())
    seeds = [(run["first_seed"], run["first_seed"] + run["trials"] - 1) for run in runs]
    for (_, last), (first, _) in zip(sorted(seeds), sorted(seeds)[1:], strict=False):
        if first <= last:
            raise SystemExit(f"seed {first} is in two runs: a trial would count twice")
    return {
        "command": "python -m fuzz --trials … --seed … --out …; python -m fuzz.batches … --commit …",
        "commit": commit,
        "trials": sum(run["trials"] for run in runs),
        "counts": {name: counts[name] for name in runs[0]["counts"]},
        "informative": sum(run["informative"] for run in runs),
        "seeds": sorted(seeds),
        "versions": runs[0]["versions"],
        "failures": [failure for run in runs for failure in run["failures"]],
    }


def main() -> None:
    """Read, add up, write."""
    parser = argparse.ArgumentParser("fuzz.batches", description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--commit", required=True, help="the commit they ran on")
    parser.add_argument("--into", type=Path, required=True)
    given = parser.parse_args()
    found = together([json.loads(path.read_text()) for path in given.runs], given.commit)
    given.into.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps({"trials": found["trials"], **found["counts"]}))


if __name__ == "__main__":
    main()
