"""Edits of a graph: what they lead to, what leads back, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data, HeteroData

import nora
from graphs import GRAPHS, double, two_camps
from networks import network
from nora.graph.edits import Edits


def weighted() -> Data:
    """A directed triangle with weights and attributes."""
    return Data(
        x=torch.arange(6.0).view(3, 2),
        edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]),
        edge_weight=torch.tensor([0.5, 1.0, 2.0]),
        edge_attr=torch.arange(6.0).view(3, 2),
    )


def typed() -> HeteroData:
    data = HeteroData()
    data["author"].x = torch.arange(6.0).view(3, 2)
    data["paper"].x = torch.arange(8.0).view(4, 2)
    writes = torch.tensor([[0, 1, 2, 2], [0, 1, 2, 3]])
    data["author", "writes", "paper"].edge_index = writes
    data["paper", "rev_writes", "author"].edge_index = writes.flip(0)
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0, 1], [1, 2]])
    return data


def edge_set(edges: torch.Tensor) -> list[list[int]]:
    return sorted(edges.t().tolist())


def same_graph(one: Data, other: Data, order: list[int]) -> bool:
    """Whether both are the same once node `i` of `other` is called `order[i]`."""
    place = torch.tensor(order)
    rows = torch.empty_like(other.x)
    rows[place] = other.x
    return torch.equal(rows, one.x) and edge_set(one.edge_index) == edge_set(
        place[other.edge_index]
    )


def test_everything_happens_at_once_in_the_ids_of_the_graph() -> None:
    edits = Edits(
        remove=[1],
        remove_edges=[(2, 0)],
        add_edges=[
            (0, 2, {"edge_weight": 3.0, "edge_attr": [9.0, 9.0]}),
            (2, 3, {"edge_weight": 4.0, "edge_attr": [8.0, 8.0]}),
        ],
        add_nodes=[[7.0, 7.0]],
        features={0: [5.0, 5.0]},
    )
    data = weighted()
    found = edits.apply(data)
    assert found.x.tolist() == [[5, 5], [4, 5], [7, 7]]
    assert found.edge_index.tolist() == [[0, 1], [1, 2]]
    assert found.edge_weight.tolist() == [3, 4]
    assert found.edge_attr.tolist() == [[9, 9], [8, 8]]
    assert data.edge_index.tolist() == weighted().edge_index.tolist()
    assert data.x.tolist() == weighted().x.tolist()


@pytest.mark.parametrize("kind", sorted(GRAPHS))
def test_undoing_leads_back(kind: str) -> None:
    data = GRAPHS[kind]()
    n = int(data.num_nodes)
    edges = data.edge_index.t().tolist()
    caught = {key: data[key][0] + 1 for key in ("edge_weight", "edge_attr") if key in data}
    edits = Edits(
        remove=[n - 1],
        remove_edges=[tuple(edges[0])] if edges else (),
        add_nodes=data.x[:1] + 1,
        add_edges=[(0, n, caught)] if caught else [(0, n)],
        features={0: data.x[0] + 2},
    )
    back = edits.undo(data).apply(edits.apply(data))
    assert same_graph(data, back, [*range(n - 1), n - 1])


def test_an_undirected_edge_goes_and_comes_in_both_directions() -> None:
    data = two_camps()
    count = data.edge_index.size(1)
    a, b = data.edge_index[:, 0].tolist()
    assert Edits(remove_edges=[(b, a)]).apply(data).edge_index.size(1) == count - 2
    assert (
        Edits(remove_edges=[(b, a)], undirected=False).apply(data).edge_index.size(1) == count - 1
    )


def test_edges_of_types_go_with_the_reverse_that_pyg_made_of_them() -> None:
    found = Edits(remove_edges={"writes": [(2, 3)]}, add_edges={"writes": [(0, 3)]}).apply(typed())
    assert edge_set(found["writes"].edge_index) == [[0, 0], [0, 3], [1, 1], [2, 2]]
    assert edge_set(found["rev_writes"].edge_index) == [[0, 0], [1, 1], [2, 2], [3, 0]]
    alone = Edits(remove_edges={"cites": [(0, 1)]}).apply(typed())
    assert edge_set(alone["cites"].edge_index) == [[1, 2]]


def test_nodes_and_features_of_types() -> None:
    edits = Edits(
        remove=("author", 0),
        add_nodes={"author": [[1.0, 1.0]]},
        add_edges={"writes": [(3, 0)]},
        features={("paper", 2): [0.0, 0.0]},
    )
    data = typed()
    found = edits.apply(data)
    assert found["author"].x.tolist() == [[2, 3], [4, 5], [1, 1]]
    assert edge_set(found["writes"].edge_index) == [[0, 1], [1, 2], [1, 3], [2, 0]]
    assert found["paper"].x[2].tolist() == [0, 0]
    back = edits.undo(data).apply(found)
    assert back["author"].x.tolist() == [[2, 3], [4, 5], [0, 1]]
    assert edge_set(back["writes"].edge_index) == [[0, 1], [1, 2], [1, 3], [2, 0]]
    assert torch.equal(back["paper"].x, data["paper"].x)


def test_edits_combine_and_what_undoes_each_other_is_left_out() -> None:
    both = Edits(remove=1, add_edges=[(0, 2)]) + Edits(remove=[3], remove_edges=[(0, 2), (4, 5)])
    assert both.remove == [1, 3]
    assert both.add_edges == []
    assert both.remove_edges == [(4, 5)]
    again = Edits(remove_edges=[(0, 1)]) + Edits(add_edges=[(0, 1)])
    data = two_camps()
    a, b = data.edge_index[:, 0].tolist()
    again = Edits(remove_edges=[(a, b)]) + Edits(add_edges=[(a, b)])
    assert edge_set(again.apply(data).edge_index) == edge_set(data.edge_index)


def test_the_reverse_of_an_edge_is_another_one_unless_edits_say_that_it_is_not() -> None:
    path = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1, 2], [1, 2, 1]]))  # 1→2 and back
    both = Edits(remove_edges=[(1, 2)]) + Edits(remove_edges=[(2, 1)])
    assert edge_set(both.apply(path).edge_index) == [[0, 1]]
    turned = Edits(remove_edges=[(0, 1)]) + Edits(add_edges=[(1, 0)])
    assert edge_set(turned.apply(path).edge_index) == [[1, 0], [1, 2], [2, 1]]
    come, go = Edits(add_edges=[(1, 0)]), Edits(remove_edges=[(0, 1)])
    with pytest.raises(ValueError, match=r"adds the edge 1–0.*other removes 0–1"):
        come + go
    directed = Edits(add_edges=[(1, 0)], undirected=False) + go
    assert edge_set(directed.apply(path).edge_index) == [[1, 0], [1, 2], [2, 1]]
    undirected = Edits(add_edges=[(0, 2)], undirected=True) + Edits(remove_edges=[(2, 0)])
    assert not undirected


def test_what_happens_to_a_node_that_goes_later_is_gone_with_it() -> None:
    data = two_camps()
    first = Edits(add_edges=[(0, 7), (1, 7)], features={0: data.x[3], 2: data.x[3]})
    both = first + Edits(remove=0)
    assert both.add_edges == [(1, 7)]
    assert list(both.features) == [2]
    step = Edits(remove=0).apply(first.apply(data))
    assert edge_set(both.apply(data).edge_index) == edge_set(step.edge_index)
    typed_edits = Edits(
        add_edges={("author", "writes", "paper"): [(0, 1)]}, features={("paper", 1): [1.0, 1]}
    )
    for gone in ({"paper": [1]}, [("paper", 1)], ("paper", 1)):
        assert not (typed_edits + Edits(remove=gone)).add_edges
        assert (typed_edits + Edits(remove=gone)).features is None


def test_a_type_may_be_named_in_two_ways() -> None:
    data = typed()
    one, other = (
        Edits(remove_edges={"writes": [(2, 2)]}),
        Edits(remove_edges={("author", "writes", "paper"): torch.tensor([[1], [1]])}),
    )
    left = edge_set((one + other).apply(data)["writes"].edge_index)
    there = edge_set(data["writes"].edge_index)
    assert [pair for pair in there if pair not in left] == [[1, 1], [2, 2]]


def test_edits_are_saved_and_loaded(tmp_path: Path) -> None:
    edits = Edits(
        remove=[("author", 0)],
        remove_edges={("author", "writes", "paper"): [(2, 3)]},
        add_edges={"cites": [(0, 3)]},
        add_nodes={"author": torch.tensor([[1.0, 0.1]])},
        features={("paper", 2): torch.tensor([0.1, 1 / 3], dtype=torch.double)},
        undirected=False,
    )
    loaded = Edits.load(edits.save(tmp_path / "edits.json"))
    data = typed()
    data["paper"].x = data["paper"].x.double()
    one, other = edits.apply(data), loaded.apply(data)
    for kind in data.node_types:
        assert torch.equal(one[kind].x, other[kind].x)
    for kind in data.edge_types:
        assert torch.equal(one[kind].edge_index, other[kind].edge_index)


REFUSED = [
    (Edits(add_edges=[(0, 1)]), "edge 0→1 is in the graph already"),
    (Edits(add_edges=[(0, 2)]), "the new edge 0–2 has none"),
    (Edits(add_edges=[(0, 9, {})]), "node 9 is out of range"),
    (Edits(add_edges=[(0, 2, {"weight": 1})]), "graph has no 'weight' of edges"),
    (
        Edits(add_edges=[(0, 2, {"edge_weight": 1, "edge_attr": [1.0]})]),
        r"edge_attr of a new edge.*\[2\], got \[1\]",
    ),
    (
        Edits(add_edges=[(0, 2, {"edge_weight": float("nan"), "edge_attr": [1.0, 1]})]),
        "edge_weight of a new edge.*finite",
    ),
    (Edits(add_edges=[(0, 2, 1.0)]), "edges to add must be pairs"),
    (Edits(remove_edges=[(1, 0)]), r"edge 1→0 is not.*graph \(0→1"),
    (Edits(features={0: [1.0]}), r"features of node 0.*shape \[2\], got \[1\]"),
    (Edits(features={7: [1.0, 1]}), "node 7 is out of range"),
    (Edits(features=[1.0]), "features must be a mapping"),
    (Edits(remove=0, features={0: [1.0, 1]}), "node 0 gets new features.*removed"),
    (
        Edits(remove=0, add_edges=[(0, 2, {"edge_weight": 1, "edge_attr": [1.0, 1]})]),
        "edge 0–2 is added.*node 0 is removed",
    ),
    (Edits(add_nodes=[[1.0]]), r"rows of x of the shape \[2\], got \[1\]"),
    (Edits(add_nodes={"y": [1]}), "the graph has no 'y' of nodes"),
    (Edits(remove_edges={"writes": [(0, 1)]}), "the graph has no edge types"),
]


@pytest.mark.parametrize(("edits", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_contradicts_the_graph_or_itself_is_refused(edits: Edits, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        edits.apply(weighted())


def test_a_new_node_without_features_is_refused_by_every_question() -> None:
    data = double(two_camps())
    data.y = torch.zeros(8, dtype=torch.long)
    bare = Edits(add_nodes={"y": [1]}, add_edges=[(0, 8)])
    model = network()
    for ask in (
        lambda: bare.apply(data),
        lambda: nora.what_if(model, data, bare),
        lambda: nora.Session(model, data).what_if(bare),
        lambda: nora.Live(model, data).apply(bare),
    ):
        with pytest.raises(ValueError, match="new nodes need x"):
            ask()


def test_an_edge_that_comes_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="edge 0–7 is added twice"):
        Edits(add_edges=[(0, 7), (7, 0)]).apply(double(two_camps()))


def test_types_must_be_named() -> None:
    with pytest.raises(ValueError, match="several edge types"):
        Edits(remove_edges=[(0, 1)]).apply(typed())
    with pytest.raises(ValueError, match=r"edge type 'write'\..*you mean 'writes'"):
        Edits(remove_edges={"write": [(0, 1)]}).apply(typed())
    with pytest.raises(ValueError, match="the graph has node types"):
        Edits(add_nodes=[[1.0, 1.0]]).apply(typed())
