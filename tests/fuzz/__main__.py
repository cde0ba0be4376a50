"""`python -m fuzz`: many trials, counted; status 1 when any number is wrong or anything crashes."""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import sys
import time
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fuzz import baseline
from fuzz.pool import outcomes

CATEGORIES = ("equal", "fallback", "refused", "both-fail", "wrong", "crash")
BAD = ("wrong", "crash")


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser("fuzz", description=__doc__)
    parser.add_argument("--trials", type=int, default=2000, help="how many seeds")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seconds", type=float, help="stop after this long")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds for one trial")
    parser.add_argument(
        "--kind", choices=("data", "hetero", "all", "branches", "edges"), default="all"
    )
    parser.add_argument("--out", type=Path, help="a JSON file with counts, versions and failures")
    parser.add_argument("--outcomes", type=Path, help="a JSON file with the outcome of every seed")
    parser.add_argument(
        "--against",
        type=Path,
        help="outcomes of an earlier run: a seed that got worse is a failure",
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run trials, print what became of them, and tell whether all is well."""
    given = parsed(arguments)
    start, counts, reasons, failures = time.monotonic(), Counter[str](), Counter[str](), []
    informative = excused = 0
    found: dict[int, str] = {}

    def seeds() -> Iterator[int]:
        for seed in itertools.islice(itertools.count(given.seed), given.trials):
            if given.seconds and time.monotonic() - start > given.seconds:
                return
            yield seed

    try:
        for record in outcomes(seeds(), given.kind, given.workers, given.patience):
            counts[record["category"]] += 1
            found[record["seed"]] = record["category"]
            informative += record["largest"] > 1e-9
            excused += record.get("excused", 0) > 0
            if record["category"] in BAD:
                failures.append(record)
                _say(f"\r\033[K{_failure(record)}\n")
            elif record["category"] != "equal":
                reasons[f"{record['category']}: {_short(record['detail'])}"] += 1
            _say(f"\r\033[K{_line(counts)}  {time.monotonic() - start:.0f} s")
    except KeyboardInterrupt:
        _say("  interrupted")
    _say("\n")
    seconds = time.monotonic() - start
    summary = {
        "kind": given.kind,
        "first_seed": given.seed,
        "trials": sum(counts.values()),
        "seconds": round(seconds, 1),
        "counts": {name: counts[name] for name in CATEGORIES},
        "informative": informative,
        "excused": excused,
        "versions": versions(),
        "failures": failures,
        "reasons": dict(reasons.most_common()),
    }
    if given.out is not None:
        given.out.write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    if given.outcomes is not None:
        baseline.write(given.outcomes, given.kind, found, versions())
    print(table(summary))
    worse = baseline.worse(given.against, given.kind, found) if given.against else []
    print(*worse, sep="\n", end="\n" if worse else "")
    return int(bool(failures or worse))


def versions() -> dict[str, str]:
    """What the trials ran on."""
    names = ("nora-influence", "torch", "torch_geometric", "numpy", "numba")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def table(summary: dict[str, Any]) -> str:
    """The counts, the most frequent reasons, and the seeds of failures."""
    total = max(1, summary["trials"])
    lines = [f"{name:10} {n:7,} {n / total:7.1%}" for name, n in summary["counts"].items()]
    lines.append(f"{'trials':10} {summary['trials']:7,}   in {summary['seconds']:.0f} s")
    lines.append(f"something changes in {summary['informative'] / total:.0%} of them")
    lines.append(f"a difference put down to digits that the model loses: {summary['excused']}")
    lines += [f"{n:6} × {why}" for why, n in list(summary["reasons"].items())[:12]]
    for record in summary["failures"]:
        lines.append(_failure(record))
    if summary["failures"]:
        seed = summary["failures"][0]["seed"]
        lines.append(f"a small script of one: python -m fuzz.shrink {seed} {summary['kind']}")
    return "\n".join(lines)


def _line(counts: Counter[str]) -> str:
    return "  ".join(f"{name} {counts[name]:,}" for name in CATEGORIES)


def _failure(record: dict[str, Any]) -> str:
    pieces = ", ".join(record.get("pieces", []))
    return f"seed {record['seed']} {record['category']}: {record['detail']} [{pieces}]"


def _short(detail: str) -> str:
    return detail if len(detail) < 110 else detail[:109] + "…"


def _say(text: str) -> None:
    """One line that is written over, for those who watch; nothing for files."""
    if sys.stderr.isatty():
        sys.stderr.write(text)
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
