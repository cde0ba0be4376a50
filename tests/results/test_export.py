"""The graph for other programs: what is on nodes and edges, and that files read back the same."""

from __future__ import annotations

import errno
from pathlib import Path

import networkx as nx
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

import nora
from graphs import GRAPHS, directed, duplicated, isolated, looped, star, weighted
from nora.results.export import to_networkx, write_graph

NAN = float("nan")
FORMATS = pytest.mark.parametrize("suffix", ["graphml", "gexf"])
NASTY = (
    "<script>alert(1)</script>",
    "a\x00b",
    "🐙 & 'friends'",
    'quo"te',
    "\ud800 \uffff",
    "日本\n",
)


def edges(*pairs: tuple[int, int], **more: Tensor) -> Data:
    """The graph with these one-way edges."""
    index = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t()
    return Data(edge_index=index, num_nodes=int(index.max()) + 1 if len(pairs) else 1, **more)


def read(path: Path) -> nx.Graph:
    return {".graphml": nx.read_graphml, ".gexf": nx.read_gexf}[path.suffix](path, node_type=int)


def scored_star(**more: object) -> nx.Graph:
    values = torch.tensor([2.5, 0.5, 1.5, NAN, 0.25, 0.0])
    return to_networkx(star(), nora.Influence(values, "brute"), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", GRAPHS)
def test_the_edges_are_those_of_the_data(name: str) -> None:
    data = GRAPHS[name]()
    graph = to_networkx(data)
    assert graph.is_directed() == (name == "directed")
    assert list(graph) == list(range(data.num_nodes))
    one_way = set(map(tuple, data.edge_index.t().tolist()))
    both_ways = {*graph.edges, *((j, i) for i, j in graph.edges)}
    assert one_way == (set(graph.edges) if graph.is_directed() else both_ways)


def test_nodes_carry_what_is_known_of_them() -> None:
    probabilities = torch.tensor([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]] * 2)
    graph = scored_star(
        predictions=probabilities,
        names=[f"n{k}" for k in range(6)],
        class_names=("left", "right"),
        labels=torch.tensor([1, 0, -1, 0, 1, 0]),
    )
    assert graph.nodes[0] == {
        "label": "n0",
        "influence": 2.5,
        "rank": 1,
        "degree": 5,
        "predicted": "right",
        "probability": 0.75,
        "class": "right",
    }
    assert "class" not in graph.nodes[2]
    assert graph.nodes[2]["rank"] == 2


def test_nodes_without_a_score_have_neither_influence_nor_rank() -> None:
    graph = scored_star()
    assert graph.nodes[3] == {"degree": 1}
    assert [graph.nodes[node]["rank"] for node in (0, 2, 1, 4, 5)] == [1, 2, 3, 4, 5]


def test_scores_may_be_a_bare_tensor_and_names_come_with_an_influence() -> None:
    values = torch.arange(6.0)
    named = nora.Influence(values, "brute", names=tuple("abcdef"))
    assert to_networkx(star(), values).nodes[4]["influence"] == 4.0
    assert named.to_networkx(star()).nodes[4]["label"] == "e"
    assert named.to_networkx(star(), names=list("uvwxyz")).nodes[4]["label"] == "y"


def test_classes_are_numbers_where_they_have_no_names() -> None:
    graph = scored_star(predictions=torch.tensor([0, 1, 1, 0, 1, 2]), labels=torch.ones(6).long())
    assert graph.nodes[5]["predicted"] == 2
    assert graph.nodes[5]["class"] == 1
    assert "probability" not in graph.nodes[5]


def test_the_true_class_is_that_of_the_data() -> None:
    data = nora.load_dataset("karate").data
    assert to_networkx(data).nodes[7]["class"] == int(data.y[7])
    data.y = torch.rand(34)
    assert "class" not in to_networkx(data).nodes[7]


def test_every_value_is_a_plain_python_value() -> None:
    data = weighted()
    data.edge_type = torch.tensor([0, 1, 2, 0, 1, 2]).repeat(2)
    graph = to_networkx(data, torch.rand(5), predictions=torch.eye(5), names=list("abcde"))
    values = [v for _, some in graph.nodes(data=True) for v in some.values()]
    values += [v for *_, some in graph.edges(data=True) for v in some.values()]
    assert {type(value) for value in values} == {int, float, str}
    assert {type(node) for pair in graph.edges for node in pair} == {int}


def test_duplicate_edges_become_one_with_their_count() -> None:
    graph = to_networkx(duplicated())
    assert graph.edges[0, 1] == {"count": 3}
    assert graph.edges[1, 2] == {"count": 1}
    assert graph.nodes[1]["degree"] == 2


