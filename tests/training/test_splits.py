"""Cyclic splits of nodes and edges."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

import nora
from graphs import components, directed, duplicated, graph, looped, two_camps
from nora.training.splits import CYCLES, LinkSplit, split_links, split_nodes

RATIOS = (0.5, 0.3, 0.2)


def as_sets(pairs: Tensor) -> list[tuple[int, int]]:
    return [(i, j) for i, j in pairs.t().tolist()]


def undirected(pairs: Tensor) -> set[frozenset[int]]:
    return {frozenset(pair) for pair in pairs.t().tolist()}


@given(count=st.integers(1, 60), cycle=st.integers(0, CYCLES - 1), seed=st.integers(0, 99))
@settings(deadline=None)
def test_node_parts_are_disjoint_and_cover_every_node(count: int, cycle: int, seed: int) -> None:
    split = split_nodes(torch.zeros(count), RATIOS, cycle, seed)
    parts = torch.cat([split.train, split.val, split.test])
    assert sorted(parts.tolist()) == list(range(count))
    assert len(split.train) == round(0.5 * count)
    assert len(split.train) + len(split.val) == round(0.8 * count)


def test_every_cycle_shifts_by_a_fifth_of_the_nodes() -> None:
    splits = [split_nodes(torch.zeros(50), RATIOS, cycle, seed=3) for cycle in range(CYCLES)]
    orders = [torch.cat([split.train, split.val, split.test]) for split in splits]
    for cycle, order in enumerate(orders):
        assert torch.equal(order, orders[0].roll(-10 * cycle))
    assert sorted(torch.cat([split.test for split in splits]).tolist()) == list(range(50))


def test_nodes_without_a_label_are_in_no_part() -> None:
    labels = torch.tensor([0, -1, 1, -1, 0, 1, 1, 0, 0, 1, -1, 0])
    split = split_nodes(labels, RATIOS)
    assert sorted(torch.cat([split.train, split.val, split.test]).tolist()) == [
        node for node in range(12) if labels[node] >= 0
    ]


def test_the_same_seed_splits_the_same_and_another_differently() -> None:
    labels = torch.zeros(40)
    assert torch.equal(split_nodes(labels, seed=1).train, split_nodes(labels, seed=1).train)
    assert not torch.equal(split_nodes(labels, seed=1).train, split_nodes(labels, seed=2).train)


@pytest.mark.parametrize("cycle", [-1, 5])
def test_a_cycle_that_does_not_exist_is_refused(cycle: int) -> None:
    with pytest.raises(ValueError, match=rf"cycle must be 0 … 4, got {cycle}"):
        split_nodes(torch.zeros(10), cycle=cycle)
    with pytest.raises(ValueError, match=rf"cycle must be 0 … 4, got {cycle}"):
        split_links(two_camps(), cycle=cycle)


def positives(split: LinkSplit, part: str) -> Tensor:
    return getattr(split, part)[:, getattr(split, f"{part}_labels") == 1]


def negatives(split: LinkSplit, part: str) -> Tensor:
    return getattr(split, part)[:, getattr(split, f"{part}_labels") == 0]


@pytest.fixture(scope="module")
def network_of_camps() -> Data:
    return nora.load_dataset("polarised").data


@pytest.mark.parametrize("cycle", range(CYCLES))
def test_messages_pass_along_training_edges_only(cycle: int, network_of_camps: Data) -> None:
    split = split_links(network_of_camps, cycle=cycle, seed=1)
    assert undirected(split.data.edge_index) == undirected(positives(split, "train"))
    held_out = undirected(positives(split, "val")) | undirected(positives(split, "test"))
    assert held_out.isdisjoint(undirected(split.data.edge_index))
    assert split.data.is_undirected()
    assert split.data.num_nodes == network_of_camps.num_nodes


def test_link_parts_are_disjoint_and_cover_every_edge(network_of_camps: Data) -> None:
    split = split_links(network_of_camps, (0.8, 0.1, 0.1), cycle=2)
    parts = [undirected(positives(split, part)) for part in ("train", "val", "test")]
    count = network_of_camps.num_edges // 2
    assert sum(len(part) for part in parts) == count
    assert set.union(*parts) == undirected(network_of_camps.edge_index)
    assert [len(part) for part in parts] == [
        round(0.8 * count),
        round(0.9 * count) - round(0.8 * count),
        count - round(0.9 * count),
    ]


def test_every_cycle_shifts_by_a_fifth_of_the_edges(network_of_camps: Data) -> None:
    splits = [split_links(network_of_camps, (0.6, 0.2, 0.2), cycle) for cycle in range(CYCLES)]
    tests = [undirected(positives(split, "test")) for split in splits]
    count = network_of_camps.num_edges // 2
    assert all(abs(len(part) - count / CYCLES) <= 1 for part in tests)
    # A fifth of the edges is not a whole number: an edge may be left over between two cycles.
    assert len(undirected(network_of_camps.edge_index) - set.union(*tests)) < CYCLES
    assert len(tests[0] & tests[1]) <= 1


@pytest.mark.parametrize("per_edge", [1, 3])
def test_sampled_non_edges_are_no_edges_no_loops_and_distinct(
    per_edge: int, network_of_camps: Data
) -> None:
    split = split_links(network_of_camps, seed=5, negatives=per_edge)
    sampled = torch.cat([negatives(split, part) for part in ("train", "val", "test")], dim=1)
    assert sampled.size(1) == per_edge * network_of_camps.num_edges // 2
    assert undirected(sampled).isdisjoint(undirected(network_of_camps.edge_index))
    assert (sampled[0] != sampled[1]).all()
    assert len(undirected(sampled)) == sampled.size(1)


def test_every_part_has_its_share_of_non_edges(network_of_camps: Data) -> None:
    split = split_links(network_of_camps, negatives=3)
    for part in ("train", "val", "test"):
        assert negatives(split, part).size(1) == 3 * positives(split, part).size(1)


def test_the_pairs_of_the_task_are_the_same_in_every_cycle(network_of_camps: Data) -> None:
    first, second = (split_links(network_of_camps, cycle=cycle, seed=2) for cycle in (0, 3))
    assert sorted(as_sets(first.pairs)) == sorted(as_sets(second.pairs))
    assert as_sets(first.train) != as_sets(second.train)


def test_the_same_seed_splits_edges_the_same(network_of_camps: Data) -> None:
    torch.manual_seed(1)
    first = split_links(network_of_camps, seed=2)
    torch.manual_seed(2)
    again, other = split_links(network_of_camps, seed=2), split_links(network_of_camps, seed=3)
    assert torch.equal(first.pairs, again.pairs)
    assert not torch.equal(first.pairs, other.pairs)


def test_on_a_directed_graph_each_direction_is_an_edge_of_its_own() -> None:
    data = graph([(0, 1), (1, 0), (1, 2), (3, 2), (4, 0), (2, 4)], 5, both_ways=False)
    split = split_links(data, (0.5, 0.25, 0.25))
    found = [as_sets(positives(split, part)) for part in ("train", "val", "test")]
    assert sorted([*found[0], *found[1], *found[2]]) == sorted(as_sets(data.edge_index))
    assert as_sets(split.data.edge_index) == [
        edge for edge in as_sets(data.edge_index) if edge in found[0]
    ]
    sampled = torch.cat([negatives(split, part) for part in ("train", "val", "test")], dim=1)
    assert set(as_sets(sampled)).isdisjoint(as_sets(data.edge_index))


def test_self_loops_are_no_links_and_stay_in_the_graph() -> None:
    split = split_links(looped(), (0.5, 0.25, 0.25))
    loops = split.data.edge_index[:, split.data.edge_index[0] == split.data.edge_index[1]]
    assert as_sets(loops) == [(1, 1), (4, 4)]
    assert all(i != j for i, j in as_sets(split.pairs))


@pytest.mark.parametrize("cycle", range(CYCLES))
def test_duplicates_of_an_edge_are_one_link_and_stay_together(cycle: int) -> None:
    split = split_links(duplicated(), (0.5, 0.25, 0.25), cycle)
    seen = as_sets(split.data.edge_index)
    assert (seen.count((0, 1)), seen.count((1, 0))) in ((3, 3), (0, 0))
    assert (
        sum(
            undirected(positives(split, part)) >= {frozenset((0, 1))}
            for part in ("train", "val", "test")
        )
        == 1
    )


def test_tensors_on_edges_go_with_their_edges() -> None:
    data = two_camps()
    data.edge_weight = torch.arange(float(data.num_edges))
    split = split_links(data)
    weight = dict(zip(as_sets(data.edge_index), data.edge_weight.tolist(), strict=True))
    assert [weight[edge] for edge in as_sets(split.data.edge_index)] == (
        split.data.edge_weight.tolist()
    )


def test_a_graph_with_too_few_edges_is_refused() -> None:
    with pytest.raises(ValueError, match=r"needs at least 3 edges, the graph.*2"):
        split_links(graph([(0, 1), (1, 2)], 3))


@pytest.mark.parametrize("build", [components, directed, two_camps])
def test_small_graphs_split_into_parts_that_are_not_lost(build: object) -> None:
    data = build()  # type: ignore[operator]
    split = split_links(data)
    found = sum(positives(split, part).size(1) for part in ("train", "val", "test"))
    assert found == data.num_edges // (2 if data.is_undirected() else 1)
