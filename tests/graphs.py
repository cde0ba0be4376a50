"""Tiny graphs with names, so that a test says in one word what it is about."""

from __future__ import annotations

import networkx as nx
import torch
from torch import Tensor
from torch_geometric.data import Data

FEATURES = 3


def graph(edges: list[tuple[int, int]], num_nodes: int, *, both_ways: bool = True) -> Data:
    """The graph with these edges and features that are the same every time."""
    if both_ways:
        edges = edges + [(j, i) for i, j in edges]
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t().contiguous()
    random = torch.Generator().manual_seed(11 * num_nodes + len(edges))
    return Data(x=torch.randn(num_nodes, FEATURES, generator=random), edge_index=edge_index)


def clique(nodes: range) -> list[tuple[int, int]]:
    return [(i, j) for i in nodes for j in nodes if i < j]


def star() -> Data:
    """Node 0 in the middle of five leaves."""
    return graph([(0, leaf) for leaf in range(1, 6)], 6)


def two_camps() -> Data:
    """Two cliques of four, joined by one edge (3, 4)."""
    return graph([*clique(range(4)), *clique(range(4, 8)), (3, 4)], 8)


def labelled_camps() -> Data:
    """The two camps with a label each, in double precision."""
    data = two_camps()
    data.x, data.y = data.x.double(), torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    return data


def bridge() -> Data:
    """Two triangles that only node 3 connects."""
    return graph([*clique(range(3)), (2, 3), (3, 4), *clique(range(4, 7))], 7)


def directed() -> Data:
    """One-way edges; node 5 only listens and node 0 only speaks."""
    return graph([(0, 1), (1, 2), (2, 3), (3, 1), (3, 4), (0, 4), (4, 5)], 6, both_ways=False)


def looped() -> Data:
    """A path with self-loops at both an inner and an end node."""
    data = graph([(0, 1), (1, 2), (2, 3), (3, 4)], 5)
    loops = torch.tensor([[1, 4], [1, 4]])
    data.edge_index = torch.cat([data.edge_index, loops], dim=1)
    return data


def duplicated() -> Data:
    """A path whose first edge is there three times."""
    return graph([(0, 1), (0, 1), (0, 1), (1, 2), (2, 3), (3, 4)], 5)


def isolated() -> Data:
    """A triangle with a tail, and nodes 4 and 5 without any edge."""
    return graph([(0, 1), (1, 2), (2, 0), (2, 3)], 6)


def weighted() -> Data:
    """A ring with a chord; every edge weighs the same both ways."""
    data = graph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 3)], 5)
    data.edge_weight = torch.tensor([0.5, 1.0, 2.0, 0.25, 1.5, 3.0]).repeat(2)
    return data


def components() -> Data:
    """A triangle and a path of four, apart from each other."""
    return graph([*clique(range(3)), (3, 4), (4, 5), (5, 6)], 7)


GRAPHS = {
    build.__name__: build
    for build in (
        star,
        two_camps,
        bridge,
        directed,
        looped,
        duplicated,
        isolated,
        weighted,
        components,
    )
}


def barabasi(nodes: int, ties: int) -> Tensor:
    """Edges of a graph with hubs, both ways; the same every time."""
    edges = torch.tensor(list(nx.barabasi_albert_graph(nodes, ties, seed=0).edges)).t()
    return torch.cat([edges, edges.flip(0)], dim=1)


def hundred() -> Data:
    """A hundred nodes, followers and loops, larger than the samples a model is recorded on."""
    random = torch.Generator().manual_seed(5)
    edges = torch.randint(100, (2, 300), generator=random)
    return Data(x=torch.randn(100, 4, generator=random).double(), edge_index=edges)


def without_edges(data: Data) -> Tensor:
    """Ids of the nodes that no edge to another node touches."""
    source, target = data.edge_index
    touched = torch.zeros(data.num_nodes, dtype=torch.bool)
    other = source != target
    touched[source[other]] = touched[target[other]] = True
    return (~touched).nonzero().flatten()


def some_pairs(data: Data) -> Tensor:
    """Every other edge, and pairs of each node with the one three further on."""
    nodes = torch.arange(data.num_nodes)
    apart = torch.stack([nodes, (nodes + 3) % data.num_nodes])
    return torch.cat([data.edge_index[:, ::2], apart[:, apart[0] != apart[1]]], dim=1)


def double(data: Data) -> Data:
    """The same graph with double-precision features and weights."""
    data = data.clone()
    for key in ("x", "edge_weight"):
        if key in data:
            data[key] = data[key].double()
    return data
