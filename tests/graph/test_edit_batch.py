"""Batches of edits: what is picked, merged and applied of them."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

import hetero_graphs
from edit_batches import batch_of
from nora.graph.edit_batch import EditBatch
from nora.graph.edit_resolution import node_tensors
from nora.graph.edits import Edits


def ring() -> Data:
    """Five nodes one after the other, with weights."""
    edge_index = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
    return Data(x=torch.eye(5), edge_index=edge_index, edge_weight=torch.arange(5.0) + 1)


EDITS = [
    Edits(remove=[1, 2], add_edges=[(0, 3, {"edge_weight": 7.0})]),
    Edits(remove_edges=[(3, 4)], features={0: torch.ones(5), 4: torch.zeros(5)}),
    Edits(
        add_nodes=torch.full((2, 5), 2.0),
        add_edges=[(5, 0, {"edge_weight": 8.0}), (1, 6, {"edge_weight": 9.0})],
    ),
    Edits(remove=0),
]


def same(one: Data, other: Data) -> bool:
    return all(torch.equal(one[key], other[key]) for key in ("x", "edge_index", "edge_weight"))


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2], [2, 0, 2], [1], []])
def test_every_part_of_an_edit_is_picked_with_it(order: list[int]) -> None:
    data = ring()
    picked = batch_of(EDITS, data).pick(torch.tensor(order, dtype=torch.long))
    assert len(picked) == len(order)
    for at, which in enumerate(order):
        alone = picked.pick(torch.tensor([at]))
        assert same(alone.apply(data), EDITS[which].apply(data))
        assert alone.only_removes == (which == 3)


def test_every_part_of_an_edit_moves_to_another_device() -> None:
    batch = batch_of(EDITS, ring()).to(torch.device("meta"))
    (edges,), (nodes,), (features,) = (
        part.values() for part in (batch.added_edges, batch.added_nodes, batch.features)
    )
    tensors = [batch.ptr, batch.node, batch.edge_ptr, batch.edge, edges.source, edges.target]
    tensors += [edges.attributes["edge_weight"], nodes.rows["x"], features.node, features.rows]
    assert {tensor.device.type for tensor in tensors} == {"meta"}


def test_edits_that_follow_each_other_merge_into_one() -> None:
    data = ring()
    batch = EditBatch.remove_nodes(torch.tensor([0, 3, 1, 2])).merge(2)
    assert len(batch) == 2
    assert same(batch.pick(torch.tensor([1])).apply(data), Edits(remove=[1, 2]).apply(data))
    both = batch_of(EDITS[1:3], data).merge(2)
    assert same(both.apply(data), (EDITS[1] + EDITS[2]).apply(data))


def test_one_node_each_looks_at_every_edit() -> None:
    nodes = torch.tensor([0, 3])
    assert EditBatch.remove_nodes(nodes).one_node_each
    two_and_none = torch.tensor([0, 2, 2])
    assert not EditBatch(two_and_none, nodes, two_and_none * 0, nodes[:0]).one_node_each


def test_a_batch_of_several_edits_is_not_applied_as_if_it_were_one() -> None:
    with pytest.raises(ValueError, match="a batch of one edit, got 2"):
        EditBatch.remove_nodes(torch.tensor([0, 3])).apply(ring())


def test_removed_nodes_are_found_in_any_order_among_types_that_get_new_nodes() -> None:
    data = hetero_graphs.library()
    rows = {key: rows[:1] for key, rows in node_tensors(data, "author").items()}
    edits = Edits(remove=[("paper", 3), ("author", 0)], add_nodes={"author": rows})
    turned = EditBatch.of(edits.resolve(data).node.flip(0), added_nodes={"author": rows})
    one, other = turned.apply(data), edits.apply(data)
    for kind in data.node_types:
        assert torch.equal(one[kind].x, other[kind].x)
    assert torch.equal(one["author"].x, torch.cat([data["author"].x[1:], data["author"].x[:1]]))
