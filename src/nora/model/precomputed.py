"""Structure that was computed before the model sees the graph, as far as it can be recognised.

`G−r` must be normalised, encoded and counted afresh. Weights that `T.GCNNorm` has put into `data`, positional
encodings, degrees among the features and SIGN's `x1`, `x2` stay those of `G`; only `transform=` computes them
again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from nora.graph.edge_sets import graph_edges, matrix_entries

# Names that PyG's transforms use, and the transforms.
ENCODINGS = {
    "laplacian_eigenvector_pe": "T.AddLaplacianEigenvectorPE(k, attr_name='laplacian_eigenvector_pe')",
    "random_walk_pe": "T.AddRandomWalkPE(walk_length)",
}
# Columns of one-hot degrees that are looked for: the most frequent degrees.
MOST_FREQUENT = 3
# Rows of the features that are looked at first.
LOOKED_AT = 64
CLOSE = 1e-4


def precomputed(data: Data | HeteroData, read: set[str]) -> Iterator[tuple[str, str]]:
    """What of a graph was computed from its structure, and the transform that computes it again.

    Args:
        data: The graph.
        read: Names of the tensors that the model reads, as in `data.x`.
    """
    for store in data.stores:
        key = getattr(store, "_key", None)
        prefix = "data." if key is None else f"data[{key!r}]."
        edges = graph_edges(store)
        for name, value in store.items():
            if f"{prefix}{name}" in read and isinstance(value, Tensor):
                found = _found(store, name, value, edges, isinstance(data, Data))
                if found is not None:
                    yield f"{prefix}{name} {found[0]}", found[1]


def _found(
    store: Any, name: str, value: Tensor, edges: Tensor | None, plain: bool
) -> tuple[str, str] | None:
    if name in ENCODINGS:
        return "is a positional encoding", ENCODINGS[name]
    x = store.get("x")
    if edges is None or not plain:
        return None
    if re.fullmatch(r"x[1-9]\d*", name) and isinstance(x, Tensor) and value.shape == x.shape:
        before = x if name == "x1" else store.get(f"x{int(name[1:]) - 1}")
        if isinstance(before, Tensor) and _is_propagated(value, before, edges):
            return "holds propagated features, as SIGN's do", f"T.SIGN({name[1:]})"
        return None
    if name == "adj_t" or ("edge" in name and value.numel() == edges.size(1)):
        weight = matrix_entries(value)[1] if name == "adj_t" else value
        if weight is not None and weight.is_floating_point():
            return _normalisation(edges, weight.flatten(), int(store.num_nodes or 0))
    if name == "x" and value.dim() == 2 and len(value) == store.num_nodes:
        return _degree_among(value, edges, len(value))
    return None


def _normalisation(edges: Tensor, weight: Tensor, num_nodes: int) -> tuple[str, str] | None:
    """Whether weights are those of GCN, or sum to 1 at every node, and are not all the same."""
    if weight.numel() < 2 or bool((weight == weight[0]).all()):
        return None
    weight = weight.double()
    source, target = edges
    degree = torch.bincount(target, minlength=num_nodes).double().clamp(min=1)
    if _close(weight, (degree[source] * degree[target]).rsqrt()):
        return "holds GCN's normalisation of this graph", "T.GCNNorm()"
    for end, word in ((target, "incoming"), (source, "outgoing")):
        total = torch.zeros(num_nodes, dtype=torch.double).index_add_(0, end.cpu(), weight.cpu())
        there = torch.bincount(end.cpu(), minlength=num_nodes) > 0
        if _close(total[there], torch.ones(int(there.sum()), dtype=torch.double)):
            return (
                f"sums to 1 over the {word} edges of every node",
                "the function that normalises it",
            )
    return None


def _is_propagated(value: Tensor, before: Tensor, edges: Tensor) -> bool:
    """Whether `value` is `D^(−1/2) A D^(−1/2) before`."""
    source, target = edges
    degree = torch.bincount(target, minlength=len(before)).to(before.dtype)
    factor = degree.clamp(min=1).rsqrt() * (degree > 0)
    sent = before[source] * (factor[source] * factor[target]).unsqueeze(1)
    found = torch.zeros_like(before).index_add_(0, target, sent)
    return torch.allclose(found, value, rtol=1e-3, atol=1e-4)


def _degree_among(x: Tensor, edges: Tensor, num_nodes: int) -> tuple[str, str] | None:
    """Whether a column of the features is the degree, or some are its one-hot encoding."""
    for end in (edges[0], edges[1]):
        degree = torch.bincount(end, minlength=num_nodes)
        values, counts = degree.unique(return_counts=True)
        if len(values) <= MOST_FREQUENT:
            continue
        if _has_column(x, degree):
            return "has a column with the degrees", "a function that computes them"
        frequent = values[counts.argsort(descending=True)[:MOST_FREQUENT]]
        if all(_has_column(x, degree == one) for one in frequent):
            return "has one-hot degrees among its columns", "T.OneHotDegree(max_degree)"
    return None


def _has_column(x: Tensor, column: Tensor) -> bool:
    """Whether a matrix has such a column; most are told from it by a few rows."""
    column = column.to(x.dtype).unsqueeze(1)
    some = torch.linspace(0, len(x) - 1, LOOKED_AT).long()
    left = (x[some] == column[some]).all(dim=0).nonzero().flatten()
    return bool((x[:, left] == column).all(dim=0).any())


def _close(a: Tensor, b: Tensor) -> bool:
    return bool(((a - b).abs() <= CLOSE * b.abs()).all())
