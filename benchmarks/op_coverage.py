"""Which of torch's operator samples does the engine follow, and which does it refuse?

Every operation of torch's `op_db` is put into a model of one operation (`tests/op_lowered.py`); its rows
after edits of the graph are compared with the model's own.

    python benchmarks/op_coverage.py                # all, two minutes; writes the table
    python benchmarks/op_coverage.py cumsum sort    # some, printed only

Writes `benchmarks/results/op_coverage.json`, which `tests/engine/test_op_samples.py` compares with: for every
operation of `op_db` a letter per case (F followed, R refused, N not applicable), for every lowering the
number of cases of each. Fails where a followed case is wrong, or a lowering raises.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

import torch
from torch.testing._internal.common_methods_invocations import op_db

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from op_lowered import lowerings, outcome  # noqa: E402
from op_samples import cases  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "op_coverage.json"
WORDS = {
    "F": "followed", "R": "refused", "N": "not applicable", "W": "wrong", "E": "a lowering raises",
}  # fmt: skip


def main() -> None:
    """Run the cases of the named operations, or of all; see the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", help="operations of op_db; all by default")
    names = parser.parse_args().names
    outcomes: dict[str, str] = {}
    by_lowering: dict[str, Counter[str]] = {name: Counter() for name in sorted(lowerings())}
    for op in op_db:
        if names and op.name not in names:
            continue
        found = ""
        for case in cases(op):
            found += outcome(case)
            if found[-1] in "WE":
                print(f"{WORDS[found[-1]]}: {case.label}", flush=True)
            if found[-1] in "FR":
                for name in case.operations() & by_lowering.keys():
                    by_lowering[name][WORDS[found[-1]]] += 1
        outcomes[op.formatted_name] = found
        if names:
            print(op.formatted_name, found)
    total = Counter("".join(outcomes.values()))
    print({WORDS[letter]: count for letter, count in total.items()})
    if not names:
        table = {
            "command": "python benchmarks/op_coverage.py",
            "torch": torch.__version__,
            "total": {WORDS[letter]: total[letter] for letter in "FRN"},
            "lowerings": by_lowering,
            "operations": outcomes,
        }
        RESULTS.write_text(json.dumps(table, indent=1) + "\n", "utf-8")
    if total["W"] or total["E"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
