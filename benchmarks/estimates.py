"""How good and how cheap are estimates, beside `exact` and beside leaving small changes out?

    python benchmarks/estimates.py                    # everything, about half an hour
    python benchmarks/estimates.py --only arxiv-gcn   # settings whose name starts so
    python benchmarks/estimates.py --auto 300         # auto with this budget: ogbn-arxiv topology, all nodes

Per setting and tolerance: CPU seconds of `exact` over those of the estimate for the same random nodes,
one thread, one process; agreement with `exact` on these nodes (Pearson, Spearman, quantiles of estimate /
truth), and the share of nodes whose 95 % interval holds the truth. The 20 costliest nodes are told apart.

The method was made on 300 other random nodes (seed 0) of the three ogbn-arxiv settings, and tried on a
small GCN and GAT on Cora. Here other nodes are drawn (seed 1), and the other settings are other graphs,
on which nothing was chosen. ogbn-arxiv has stand-in features (`arxiv.py`): nothing here is a figure on
ogbn-arxiv.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.utils import barabasi_albert_graph

import nora
from arxiv import arxiv_topology
from nora.engine.engine import Engine
from nora.engine.estimate.calibration import Calibration
from nora.engine.exec.kernels import compiled
from nora.graph.edit_batch import EditBatch
from nora.memory import parse_bytes
from nora.model import build_problem
from nora.model.preserve import evaluating
from nora.results.agreement import agreement
from nora.seeds import shuffled

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "estimates.json"
TOLERANCES = (0.01, 0.02, 0.025, 0.03, 0.05, 0.1)
RANDOM, HUBS = 500, 20
MEMORY = parse_bytes("2GB")
DEEP = {"num_layers": 3, "norm": True}
Made = tuple[torch.nn.Module, Data]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds, and what came out."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def fitted(name: str, data: Data, epochs: int = 30, **sizes: Any) -> torch.nn.Module:
    """A model that was trained for a little on all labels: predictions that are neither flat nor sure."""
    torch.manual_seed(0)
    model = nora.build_model(name, data.x.size(1), int(data.y.max()) + 1, **sizes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model.train()
    for _ in range(epochs):
        optimizer.zero_grad()
        F.cross_entropy(model(data.x, data.edge_index), data.y).backward()
        optimizer.step()
    return model.eval()


def labelled(edge_index: torch.Tensor, nodes: int, classes: int = 8, width: int = 32) -> Data:
    """Random features, and classes that follow from those of neighbours."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(nodes, width, generator=generator)
    heard = torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]])
    y = ((x + heard) @ torch.randn(width, classes, generator=generator)).argmax(dim=1)
    return Data(x=x, edge_index=edge_index, y=y)


def power_law(model: str) -> Made:
    """A generated graph of 50,000 nodes whose degrees follow a power law."""
    torch.manual_seed(0)
    data = labelled(barabasi_albert_graph(50_000, 5), 50_000)
    return fitted(model, data, hidden_channels=128, **DEEP), data


def friends(model: str) -> Made:
    """Who follows whom among the 12,103 users of P_20_50: directed, dense."""
    whole = nora.load_dataset("p-20-50-partial").data
    edge_index = next(whole[kind].edge_index for kind in whole.edge_types if "friend" in kind[1])
    data = labelled(edge_index, whole.num_nodes)
    return fitted(model, data, hidden_channels=128, **DEEP), data


def pubmed(model: str) -> Made:
    """PubMed, three layers."""
    run = nora.train(model, "pubmed", hidden_channels=256, epochs=30, num_layers=3, progress=False)
    return run.model, run.data


def settings() -> dict[str, Callable[[], Made]]:
    """What there is, by name."""
    found: dict[str, Callable[[], Made]] = {
        "arxiv-gcn": lambda: arxiv_topology("gcn", hidden_channels=256, **DEEP),
        "arxiv-sage": lambda: arxiv_topology("sage", hidden_channels=256, **DEEP),
        "arxiv-gat": lambda: arxiv_topology("gat", hidden_channels=64, heads=2, **DEEP),
    }
    for model in ("gcn", "sage"):
        found[f"power-law-{model}"] = lambda model=model: power_law(model)
        found[f"friends-{model}"] = lambda model=model: friends(model)
        found[f"pubmed-{model}"] = lambda model=model: pubmed(model)
    found["pubmed-gat"] = lambda: pubmed("gat")
    return found


