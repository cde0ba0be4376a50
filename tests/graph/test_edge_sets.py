"""Every edge set of a graph follows its nodes: removed, isolated, numbered otherwise, copied."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import to_torch_coo_tensor, to_torch_csr_tensor

from hetero_graphs import library
from nora.graph.edge_sets import graph_edges
from nora.graph.edits import Edits
from nora.graph.removal import disjoint_pieces, isolate_nodes, remove_nodes
from nora.model.by_id import relabelled

EDGES = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]])
FOLLOWS = torch.tensor([[4, 0, 1], [0, 4, 3]])
LABELLED = torch.tensor([[0, 2, 4, 4], [3, 3, 1, 2]])


def several() -> Data:
    """Five nodes with three edge sets, each with what belongs to its edges."""
    return Data(
        x=torch.arange(5.0).reshape(5, 1),
        edge_index=EDGES,
        edge_attr=torch.arange(6.0),
        edge_index_follow=FOLLOWS,
        edge_weight_follow=torch.arange(3.0) + 10,
        edge_index2=FOLLOWS.flip(0),
        edge_attr2=torch.arange(3.0) + 20,
        edge_label_index=LABELLED,
        edge_label=torch.arange(4) + 30,
        title="several",
    )


def named(data: Data, key: str) -> list[tuple[float, float]]:
    """The edges of one set between features, which name the nodes whatever their numbers are."""
    x = data.x.flatten()
    return [(float(x[i]), float(x[j])) for i, j in data[key].t().tolist()]


def without(edges: Tensor, node: int) -> list[tuple[float, float]]:
    return [(float(i), float(j)) for i, j in edges.t().tolist() if node not in (i, j)]


def test_every_edge_set_loses_the_removed_nodes_edges() -> None:
    data = remove_nodes(several(), 1)
    assert data.x.flatten().tolist() == [0, 2, 3, 4]
    assert named(data, "edge_index") == without(EDGES, 1)
    assert named(data, "edge_index_follow") == without(FOLLOWS, 1)
    assert named(data, "edge_index2") == without(FOLLOWS.flip(0), 1)
    assert named(data, "edge_label_index") == without(LABELLED, 1)
    assert data.edge_attr.tolist() == [2, 3, 4, 5]
    assert data.edge_weight_follow.tolist() == [10, 11]
    assert data.edge_attr2.tolist() == [20, 21]
    assert data.edge_label.tolist() == [30, 31, 33]
    assert data.title == "several"


def test_isolated_nodes_keep_their_ids_and_lose_all_their_edges() -> None:
    data = isolate_nodes(several(), [1])
    assert data.num_nodes == 5
    assert torch.equal(data.x, several().x)
    for key in ("edge_index", "edge_index_follow", "edge_index2", "edge_label_index"):
        assert named(data, key) == without(several()[key], 1)
    assert data.edge_attr.tolist() == [2, 3, 4, 5]
    assert data.edge_label.tolist() == [30, 31, 33]


def test_numbering_otherwise_changes_names_only() -> None:
    data, old = relabelled(several())
    assert data.x.flatten().tolist() == old.tolist()
    assert old.tolist() != [0, 1, 2, 3, 4]
    for key in ("edge_index", "edge_index_follow", "edge_label_index"):
        assert named(data, key) == named(several(), key)
    assert torch.equal(data.edge_attr, several().edge_attr)


@pytest.mark.parametrize("layout", ["csr", "coo", "dense"])
@pytest.mark.parametrize("alone", [True, False])
def test_an_adjacency_matrix_loses_rows_and_columns(layout: str, alone: bool) -> None:
    weight = torch.arange(6.0) + 1
    build = to_torch_coo_tensor if layout == "coo" else to_torch_csr_tensor
    adj_t = build(EDGES.flip(0), weight, size=(5, 5))
    dense = adj_t.to_dense()
    data = Data(x=torch.arange(5.0).reshape(5, 1), adj_t=dense if layout == "dense" else adj_t)
    if not alone:
        data.edge_index = EDGES
    reduced = remove_nodes(data, [1, 3])
    left = torch.tensor([0, 2, 4])
    assert reduced.num_nodes == 3
    assert reduced.adj_t.layout == data.adj_t.layout
    assert torch.equal(reduced.adj_t.to_dense(), dense[left][:, left])
    cut = dense.clone()
    cut[[1, 3]] = 0
    cut[:, [1, 3]] = 0
    assert torch.equal(isolate_nodes(data, [1, 3]).adj_t.to_dense(), cut)
    turned, old = relabelled(data)
    assert torch.equal(turned.adj_t.to_dense(), dense[old][:, old])
    less = dense.clone()
    less[2, 0] = 0
    assert torch.equal(Edits(remove_edges=[(0, 2)]).apply(data).adj_t.to_dense(), less)


def test_rows_of_a_transposed_adjacency_are_targets() -> None:
    data = Data(adj_t=to_torch_csr_tensor(EDGES.flip(0), size=(5, 5)), num_nodes=5)
    found = graph_edges(data)
    assert found is not None
    assert sorted(found.t().tolist()) == sorted(EDGES.t().tolist())


def test_as_many_nodes_as_edges_are_distinguished_as_pyg_does() -> None:
    data = Data(
        x=torch.arange(3.0),
        edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]),
        edge_year=torch.tensor([7, 8, 9]),
        age=torch.tensor([1, 2, 3]),
    )
    reduced = remove_nodes(data, 0)
    assert reduced.edge_year.tolist() == [8]
    assert reduced.age.tolist() == [2, 3]


def test_hyperedges_lose_a_member_and_keep_their_numbers() -> None:
    data = Data(
        x=torch.arange(4.0),
        edge_index=torch.empty(2, 0, dtype=torch.long),
        hyperedge_index=torch.tensor([[0, 1, 2, 3], [0, 0, 7, 7]]),
    )
    assert remove_nodes(data, 1).hyperedge_index.tolist() == [[0, 1, 2], [0, 7, 7]]


def test_an_edge_index_of_its_own_class_keeps_it() -> None:
    edges = EdgeIndex(EDGES, sparse_size=(5, 5))
    reduced = remove_nodes(Data(x=torch.arange(5.0), edge_index=edges), 1)
    assert isinstance(reduced.edge_index, EdgeIndex)
    assert reduced.edge_index.sparse_size() == (4, 4)


def two_sets() -> HeteroData:
    data = library()
    count = data["author"].num_nodes
    data["author"].name = [f"a{k}" for k in range(count)]
    store = data["author", "writes", "paper"]
    store.edge_index_reads = torch.tensor([[0, 1, 1], [2, 0, 3]])
    store.edge_weight_reads = torch.tensor([1.0, 2.0, 3.0])
    data.title = "library"
    return data


def test_further_edge_sets_of_an_edge_type_follow_too() -> None:
    data = remove_nodes(two_sets(), 0)
    store = data["author", "writes", "paper"]
    assert store.edge_index_reads.tolist() == [[0, 0], [0, 3]]
    assert store.edge_weight_reads.tolist() == [2, 3]
    assert data["author"].name == ["a1", "a2", "a3", "a4"]
    assert data["author"].num_nodes == 4


class TestPieces:
    def test_each_piece_is_the_subgraph_it_induces(self) -> None:
        data = several()
        pieces = [torch.tensor([0, 1, 2]), torch.tensor([4, 0]), torch.tensor([2])]
        found = disjoint_pieces(data, pieces)
        assert found.num_nodes == 6
        assert found.x.flatten().tolist() == [0, 1, 2, 4, 0, 2]
        for key in ("edge_index", "edge_index_follow", "edge_label_index"):
            expected = [
                (float(i), float(j))
                for piece in pieces
                for i, j in data[key].t().tolist()
                if {i, j} <= set(piece.tolist())
            ]
            assert named(found, key) == expected
        piece_of = torch.tensor([0, 0, 0, 1, 1, 2])
        assert torch.equal(piece_of[found.edge_index[0]], piece_of[found.edge_index[1]])
        assert found.edge_attr.tolist() == [0, 1, 5, 4]
        assert found.edge_weight_follow.tolist() == [10, 11]
        assert found.title == "several"

    def test_matrices_are_cut_in_blocks(self) -> None:
        dense = to_torch_csr_tensor(EDGES.flip(0), torch.arange(6.0) + 1, (5, 5)).to_dense()
        data = Data(x=torch.arange(5.0), adj_t=dense.to_sparse_csr())
        pieces = [torch.tensor([2, 0, 1]), torch.tensor([0, 4])]
        expected = torch.block_diag(*(dense[piece][:, piece] for piece in pieces))
        assert torch.equal(disjoint_pieces(data, pieces).adj_t.to_dense(), expected)

    def test_nodes_of_each_type_come_piece_after_piece(self) -> None:
        data = two_sets()  # 5 authors, 7 papers, 2 venues
        pieces = [torch.tensor([6, 0, 1, 5, 8, 12]), torch.tensor([1, 8, 5])]
        found = disjoint_pieces(data, pieces)
        assert found["author"].name == ["a0", "a1", "a1"]
        assert torch.equal(found["paper"].x, data["paper"].x[[1, 0, 3, 3, 0]])
        assert [found[kind].num_nodes for kind in found.node_types] == [3, 5, 1]
        store = found["author", "writes", "paper"]
        assert store.edge_index_reads.tolist() == [[1, 1, 2, 2], [1, 2, 4, 3]]
        assert store.edge_weight_reads.tolist() == [2, 3, 2, 3]
        assert found.title == "library"

    def test_a_graph_without_features_is_counted(self) -> None:
        data = Data(edge_index=EDGES, num_nodes=7)
        assert disjoint_pieces(data, [torch.tensor([5, 6]), torch.tensor([5])]).num_nodes == 3

    def test_no_piece_at_all_is_refused(self) -> None:
        with pytest.raises(ValueError, match="pieces is empty"):
            disjoint_pieces(several(), [])
