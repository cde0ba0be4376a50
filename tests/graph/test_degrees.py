"""One meaning of degree: method, plot, table and report say the same of the same node."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data, HeteroData

import nora
from graphs import FEATURES, bridge, directed, double, duplicated, looped
from networks import network
from nora.analysis.asking import gather
from nora.graph.degrees import degrees, is_directed
from nora.report.options import ReportOptions


def chain() -> Data:
    """0 → 1 → 2, and 3 alone: node 1 has one edge in and one out."""
    x = torch.eye(4, FEATURES)
    return Data(x=x, edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=4)


@pytest.mark.parametrize("graph", [chain, bridge, directed, duplicated, looped])
def test_method_plot_table_and_report_say_the_same(graph: Callable[[], Data]) -> None:
    data = double(graph())
    model = network()
    expected = degrees(data).tolist()
    assert nora.influence(model, data, "degree", progress=False).scores.tolist() == expected
    scores = nora.Influence(torch.arange(1.0, data.num_nodes + 1), "given")
    drawn = scores.plot(data=data).axes[1].collections[0].get_offsets()[:, 0]
    # Dots are spread by up to a tenth, sideways.
    shown = torch.tensor([d for d in expected if d > 0], dtype=torch.double)
    assert torch.allclose(torch.as_tensor(drawn.data), shown, rtol=0.12)
    table = dict(nora.to_networkx(data).nodes(data="degree"))
    assert list(table.values()) == expected
    reply = gather(nora.Session(model, data), scores, ReportOptions(effects=0))
    assert reply.degree.tolist() == expected


def test_an_edge_in_and_an_edge_out_are_two() -> None:
    assert degrees(chain()).tolist() == [1, 2, 1, 0]


def test_degree_is_what_networkx_counts_without_loops() -> None:
    for data in (chain(), bridge(), directed(), duplicated(), looped()):
        graph = nora.to_networkx(data)
        graph.remove_edges_from(list(nx.selfloop_edges(graph)))
        assert degrees(data).tolist() == [degree for _, degree in graph.degree]


def test_both_ways_is_undirected_only_if_weight_and_type_are_the_same() -> None:
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    assert not is_directed(data)
    for name, values in {"edge_weight": [1.0, 2.0], "edge_type": [0, 1]}.items():
        other = data.clone()
        other[name] = torch.tensor(values)
        assert is_directed(other)
        assert degrees(other).tolist() == [2, 2]


def test_nodes_of_all_types_are_counted_as_networkx_counts_them() -> None:
    data = HeteroData()
    data["author"].num_nodes, data["paper"].num_nodes = 2, 3
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 0, 1], [0, 1, 1]])
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0, 1, 2], [1, 0, 2]])
    assert degrees(data).tolist() == [2, 1, 3, 4, 0]
    table = dict(nora.to_networkx(data).nodes(data="degree"))
    assert list(table.values()) == [2, 1, 3, 4, 0]
