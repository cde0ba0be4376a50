"""ogbn-arxiv, read from a tiny folder in ogb's own layout."""

from __future__ import annotations

import builtins
import hashlib
import json
import shutil
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError

import pandas as pd
import pytest
import torch

import nora
from elsewhere import printed
from nora.datasets import Dataset, DatasetUnavailableError, ogbn_arxiv
from nora.training.splits import split_nodes

# Importing ogb here would have it ask the network for a newer version of itself.
pytestmark = pytest.mark.skipif(not find_spec("ogb"), reason="the extra [ogb] is not installed")

CITATIONS = [(0, 1), (1, 2), (3, 2), (4, 0), (5, 4), (0, 4)]
FEATURES = [[node / 8, -node / 4] for node in range(8)]
LABELS = [0, 39, 2, 2, 7, 0, 1, 39]
PARTS = {"train": [0, 1, 2, 3], "valid": [4, 5], "test": [6, 7]}


def write(path: Path, rows: list, header: list[str] | bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(path, index=False, header=header, compression="gzip")


def make(folder: Path) -> Path:
    """What the official archive holds, for eight papers."""
    raw = folder / "raw"
    write(raw / "edge.csv.gz", CITATIONS)
    write(raw / "node-feat.csv.gz", FEATURES)
    write(raw / "node-label.csv.gz", LABELS)
    write(raw / "node_year.csv.gz", [2015] * 8)
    write(raw / "num-node-list.csv.gz", [8])
    write(raw / "num-edge-list.csv.gz", [len(CITATIONS)])
    for part, nodes in PARTS.items():
        write(folder / "split" / "time" / f"{part}.csv.gz", nodes)
    areas = [(number, f"arxiv cs {chr(97 + number % 26)}x") for number in range(40)]
    write(
        folder / "mapping" / "labelidx2arxivcategeory.csv.gz",
        areas,
        ["label idx", "arxiv category"],
    )
    (folder / "RELEASE_v1.txt").touch()
    return folder


@pytest.fixture
def nothing_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No network, an empty cache, an empty given folder, and no one to answer questions."""

    def refuse(*_: object, **__: object) -> None:
        raise URLError("no route to host")

    def ask(*_: object) -> str:
        pytest.fail("a question was asked on standard input")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    monkeypatch.setattr(ogbn_arxiv, "PUBLISHED", (8, len(CITATIONS)))
    monkeypatch.setattr(builtins, "input", ask)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "given").mkdir()
    monkeypatch.setenv("NORA_DATA", str(tmp_path / "given"))
    return tmp_path


def assert_is_the_tiny_one(dataset: Dataset) -> None:
    data = dataset.data
    both_ways = {*CITATIONS, *((j, i) for i, j in CITATIONS)}
    assert {(i, j) for i, j in data.edge_index.t().tolist()} == both_ways
    assert data.num_edges == len(both_ways)
    torch.testing.assert_close(data.x, torch.tensor(FEATURES))
    assert data.y.tolist() == LABELS
    assert data.y.dtype == torch.long
    assert (dataset.num_classes, len(dataset.class_names)) == (40, 40)
    assert dataset.class_names[2] == "cs.CX"
    assert dataset.node_ratios == (0.5, 0.25, 0.25)


def test_a_given_folder_is_read_and_nothing_is_written(
    nothing_there: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    make(nothing_there / "given" / "ogbn_arxiv")
    before = sorted(nothing_there.rglob("*"))
    assert_is_the_tiny_one(nora.load_dataset("ogbn-arxiv"))
    assert sorted(nothing_there.rglob("*")) == before
    assert capfd.readouterr() == ("", "")


def test_the_cache_is_read_when_nothing_is_given(
    nothing_there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(nothing_there / "cache" / "nora" / "ogbn_arxiv")
    assert_is_the_tiny_one(nora.load_dataset("ogbn-arxiv"))
    monkeypatch.delenv("NORA_DATA")
    assert_is_the_tiny_one(nora.load_dataset("ogbn-arxiv"))


def test_class_names_are_left_out_when_the_mapping_is(nothing_there: Path) -> None:
    folder = make(nothing_there / "given" / "ogbn_arxiv")
    shutil.rmtree(folder / "mapping")
    assert nora.load_dataset("ogbn-arxiv").class_names is None


def test_without_network_the_missing_files_their_source_and_their_place_are_named(
    nothing_there: Path,
) -> None:
    with pytest.raises(DatasetUnavailableError) as caught:
        nora.load_dataset("ogbn-arxiv")
    message = str(caught.value)
    assert all(file in message for file in ogbn_arxiv.FILES)
    assert ogbn_arxiv.URL in message
    assert str(nothing_there / "cache" / "nora" / "ogbn_arxiv") in message
    assert "URLError" in message
    assert "NORA_DATA" in message


def test_a_failed_download_leaves_nothing_behind_and_is_not_asked_about_later(
    nothing_there: Path,
) -> None:
    timeout = socket.getdefaulttimeout()
    for _ in range(2):
        with pytest.raises(DatasetUnavailableError):
            nora.load_dataset("ogbn-arxiv")
    assert list((nothing_there / "cache" / "nora").iterdir()) == []
    assert socket.getdefaulttimeout() == timeout


def test_files_that_are_there_are_not_called_missing_nor_touched(nothing_there: Path) -> None:
    folder = make(nothing_there / "cache" / "nora" / "ogbn_arxiv")
    (folder / "raw" / "node-feat.csv.gz").unlink()
    before = sorted(folder.rglob("*"))
    with pytest.raises(DatasetUnavailableError, match=r"raw/node-feat\.csv\.gz\. Get"):
        nora.load_dataset("ogbn-arxiv")
    assert sorted(folder.rglob("*")) == before


def download(archive: Path, asked: list[str]) -> object:
    def fetch(url: str, folder: str) -> str:
        asked.append(url)
        assert socket.getdefaulttimeout() == ogbn_arxiv.SECONDS_TO_ANSWER
        return shutil.copy(archive, folder)

    return fetch


def test_a_download_is_unpacked_into_the_cache_once(
    nothing_there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(nothing_there / "made" / "arxiv")
    archive = Path(shutil.make_archive(str(nothing_there / "arxiv"), "zip", nothing_there / "made"))
    asked: list[str] = []
    monkeypatch.setattr("ogb.utils.url.download_url", download(archive, asked))
    for _ in range(2):
        assert_is_the_tiny_one(nora.load_dataset("ogbn-arxiv"))
    assert asked == [ogbn_arxiv.URL]
    cached = nothing_there / "cache" / "nora" / "ogbn_arxiv"
    assert sorted(path.name for path in cached.iterdir()) == [
        "RELEASE_v1.txt",
        "download.json",
        "mapping",
        "raw",
        "split",
    ]
    assert list(cached.parent.iterdir()) == [cached]
    about = json.loads((cached / "download.json").read_text())
    assert about["url"].startswith("https://snap.stanford.edu/")
    assert about["bytes"] == archive.stat().st_size
    assert about["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    write(cached / "raw" / "node-label.csv.gz", LABELS[::-1])
    with pytest.raises(DatasetUnavailableError, match=r"node-label\.csv\.gz in.*since"):
        nora.load_dataset("ogbn-arxiv")


def test_files_of_another_graph_are_refused(nothing_there: Path) -> None:
    folder = make(nothing_there / "given" / "ogbn_arxiv")
    write(folder / "raw" / "edge.csv.gz", CITATIONS[:-1])
    write(folder / "raw" / "num-edge-list.csv.gz", [len(CITATIONS) - 1])
    with pytest.raises(ValueError, match=r"holds 8 papers and 5 citations.*8 and 6"):
        nora.load_dataset("ogbn-arxiv")


def test_an_archive_that_lacks_a_file_is_not_taken(
    nothing_there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(nothing_there / "made" / "arxiv")
    (made / "raw" / "edge.csv.gz").unlink()
    archive = Path(shutil.make_archive(str(nothing_there / "arxiv"), "zip", made.parent))
    monkeypatch.setattr("ogb.utils.url.download_url", download(archive, []))
    with pytest.raises(DatasetUnavailableError, match="could not be downloaded"):
        nora.load_dataset("ogbn-arxiv")
    assert list((nothing_there / "cache" / "nora").iterdir()) == []


def test_without_the_package_the_extra_is_named(
    nothing_there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "ogb"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ogb", None)
    with pytest.raises(DatasetUnavailableError, match=r"pip install 'nora-influence\[ogb\]'"):
        nora.load_dataset("ogbn-arxiv")


def test_the_official_split_sizes_come_out_of_the_ratios() -> None:
    sizes = (90_941, 29_799, 48_603)
    train, val, test = (size / sum(sizes) for size in sizes)
    split = split_nodes(torch.zeros(sum(sizes)), (train, val, test))
    assert (len(split.train), len(split.val), len(split.test)) == sizes


def test_importing_ogb_asks_no_network_and_leaves_no_thread(nothing_there: Path) -> None:
    make(nothing_there / "given" / "ogbn_arxiv")
    code = (
        "import socket, sys, threading\n"
        "def refuse(*_): raise SystemExit('the network was asked')\n"
        "socket.socket.connect = refuse; socket.getaddrinfo = refuse\n"
        "import nora\n"
        "from nora.datasets import ogbn_arxiv\n"
        "ogbn_arxiv.PUBLISHED = (8, 6)\n"
        "print(nora.load_dataset('ogbn-arxiv').data.num_nodes)\n"
        "print([thread.name for thread in threading.enumerate() if not thread.daemon])\n"
        "print('outdated' in sys.modules)"
    )
    assert printed(code).split() == ["8", "['MainThread']", "False"]
