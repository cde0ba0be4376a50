"""What is lost without `numba`: `exact` by its compiled loops and by plain torch, on the same removals.

    python benchmarks/backends.py            # about a minute; writes results/backends.json

Both in one process on one thread, after a first unmeasured call that compiles and prepares. Processor seconds
are given beside the clock's: they do not grow when the machine is busy with something else.
"""

from __future__ import annotations

import argparse
import json
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import nora

HERE = Path(__file__).parent
# Dataset, model, how many nodes are removed, spread over all of them.
SETTINGS = (("cora", "gcn", 2708), ("cora", "gat", 2708), ("pubmed", "gcn", 3000))
BACKENDS = ("compiled", "vectorised")


def measure(dataset: str, model: str, removals: int) -> dict[str, Any]:
    """One setting: seconds by backend, and how far their numbers are apart."""
    run = nora.train(model, dataset, epochs=10, progress=False)
    session = run.session()
    nodes = torch.linspace(0, run.data.num_nodes - 1, removals).long()
    row: dict[str, Any] = {"dataset": dataset, "model": model, "removals": removals}
    scores = {}
    for backend in BACKENDS:
        options = {"backend": backend, "workers": 1, "verify": 0, "progress": False}
        session.influence("exact", nodes=nodes[:20], **options)
        clock, processor = time.perf_counter(), time.process_time()
        scores[backend] = session.influence("exact", nodes=nodes, **options).scores[nodes]
        row[f"{backend}_seconds"] = time.perf_counter() - clock
        row[f"{backend}_processor_seconds"] = time.process_time() - processor
    row["ratio"] = row["vectorised_processor_seconds"] / row["compiled_processor_seconds"]
    apart = (scores["compiled"] - scores["vectorised"]).abs().max() / scores["compiled"].max()
    row["largest_difference"] = float(apart)
    return row


def main() -> None:
    """All settings; the table is printed and written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=HERE / "results" / "backends.json")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for setting in SETTINGS:
        rows.append(measure(*setting))
        print(rows[-1], flush=True)
    versions = {name: version(name) for name in ("torch", "torch_geometric", "numba")}
    found = {"versions": versions, "rows": rows}
    given.results.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
