"""`exact` against `brute` for layers without a rule, and where brute force is hard to beat.

    python benchmarks/layers.py                    # everything
    python benchmarks/layers.py --only pubmed      # settings whose name starts so

Weights are random: what is measured does not depend on them. All nodes are removed by `exact`, checks and
preparation included; a sample by `brute`. Small dense graphs and graphs with hundreds of edge types are
there because a full pass is cheap on them: `exact` must not cost more than it saves. Runs that are repeated
count by their quickest; the ratio of CPU seconds depends less on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data, HeteroData

import nora

RESULTS = Path(__file__).parent / "results" / "layers.json"
SAMPLE = 24
Setting = tuple[nn.Module, Any, Any]


class Two(nn.Module):
    """Two layers with a ReLU between them."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index).relu(), edge_index)


class Between(nn.Module):
    """A layer that keeps its width, between two linear maps."""

    def __init__(self, channels: int, classes: int, layer: nn.Module, hidden: int = 32) -> None:
        super().__init__()
        self.before, self.layer = nn.Linear(channels, hidden), layer
        self.after = nn.Linear(hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.after(self.layer(self.before(x).relu(), edge_index))


class LightGCN(nn.Module):
    """Propagation without weights; the mean over all depths."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(pyg.LGConv() for _ in range(layers))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        depths = [x]
        for layer in self.layers:
            depths.append(layer(depths[-1], edge_index))
        return torch.stack(depths).mean(dim=0)


MODELS: dict[str, Callable[[int, int], nn.Module]] = {
    "arma": lambda f, c: Two(pyg.ARMAConv(f, 32, num_stacks=2), pyg.ARMAConv(32, c, num_stacks=2)),
    "cheb": lambda f, c: Two(pyg.ChebConv(f, 32, 2), pyg.ChebConv(32, c, 2)),
    "gated": lambda f, c: Between(f, c, pyg.GatedGraphConv(32, 2)),
    "lightgcn": lambda f, c: Between(f, c, LightGCN()),
    "gatv2": lambda f, c: Two(pyg.GATv2Conv(f, 32, heads=2), pyg.GATv2Conv(64, c)),
    "transformer": lambda f, c: Two(
        pyg.TransformerConv(f, 32, heads=2), pyg.TransformerConv(64, c)
    ),
}


def citation(dataset: str, model: str) -> Callable[[], Setting]:
    def make() -> Setting:
        data = nora.load_dataset(dataset).data
        return MODELS[model](data.num_features, int(data.y.max()) + 1), data, None

    return make


def dense(nodes: int, share: float, layer: str) -> Callable[[], Setting]:
    """A small graph in which every node is near every other."""

    def make() -> Setting:
        adjacency = torch.rand(nodes, nodes) < share
        data = Data(x=torch.randn(nodes, 16), edge_index=adjacency.nonzero().t().contiguous())
        kinds = {"gcn": pyg.GCNConv, "sage": pyg.SAGEConv, "gatv2": pyg.GATv2Conv, "cheb": cheb}
        return Two(kinds[layer](16, 32), kinds[layer](32, 4)), data, None

    return make


def cheb(inputs: int, outputs: int) -> nn.Module:
    """A ChebConv of two hops."""
    return pyg.ChebConv(inputs, outputs, 2)


class Relational(nn.Module):
    """A SAGEConv for every edge type, twice."""

    def __init__(self, data: HeteroData) -> None:
        super().__init__()
        kinds = data.edge_types
        self.first = pyg.HeteroConv({kind: pyg.SAGEConv((16, 16), 16) for kind in kinds})
        self.second = pyg.HeteroConv({kind: pyg.SAGEConv((16, 16), 4) for kind in kinds})

    def forward(self, x_dict: dict, edge_index_dict: dict) -> Tensor:
        hidden = {kind: x.relu() for kind, x in self.first(x_dict, edge_index_dict).items()}
        return self.second(hidden, edge_index_dict)["node"]


def many_types(types: int, nodes: int, edges: int) -> Callable[[], Setting]:
    """Each type with a few edges: a pass is many small products."""

    def make() -> Setting:
        data = HeteroData()
        data["node"].x = torch.randn(nodes, 16)
        for kind in range(types):
            data["node", f"type{kind}", "node"].edge_index = torch.randint(nodes, (2, edges))
        return Relational(data), data, nora.NodeClassification(node_type="node")

    return make


def typed_weights(types: int, nodes: int) -> Callable[[], Setting]:
    """An RGCN with many edge types."""

    def make() -> Setting:
        edges = 8 * nodes
        data = Data(
            x=torch.randn(nodes, 16),
            edge_index=torch.randint(nodes, (2, edges)),
            edge_type=torch.randint(types, (edges,)),
        )
        return RGCN(types), data, None

    return make


class RGCN(nn.Module):
    """Two RGCN layers."""

    def __init__(self, types: int) -> None:
        super().__init__()
        self.first = pyg.RGCNConv(16, 16, types, num_bases=4)
        self.second = pyg.RGCNConv(16, 4, types, num_bases=4)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index, edge_type).relu(), edge_index, edge_type)


def settings() -> dict[str, Callable[[], Setting]]:
    """Every setting by its name."""
    found = {f"pubmed-{name}": citation("pubmed", name) for name in MODELS}
    for layer in ("gcn", "sage", "gatv2", "cheb"):
        found[f"dense-30-{layer}"] = dense(30, 0.8, layer)
        found[f"dense-300-{layer}"] = dense(300, 0.5, layer)
        found[f"dense-1000-{layer}"] = dense(1000, 0.2, layer)
    found["types-500-40"] = many_types(500, 40, 8)
    found["types-100-200"] = many_types(100, 200, 8)
    found["rgcn-100-200"] = typed_weights(100, 200)
    return found


def measure(make: Callable[[], Setting]) -> dict[str, Any]:
    """Seconds of both, all nodes and a sample, and the largest difference on it."""
    torch.manual_seed(0)
    model, data, task = make()
    model.eval()
    nodes = torch.randperm(data.num_nodes)[:SAMPLE]
    ask = {"task": task, "progress": False}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        nora.influence(model, data, "exact", nodes=nodes, **ask)  # compiles its loops
        runs = [_timed(lambda: nora.influence(model, data, "exact", **ask)) for _ in range(2)]
    found = runs[0][2]
    # Small graphs by brute force whole, so that what is fixed counts on both sides; quick ones more often.
    whole = data.num_nodes <= 2000
    some = None if whole else nodes
    passes = [_timed(lambda: nora.influence(model, data, "brute", nodes=some, **ask))]
    truth = passes[0][2]
    for _ in range(7 if passes[0][0] < 1 else 1 if whole else 0):
        runs.append(_timed(lambda: nora.influence(model, data, "exact", **ask)))
        passes.append(_timed(lambda: nora.influence(model, data, "brute", **ask)))
    scored = torch.arange(data.num_nodes) if whole else nodes
    off = (found.scores[scored] - truth.scores[scored]).abs().max() / truth.scores[scored].max()
    times = 1 if whole else data.num_nodes / len(nodes)
    exact, exact_cpu = (min(run[k] for run in runs) for k in (0, 1))
    brute, brute_cpu = (times * min(run[k] for run in passes) for k in (0, 1))
    return {
        "nodes": data.num_nodes,
        "edges": sum(store.edge_index.size(1) for store in data.edge_stores),
        "exact_seconds": exact,
        "brute_seconds": brute,
        "ratio": brute / exact,
        "exact_cpu_seconds": exact_cpu,
        "brute_cpu_seconds": brute_cpu,
        "ratio_of_cpu": brute_cpu / exact_cpu,
        "relative_error": float(off),
        "details": dict(found.details),
        "warnings": sorted({str(one.message) for one in told if "exact" in str(one.message)}),
    }


def _timed(function: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds, CPU seconds, and the result."""
    start, computing = time.perf_counter(), time.process_time()
    result = function()
    return time.perf_counter() - start, time.process_time() - computing, result


def main() -> None:
    """Measure the settings that were asked for and write each as it is done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[""], help="settings whose name starts so")
    arguments = parser.parse_args()
    results = json.loads(RESULTS.read_text())["settings"] if RESULTS.exists() else {}
    for name, make in settings().items():
        if not any(name.startswith(prefix) for prefix in arguments.only):
            continue
        results[name] = measure(make)
        row = results[name]
        print(
            f"{name:22} exact {row['exact_seconds']:8.2f} s   brute {row['brute_seconds']:9.1f} s   "
            f"{row['ratio']:7.1f}×   CPU {row['ratio_of_cpu']:7.1f}×   error {row['relative_error']:.0e}  "
            f"{row['details'].get('reason', '')}{' '.join(row['warnings'])}",
            flush=True,
        )
        about = {
            "command": "python benchmarks/layers.py",
            "settings": dict(sorted(results.items())),
        }
        RESULTS.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
