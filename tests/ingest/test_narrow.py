"""Narrow tables read block by block: the same graph and the same messages as by other readers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from nora.ingest import read_graph
from nora.ingest.columns import EdgeColumns
from nora.ingest.edge_list import EdgeList, edge_list
from nora.ingest.ids import IdTable
from nora.ingest.table import Column, Table, plain_ascii

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


@pytest.mark.parametrize("block", [300, 4000, 1 << 20])
def test_blocks_of_any_size_give_the_graph_that_pandas_reads(
    files: list[Path], block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nora.ingest.text.BLOCK", block)
    one = read_graph(*_without_sevens(files))
    two = read_graph(*(pd.read_csv(path, dtype=str, keep_default_na=False) for path in files))
    # Frames are called by their role.
    notes = [note.replace("words.csv", "features").replace(".csv", "") for note in one.notes]
    assert notes == list(two.notes)
    assert one.feature_names == two.feature_names
    assert one.dataset.node_names == two.dataset.node_names
    assert one.dataset.edge_type_names == two.dataset.edge_type_names
    for key in ("x", "edge_index", "edge_type", "y"):
        assert torch.equal(one.dataset.data[key], two.dataset.data[key]), key


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("ann,b,many", "5: the value 'many' is not a number"),
        ("ann,b", "line 5: 2 columns, which is too few"),
        (",b,3", "line 5: the id is blank"),
        ("ann,\x07,3", "line 5: the feature '\\x07' holds a control character"),
        (
            "ann,a,2",
            "line 5: 'ann' has the feature 'a' already",
        ),
    ],
)
def test_a_slip_in_a_list_is_reported_with_its_line(tmp_path: Path, row: str, says: str) -> None:
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
    columns = {"source": random.choice(list("abcdefg"), 60)}
    columns["target"] = random.choice(list("abcdefg"), 60)
    if typed:
        columns["type"] = random.choice(["t", "u", "v"], 60)
    plain, notes = _edges(columns, directed)
    weighted, others = _edges(columns | {"weight": np.full(60, "1")}, directed)
    assert np.array_equal(plain.index, weighted.index)
    assert plain.ids == weighted.ids
    if typed:
        assert plain.kind is not None
        assert np.array_equal(plain.kind, weighted.kind)
    reply = [note.replace(", their weights added", "") for note in others]
    assert notes == [note for note in reply if "both directions" not in note]


def _edges(columns: dict[str, np.ndarray], directed: bool) -> tuple[EdgeList, list[str]]:
    notes: list[str] = []
    cells = [Column(pa.array(column.astype(str).tolist())) for column in columns.values()]
    table = Table("e", tuple(columns), cells, str)
    return edge_list(IdTable(table, (0, 1)), EdgeColumns(), directed, notes), notes


def test_texts_that_differ_in_blanks_alone_are_one() -> None:
    column = Column(pa.chunked_array([["b", " a"], ["a ", "b", "c"]]))
    assert column.text.tolist() == ["b", "a", "a", "b", "c"]
    assert column.texts.to_pylist() == ["b", "a", "c"]


def test_plain_ascii_looks_at_the_part_that_is_asked_for() -> None:
    texts = pa.array(["zoë", "ann", "\x01"])
    assert not plain_ascii(texts)
    assert plain_ascii(texts.slice(1, 1))
    assert not plain_ascii(texts.slice(2))