def test_weights_of_duplicate_edges_are_summed() -> None:
    data = edges((0, 1), (0, 1), (1, 2), edge_weight=torch.tensor([0.5, 0.25, 2.0]))
    graph = to_networkx(data)
    assert graph.is_directed()
    assert graph.edges[0, 1] == {"weight": 0.75, "count": 2}
    assert graph.edges[1, 2] == {"weight": 2.0, "count": 1}


def test_an_undirected_edge_weighs_what_one_direction_weighs() -> None:
    graph = to_networkx(weighted())
    assert not graph.is_directed()
    assert [graph.edges[pair]["weight"] for pair in ((0, 1), (2, 3), (1, 3))] == [0.5, 2.0, 3.0]


def test_weights_that_differ_by_direction_make_the_graph_directed() -> None:
    graph = to_networkx(edges((0, 1), (1, 0), edge_weight=torch.tensor([1.0, 2.0])))
    assert graph.is_directed()
    assert graph.edges[1, 0]["weight"] == 2.0


def test_types_that_differ_by_direction_make_the_graph_directed() -> None:
    there_and_back = edges((0, 1), (1, 0), edge_type=torch.tensor([0, 3]))
    assert to_networkx(there_and_back).edges[1, 0]["type"] == 3
    there_and_back.edge_type = torch.tensor([3, 3])
    assert not to_networkx(there_and_back).is_directed()


def test_duplicates_of_different_types_name_them_all() -> None:
    data = edges((0, 1), (0, 1), (1, 2), (0, 1), edge_type=torch.tensor([2, 0, 1, 2]))
    graph = to_networkx(data)
    assert graph.edges[0, 1] == {"type": "0, 2", "count": 3}
    assert graph.edges[1, 2] == {"type": "1", "count": 1}


def test_types_may_be_words() -> None:
    data = edges((0, 1), (1, 2))
    data.edge_type = ["follows", "likes"]
    assert to_networkx(data).edges[1, 2]["type"] == "likes"


def test_self_loops_stay_and_do_not_count_as_degree() -> None:
    graph = to_networkx(looped())
    assert graph.has_edge(1, 1)
    assert [graph.nodes[node]["degree"] for node in (1, 4)] == [2, 1]


def test_degree_counts_edges_in_and_out() -> None:
    graph = to_networkx(directed())
    assert [graph.nodes[node]["degree"] for node in range(6)] == [2, 3, 2, 3, 3, 1]
    assert to_networkx(isolated()).nodes[5]["degree"] == 0


def test_a_graph_without_edges_is_undirected() -> None:
    graph = to_networkx(edges())
    assert not graph.is_directed()
    assert graph.nodes[0] == {"degree": 0}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"names": ["a"]}, "names.*6; got 1"),
        ({"scores": torch.ones(5)}, "scores.*6; got 5"),
        ({"labels": torch.ones(7).long()}, "labels.*6; got 7"),
        ({"predictions": torch.ones(2, 6)}, "predictions.*6; got 2"),
        ({"predictions": torch.full((6, 2), -3.0)}, r"pass logits.softmax\(dim=-1\)"),
        ({"predictions": torch.arange(6), "class_names": ["a", "b"]}, "but class 5 occurs"),
    ],
)
def test_what_does_not_fit_the_graph_is_refused(more: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        to_networkx(star(), **more)


def test_weights_that_are_not_one_per_edge_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \[3\]: 2 edges need one value"):
        to_networkx(edges((0, 1), (1, 2), edge_weight=torch.ones(3)))


def test_classes_that_are_no_whole_numbers_are_refused() -> None:
    with pytest.raises(TypeError, match=r"per node; got torch.float32.*shape \[6\]"):
        to_networkx(star(), predictions=torch.rand(6))


def authors_and_papers() -> HeteroData:
    """Two authors and three papers; author 1 wrote papers 0 and 2, and paper 0 cites paper 1."""
    data = HeteroData()
    data["author"].num_nodes, data["paper"].num_nodes = 2, 3
    data["author", "writes", "paper"].edge_index = torch.tensor([[1, 1], [0, 2]])
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0], [1]])
    return data


@FORMATS
def test_nodes_and_edges_of_several_types_say_which(suffix: str, tmp_path: Path) -> None:
    scores = nora.Influence(
        torch.tensor([0.0, 2.0, 1.0, 0.5, 0.25]), "brute", node_types={"author": 2, "paper": 3}
    )
    graph = to_networkx(authors_and_papers(), scores)
    assert graph.nodes[2] == {
        "label": "paper 0",
        "type": "paper",
        "influence": 1.0,
        "rank": 2,
        "degree": 2,
    }
    assert {pair: graph.edges[pair]["type"] for pair in graph.edges} == {
        (1, 2): "writes",
        (1, 4): "writes",
        (2, 3): "cites",
    }
    back = read(write_graph(graph, tmp_path / f"g.{suffix}"))
    assert dict(back.nodes(data=True)) == dict(graph.nodes(data=True))


