"""How many edges a graph has, as people count them: in an undirected one, both directions are one edge."""

from __future__ import annotations

from torch_geometric.data import Data

from nora.graph.degrees import is_directed


def count_edges(graph: Data) -> int:
    """How many edges there are, self-loops and edges of several types between two nodes included.

    Example:
        >>> import torch
        >>> count_edges(Data(edge_index=torch.tensor([[0, 1, 1], [1, 0, 1]]), num_nodes=2))
        2
    """
    source, target = graph.edge_index
    loops = int((source == target).sum())
    return len(source) if is_directed(graph) else (len(source) - loops) // 2 + loops
