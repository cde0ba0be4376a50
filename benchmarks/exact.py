"""How much faster than brute force is `exact`, and how exact?

For each setting, in one process: seconds per removal by brute force (a sample that includes the five
highest-degree nodes), seconds of `exact` for all nodes, their ratio, the largest error on the sample
relative to the largest influence, and the peak memory above that of the model's own forward pass.

    python benchmarks/exact.py                      # everything, about an hour
    python benchmarks/exact.py --only cora-gcn      # settings whose name starts with this

Brute force is one full forward pass per removal, under `torch.no_grad()`, with torch's default
threads. Two versions are timed on the same removals and the quicker one counts: `brute` itself, which
deletes the node, and a pass that keeps the node's row and drops its edges (the same numbers for these
models, less copying). The first, unmeasured run of `exact` compiles its loops.

On the ogbn-arxiv topology 300 random nodes and 20 hubs are removed. Estimates there: `estimates.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch_geometric.data import Data

import nora
from arxiv import arxiv_topology
from nora.engine.engine import Engine
from nora.engine.exec.kernels import compiled
from nora.memory import parse_bytes
from nora.methods.degree import degree
from nora.model import build_problem
from nora.model.preserve import evaluating

HERE = Path(__file__).parent
SAMPLE = 20


class PeakMemory:
    """Largest resident size while the block runs, sampled, in bytes above the start."""

    def __enter__(self) -> PeakMemory:
        self.start = self.peak = self._now()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _now(self) -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            self.peak = max(self.peak, self._now())

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def above(self) -> int:
        return self.peak - self.start


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def drop_edges(model: torch.nn.Module, data: Data, task: Any, node: int) -> torch.Tensor:
    """A full pass that keeps the removed node's row: the leanest brute force."""
    source, target = data.edge_index
    kept = data.edge_index[:, (source != node) & (target != node)]
    return task.predict(model(data.x, kept))


def sampled_nodes(data: Data, count: int) -> torch.Tensor:
    problem = build_problem(torch.nn.Identity(), data)
    hubs = degree(problem).topk(5).indices
    generator = torch.Generator().manual_seed(0)
    rest = torch.randperm(data.num_nodes, generator=generator)[: count - 5]
    return torch.cat([hubs, rest]).unique()


def measure_brute(model: Any, data: Data, task: Any, nodes: torch.Tensor) -> tuple[float, Any, int]:
    """Seconds per removal, true influences on `nodes`, and a forward pass's own peak memory."""
    model.eval()
    with torch.no_grad():
        task.predict(model(data.x, data.edge_index))
        with PeakMemory() as memory:
            task.predict(model(data.x, data.edge_index))
        deleting, truth = timed(
            lambda: nora.influence(model, data, "brute", task, nodes=nodes, progress=False)
        )
        lean, _ = timed(lambda: [drop_edges(model, data, task, int(node)) for node in nodes])
    return min(deleting, lean) / len(nodes), truth, memory.above


def compare(run: Any, options: dict[str, Any], sample: int) -> dict[str, Any]:
    """All nodes by `exact`, a sample by brute force."""
    model, data, task = run.model, run.data, run.task
    nodes = sampled_nodes(data, sample)
    warm_up = {**options, "nodes": nodes, "backend": "compiled", "progress": False}
    nora.influence(model, data, "exact", task, **warm_up)
    brute, truth, forward = measure_brute(model, data, task, nodes)
    with PeakMemory() as memory:
        seconds, found = timed(
            lambda: nora.influence(model, data, "exact", task, progress=False, **options)
        )
    error = (found.scores[nodes] - truth.scores[nodes]).abs().max() / found.scores.max()
    return {
        "nodes": data.num_nodes,
        "brute_seconds_per_removal": brute,
        "brute_sample": len(nodes),
        "exact_seconds": seconds,
        "ratio": brute * data.num_nodes / seconds,
        "relative_error": float(error),
        "forward_peak_mb": forward / 1e6,
        "exact_peak_mb": memory.above / 1e6,
        "details": dict(found.details),
        "metrics": run.metrics,
    }


def citation(dataset: str, model: str, task: str, hidden: int) -> Callable[[], dict[str, Any]]:
    def measure() -> dict[str, Any]:
        run = nora.train(model, dataset, task, hidden_channels=hidden, epochs=30, progress=False)
        return compare(run, {}, SAMPLE)

    return measure


