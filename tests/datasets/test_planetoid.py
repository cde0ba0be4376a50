"""Cora, CiteSeer and PubMed: given, cached or downloaded, and a remedy when none is possible."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.error import URLError

import pytest
from torch_geometric.datasets import Planetoid

import nora
from nora.datasets import DatasetUnavailableError
from nora.datasets.planetoid import PARTS


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache, nothing given, and no way out."""

    def refuse(*_: object, **__: object) -> None:
        raise URLError("no route to host")

    monkeypatch.setattr(Planetoid, "download", refuse)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("NORA_DATA", raising=False)
    return tmp_path


def test_without_network_the_missing_files_their_source_and_their_place_are_named(
    no_network: Path,
) -> None:
    with pytest.raises(DatasetUnavailableError) as caught:
        nora.load_dataset("cora")
    message = str(caught.value)
    assert all(f"ind.cora.{part}" in message for part in PARTS)
    assert Planetoid.url in message
    assert str(no_network / "cache" / "nora" / "Planetoid" / "Cora" / "raw") in message
    assert "URLError" in message
    assert "NORA_DATA" in message


def test_a_given_folder_that_does_not_exist_is_named(
    no_network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NORA_DATA", str(no_network / "absent"))
    with pytest.raises(DatasetUnavailableError, match=r"NORA_DATA names .*absent, which is not"):
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
