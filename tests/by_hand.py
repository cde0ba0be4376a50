"""The definition once more, for any call, task and graph: a subgraph by hand, and a forward pass."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData

Call = Callable[[nn.Module, Any], Tensor]
Predict = Callable[[Tensor], Tensor]


def plain(model: nn.Module, data: Data) -> Tensor:
    """`model(x, edge_index)`, with the edges' weights, features and types where it asks for them."""
    extra = {k: data[k] for k in ("edge_weight", "edge_attr", "edge_type") if k in data}
    return model(data.x, data.edge_index, **extra)


def classes(output: Tensor) -> Tensor:
    """What a node classifier's output predicts."""
    return output.softmax(dim=-1)


def without(data: Data, nodes: Iterable[int]) -> tuple[Data, Tensor]:
    """The graph without these nodes, and the old ids of those that stay."""
    n, e = data.num_nodes, data.edge_index.size(1)
    gone = torch.zeros(n, dtype=torch.bool)
    gone[list(nodes)] = True
    left = (~gone).nonzero().flatten()
    new = torch.full((n,), -1)
    new[left] = torch.arange(len(left))
    stay = (~gone[data.edge_index]).all(dim=0)
    made = Data()
    for key, value in data.items():
        if key == "edge_index":
            made[key] = new[value[:, stay]]
        elif isinstance(value, Tensor) and key.startswith("edge_") and value.size(0) == e:
            made[key] = value[stay]
        elif isinstance(value, Tensor) and value.dim() and value.size(0) == n:
            made[key] = value[left]
        elif key == "num_nodes":
            made.num_nodes = len(left)
        else:
            made[key] = value
    return made, left


def without_typed(data: HeteroData, kind: str, node: int) -> HeteroData:
    """The graph without a node of a type."""
    made = copy.copy(data)
    keep = torch.arange(data[kind].num_nodes) != node
    made[kind].x = data[kind].x[keep]
    for source, name, target in data.edge_types:
        edges = data[source, name, target].edge_index
        for row, end in enumerate((source, target)):
            if end == kind:
                edges = edges[:, edges[row] != node]
                edges = edges.clone()
                edges[row] -= (edges[row] > node).long()
        made[source, name, target].edge_index = edges
    return made


@torch.no_grad()
def influence(
    model: nn.Module,
    data: Data,
    nodes: Iterable[Any],
    call: Call = plain,
    predict: Predict = classes,
) -> Tensor:
    """`F` of each of these nodes, or groups of nodes, from the definition."""
    model.eval()
    before = predict(call(model, data.clone()))
    found = []
    for node in nodes:
        part, left = without(data, [node] if isinstance(node, int) else node)
        after = predict(call(model, part)) if len(left) else before[left]
        found.append((before[left] - after).abs().sum())
    return torch.stack(found)


@torch.no_grad()
def link_influence(
    data: Data, pairs: Tensor, nodes: Iterable[int], score: Callable[[Data, Tensor], Tensor]
) -> Tensor:
    """`F` of each node over links; `score(data, pairs)` are probabilities."""
    before = score(data.clone(), pairs)
    found = []
    for node in nodes:
        part, left = without(data, [node])
        new = torch.full((data.num_nodes,), -1)
        new[left] = torch.arange(len(left))
        stay = (pairs != node).all(dim=0)
        after = score(part, new[pairs[:, stay]])
        found.append((before[stay] - after).abs().sum())
    return torch.stack(found)


@torch.no_grad()
def typed_influence(
    model: nn.Module, data: HeteroData, target: str, kind: str, call: Any
) -> Tensor:
    """`F` of each node of a type on the classes of another."""
    model.eval()
    before = call(model, data).softmax(dim=-1)
    found = []
    for node in range(data[kind].num_nodes):
        after = call(model, without_typed(data, kind, node)).softmax(dim=-1)
        kept = torch.ones(len(before), dtype=torch.bool)
        if kind == target:
            kept[node] = False
        found.append((before[kept] - after).abs().sum())
    return torch.stack(found)
