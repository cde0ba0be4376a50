"""`exact` against `brute` on graphs with relations and node types, side by side in one run.

    python benchmarks/relational.py
    python benchmarks/relational.py --only TIMME   # cases whose name starts so; the others stay as they were

CPU seconds of one thread; `brute` is timed on a few removals, `exact` on all nodes, with all it prepares.
Weights are random but for P_20_50, where TIMME is trained for ten epochs: how many signs turn depends on
them. Both are also compared with `brute` in double precision: influences of TIMME are sums of many small
changes, of which single precision has few digits.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data, HeteroData

import nora
from nora.models.timme import TIMME

RESULTS = Path(__file__).parent / "results" / "relational.json"
TIMED = 12


class Authors(nn.Module):
    """Two layers of GraphSAGE for every edge type."""

    def __init__(self, data: HeteroData, hidden: int = 64) -> None:
        super().__init__()
        widths = {kind: data[kind].x.size(1) for kind in data.node_types}

        def layer(inputs: dict[str, int], out: int) -> nn.Module:
            return pyg.HeteroConv(
                {
                    kind: pyg.SAGEConv((inputs[kind[0]], inputs[kind[2]]), out)
                    for kind in data.edge_types
                }
            )

        self.first = layer(widths, hidden)
        self.second = layer(dict.fromkeys(widths, hidden), 4)

    def forward(self, x_dict: dict, edge_index_dict: dict) -> dict[str, Tensor]:
        h = {kind: x.relu() for kind, x in self.first(x_dict, edge_index_dict).items()}
        return self.second(h, edge_index_dict)


def bibliography(papers: int = 20_000) -> HeteroData:
    """Authors with few papers, papers with three authors, a hundred venues."""
    random = torch.Generator().manual_seed(0)
    data = HeteroData()
    counts = {"author": papers // 2, "paper": papers, "venue": 100}
    for kind, count in counts.items():
        data[kind].x = torch.randn(count, 64, generator=random)

    def both(a: str, ab: str, ba: str, b: str, edges: Tensor) -> None:
        data[a, ab, b].edge_index, data[b, ba, a].edge_index = edges, edges.flip(0)

    paper = torch.arange(papers)
    author = torch.randint(counts["author"], (3 * papers,), generator=random)
    both("author", "writes", "written_by", "paper", torch.stack([author, paper.repeat(3)]))
    # A few hundred papers, as only venues of a conference each year: venues reach far.
    some = paper[::20]
    venue = torch.randint(counts["venue"], (len(some),), generator=random)
    both("venue", "prints", "printed_in", "paper", torch.stack([venue, some]))
    return data


def typed(num_nodes: int = 20_000, relations: int = 5) -> Data:
    """A plain graph with edge types, for RGCN."""
    random = torch.Generator().manual_seed(0)
    edges = 5 * num_nodes
    return Data(
        x=torch.randn(num_nodes, 64, generator=random),
        edge_index=torch.randint(num_nodes, (2, edges), generator=random),
        edge_type=torch.randint(relations, (edges,), generator=random),
    )


def politicians(task: str) -> tuple[nn.Module, HeteroData, Any]:
    """TIMME on PureP."""
    dataset = nora.load_dataset("pure-p")
    from nora.training.runs import split_of

    split = split_of(dataset, task, 0, 0)
    relations = [kind[1] for kind in split.data.edge_types]
    model = TIMME(int(dataset.data.num_nodes), 2, relations=relations, task=task)
    if task == "node":
        return model, split.data, nora.NodeClassification()
    return (
        model,
        split.data,
        nora.LinkPrediction(split.pairs, model.decoder, relation=split.relation),
    )


def users() -> tuple[nn.Module, HeteroData, Any]:
    """TIMME on what is left of P_20_50: friend and reply."""
    run = nora.train("timme", "p-20-50-partial", epochs=10, progress=False)
    return run.model, run.data, run.task


def measured(model: nn.Module, data: Any, task: Any) -> dict[str, float]:
    """Seconds per removal: `exact` over all nodes, `brute` over a few."""
    count = int(data.num_nodes)
    few = torch.zeros(count, dtype=torch.bool)
    few[torch.randperm(count, generator=torch.Generator().manual_seed(0))[:TIMED]] = True
    # Compiled loops are loaded, and what is made once is made, before the clock starts.
    nora.influence(model, data, "exact", task, nodes=few, backend="compiled", progress=False)
    brute, truth = _timed(
        lambda: nora.influence(model, data, "brute", task, nodes=few, progress=False)
    )
    exact, found = _timed(lambda: nora.influence(model, data, "exact", task, progress=False))
    error = (truth.scores - found.scores)[few].abs().max()
    doubled = _in_double(model, data, task, few)
    return {
        "nodes": count,
        "brute_seconds_per_node": brute / TIMED,
        "exact_seconds_per_node": exact / count,
        "ratio": (brute / TIMED) / (exact / count),
        "largest_error": float(error),
        "largest_influence": float(found.scores[few].max()),
        "largest relative error of exact": float((found.scores / doubled - 1)[few].abs().max()),
        "largest relative error of brute": float((truth.scores / doubled - 1)[few].abs().max()),
    }


def _in_double(model: nn.Module, data: Any, task: Any, nodes: Tensor) -> Tensor:
    """`brute` in double precision."""
    model, data, task = deepcopy((model, data, task))
    for store in data.node_stores:
        for key, value in store.items():
            if isinstance(value, Tensor) and value.is_floating_point():
                store[key] = value.double()
    if isinstance(getattr(task, "decoder", None), nn.Module):
        task.decoder.double()
    return nora.influence(model.double(), data, "brute", task, nodes=nodes, progress=False).scores


def _timed(work: Callable[[], nora.Influence]) -> tuple[float, nora.Influence]:
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="cases whose name starts so")
    only = parser.parse_args().only
    warnings.filterwarnings("ignore", message="Sparse CSR")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    papers = nora.NodeClassification(node_type="paper")
    library, plain = bibliography(), typed()
    cases: dict[str, Callable[[], tuple[nn.Module, Any, Any]]] = {
        "HeteroConv of SAGE, 30,100 nodes of 3 types": lambda: (Authors(library), library, papers),
        "RGCN, 20,000 nodes, 5 relations": lambda: (
            nora.build_model("rgcn", 64, 4, num_relations=5),
            plain,
            nora.NodeClassification(),
        ),
        "TIMME on P_20_50's friend and reply, node": users,
        "TIMME on PureP, node": lambda: politicians("node"),
        "TIMME on PureP, link": lambda: politicians("link"),
    }
    kept = json.loads(RESULTS.read_text(encoding="utf-8"))["cases"] if RESULTS.exists() else {}
    for name, case in cases.items():
        if name.startswith(only):
            kept[name] = measured(*case())
            print(name, kept[name], flush=True)
            found = {each: kept[each] for each in cases if each in kept}
            report = {"command": "python benchmarks/relational.py", "cases": found}
            RESULTS.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
