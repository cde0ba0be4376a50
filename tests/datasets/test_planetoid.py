"""Cora, CiteSeer and PubMed: given, cached or downloaded, and a remedy when none is possible."""

from __future__ import annotations

import io
import pickle
import shutil
from pathlib import Path
from urllib.error import URLError

import pytest
from torch_geometric.datasets import Planetoid
from torch_geometric.io import read_planetoid_data

import nora
from nora.datasets import DatasetUnavailableError
from nora.datasets.planetoid import PUBLISHED
from payload import Payload


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache, nothing given, and no way out."""

    def refuse(*_: object, **__: object) -> None:
        raise URLError("no route to host")

    monkeypatch.setattr("nora.datasets.planetoid.urlopen", refuse)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("NORA_DATA", raising=False)
    return tmp_path


def test_without_network_the_missing_files_their_source_and_their_place_are_named(
    no_network: Path,
) -> None:
    with pytest.raises(DatasetUnavailableError) as caught:
        nora.load_dataset("cora")
    message = str(caught.value)
    assert all(file in message for file in PUBLISHED["Cora"])
    assert Planetoid.url in message
    assert str(no_network / "cache" / "nora" / "Planetoid" / "Cora" / "raw") in message
    assert "URLError" in message
    assert "NORA_DATA" in message


def test_a_given_folder_that_does_not_exist_is_named(
    no_network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NORA_DATA", str(no_network / "absent"))
    with pytest.raises(DatasetUnavailableError, match=r"NORA_DATA names.*is not"):
        nora.load_dataset("cora")


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes"),
    [
        ("cora", 2708, 10556, 1433, 7),
        ("citeseer", 3327, 9104, 3703, 6),
        ("pubmed", 19717, 88648, 500, 3),
    ],
)
def test_the_citation_networks_have_their_published_sizes(
    name: str, nodes: int, edges: int, features: int, classes: int, data_folder: Path
) -> None:
    dataset = nora.load_dataset(name)
    assert dataset.data.num_nodes == nodes
    assert dataset.data.edge_index.shape == (2, edges)
    assert dataset.data.x.shape == (nodes, features)
    assert dataset.num_classes == classes
    assert sorted(dataset.data.y.unique().tolist()) == list(range(classes))
    assert dataset.node_ratios == (0.5, 0.3, 0.2)


@pytest.mark.data
def test_a_given_folder_is_read_without_writing_to_it_or_to_the_cache(
    no_network: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = no_network / "given"
    shutil.copytree(data_folder / "Planetoid" / "Cora", given / "Planetoid" / "Cora")
    before = sorted(given.rglob("*"))
    monkeypatch.setenv("NORA_DATA", str(given))
    assert nora.load_dataset("cora").data.num_nodes == 2708
    assert sorted(given.rglob("*")) == before
    assert not (no_network / "cache").exists()


@pytest.mark.data
def test_the_cache_is_used_when_the_given_folder_lacks_a_file(
    no_network: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = no_network / "cache" / "nora" / "Planetoid" / "Cora" / "raw"
    shutil.copytree(data_folder / "Planetoid" / "Cora" / "raw", cached)
    (no_network / "given").mkdir()
    monkeypatch.setenv("NORA_DATA", str(no_network / "given"))
    assert nora.load_dataset("cora").data.num_nodes == 2708
    (cached / "ind.cora.graph").unlink()
    with pytest.raises(DatasetUnavailableError, match=r"Missing: ind\.cora\.graph\. Get them"):
        nora.load_dataset("cora")


@pytest.mark.data
@pytest.mark.parametrize("name", ["Cora", "CiteSeer", "PubMed"])
def test_the_graphs_are_those_that_pyg_reads(name: str, data_folder: Path) -> None:
    ours = nora.load_dataset(name.lower()).data
    theirs = read_planetoid_data(str(data_folder / "Planetoid" / name / "raw"), name)
    for key in ("x", "edge_index", "y"):
        assert ours[key].equal(theirs[key]) and ours[key].dtype == theirs[key].dtype


@pytest.mark.data
@pytest.mark.parametrize("file", sorted(PUBLISHED["Cora"]))
def test_no_file_is_opened_that_is_not_the_published_one(
    file: str, no_network: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = no_network / "given" / "Planetoid" / "Cora" / "raw"
    shutil.copytree(data_folder / "Planetoid" / "Cora" / "raw", raw)
    (raw / file).unlink()
    (raw / file).write_bytes(pickle.dumps(Payload(no_network / "exploded")))
    monkeypatch.setenv("NORA_DATA", str(no_network / "given"))
    with pytest.raises(DatasetUnavailableError, match=rf"{file} from .* is not the published file"):
        nora.load_dataset("cora")
    assert not (no_network / "exploded").exists()


@pytest.mark.data
def test_what_is_downloaded_is_checked_before_it_is_kept(
    no_network: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = data_folder / "Planetoid" / "Cora" / "raw"
    wrong = {"ind.cora.graph": pickle.dumps(Payload(no_network / "exploded"))}

    def answer(url: str, timeout: float) -> io.BytesIO:
        file = url.rpartition("/")[2]
        return io.BytesIO(wrong.get(file) or (published / file).read_bytes())

    monkeypatch.setattr("nora.datasets.planetoid.urlopen", answer)
    cached = no_network / "cache" / "nora" / "Planetoid" / "Cora"
    (cached / "processed").mkdir(parents=True)
    (cached / "processed" / "data.pt").write_bytes(wrong["ind.cora.graph"])
    with pytest.raises(DatasetUnavailableError, match=r"ind\.cora\.graph.*not the published"):
        nora.load_dataset("cora")
    assert not (cached / "raw" / "ind.cora.graph").exists()
    wrong.clear()
    assert nora.load_dataset("cora").data.num_nodes == 2708
    assert not (no_network / "exploded").exists()
