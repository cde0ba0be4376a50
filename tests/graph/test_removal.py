"""`G−r`: what is taken away, and what is carried along."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from graphs import duplicated, graph, looped, star
from nora.graph.removal import kept, node_ids, remove_nodes


@st.composite
def graphs_and_groups(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]], set[int]]:
    size = draw(st.integers(1, 8))
    node = st.integers(0, size - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=25))
    return size, edges, draw(st.sets(node))


@given(graphs_and_groups())
def test_exactly_the_edges_between_remaining_nodes_remain(
    drawn: tuple[int, list[tuple[int, int]], set[int]],
) -> None:
    size, edges, group = drawn
    data = graph(edges, size, both_ways=False)
    data.number = torch.arange(len(edges))
    left = [node for node in range(size) if node not in group]
    reduced = remove_nodes(data, group)
    staying = [at for at, (i, j) in enumerate(edges) if i not in group and j not in group]
    assert reduced.num_nodes == len(left)
    assert reduced.edge_index.t().tolist() == [
        [left.index(edges[at][0]), left.index(edges[at][1])] for at in staying
    ]
    assert torch.equal(reduced.x, data.x[left])


@given(graphs_and_groups())
def test_the_graph_itself_is_left_untouched(
    drawn: tuple[int, list[tuple[int, int]], set[int]],
) -> None:
    size, edges, group = drawn
    data = graph(edges, size, both_ways=False)
    x, edge_index = data.x.clone(), data.edge_index.clone()
    remove_nodes(data, group)
    assert torch.equal(data.x, x)
    assert torch.equal(data.edge_index, edge_index)


@given(graphs_and_groups())
def test_one_after_the_other_is_the_same_as_all_at_once(
    drawn: tuple[int, list[tuple[int, int]], set[int]],
) -> None:
    size, edges, group = drawn
    data = graph(edges, size, both_ways=False)
    together = remove_nodes(data, group)
    for node in sorted(group, reverse=True):
        data = remove_nodes(data, node)
    assert torch.equal(data.edge_index, together.edge_index)
    assert torch.equal(data.x, together.x)


def test_every_node_and_edge_tensor_is_carried_along() -> None:
    data = graph([(0, 1), (1, 2), (2, 3), (3, 4)], 5, both_ways=False)
    data.y = torch.arange(5)
    data.train_mask = torch.tensor([True, False, True, False, True])
    data.pos = torch.arange(10.0).reshape(5, 2)
    data.edge_weight = torch.tensor([0.1, 0.2, 0.3, 0.4])
    data.edge_attr = torch.arange(8.0).reshape(4, 2)
    data.edge_year = torch.tensor([2001, 2002, 2003, 2004])
    data.title = "path"
    reduced = remove_nodes(data, 1)
    assert reduced.y.tolist() == [0, 2, 3, 4]
    assert reduced.train_mask.tolist() == [True, True, False, True]
    assert reduced.pos.tolist() == [[0, 1], [4, 5], [6, 7], [8, 9]]
    assert reduced.edge_weight.tolist() == pytest.approx([0.3, 0.4])
    assert reduced.edge_attr.tolist() == [[4, 5], [6, 7]]
    assert reduced.edge_year.tolist() == [2003, 2004]
    assert reduced.title == "path"
    assert reduced.edge_index.tolist() == [[1, 2], [2, 3]]


def test_removing_the_middle_of_a_star_leaves_no_edge() -> None:
    reduced = remove_nodes(star(), 0)
    assert reduced.num_nodes == 5
    assert reduced.edge_index.shape == (2, 0)


def test_self_loops_and_duplicates_of_remaining_nodes_stay() -> None:
    loops = remove_nodes(looped(), 0).edge_index
    assert loops[:, loops[0] == loops[1]].t().tolist() == [[0, 0], [3, 3]]
    edges = remove_nodes(duplicated(), 4).edge_index.t().tolist()
    assert edges.count([0, 1]) == edges.count([1, 0]) == 3


def test_nothing_removed_is_the_same_graph() -> None:
    data = star()
    same = remove_nodes(data, [])
    assert torch.equal(same.edge_index, data.edge_index)
    assert torch.equal(same.x, data.x)


def test_a_graph_without_features_is_reduced_too() -> None:
    data = Data(edge_index=star().edge_index, num_nodes=6)
    assert remove_nodes(data, [1, 2]).num_nodes == 4


@pytest.mark.parametrize(
    ("given_as", "expected"),
    [
        (3, [3]),
        (torch.tensor(3), [3]),
        ([3, 1, 3], [1, 3]),
        ((4,), [4]),
        ({2, 0}, [0, 2]),
        (range(2), [0, 1]),
        (torch.tensor([4, 0], dtype=torch.int32), [0, 4]),
        (torch.tensor([True, False, False, True, False]), [0, 3]),
        ([False, False, True, False, False], [2]),
        ([], []),
    ],
    ids=str,
)
def test_ids_may_be_given_in_many_ways(given_as: object, expected: list[int]) -> None:
    ids = node_ids(given_as, 5)  # type: ignore[arg-type]
    assert ids.tolist() == expected
    assert ids.dtype == torch.long


def test_ids_may_come_from_an_iterator() -> None:
    assert node_ids(iter([4, 1]), 5).tolist() == [1, 4]


def test_kept_is_the_rest() -> None:
    assert kept(torch.tensor([1, 3]), 5).tolist() == [True, False, True, False, True]