def measure(made: Made) -> dict[str, Any]:
    """All tolerances of one setting."""
    model, data = made
    problem = build_problem(model, data)
    with evaluating(model), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = Engine.prepare(problem, compiled)
        hubs = engine.cost.topk(HUBS).indices
        drawn = shuffled(problem.num_nodes, 1)
        drawn = drawn[~torch.isin(drawn, hubs)]
        nodes, others = drawn[:RANDOM], drawn[RANDOM:]

        def scores(one: Engine, some: torch.Tensor) -> np.ndarray:
            found = torch.zeros(problem.num_nodes, 3, dtype=torch.double)
            for ids, values in one.by_chunks(one.estimates, some, MEMORY, 1):
                found[ids] = values
            return found[some].numpy()

        def rows(one: Engine) -> dict[str, Any]:
            scores(one, nodes[:3])
            seconds, found = timed(lambda: scores(one, nodes))
            ratio = found[seen, 0] / truth[seen, 0]
            told = {
                "cheaper": exact_seconds / seconds,
                "seconds_per_node": seconds / len(nodes),
                **{k: v for k, v in agreement(found[:, 0], truth[:, 0]).items() if v == v},
                "ratio_quantiles": dict(
                    zip(("10", "50", "90"), np.quantile(ratio, (0.1, 0.5, 0.9)), strict=True)
                ),
                "median_error": float(np.median(np.abs(ratio - 1))),
                "hubs_ratio": (scores(one, hubs)[:, 0] / hub_truth[:, 0]).tolist(),
            }
            if one.sampling is not None:
                calibration = Calibration.of(engine, one, EditBatch.remove_nodes(others), MEMORY, 1)
                some = EditBatch.remove_nodes(nodes)
                _, error = calibration.scored(torch.from_numpy(found), engine, some, MEMORY, 1)
                within = np.abs(found[:, 0] - truth[:, 0]) <= 1.96 * error.double().numpy() + 1e-7
                told |= {"covered": float(within.mean()), "error_factor": calibration.factor}
            return told

        scores(engine, nodes[:3])
        exact_seconds, truth = timed(lambda: scores(engine, nodes))
        hub_truth = scores(engine, hubs)
        seen = truth[:, 0] > 0
        found: dict[str, Any] = {
            "nodes": problem.num_nodes,
            "edges": int(data.edge_index.size(1)),
            "sampled": len(nodes),
            "exact_seconds_per_node": exact_seconds / len(nodes),
            "tolerances": {str(t): rows(engine.with_tolerance(t)) for t in TOLERANCES},
        }
    return found


def measure_auto(budget: float) -> dict[str, Any]:
    """All nodes of the ogbn-arxiv topology by `auto`, and what it expected."""
    model, data = arxiv_topology("gcn", hidden_channels=256, **DEEP)
    start = time.perf_counter()
    found = nora.influence(model, data, "auto", budget=budget)
    seconds = time.perf_counter() - start
    nodes = shuffled(data.num_nodes, 1)[:RANDOM]
    truth = nora.influence(model, data, "exact", nodes=nodes, verify=0)
    return {
        "budget": budget,
        "seconds": seconds,
        "cores": os.cpu_count(),
        "chosen": found.details["auto"],
        "estimated": found.details.get("estimated"),
        "options": dict(found.options),
        "reached": agreement(found.scores[nodes], truth.scores[nodes]),
    }


def write(part: str, name: str, row: dict[str, Any]) -> None:
    """Put a row into the results, as soon as it is there."""
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept |= {
        "command": "python benchmarks/estimates.py",
        "versions": {
            "python": platform.python_version(),
            "nora": nora.__version__,
            "torch": torch.__version__,
        },
        "cores": os.cpu_count(),
    }
    kept.setdefault(part, {})[name] = row
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


def show(name: str, row: dict[str, Any]) -> None:
    """One line per tolerance."""
    print(
        f"{name}: {row['nodes']:,} nodes, exact {1000 * row['exact_seconds_per_node']:.1f} ms a node"
    )
    for tolerance, told in row["tolerances"].items():
        low, mid, high = told["ratio_quantiles"].values()
        print(
            f"  {tolerance:6} {told['cheaper']:6.1f}x  Pearson {told['pearson']:.5f}  "
            f"Spearman {told['spearman']:.4f}  ratio {low:.3f} {mid:.3f} {high:.3f}  "
            f"covered {told.get('covered', 0):.3f}  hubs {np.median(told['hubs_ratio']):.3f}"
        )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=[""], help="settings whose name starts so")
    parser.add_argument("--auto", type=float, help="seconds: only auto, with this budget")
    given = parser.parse_args()
    if given.auto:
        row = measure_auto(given.auto)
        write("auto", f"{given.auto:g}", row)
        print(json.dumps(row, indent=1))
        return
    torch.set_num_threads(1)
    for name, make in settings().items():
        if any(name.startswith(prefix) for prefix in given.only):
            row = measure(make())
            write("settings", name, row)
            show(name, row)


if __name__ == "__main__":
    main()
