"""Accuracy against cost of every method: Pearson to exact over seconds, on PubMed and on arxiv's graph.

PubMed: a 2-layer GCN, all nodes scored by every method and compared on all of them; tuned methods are
tuned on 10 % (the tuning and the labels' cost are in their seconds) and compared on the others. The
ogbn-arxiv topology (stand-in features, see `arxiv.py`): a 3-layer GCN of 256, every method scores all
169,343 nodes, compared on 500 random ones whose exact influence is computed; a method that would take
longer than an hour is left out, and exact itself is extrapolated from those 500.

    python benchmarks/pareto.py                     # both; the second takes about 15 minutes
    python benchmarks/pareto.py --graphs pubmed

What is in `results/pareto.json` already is not measured again; delete it to start afresh.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import nn
from torch_geometric.data import Data

import nora
from arxiv import arxiv_topology
from nora.results.agreement import agreement
from nora.results.plots.style import COLOURS, GREY
from nora.seeds import shuffled
from nora.training.splits import few_shot

HERE = Path(__file__).parent
CACHE = HERE / ".cache"
NEAR, TICKS = 1e-4, (0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)
# Names of the methods that an earlier call has measured.
KNOWN: set[str] = set()
RESULTS = HERE / "results"
FAMILIES = {
    "degree": 7,
    "pagerank": 7,
    "nora": 0,
    "mask": 2,
    "predict": 6,
    "cauchy": 4,
    "exact": 1,
    "estimate": 3,
    "drop": 5,
}


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def on_pubmed() -> Iterator[dict[str, Any]]:
    run = nora.train("gcn", "pubmed", hidden_channels=128, epochs=100, patience=20)
    ask = lambda method, **options: nora.influence(  # noqa: E731
        run.model, run.data, method, progress=False, **options
    )
    ask("exact", nodes=[0])  # compiles what is compiled
    seconds, truth = timed(lambda: ask("exact"))
    yield row("exact", seconds, truth, truth)
    ids = few_shot(len(truth))
    rest = torch.ones(len(truth), dtype=torch.bool)
    rest[ids] = False
    labelling, labels = timed(lambda: ask("exact", nodes=ids))
    plain = {
        "degree": ("degree", {}),
        "pagerank": ("pagerank", {}),
        "nora": ("nora", {}),
        "mask": ("mask", {}),
        **{f"cauchy {k}": ("cauchy", {"samples": k}) for k in (16, 64, 256)},
        **{f"estimate {t:g}": ("exact", {"tolerance": t}) for t in (0.01, 0.03, 0.1)},
    }
    for name, (method, options) in plain.items():
        seconds, found = timed(lambda m=method, o=options: ask(m, **o))
        yield row(name, seconds, found, truth)
    for method in ("nora", "mask", "predict-n", "predict-e"):
        tuning, tuned = timed(
            lambda m=method: nora.tune(run.model, run.data, labels, m, trials=4, progress=False)
        )
        more = {"labels": labels} if method.startswith("predict") else {}
        seconds, found = timed(lambda m=method, o={**tuned.options, **more}: ask(m, **o))
        yield row(f"{method}, tuned", labelling + tuning + seconds, found, truth, rest)


def on_arxiv() -> Iterator[dict[str, Any]]:
    model, data = arxiv_topology("gcn", hidden_channels=256, num_layers=3, norm=True)
    nodes = shuffled(int(data.num_nodes), 0)[:500].sort().values
    ask = lambda method, **options: nora.influence(  # noqa: E731
        model, data, method, progress=True, **options
    )
    seconds, truth = timed(lambda: ask("exact", nodes=nodes, checkpoint=CACHE / "arxiv-gcn-500"))
    if "removal_seconds" in truth.details and "exact" not in KNOWN:
        spent = truth.details["removal_seconds"]
        whole = seconds - spent + spent / len(nodes) * int(data.num_nodes)
        yield {**row("exact", whole, truth, truth), "extrapolated": True}
    if "auto, 2 minutes" not in KNOWN:
        yield from with_budget(model, data, truth)
    for name, method, options in (
        ("degree", "degree", {}),
        ("pagerank", "pagerank", {}),
        ("nora", "nora", {}),
        ("estimate 0.1", "exact", {"tolerance": 0.1}),
        ("estimate 0.03", "exact", {"tolerance": 0.03}),
    ):
        if name not in KNOWN:
            seconds, found = timed(lambda m=method, o=options: ask(m, **o))
            yield row(name, seconds, found, truth)


def with_budget(model: nn.Module, data: Data, truth: nora.Influence) -> Iterator[dict[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        seconds, found = timed(lambda: nora.influence(model, data, budget=120))
    yield {**row("auto, 2 minutes", seconds, found, truth), "auto": found.details["auto"]}


def row(
    name: str,
    seconds: float,
    found: nora.Influence,
    truth: nora.Influence,
    counted: torch.Tensor | None = None,
) -> dict[str, Any]:
    both = ~(found.scores.isnan() | truth.scores.isnan())
    both = both if counted is None else both & counted
    agrees = agreement(found.scores[both], truth.scores[both])
    print(f"{name:>22}  {seconds:9.2f} s  Pearson {agrees['pearson']:.4f}", flush=True)
    return {"name": name, "seconds": seconds, "compared": int(both.sum()), **agrees}


def stretched(value: Any) -> Any:
    """Pearson as it is drawn; nearer to 1 than a ten-thousandth is 1."""
    return -np.log10(1 + NEAR - value)


def unstretched(drawn: Any) -> Any:
    """The Pearson that is drawn there."""
    return 1 + NEAR - 10.0**-drawn


def draw(graphs: dict[str, list[dict[str, Any]]], path: Path) -> None:
    figure = Figure(figsize=(6.2 * len(graphs), 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (graph, rows) in zip(
        figure.subplots(1, len(graphs), squeeze=False)[0], graphs.items(), strict=True
    ):
        best, drops = 0.0, 0
        for point in sorted(rows, key=lambda one: one["seconds"]):
            x, y = point["seconds"], point["pearson"]
            family = next((key for key in FAMILIES if point["name"].startswith(key)), "predict")
            front, pruned = y > best, point["name"].startswith("drop")
            best, drops = max(best, y), drops + pruned
            axes.scatter(x, y, s=36, color=COLOURS[FAMILIES[family]], zorder=3)
            axes.annotate(
                point["name"] + (" (extrapolated)" if point.get("extrapolated") else ""),
                (x, y),
                xytext=(-5, 3 - 9 * (drops % 2)) if pruned else (5, 4 if front else -10),
                textcoords="offset points",
                ha="right" if pruned else "left",
                fontsize=8,
                color="black" if front else GREY,
            )
        axes.set(xscale="log", xlabel="seconds to score all nodes", ylabel="Pearson to exact")
        # What is left to 1 counts: 0.99 and 0.999 are as far apart as 0.9 and 0.99.
        axes.set_yscale("function", functions=(stretched, unstretched))
        axes.set_yticks(TICKS, [f"{tick:g}" for tick in TICKS])
        axes.set_ylim(min(one["pearson"] for one in rows) - 0.1, 1.00005)
        axes.margins(x=0.2)
        axes.set_title(graph, loc="left", fontsize=11)
        axes.grid(color="#E8E8E8", lw=0.7)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", default="pubmed,arxiv")
    wanted = parser.parse_args().graphs.split(",")
    path = RESULTS / "pareto.json"
    kept = json.loads(path.read_text())["graphs"] if path.exists() else {}
    makers = {
        "pubmed": ("PubMed, 2-layer GCN", on_pubmed),
        "arxiv": ("ogbn-arxiv topology, 3-layer GCN", on_arxiv),
    }
    for name in wanted:
        title, maker = makers[name]
        rows = kept.setdefault(title, [])
        KNOWN.clear()
        KNOWN.update(one["name"] for one in rows)
        about = {
            "command": "python benchmarks/pareto.py",
            "python": platform.python_version(),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
        }
        for one in maker():
            if one["name"] not in KNOWN:
                rows.append(one)
                path.write_text(json.dumps({"about": about, "graphs": kept}, indent=1) + "\n")
    draw(kept, HERE.parent / "docs" / "pareto.png")


if __name__ == "__main__":
    main()
