"""Checks of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from nora.arguments import shown
from nora.graph.edge_sets import graph_edges, node_counts
from nora.graph.node_index import Graph
from nora.graph.removal import check_in_range


def check_graph(data: Graph) -> None:
    """Raise unless a graph has nodes, edges between them, and finite features where it has any."""
    if isinstance(data, HeteroData):
        _check_types(data)
    counts = node_counts(data)
    if not sum(counts.values()):
        raise ValueError("the graph is empty: it has no nodes")
    for store in data.edge_stores:
        key = store._key
        ends = (None, None) if key is None else (key[0], key[2])
        edges, where = graph_edges(store), "" if key is None else f"data[{key!r}]."
        if edges is None and key is None:
            raise ValueError("data has no edge_index; a graph needs one of shape [2, num_edges]")
        num_edges = _check_edges(edges, counts[ends[0]], counts[ends[1]], f"{where}edge_index")
        _check_weights(store.get("edge_weight"), num_edges, where or "data.")
    for store in data.node_stores:
        where = "" if store._key is None else f"data[{store._key!r}]."
        _check_features(store.get("x"), counts[store._key], f"{where}x")


def _check_types(data: HeteroData) -> None:
    """Raise unless all node types are known, with their number of nodes."""
    if not data.node_types:
        raise ValueError("the graph is empty: it has no node types")
    for node_type in data.node_types:
        if data[node_type].num_nodes is None:
            raise ValueError(
                f"the number of {node_type!r} nodes is not known: give them x, or set "
                f"data[{node_type!r}].num_nodes"
            )
    for edge_type in data.edge_types:
        for end in (edge_type[0], edge_type[2]):
            if end not in data.node_types:
                raise ValueError(
                    f"edges {edge_type} lead to nodes of type {end!r}, of which there are none: set "
                    f"data[{end!r}].num_nodes or x"
                )


def _check_weights(weight: Any, num_edges: int, where: str) -> None:
    """Raise unless edge weights, if present, are one per edge."""
    if weight is None or (isinstance(weight, Tensor) and weight.dim() and len(weight) == num_edges):
        return
    got = list(weight.shape) if isinstance(weight, Tensor) else shown(weight)
    raise ValueError(
        f"{where}edge_weight must be a tensor with one weight for each of the {num_edges} edges, got {got}"
    )


def _check_edges(edge_index: Any, sources: int, targets: int, what: str) -> int:
    """The number of edges; raises unless `edge_index` is a long tensor `[2, E]` of ids in range."""
    if not isinstance(edge_index, Tensor):
        raise TypeError(
            f"{what} must be a tensor, got {type(edge_index).__name__}; use torch.as_tensor(edge_index)"
        )
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ValueError(f"{what} must have shape [2, num_edges], got {list(edge_index.shape)}")
    if edge_index.dtype != torch.long:
        raise TypeError(
            f"{what} must hold torch.long node ids, got {edge_index.dtype}; use edge_index.long()"
        )
    for row, count in zip(edge_index, (sources, targets), strict=True):
        check_in_range(row, count, f"{what} names")
    return edge_index.size(1)


def _check_features(x: Any, num_nodes: int, what: str) -> None:
    """Raise unless node features, if present, are dense, finite and one row per node."""
    if isinstance(x, list | tuple | np.ndarray):  # a removed node's rows would stay
        raise TypeError(f"{what} must be a tensor, got {type(x).__name__}; use torch.as_tensor(x)")
    if not isinstance(x, Tensor):
        return
    if x.is_meta:
        raise ValueError(f"{what} is on the device 'meta', where tensors hold no numbers")
    if x.layout != torch.strided:
        raise TypeError(f"{what} is a sparse tensor ({x.layout}); pass data with x.to_dense()")
    if x.size(0) != num_nodes:
        raise ValueError(f"{what} has {x.size(0)} rows but the graph has {num_nodes} nodes")
    # The sum is finite unless an entry is not: no mask of the size of x is needed.
    if x.is_floating_point() and not bool(x.sum().isfinite()):
        bad = (~x.isfinite()).flatten(1).any(dim=1).nonzero()
        if bad.numel():
            raise ValueError(
                f"{what} holds NaN or infinite values (first at node {int(bad[0])}); fill or drop "
                "them first"
            )