def test_a_removed_node_has_no_prediction() -> None:
    predictions = torch.full((6, 2), 0.5)
    predictions[0] = NAN
    graph = to_networkx(star(), predictions=predictions)
    assert graph.nodes[0] == {"degree": 5}
    assert graph.nodes[1] == {"degree": 1, "predicted": 0, "probability": 0.5}


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(TypeError, match=r"torch_geometric\.data\.Data or HeteroData"):
        to_networkx(nx.path_graph(3))  # type: ignore[arg-type]


@FORMATS
@pytest.mark.parametrize("build", [star, directed, weighted, looped, duplicated])
def test_a_file_reads_back_with_attributes_and_types(suffix: str, build, tmp_path: Path) -> None:
    data = build()
    n = data.num_nodes
    data.edge_type = torch.zeros(data.num_edges, dtype=torch.long)
    graph = to_networkx(
        data,
        torch.arange(n) / 3,
        predictions=torch.eye(n),
        names=[f"node {k}" for k in range(n)],
        labels=torch.arange(n),
    )
    back = read(write_graph(graph, tmp_path / f"g.{suffix}"))
    assert back.is_directed() == graph.is_directed()
    assert dict(back.nodes(data=True)) == dict(graph.nodes(data=True))
    for _, some in back.nodes(data=True):
        kinds = {key: type(value) for key, value in some.items()}
        assert kinds == {key: type(value) for key, value in graph.nodes[0].items()}
    assert {frozenset(pair) for pair in back.edges} == {frozenset(pair) for pair in graph.edges}
    called = "edge_type" if suffix == "gexf" else "type"
    for *pair, some in graph.edges(data=True):
        found = dict(back.edges[pair])
        assert found.pop(called) == some["type"]
        assert {k: found[k] for k in some if k != "type"} == {
            k: v for k, v in some.items() if k != "type"
        }


@FORMATS
def test_any_name_can_be_written(suffix: str, tmp_path: Path) -> None:
    graph = to_networkx(star(), names=NASTY)
    path = write_graph(graph, tmp_path / f"g.{suffix}")
    assert b"<script" not in path.read_bytes()
    found = [read(path).nodes[node]["label"] for node in range(6)]
    assert found == [
        "<script>alert(1)</script>",
        "a\ufffdb",
        "🐙 & 'friends'",
        'quo"te',
        "\ufffd \ufffd",
        "日本\n",
    ]
    assert graph.nodes[1]["label"] == "a\x00b", "the graph itself is left as it was"


def test_gexf_keeps_to_its_own_words_for_an_edges_direction(tmp_path: Path) -> None:
    data = edges((0, 1), (1, 2), edge_type=torch.tensor([4, 7]))
    text = write_graph(to_networkx(data), tmp_path / "g.gexf").read_text()
    assert 'defaultedgetype="directed"' in text
    assert 'type="4"' not in text


@FORMATS
def test_numbers_that_are_not_finite_are_left_out_of_files(suffix: str, tmp_path: Path) -> None:
    data = edges((0, 1), (1, 2), edge_weight=torch.tensor([NAN, 1.0]))
    back = read(write_graph(to_networkx(data), tmp_path / f"g.{suffix}"))
    assert "weight" not in back.edges[0, 1]
    assert back.edges[1, 2]["weight"] == 1.0


@FORMATS
def test_node_ids_of_any_text_can_be_written(suffix: str, tmp_path: Path) -> None:
    path = write_graph(nx.Graph([("a\x01", "<b>")]), tmp_path / f"g.{suffix}")
    back = nx.read_gexf(path) if suffix == "gexf" else nx.read_graphml(path)
    assert set(back) == {"a\ufffd", "<b>"}


@pytest.mark.parametrize("name", ["graph.txt", "graph", "graph.xml"])
def test_a_graph_file_of_no_known_format_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"format of '{name}': use a \.graphml or \.gexf name"):
        write_graph(nx.path_graph(2), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@FORMATS
def test_a_graph_that_cannot_be_written_leaves_the_old_file(suffix: str, tmp_path: Path) -> None:
    path = write_graph(nx.path_graph(2), tmp_path / f"g.{suffix}")
    before = path.read_bytes()
    odd = nx.path_graph(2)
    odd.nodes[0]["tensor"] = torch.ones(2)
    with pytest.raises((TypeError, nx.NetworkXError)):
        write_graph(odd, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(nx, "write_gexf", full)
    with pytest.raises(OSError, match="No space left"):
        write_graph(nx.path_graph(2), tmp_path / "g.gexf")
    assert list(tmp_path.iterdir()) == []
