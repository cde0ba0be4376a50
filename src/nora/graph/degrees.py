"""A node's degree, with one meaning for methods, plots, tables and reports.

A graph whose edges all have their reverse is undirected: each pair of directions is one edge. In any other,
every direction is an edge of its own, and a node's degree is its edges in plus its edges out. Duplicate
edges, also of several types, are one edge, and self-loops do not count. That is what NetworkX counts on
the graph that `nora.to_networkx` gives, apart from self-loops, which add 2 there.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from nora.graph.node_index import Graph, global_edges


def degrees(data: Graph) -> Tensor:
    """Edges at each node `[N]`, in either direction; the nodes of all types in one row.

    Example:
        >>> from torch_geometric.data import Data
        >>> one_way = Data(edge_index=torch.tensor([[0, 1, 1], [1, 2, 1]]), num_nodes=3)
        >>> both_ways = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=3)
        >>> degrees(one_way).tolist(), degrees(both_ways).tolist()
        ([1, 2, 1], [1, 1, 0])
    """
    num_nodes = int(data.num_nodes or 0)
    source, target = global_edges(data).cpu()
    distinct = (source * num_nodes + target)[source != target].unique()
    source, target = distinct // max(num_nodes, 1), distinct % max(num_nodes, 1)
    ends = torch.cat([source, target]) if is_directed(data) else source
    return torch.bincount(ends, minlength=num_nodes)


def is_directed(data: Graph) -> bool:
    """Whether some edge has no reverse, or one of another type or weight."""
    source, target = global_edges(data).cpu().numpy()
    about = _edge_facts(data, len(source))
    if not about:  # one number for both ends: quicker to sort
        size = int(data.num_nodes or 0)
        ways = np.sort(source * size + target), np.sort(target * size + source)
        return not np.array_equal(*ways)
    there = np.lexsort((*about, target, source))
    back = np.lexsort((*about, source, target))
    return not (
        np.array_equal(source[there], target[back])
        and np.array_equal(target[there], source[back])
        and all(np.allclose(values[there], values[back], equal_nan=True) for values in about)
    )


def count_edges(data: Graph, directed: bool | None = None) -> int:
    """How many edges there are, as people count them: where undirected, both directions are one edge.

    Self-loops, and edges of several types between two nodes, count. `directed` is found out by default.

    Example:
        >>> from torch_geometric.data import Data
        >>> count_edges(Data(edge_index=torch.tensor([[0, 1, 1], [1, 0, 1]]), num_nodes=2))
        2
    """
    source, target = global_edges(data)
    if is_directed(data) if directed is None else directed:
        return len(source)
    loops = int((source == target).sum())
    return (len(source) - loops) // 2 + loops


def _edge_facts(data: Graph, num_edges: int) -> list[np.ndarray]:
    """Numbers `[E]` that an edge and its reverse must share: its weight, and its type last."""
    if isinstance(data, HeteroData):
        counts = [data[key].num_edges for key in data.edge_types]
        types = np.repeat([key[1] for key in data.edge_types], counts)
        return [np.unique(types, return_inverse=True)[1]]
    found = []
    for name in ("edge_weight", "edge_type"):
        values = data.get(name)
        if values is None:
            continue
        array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
        if array.size == num_edges:
            flat = array.reshape(-1)
            number = flat if flat.dtype.kind in "fiub" else np.unique(flat, return_inverse=True)[1]
            found.append(number)
    return found
