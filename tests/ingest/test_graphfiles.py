"""GraphML and GEXF in, with their attributes; pickles never."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch

import nora
from nora.ingest import read_graph

Write = Callable[[str, str | bytes], Path]


def club() -> nx.Graph:
    graph = nx.Graph()
    people = {"007": (1.5, "left"), "b, c": (2.5, "right"), "<x>": (3.5, "left"), "é": (9, "right")}
    for name, (age, side) in people.items():
        graph.add_node(name, age=float(age), **{"class": side}, x=0.3, influence=1.0)
    graph.add_edge("007", "b, c", weight=2.0, relation="likes")
    graph.add_edge("b, c", "<x>", weight=1.0, relation="knows")
    return graph


@pytest.mark.parametrize("suffix", ["graphml", "gexf"])
def test_nodes_edges_and_attributes_come_back(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"club.{suffix}"
    (nx.write_graphml if suffix == "graphml" else nx.write_gexf)(club(), path)
    reading = read_graph(path)
    dataset = reading.dataset
    assert dataset.node_names == ("007", "b, c", "<x>", "é")
    assert dataset.data.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert dataset.data.edge_weight.tolist() == [2, 2, 1, 1]
    assert dataset.edge_type_names == ("knows", "likes")
    assert dataset.data.edge_type.tolist() == [1, 1, 0, 0]
    assert dataset.class_names == ("left", "right")
    assert dataset.data.y.tolist() == [0, 1, 0, 1]
    assert reading.feature_names == ("age",)
    assert any("not used: influence, x" in note for note in reading.notes)
    assert any(f"age of club.{suffix}" in note for note in reading.notes)


@pytest.mark.parametrize("suffix", ["graphml", "gexf"])
def test_any_attribute_can_be_named_as_the_label(suffix: str, tmp_path: Path, write: Write) -> None:
    graph = club()
    nx.set_node_attributes(graph, {node: f"k{n % 2}" for n, node in enumerate(graph)}, "size")
    path = tmp_path / f"club.{suffix}"
    (nx.write_graphml if suffix == "graphml" else nx.write_gexf)(graph, path)
    reading = read_graph(path, label_column="size", ignore=["class"])
    assert reading.dataset.class_names == ("k0", "k1")
    assert reading.feature_names == ("age",)
    features = write("f.csv", "id,height\n007,1\né,2\n")
    other = read_graph(path, features, label_column="size")
    assert other.dataset.data.y.tolist() == [0, 1, 0, 1]
    assert other.feature_names == ("height",)


def test_labels_that_are_names_are_no_classes(tmp_path: Path) -> None:
    graph = nx.path_graph(6)
    nx.set_node_attributes(graph, {node: f"node {node}" for node in graph}, "label")
    nx.write_graphml(graph, tmp_path / "g.graphml")
    assert read_graph(tmp_path / "g.graphml").dataset.num_classes == 0


def test_a_directed_file_is_read_as_asked_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "g.graphml"
    nx.write_graphml(nx.DiGraph([("a", "b"), ("b", "c")]), path)
    assert read_graph(path, directed=True).dataset.data.num_edges == 2
    reading = read_graph(path)
    assert reading.dataset.data.num_edges == 4
    assert any("directed" in note for note in reading.notes)


def test_features_and_labels_may_come_from_files_of_their_own(tmp_path: Path, write: Write) -> None:
    nx.write_graphml(club(), tmp_path / "g.graphml")
    labels = write("l.csv", "id,label\n007,x\né,y\n")
    features = write("f.csv", "id,size\n007,1\né,2\n")
    reading = read_graph(tmp_path / "g.graphml", features, labels)
    assert reading.dataset.class_names == ("x", "y")
    assert reading.feature_names == ("size",)


@pytest.mark.parametrize("suffix", ["pkl", "pickle", "gpickle"])
def test_a_pickle_is_refused_unread_with_the_reason_and_the_remedy(
    suffix: str, tmp_path: Path
) -> None:
    mark = tmp_path / "exploded"

    class Bomb:
        def __reduce__(self) -> tuple:
            return Path.touch, (mark,)

    path = tmp_path / f"g.{suffix}"
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match=r"runs whatever code.*networkx\.write_graphml"):
        read_graph(path)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("g.graphml", "<graphml>\n<graph>\n</graphml>", r"g\.graphml, line 3: .*not well-formed"),
        ("g.graphml", "", r"g\.graphml, line 1: .*not well-formed"),
        ("g.gexf", "<gexf/>", r"g\.gexf is not readable as gexf"),
        ("g.graphml", '<!DOCTYPE x [<!ENTITY a "b">]><graphml/>', r"g\.graphml defines XML entit"),
    ],
)
def test_broken_files_are_named(name: str, text: str, message: str, write: Write) -> None:
    with pytest.raises(ValueError, match=message):
        read_graph(write(name, text))


def test_a_graph_without_edges_is_refused(tmp_path: Path) -> None:
    nx.write_graphml(nx.empty_graph(3), tmp_path / "g.graphml")
    with pytest.raises(ValueError, match=r"g\.graphml is empty.*edges"):
        read_graph(tmp_path / "g.graphml")


def test_a_bad_weight_is_named_by_its_edge(tmp_path: Path) -> None:
    nx.write_graphml(nx.Graph([("a", "b", {"weight": -1.0})]), tmp_path / "g.graphml")
    with pytest.raises(ValueError, match=r"g\.graphml, edge a – b: the weight '-1\.0' is negative"):
        read_graph(tmp_path / "g.graphml")


class TestNetworkX:
    def graph(self) -> nx.Graph:
        graph = nx.karate_club_graph()
        nx.set_node_attributes(graph, {node: np.int64(node % 5) for node in graph}, "age")
        nx.set_node_attributes(graph, {node: (0.0, 1.0) for node in graph}, "pos")
        graph.add_node("alone", age=3)
        return graph

    def test_a_graph_is_read_like_the_file_it_is_written_to(self, tmp_path: Path) -> None:
        graph = self.graph()
        found = read_graph(graph, label_column="club")
        for _, attributes in graph.nodes(data=True):
            attributes.pop("pos", None)
            attributes["age"] = int(attributes["age"])
        nx.write_graphml(graph, tmp_path / "club.graphml")
        file = read_graph(tmp_path / "club.graphml", label_column="club")
        assert found.dataset.node_names == file.dataset.node_names
        assert "alone" in found.dataset.node_names
        for key in ("x", "edge_index", "edge_weight", "y"):
            assert torch.equal(found.dataset.data[key], file.dataset.data[key]), key
        assert found.feature_names == ("age",)
        assert "that are not used: pos" in "\n".join(found.notes)

    def test_ids_that_are_written_the_same_are_rejected(self) -> None:
        with pytest.raises(ValueError, match=r"graph has several nodes.*written '1'"):
            read_graph(nx.Graph([(1, 2), ("1", 2)]))

    def test_a_graph_without_edges_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"graph is empty.*no edges"):
            read_graph(nx.empty_graph(3))

    def test_it_is_analysed_as_it_is(self) -> None:
        found = nora.analyse(self.graph(), label_column="club", epochs=5, top=1, progress=False)
        assert found.graph.nodes == 35
        assert found.inputs[0] == {
            "role": "edges", "networkx": "Graph", "nodes": 35, "edges": 78,
        }  # fmt: skip
        assert found.run.task.name == "node"
