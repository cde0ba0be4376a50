"""How well does each method do, and what does it cost?

Trains every model on every dataset (node task, 256 hidden units, split 0), takes the true influence
of all nodes from `exact`, and compares every other method with it, with default options and without
any tuning; `nora` with both of its class weightings. The cost is given in forward passes of the same
model, timed in the same process (the best of three, of the method and of the pass).

    python benchmarks/methods.py                          # a few minutes
    python benchmarks/methods.py --datasets cora --models gcn
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import nora

HERE = Path(__file__).parent
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "exact": ("exact", {}),
    "nora (own)": ("nora", {"weighting": "own"}),
    "nora (sum)": ("nora", {"weighting": "sum"}),
    "nora-t1 (own)": ("nora-t1", {"weighting": "own"}),
    "nora-t1 (sum)": ("nora-t1", {"weighting": "sum"}),
    "nora-t2": ("nora-t2", {}),
    "degree": ("degree", {}),
    "pagerank": ("pagerank", {}),
}
FIGURES = ("pearson", "spearman", "top_3%", "forward_passes")


def best_of_three(function: Callable[[], Any]) -> tuple[float, Any]:
    times = []
    for _ in range(3):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return min(times), result


@torch.no_grad()
def one_pass(run: nora.Run) -> float:
    model, data = run.model, run.data
    return best_of_three(lambda: model(data.x, data.edge_index))[0]


def measure(dataset: str, model: str) -> dict[str, Any]:
    run = nora.train(model, dataset, hidden_channels=256, progress=False)
    truth = nora.influence(run.model, run.data, "exact", progress=False)
    forward = one_pass(run)
    rows: dict[str, Any] = {"test_accuracy": run.metrics["test_accuracy"], "methods": {}}
    for label, (method, options) in METHODS.items():
        seconds, scores = best_of_three(
            lambda m=method, o=options: nora.influence(run.model, run.data, m, progress=False, **o)
        )
        rows["methods"][label] = {**scores.compare(truth), "forward_passes": seconds / forward}
    return rows


def show(results: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Print the means over all cells and return them."""
    means = {
        label: {
            figure: mean(cell["methods"][label][figure] for cell in results.values())
            for figure in FIGURES
        }
        for label in METHODS
    }
    table = Table(title=f"mean over {len(results)} cells: {', '.join(results)}")
    table.add_column("method")
    for figure in FIGURES:
        table.add_column(figure.replace("_", " "), justify="right")
    for label, row in means.items():
        table.add_row(label, *(f"{row[f]:.3f}" for f in FIGURES[:-1]), f"{row[FIGURES[-1]]:.1f}")
    Console(width=100).print(table)
    return means


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", default=["cora", "citeseer", "pubmed"])
    parser.add_argument("--models", nargs="+", default=["gcn", "sage", "gat", "gcnii"])
    parser.add_argument("--out", type=Path, default=HERE / "results" / "methods.json")
    arguments = parser.parse_args()
    results = {}
    for dataset in arguments.datasets:
        for model in arguments.models:
            results[f"{dataset}-{model}"] = measure(dataset, model)
            print(f"{dataset}-{model} done", flush=True)
    about = {
        "command": "python benchmarks/methods.py --datasets " + " ".join(arguments.datasets),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cores": os.cpu_count(),
        "means": show(results),
        "cells": results,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