def arxiv(model: str, sizes: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """300 random removals and 20 hubs, prepared once; brute force on a few of them."""

    def measure() -> dict[str, Any]:
        network, data = arxiv_topology(model, **sizes)
        problem = build_problem(network, data)
        hubs = degree(problem).topk(20).indices
        generator = torch.Generator().manual_seed(0)
        random = torch.randperm(data.num_nodes, generator=generator)[:300]
        random = random[~torch.isin(random, hubs)]
        both = torch.cat([hubs, random])
        few = torch.cat([hubs[:5], random[:3]])
        brute, truth, forward = measure_brute(network, data, problem.task, few)

        with evaluating(network):
            with PeakMemory() as memory:
                prepare, engine = timed(lambda: Engine.prepare(problem, compiled))
                engine.cost  # noqa: B018  (computed once, before the removals)
                run(engine, random[:2])
                random_seconds, scores = run(engine, random)
                hub_seconds, hub_scores = run(engine, hubs)
            exact = scores.where(~scores.isnan(), hub_scores)
        total = random_seconds + hub_seconds
        error = (exact[few] - truth.scores[few]).abs().max() / exact[both].max()
        return {
            "nodes": len(both),
            "brute_seconds_per_removal": brute,
            "brute_sample": len(few),
            "prepare_seconds": prepare,
            "exact_seconds": total,
            "exact_seconds_per_random_removal": random_seconds / len(random),
            "exact_seconds_per_hub_removal": hub_seconds / len(hubs),
            "ratio": brute * len(both) / total,
            "relative_error": float(error),
            "forward_peak_mb": forward / 1e6,
            "exact_peak_mb": memory.above / 1e6,
        }

    return measure


def run(engine: Engine, nodes: torch.Tensor) -> tuple[float, torch.Tensor]:
    """Seconds and influences `[num_nodes]` (NaN elsewhere) of some removals on both cores."""
    seconds, parts = timed(
        lambda: list(engine.by_chunks(engine.influences, nodes, parse_bytes("2GB")))
    )
    scores = torch.full((engine.program.num_nodes,), float("nan"))
    for ids, values in parts:
        scores[ids] = values
    return seconds, scores


def settings() -> dict[str, Callable[[], dict[str, Any]]]:
    found: dict[str, Callable[[], dict[str, Any]]] = {}
    for dataset in ("cora", "citeseer"):
        for model in ("gcn", "sage", "gat", "gcnii"):
            found[f"{dataset}-{model}-256"] = citation(dataset, model, "node", 256)
    for model in ("gcn", "sage", "gcnii", "gat"):
        found[f"pubmed-{model}-512"] = citation("pubmed", model, "node", 512)
    for dataset in ("cora", "pubmed"):
        found[f"{dataset}-gcn-256-link"] = citation(dataset, "gcn", "link", 256)
    deep = {"num_layers": 3, "norm": True}
    found["arxiv-topology-sage-256"] = arxiv("sage", {**deep, "hidden_channels": 256})
    found["arxiv-topology-gcn-256"] = arxiv("gcn", {**deep, "hidden_channels": 256})
    found["arxiv-topology-gat-64x2"] = arxiv("gat", {**deep, "hidden_channels": 64, "heads": 2})
    return found


def show(results: dict[str, dict[str, Any]]) -> None:
    table = Table(title="exact against brute force, same process")
    for column in (
        "setting",
        "removals",
        "brute s/removal",
        "exact s",
        "ratio",
        "error",
        "peak MB",
    ):
        table.add_column(column, justify="left" if column == "setting" else "right")
    for name, row in results.items():
        table.add_row(
            name, f"{row['nodes']:,}", f"{row['brute_seconds_per_removal']:.4f}",
            f"{row['exact_seconds']:.2f}", f"{row['ratio']:,.0f}×", f"{row['relative_error']:.1e}",
            f"{row['exact_peak_mb']:.0f}",
        )  # fmt: skip
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=[""], help="settings whose name starts so")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "exact.json")
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    if arguments.out.exists():
        results = json.loads(arguments.out.read_text())["settings"]
    ran = {}
    for name, measure in settings().items():
        if any(name.startswith(prefix) for prefix in arguments.only):
            results[name] = ran[name] = measure()
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            about = {
                "command": "python benchmarks/exact.py",
                "python": platform.python_version(),
                "torch": torch.__version__,
                "cores": os.cpu_count(),
                "settings": dict(sorted(results.items())),
            }
            arguments.out.write_text(json.dumps(about, indent=1) + "\n")
            show({name: ran[name]})
    if not ran:
        sys.exit(f"no such setting; there are: {', '.join(settings())}")
    show(ran)


if __name__ == "__main__":
    main()
