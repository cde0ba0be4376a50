"""Features from the graph alone, beside PyG's, and which of them are made when."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch_geometric.transforms import AddRandomWalkPE

import nora
from graphs import GRAPHS, barabasi
from nora.ingest import encode, read_graph
from nora.ingest import encodings as module
from nora.ingest.encodings import chosen_encoding, encoded_from, return_probabilities

Write = Callable[[str, str | bytes], Path]


@pytest.mark.parametrize("kind", ["star", "two_camps", "bridge", "directed", "isolated", "looped"])
def test_return_probabilities_are_pygs(kind: str) -> None:
    data = GRAPHS[kind]()
    expected = AddRandomWalkPE(walk_length=9)(data.clone()).random_walk_pe
    found = return_probabilities(data.edge_index, data.num_nodes, steps=9)
    torch.testing.assert_close(found, expected)


def test_fewer_steps_where_the_powers_grow_too_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    edge_index = barabasi(300, 3)
    every = return_probabilities(edge_index, 300)
    monkeypatch.setattr(module, "WALK_WORK", 50_000)
    some = return_probabilities(edge_index, 300)
    assert 2 <= some.size(1) < every.size(1)
    torch.testing.assert_close(some, every[:, : some.size(1)])


def test_a_walk_prefers_heavy_edges() -> None:
    edges = torch.tensor([[0, 1, 0, 2], [1, 0, 2, 0]])
    found = return_probabilities(edges, 3, torch.tensor([3.0, 3.0, 1.0, 1.0]), steps=2)
    torch.testing.assert_close(found[:, 1], torch.tensor([1.0, 0.75, 0.25]))


def test_degree_grows_with_degree_and_onehot_tells_nodes_apart() -> None:
    star = GRAPHS["star"]()
    degree = encode("degree", star.edge_index, 6)
    assert (degree[0, 0] > degree[1:, 0]).all()
    assert torch.equal(encode("onehot", star.edge_index, 6), torch.eye(6))
    assert torch.equal(
        encode("onehot+degree", star.edge_index, 6), torch.cat([torch.eye(6), degree], dim=1)
    )


def test_auto_says_who_a_node_is_in_a_way_that_fits_the_size() -> None:
    assert chosen_encoding("auto", 3_000) == "onehot+random-walk+degree"
    assert chosen_encoding("auto", 3_001) == "random+random-walk+degree"


def test_unknown_and_unfit_encodings_are_refused(edges: Path) -> None:
    with pytest.raises(ValueError, match=r"encoding 'walk'.*you mean 'random-walk'"):
        read_graph(edges, encoding="walk")
    with pytest.raises(ValueError, match=r"20,000 nodes are more than the 10,000.*random"):
        chosen_encoding("onehot", 20_000)


def test_given_features_are_used_as_they_are_unless_an_encoding_is_asked_for(
    edges: Path, write: Write
) -> None:
    features = write("f.csv", "id,vip\na,1\nb,0\nc,0\nd,1\n")
    alone = read_graph(edges, features)
    assert alone.encoding is None
    assert alone.dataset.data.x.shape == (4, 1)
    both = read_graph(edges, features, encoding="onehot")
    assert both.encoding == "onehot"
    assert torch.equal(both.dataset.data.x[:, 1:], torch.eye(4))
    assert torch.equal(both.dataset.data.x[:, :1], alone.dataset.data.x)


def test_every_encoding_is_finite_on_every_graph() -> None:
    for kind, build in GRAPHS.items():
        data = build()
        for name in ("degree", "onehot", "random", "random-walk", "auto"):
            x = encode(name, data.edge_index, data.num_nodes)
            assert x.size(0) == data.num_nodes, kind
            assert x.isfinite().all(), kind


def test_made_features_can_be_made_from_some_of_the_edges(edges: Path, write: Write) -> None:
    features = write("f.csv", "id,vip\na,1\nb,0\nc,0\nd,1\n")
    dataset = read_graph(edges, features, encoding="degree+random-walk").dataset
    assert (dataset.encoding, dataset.given_features) == ("degree+random-walk", 1)
    assert torch.equal(encoded_from(dataset, dataset.data), dataset.data.x)
    seen = dataset.data.clone()
    seen.edge_index = torch.tensor([[0, 1], [1, 0]])
    x = encoded_from(dataset, seen)
    assert torch.equal(x[:, 0], dataset.data.x[:, 0])
    assert torch.equal(x[:, 1:], encode("degree+random-walk", seen.edge_index, 4))
    given = read_graph(edges, features).dataset
    assert torch.equal(encoded_from(given, seen), given.data.x)


def test_camps_without_features_are_distinguished(tmp_path: Path) -> None:
    network = nora.load_dataset("polarised")
    names = network.node_names or ()
    ends = network.data.edge_index.t().tolist()
    (tmp_path / "e.csv").write_text(
        "source,target\n" + "".join(f"{names[i]},{names[j]}\n" for i, j in ends)
    )
    (tmp_path / "l.csv").write_text(
        "id,label\n" + "".join(f"{n},{y}\n" for n, y in zip(names, network.data.y, strict=True))
    )
    dataset = read_graph(tmp_path / "e.csv", labels=tmp_path / "l.csv").dataset
    run = nora.train("gcn", dataset, epochs=40, progress=False)
    assert run.metrics["test_accuracy"] > 0.85
