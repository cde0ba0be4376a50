"""Graphs with node and edge types, and models of them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import HeteroData

WIDTHS = {"author": 4, "paper": 6, "venue": 3}
HIDDEN, CLASSES = 5, 3


def library(
    counts: tuple[int, int, int] = (5, 7, 2), edges: int = 12, seed: int = 0, reach: float = 1.0
) -> HeteroData:
    """Authors write papers, papers cite papers (loops and duplicates too), venues print them.

    Args:
        counts: Authors, papers, venues.
        edges: Edges of each kind.
        seed: Seed of everything.
        reach: Share of each type's nodes that have edges at all.
    """
    random = torch.Generator().manual_seed(seed)
    data = HeteroData()
    number = dict(zip(WIDTHS, counts, strict=True))
    for kind, count in number.items():
        data[kind].x = torch.randn(count, WIDTHS[kind], generator=random, dtype=torch.double)

    def some(source: str, target: str) -> Tensor:
        ends = [max(1, round(reach * number[kind])) for kind in (source, target)]
        return torch.stack([torch.randint(end, (edges,), generator=random) for end in ends])

    data["author", "writes", "paper"].edge_index = some("author", "paper")
    data["paper", "written_by", "author"].edge_index = data[
        "author", "writes", "paper"
    ].edge_index.flip(0)
    data["paper", "cites", "paper"].edge_index = some("paper", "paper")
    data["venue", "prints", "paper"].edge_index = some("venue", "paper")
    data["paper", "printed_in", "venue"].edge_index = data[
        "venue", "prints", "paper"
    ].edge_index.flip(0)
    return data


class Mixed(nn.Module):
    """`HeteroConv` with another convolution for every edge type, twice."""

    def __init__(self, aggr: str = "sum") -> None:
        super().__init__()
        self.start = nn.ModuleDict({k: nn.Linear(w, HIDDEN) for k, w in WIDTHS.items()})
        self.layers = nn.ModuleList([self.layer(aggr) for _ in range(2)])
        self.end = nn.Linear(HIDDEN, CLASSES)

    def layer(self, aggr: str) -> nn.Module:
        both = (HIDDEN, HIDDEN)
        return pyg.HeteroConv(
            {
                ("author", "writes", "paper"): pyg.SAGEConv(both, HIDDEN),
                ("paper", "written_by", "author"): pyg.GATConv(both, HIDDEN, add_self_loops=False),
                ("paper", "cites", "paper"): pyg.GCNConv(HIDDEN, HIDDEN),
                ("venue", "prints", "paper"): pyg.SAGEConv(both, HIDDEN, aggr="max"),
                ("paper", "printed_in", "venue"): pyg.GraphConv(both, HIDDEN),
            },
            aggr=aggr,
        )

    def forward(self, x_dict: dict, edge_index_dict: dict) -> dict[str, Tensor]:
        h = {kind: self.start[kind](x).relu() for kind, x in x_dict.items()}
        for layer in self.layers:
            h = {kind: x.relu() for kind, x in layer(h, edge_index_dict).items()}
        return {kind: self.end(x) for kind, x in h.items()}


class Transformer(nn.Module):
    """Two `HGTConv` layers; returns the papers' classes only."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.ModuleDict({k: nn.Linear(w, HIDDEN) for k, w in WIDTHS.items()})
        kinds = library().metadata()
        self.layers = nn.ModuleList([pyg.HGTConv(HIDDEN, HIDDEN, kinds) for _ in range(2)])
        self.end = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x_dict: dict, edge_index_dict: dict) -> Tensor:
        h = {kind: self.start[kind](x).relu() for kind, x in x_dict.items()}
        for layer in self.layers:
            h = layer(h, edge_index_dict)
        return self.end(h["paper"])


class _Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = pyg.SAGEConv((-1, -1), HIDDEN), pyg.SAGEConv((-1, -1), CLASSES)

    # Without annotations: those of a file with `annotations` from `__future__` are strings, at which the
    # tracer of torch 2.6, and so `to_hetero`, fails.
    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def transformed() -> nn.Module:
    """A plain GraphSAGE that PyG's `to_hetero` has made relational."""
    model = pyg.to_hetero(_Plain(), library().metadata()).double()
    data = library()
    with torch.no_grad():
        model(data.x_dict, data.edge_index_dict)
    return model


MODELS = {"mixed": Mixed, "mean": lambda: Mixed("mean"), "to_hetero": transformed}


def network(name: str = "mixed", seed: int = 0) -> nn.Module:
    """A model with random weights, large enough to make a difference."""
    torch.manual_seed(seed)
    model = {**MODELS, "hgt": Transformer}[name]().double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return model
