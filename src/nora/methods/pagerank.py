"""Yardstick: PageRank on the reversed edges, so that a node with many readers ranks high."""

from __future__ import annotations

import networkx as nx
import torch
from torch import Tensor

from nora.methods import METHODS, MethodFacts
from nora.problem import Problem


@METHODS.register(
    "pagerank", "yardstick: PageRank (NetworkX)", MethodFacts(uses_model=False, uses_targets=False)
)
def pagerank(problem: Problem, *, damping: float = 0.85) -> Tensor:
    """PageRank of each node; messages flow along edges, so importance flows against them.

    Args:
        problem: The question; only its graph is used.
        damping: Probability of following an edge.
    """
    graph = nx.DiGraph()
    graph.add_nodes_from(range(problem.num_nodes))
    graph.add_edges_from(problem.edge_index.flip(0).t().tolist())
    ranks = nx.pagerank(graph, alpha=damping)
    return torch.tensor([ranks[node] for node in range(problem.num_nodes)]).float()
