"""Is a group found by greedy search better than the most influential nodes together?

Trains a GCN on Cora (node task, 256 hidden units, split 0) and compares the exact joint effect `F` of
the group that `nora.best_group` finds with that of as many nodes chosen by their influence alone, by
PageRank and by degree; for each size up to `--size`, as greedy groups are nested. The joint effects
are computed again by brute force.

    python benchmarks/group.py
    python benchmarks/group.py --dataset citeseer --model sage --size 20
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from rich.console import Console
from rich.table import Table

import nora

HERE = Path(__file__).parent
OTHERS = ("exact", "pagerank", "degree")


def joint(run: nora.Run, nodes: list[int]) -> float:
    return nora.what_if(run.model, run.data, nodes, run.task, method="brute").total


def measure(dataset: str, model: str, size: int, recheck: int) -> dict[str, Any]:
    run = nora.train(model, dataset, hidden_channels=256, progress=False)
    group = nora.best_group(run.model, run.data, size, run.task, recheck=recheck, progress=False)
    ranked = {
        name: nora.influence(run.model, run.data, name, run.task, progress=False)
        .top(size)["node"]
        .tolist()
        for name in OTHERS
    }
    chosen = {"greedy": list(group.nodes), **ranked}
    sizes = range(1, size + 1)
    return {
        "test_accuracy": run.metrics["test_accuracy"],
        "chosen_by": group.chosen_by,
        "evaluations": group.evaluations,
        "plain_greedy_evaluations": sum(run.data.num_nodes - some for some in range(size)),
        "seconds": group.seconds,
        "gain_over_influence": group.total / group.alone - 1,
        "nodes": chosen,
        "totals": {
            name: [joint(run, nodes[:some]) for some in sizes] for name, nodes in chosen.items()
        },
        "engine_totals": list(group.totals),
    }


def show(found: dict[str, Any], title: str) -> None:
    totals = pd.DataFrame(found["totals"])
    table = Table(title=title)
    for column in ("size", *totals):
        table.add_column(column, justify="right")
    for at, row in totals.iterrows():
        table.add_row(str(int(at) + 1), *(f"{value:.3f}" for value in row))
    Console(width=100).print(table)
    print(
        f"greedy over the most influential: {found['gain_over_influence']:+.1%}; "
        f"{found['evaluations']:,} removals computed ({found['plain_greedy_evaluations']:,} for "
        f"plain greedy search) in {found['seconds']:.1f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--model", default="gcn")
    parser.add_argument("--size", type=int, default=10)
    parser.add_argument("--recheck", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "group.json")
    asked = parser.parse_args()
    found = measure(asked.dataset, asked.model, asked.size, asked.recheck)
    show(found, f"exact joint effect, {asked.model} on {asked.dataset}")
    command = ["python", "benchmarks/group.py"]
    for key in ("dataset", "model", "size", "recheck"):
        command += [f"--{key}", str(getattr(asked, key))]
    about = {
        "command": shlex.join(command),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cores": os.cpu_count(),
        **found,
    }
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
