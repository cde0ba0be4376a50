"""ogbn-arxiv's graph with stand-in features, read from tiny files."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

import nora
from nora.datasets import DatasetUnavailableError
from nora.datasets.ogbn_arxiv_stand_in import FOLDER, GRAPH, GUESSES

ROOT = Path(__file__).parents[2]
GUESSED = ["3,1", "", "39", "0,1,2,3,4", "7", "3"]
YEARS = [2010, 2012, 2014, 2016, 2018, 2020]


def make(folder: Path) -> Path:
    """The two files, for six papers."""
    folder.mkdir(parents=True)
    np.savez(
        folder / GRAPH,
        edge_index=np.array([[0, 1, 2, 4], [1, 2, 3, 0]], dtype=np.int32),
        y=np.array([3, 1, 39, 0, 7, 3], dtype=np.int16),
        year=np.array(YEARS, dtype=np.int16),
        train=np.array([0, 1, 2], dtype=np.int32),
        valid=np.array([3], dtype=np.int32),
        test=np.array([4, 5], dtype=np.int32),
    )
    (folder / GUESSES).write_text("\n".join(GUESSED) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def nothing_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "given").mkdir()
    monkeypatch.setenv("NORA_DATA", str(tmp_path / "given"))
    return tmp_path


@pytest.mark.parametrize("place", ["given", "cache/nora"])
def test_guesses_and_the_year_stand_in_for_features(nothing_there: Path, place: str) -> None:
    make(nothing_there / place / FOLDER)
    dataset = nora.load_dataset("ogbn-arxiv-stand-in")
    assert (dataset.name, dataset.num_classes) == ("ogbn-arxiv-stand-in", 40)
    assert dataset.node_ratios == (3 / 6, 1 / 6, 2 / 6)
    x = dataset.data.x
    assert x.shape == (6, 41)
    assert x[0, :40].nonzero().flatten().tolist() == [1, 3]
    assert (x[0, 3], x[0, 1]) == (1, 0.5)
    assert not x[1, :40].any()
    torch.testing.assert_close(x[3, :5], 1 / torch.arange(1.0, 6))
    year = torch.tensor(YEARS, dtype=torch.float)
    torch.testing.assert_close(x[:, -1], (year - year.mean()) / year.std())
    both_ways = {(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (4, 0), (0, 4)}
    assert {(i, j) for i, j in dataset.data.edge_index.t().tolist()} == both_ways
    assert dataset.data.y.tolist() == [3, 1, 39, 0, 7, 3]


def test_files_that_are_missing_are_named_with_their_source_and_place(nothing_there: Path) -> None:
    with pytest.raises(DatasetUnavailableError) as caught:
        nora.load_dataset("ogbn-arxiv-stand-in")
    for part in (GRAPH, GUESSES, "TAPE", "NORA_DATA", str(nothing_there / "cache" / "nora")):
        assert part in str(caught.value)
    (make(nothing_there / "given" / FOLDER) / GUESSES).unlink()
    with pytest.raises(DatasetUnavailableError, match=rf"Missing: {GUESSES}\. "):
        nora.load_dataset("ogbn-arxiv-stand-in")


def test_guesses_of_other_papers_are_refused(nothing_there: Path) -> None:
    folder = make(nothing_there / "given" / FOLDER)
    (folder / GUESSES).write_text("1\n2\n", encoding="utf-8")
    with pytest.raises(ValueError, match="2 lines for 6 papers: is it complete"):
        nora.load_dataset("ogbn-arxiv-stand-in")


@pytest.mark.data
def test_the_real_graph_has_the_published_sizes_and_benchmarks_read_the_same() -> None:
    dataset = nora.load_dataset("ogbn-arxiv-stand-in")
    data = dataset.data
    assert (data.num_nodes, data.num_edges, int(data.y.max())) == (169_343, 2_315_598, 39)
    sizes = [round(share * 169_343) for share in dataset.node_ratios]
    assert sizes == [90_941, 29_799, 48_603]
    theirs, train, test = runpy.run_path(str(ROOT / "benchmarks" / "arxiv.py"))["load"]()
    assert all(torch.equal(theirs[key], data[key]) for key in ("x", "edge_index", "y"))
    assert (len(train), len(test)) == (90_941, 48_603)
