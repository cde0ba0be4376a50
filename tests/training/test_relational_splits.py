"""Splits of graphs with relations: nodes and every relation's links, on the same cycle."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from camps import camps
from nora.training.relational_splits import RelationalSplit, split_relations
from nora.training.splits import split_nodes

PARTS = ("train", "val", "test")
KINDS = [("user", "friend", "user"), ("user", "reply", "user")]


def listed(pairs: Tensor) -> list[tuple[int, int]]:
    return [tuple(pair) for pair in pairs.t().tolist()]


def links(split: RelationalSplit, part: str, number: int, label: int) -> list[tuple[int, int]]:
    chosen = getattr(split, f"{part}_relation") == number
    chosen &= getattr(split, f"{part}_labels") == label
    return listed(getattr(split, part)[:, chosen])


@pytest.mark.parametrize("number", [0, 1])
def test_every_link_is_in_one_part_of_its_relation_and_self_loops_in_none(number: int) -> None:
    data = camps().data
    split = split_relations(data)
    found = [pair for part in PARTS for pair in links(split, part, number, 1)]
    there = [(i, j) for i, j in listed(data[KINDS[number]].edge_index) if i != j]
    assert sorted(found) == sorted(there)
    sizes = [len(links(split, part, number, 1)) / len(found) for part in PARTS]
    assert sizes == pytest.approx([0.8, 0.1, 0.1], abs=0.02)


@pytest.mark.parametrize("number", [0, 1])
def test_there_are_three_non_links_per_link_that_the_relation_does_not_have(number: int) -> None:
    data = camps().data
    split = split_relations(data, negatives=3)
    there = set(listed(data[KINDS[number]].edge_index))
    every = [pair for part in PARTS for pair in links(split, part, number, 0)]
    assert not there & set(every)
    assert all(i != j for i, j in every)
    assert len(set(every)) == len(every)
    for part in PARTS:
        assert len(links(split, part, number, 0)) == 3 * len(links(split, part, number, 1))


def test_messages_pass_along_training_links_and_self_loops_with_their_attributes() -> None:
    data = camps().data
    split = split_relations(data, cycle=2)
    assert split.data.edge_types == data.edge_types
    for number, kind in enumerate(KINDS):
        before = dict(zip(listed(data[kind].edge_index), data[kind]["count"].tolist(), strict=True))
        seen = listed(split.data[kind].edge_index)
        loops = [(i, j) for i, j in before if i == j]
        assert sorted(seen) == sorted([*links(split, "train", number, 1), *loops])
        assert split.data[kind]["count"].tolist() == [before[pair] for pair in seen]
    assert torch.equal(split.data["user"].y, data["user"].y)
    assert data["user", "friend", "user"].edge_index.size(1) == len(
        camps().data["user", "friend", "user"].edge_index[0]
    ), "the whole graph is left as it was"


def test_links_are_directed_even_where_all_are_answered() -> None:
    data = HeteroData()
    data["user"].x = torch.arange(8)
    data["user"].y = torch.tensor([0, 1] * 4)
    data["user"].num_nodes = 8
    ring = torch.stack([torch.arange(8), torch.arange(8).roll(-1)])
    data["user", "friend", "user"].edge_index = torch.cat([ring, ring.flip(0)], dim=1)
    split = split_relations(data, negatives=1)
    assert int(split.train_labels.sum() + split.val_labels.sum() + split.test_labels.sum()) == 16


def test_pairs_and_relations_are_those_of_all_parts() -> None:
    split = split_relations(camps().data)
    assert split.pairs.size(1) == split.relation.numel()
    assert torch.equal(split.pairs, torch.cat([split.train, split.val, split.test], dim=1))
    assert split.relation.unique().tolist() == [0, 1]


def test_the_nodes_are_split_as_for_any_graph() -> None:
    dataset = camps()
    split = split_relations(dataset.data, cycle=3, seed=5)
    expected = split_nodes(dataset.data["user"].y, (0.8, 0.1, 0.1), cycle=3, seed=5)
    for part in PARTS:
        assert torch.equal(getattr(split.nodes, part), getattr(expected, part))


def test_cycles_share_pairs_and_shift_the_parts() -> None:
    first, second = (split_relations(camps().data, cycle=cycle) for cycle in (0, 1))
    every = [
        sorted(zip(listed(split.pairs), split.relation.tolist(), strict=True))
        for split in (first, second)
    ]
    assert every[0] == every[1]
    assert not set(links(first, "test", 0, 1)) & set(links(second, "test", 0, 1))


def test_the_same_seed_gives_the_same_split_and_another_one_another() -> None:
    torch.manual_seed(0)
    first = split_relations(camps().data, seed=1)
    torch.manual_seed(7)
    again = split_relations(camps().data, seed=1)
    other = split_relations(camps().data, seed=2)
    assert torch.equal(first.pairs, again.pairs)
    assert not torch.equal(first.pairs, other.pairs)


def test_a_relation_with_too_few_links_is_named() -> None:
    data = camps().data
    data["user", "reply", "user"].edge_index = torch.tensor([[0, 1, 2], [0, 2, 1]])
    data["user", "reply", "user"].count = torch.ones(3)
    with pytest.raises(ValueError, match=r"relation 'reply': link prediction needs.*3 edges"):
        split_relations(data)
