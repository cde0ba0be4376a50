"""Models whose Python branches on the size of a part of the graph, and models that keep structure.

Every one is written as people write it. `BRANCHES` are answered. `KEEPS` are refused, or answered
where what they keep is a cache that they make again.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

FEATURES, CLASSES, RELATIONS = 4, 3, 3


def relational(seed: int, nodes: int = 14, edges: int = 40) -> Data:
    """A random graph with types of edges; one node holds all edges of a type, two hold another's."""
    dice = torch.Generator().manual_seed(seed)
    pairs = torch.randint(nodes, (2, edges), generator=dice)
    kind = torch.randint(RELATIONS - 1, (edges,), generator=dice)
    holders = torch.randperm(nodes, generator=dice)[: 1 + seed % 2]
    mine = torch.isin(pairs, holders).any(dim=0)
    some = mine & (torch.rand(edges, generator=dice) < 0.6)
    kind[some] = RELATIONS - 1
    x = torch.randn(nodes, FEATURES, generator=dice, dtype=torch.double)
    flag = torch.rand(nodes, generator=dice) < 0.3
    return Data(x=x, edge_index=pairs, edge_type=kind, flag_mask=flag)


class Branching(nn.Module):
    """A convolution per relation, and a way to branch on how many edges or nodes there are."""

    def __init__(self, branch: Callable[..., Tensor], layer: type = SAGEConv) -> None:
        super().__init__()
        self.convs = nn.ModuleList(layer(FEATURES, CLASSES) for _ in range(RELATIONS))
        self.lin = nn.Linear(FEATURES, CLASSES)
        self.shift = nn.Parameter(torch.randn(CLASSES) * 3)
        self.branch = branch

    def forward(self, data: Data) -> Tensor:
        parts = [data.edge_index[:, data.edge_type == r] for r in range(RELATIONS)]
        return self.branch(self, data, parts)


def _all(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    return sum(
        (conv(data.x, part) for conv, part in zip(model.convs, parts, strict=True)),
        model.lin(data.x),
    )


def skip_empty(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    out = model.lin(data.x)
    for conv, part in zip(model.convs, parts, strict=True):
        if part.size(1) == 0:
            continue
        out = out + conv(data.x, part) + model.shift
    return out


def skip_by_len(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    out = model.lin(data.x)
    for conv, part in zip(model.convs, parts, strict=True):
        if not len(part[0]):
            continue
        out = out + conv(data.x, part) + model.shift
    return out


def list_of_parts(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    kept = [
        conv(data.x, part) + model.shift
        for conv, part in zip(model.convs, parts, strict=True)
        if part.numel()
    ]
    return model.lin(data.x) + torch.stack(kept).mean(dim=0) if kept else model.lin(data.x)


def guarded_mean(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    part, out = parts[-1], _all(model, data, parts)
    return out * model.lin(data.x[part[0]]).mean(dim=0) if part.shape[1] else out


def threshold(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    out = _all(model, data, parts)
    return out + model.shift if parts[-1].size(1) > 4 else out


def at_most(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    out = _all(model, data, parts)
    return out * (1 + min(5, parts[-1].size(1)))


def share(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    out = _all(model, data, parts)
    return out + model.shift if parts[-1].size(1) / data.edge_index.size(1) > 0.2 else out


def whole_half(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    out = _all(model, data, parts)
    return out + model.shift if int(0.5 * parts[-1].size(1)) >= 2 else out


def rounded_half(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    out = _all(model, data, parts)
    return out + model.shift if math.ceil(parts[-1].size(1) / 2) >= 2 else out


def squeezed(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    rows = data.x[parts[-1][0]].sum(dim=1, keepdim=True).squeeze()
    weight = rows.softmax(dim=0) if rows.dim() else rows * 7
    return _all(model, data, parts) * (1 + weight.sum())


def std_of_flagged(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    out = _all(model, data, parts)
    some = out[data.flag_mask]
    return out / (1 + some.std(dim=0)) if some.size(0) > 1 else out


def even_nodes(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    out = _all(model, data, parts)
    return out + model.shift if data.x.size(0) % 2 else out


def by_table(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    scale = {0: 1.0, 1: 2.0, 2: 3.0}.get(parts[-1].size(1), 4.0)
    return _all(model, data, parts) * scale


def types_present(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    out = model.lin(data.x)
    for relation in data.edge_type.unique().tolist():
        out = out + model.convs[relation](data.x, parts[relation]) + model.shift
    return out


BRANCHES = {
    function.__name__: function
    for function in (
        skip_empty, skip_by_len, list_of_parts, guarded_mean, threshold, at_most, share, whole_half,
        rounded_half, squeezed, std_of_flagged, even_nodes, by_table, types_present,
    )
}  # fmt: skip


class Keeps(nn.Module):
    """A model that holds structure of its own."""

    def __init__(self, data: Data, how: str) -> None:
        super().__init__()
        self.conv, self.lin = SAGEConv(FEATURES, CLASSES), nn.Linear(FEATURES, CLASSES)
        self.how, self.cache, self.kept = how, None, {}
        n, (source, target) = data.num_nodes, data.edge_index
        self.edges = data.edge_index.clone()
        dense = torch.zeros(n, n, dtype=torch.double)
        dense[target, source] = 1.0
        self.register_buffer("adjacency", dense)
        self.matrix = self.adjacency.to_sparse_coo()

    def forward(self, data: Data) -> Tensor:
        x, edges = data.x, data.edge_index
        if self.how == "edges on the module":
            return self.conv(x, self.edges)
        if self.how == "a dense adjacency":
            return self.adjacency @ self.lin(x)
        if self.how == "a sparse adjacency":
            return torch.sparse.mm(self.matrix, self.lin(x)) + self.conv(x, edges)
        if self.how == "an odd name":
            return self.conv(x, edges) + self.conv(x, data.follows)
        if self.how == "an odd name in a list":
            return self.conv(x, edges) + self.conv(x, data.sets[0])
        if self.how == "a cached adjacency":
            if self.cache is None:
                ones = torch.ones(edges.size(1), dtype=x.dtype)
                self.cache = torch.sparse_coo_tensor(edges.flip(0), ones, (len(x), len(x)))
            return torch.sparse.mm(self.cache, self.lin(x))
        if self.how == "a cached degree":
            if "degree" not in self.kept:
                self.kept["degree"] = torch.bincount(edges[1], minlength=len(x)).clamp(min=1)
            return self.conv(x / self.kept["degree"].unsqueeze(1), edges)
        raise AssertionError(self.how)


# How a model keeps structure, and whether it is answered all the same.
KEEPS = {
    "edges on the module": False,
    "a dense adjacency": False,
    "a sparse adjacency": False,
    "an odd name": False,
    "an odd name in a list": False,
    "a cached adjacency": True,
    "a cached degree": True,
}
LAYERS = {"sage": SAGEConv, "gcn": GCNConv, "gat": GATConv}


def with_odd_names(data: Data) -> Data:
    """The graph with edges under names that do not say so."""
    new = data.clone()
    new.follows = data.edge_index.flip(0).clone()
    new.sets = [data.edge_index.flip(1).clone()]
    return new
