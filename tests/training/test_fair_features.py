"""Features made from the graph tell a model of links nothing of the edges it is tested on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch_geometric.utils import erdos_renyi_graph

import nora
from nora.datasets import Dataset
from nora.ingest import encode, read_graph

ENCODING = "degree+random-walk"
SETTINGS = {"epochs": 3, "progress": False}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A random graph without any structure, weighted."""
    torch.manual_seed(0)
    edges = erdos_renyi_graph(60, 0.1).t().tolist()
    path = tmp_path_factory.mktemp("random") / "edges.csv"
    rows = [f"n{i},n{j},{1 + (i * j) % 3}" for i, j in edges if i < j]
    path.write_text("source,target,weight\n" + "\n".join(rows) + "\n")
    (path.parent / "f.csv").write_text("id,age\n" + "".join(f"n{i},{i}\n" for i in range(60)))
    return read_graph(path, path.parent / "f.csv", encoding=ENCODING).dataset


@pytest.mark.parametrize("seed", [0, 3])
def test_links_are_trained_on_features_of_the_training_edges(dataset: Dataset, seed: int) -> None:
    run = nora.train("gcn", dataset, "link", seed=seed, cycle=1, **SETTINGS)
    seen = encode(ENCODING, run.data.edge_index, 60, run.data.edge_weight)
    assert torch.equal(run.data.x[:, 1:], seen)
    assert not torch.equal(run.data.x, dataset.data.x), "held-out edges have degrees and walks"
    assert torch.equal(run.data.x[:, 0], dataset.data.x[:, 0]), "the user's own stay"
    assert run.architecture["in_channels"] == run.data.x.size(1)
    assert torch.equal(run.split.data.x, run.data.x)


def test_the_caller_s_dataset_stays_as_it_is_and_nodes_see_the_whole_graph(
    dataset: Dataset,
) -> None:
    before = dataset.data.x.clone()
    run = nora.train("gcn", dataset, "link", **SETTINGS)
    assert torch.equal(dataset.data.x, before)
    y = torch.arange(60) % 2
    labelled = dataset.data.clone()
    labelled.y = y
    nodes = nora.train("gcn", Dataset("n", labelled, 2, encoding=ENCODING), **SETTINGS)
    assert torch.equal(nodes.data.x, before)
    again = nora.train("gcn", run.dataset, "link", **SETTINGS)
    assert torch.equal(again.data.x, run.data.x)


def test_a_saved_run_carries_the_features_it_was_trained_with(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = nora.train("gcn", dataset, "link", **SETTINGS)
    run.save(tmp_path / "run")
    monkeypatch.setattr("nora.ingest.encodings.encode", lambda *_: pytest.fail("encoded again"))
    back = nora.load_run(tmp_path / "run")
    assert torch.equal(back.data.x, run.data.x)
    assert (back.dataset.encoding, back.dataset.given_features) == (ENCODING, 1)
    output = [one.model(one.data.x, one.data.edge_index) for one in (run, back)]
    assert torch.equal(*output)
