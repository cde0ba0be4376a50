"""The graph's own figures, as people count them: edges at a node, edges in all.

A graph whose edges all go both ways is undirected: each pair of directions is one edge. In any other,
every direction is an edge of its own, and a node's degree is its edges in plus its edges out.
"""

from __future__ import annotations

import numpy as np
from torch_geometric.data import Data


def degrees(graph: Data) -> np.ndarray:
    """Edges at each node `[N]`, each neighbour once a direction; self-loops are not counted.

    Example:
        >>> import torch
        >>> one_way = Data(edge_index=torch.tensor([[0, 1, 1], [1, 2, 1]]), num_nodes=3)
        >>> both_ways = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=3)
        >>> degrees(one_way).tolist(), degrees(both_ways).tolist()
        ([1.0, 2.0, 1.0], [1.0, 1.0, 0.0])
    """
    num_nodes = int(graph.num_nodes or 0)
    source, target = _ends(graph)
    key = np.unique((source * num_nodes + target)[source != target])
    source, target = np.divmod(key, max(num_nodes, 1))
    ends = np.concatenate([source, target]) if is_directed(graph) else source
    return np.bincount(ends, minlength=num_nodes).astype(float)


def count_edges(graph: Data) -> int:
    """How many edges there are, self-loops and edges of several types between two nodes included.

    Example:
        >>> import torch
        >>> count_edges(Data(edge_index=torch.tensor([[0, 1, 1], [1, 0, 1]]), num_nodes=2))
        2
    """
    source, target = _ends(graph)
    loops = int((source == target).sum())
    return len(source) if is_directed(graph) else (len(source) - loops) // 2 + loops


def is_directed(graph: Data) -> bool:
    """Whether some edge goes one way only, or is of another type or weight on its way back."""
    source, target = _ends(graph)
    about = [
        np.asarray(values.detach().cpu())
        for values in (graph.get("edge_type"), graph.get("edge_weight"))
        if values is not None and values.shape == (len(source),)
    ]
    there = np.lexsort((*about, target, source))
    back = np.lexsort((*about, source, target))
    return not (
        np.array_equal(source[there], target[back])
        and np.array_equal(target[there], source[back])
        and all(np.allclose(values[there], values[back], equal_nan=True) for values in about)
    )


def _ends(graph: Data) -> tuple[np.ndarray, np.ndarray]:
    source, target = graph.edge_index.cpu().numpy()
    return source, target
