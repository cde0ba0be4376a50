"""Narrow tables read as codes, in pieces: the same graph and the same messages as line by line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from nora.ingest import Reading, read_graph
from nora.ingest.cells import Words, plain_ascii
from nora.ingest.edges import edges_of
from nora.ingest.table import Table

NAMES = ["ann", "bob ", " Bob", "7", "7.0", "zoë", "x y", "-", "0x1", "NA", "é" * 40, "007"]


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(5)


@pytest.fixture
def files(tmp_path: Path, random: np.random.Generator) -> list[Path]:
    """Edges of three types, a list of words with counts, labels; names that are easily mistaken."""
    edges = pd.DataFrame(random.choice(NAMES, (300, 2)), columns=["source", "target"])
    edges["type"] = random.choice(["likes", "knows ", "cites"], 300)
    words = pd.DataFrame({"id": random.choice(NAMES, 90), "word": random.choice(list("abcde"), 90)})
    words = words.groupby(["id", "word"]).size().reset_index(name="count")
    labels = pd.DataFrame({"id": NAMES, "label": random.choice(["left", "right"], len(NAMES))})
    labels = labels[labels["id"] != "7.0"]
    paths = []
    for name, frame in (("edges", edges), ("words", words), ("labels", labels)):
        paths.append(tmp_path / f"{name}.csv")
        frame.to_csv(paths[-1], index=False)
    return paths


def _without_sevens(paths: list[Path]) -> list[Path]:
    """`7` and `7.0` in one list are two rows of the same node, which may contradict each other."""
    kept = [line for line in paths[1].read_text().splitlines() if not line.startswith("7.0,")]
    paths[1].write_text("\n".join(kept) + "\n")
    return paths


def _same(one: Reading, two: Reading) -> None:
    assert one.notes == two.notes
    assert one.feature_names == two.feature_names
    assert one.dataset.node_names == two.dataset.node_names
    assert one.dataset.edge_type_names == two.dataset.edge_type_names
    for key in ("x", "edge_index", "edge_type", "y"):
        assert torch.equal(one.dataset.data[key], two.dataset.data[key]), key


@pytest.mark.parametrize("piece", [1, 50, 1 << 26])
def test_codes_in_pieces_of_any_size_give_the_graph_that_text_gives(
    files: list[Path], piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _without_sevens(files)
    monkeypatch.setattr("nora.ingest.narrow.PIECE", piece)
    as_codes = read_graph(*files)
    monkeypatch.setattr("nora.ingest.text.narrow_cells", lambda *_: None)
    _same(as_codes, read_graph(*files))


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("ann,b,many", "line 5: the value 'many' is not a number"),
        ("ann,b", "line 5: 2 columns, which is too few"),
        (",b,3", "line 5: the id is blank"),
        ("ann,\x07,3", "line 5: the feature '\\x07' holds a control character"),
        (
            "ann,a,2",
            "line 5: 'ann' has the feature 'a' already, and another value of it, in line 2",
        ),
    ],
)
def test_a_slip_in_a_list_is_told_with_its_line(tmp_path: Path, row: str, says: str) -> None:
    (tmp_path / "edges.csv").write_text("source,target\nann,bob\nbob,eve\n")
    list_ = tmp_path / "words.csv"
    list_.write_text(f"id,word,count\nann,a,1\nbob,a,3\n\n{row}\neve,c,2\n")
    with pytest.raises(ValueError, match=r"words\.csv") as found:
        read_graph(tmp_path / "edges.csv", list_)
    assert says in str(found.value)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("typed", [False, True])
def test_edges_without_weights_are_those_with_weights_one(
    random: np.random.Generator, directed: bool, typed: bool
) -> None:
    columns = [random.choice(list("abcdefg"), 60).astype(object) for _ in range(2)]
    names = ["source", "target"]
    if typed:
        columns.append(random.choice(["t", "u", "v"], 60).astype(object))
        names.append("type")
    plain = edges_of(Table("e", tuple(names), tuple(columns), str), (0, 1), directed)
    ones = np.full(60, "1", dtype=object)
    weighted = edges_of(Table("e", (*names, "weight"), (*columns, ones), str), (0, 1), directed)
    assert np.array_equal(plain.index, weighted.index)
    assert plain.ids == weighted.ids
    if typed:
        assert plain.kind is not None
        assert np.array_equal(plain.kind, weighted.kind)
    told = [note.replace(", their weights added", "") for note in weighted.notes]
    assert list(plain.notes) == [note for note in told if "both directions" not in note]


def test_words_that_differ_in_blanks_alone_are_one() -> None:
    words = Words.read(pa.chunked_array([["b", " a"], ["a ", "b", "c"]]))
    assert words.text().tolist() == ["b", "a", "a", "b", "c"]
    assert words.texts.to_pylist() == ["b", "a", "c"]


def test_plain_ascii_looks_at_the_part_that_is_asked_for() -> None:
    texts = pa.array(["zoë", "ann", "\x01"])
    assert not plain_ascii(texts)
    assert plain_ascii(texts.slice(1, 1))
    assert not plain_ascii(texts.slice(2))
