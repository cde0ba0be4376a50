"""PageRank by sparse products is that of NetworkX."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data

import nora


@pytest.mark.parametrize("damping", [0.5, 0.85])
def test_it_is_networkxs_on_a_graph_with_loops_copies_and_dead_ends(damping: float) -> None:
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(60, (2, 150), generator=generator)
    edges = torch.cat([edges, edges[:, :20], torch.arange(5).repeat(2, 1)], dim=1)
    data = Data(x=torch.zeros(70, 1), edge_index=edges)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(70))
    graph.add_edges_from(edges.flip(0).t().tolist())
    truth = nx.pagerank(graph, alpha=damping)
    found = nora.influence(
        torch.nn.Identity(), data, "pagerank", forward=lambda *_: None, damping=damping
    )
    assert found.scores.tolist() == pytest.approx([truth[node] for node in range(70)], rel=1e-6)


def test_it_says_so_where_it_does_not_settle() -> None:
    path = Data(x=torch.zeros(3, 1), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    with pytest.raises(ValueError, match=r"PageRank did not converge.*damping"):
        nora.influence(torch.nn.Identity(), path, "pagerank", forward=lambda *_: None, damping=1.0)
