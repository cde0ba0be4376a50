"""Forms for large graphs: wide tables, lists, compressed files, matrices, folders of datasets."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.io import mmwrite
from scipy.sparse import coo_array
from torch_geometric.data import Data

from nora.cli.errors import _advice
from nora.ingest import read_graph
from nora.ingest.table import Wanted, smallest
from nora.ingest.text import WIDE, read

NODES, WIDTH = 60, 40


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(3)


@pytest.fixture
def graph(random: np.random.Generator, tmp_path: Path) -> dict[str, Path]:
    """Edges, and the same 0/1 features as a wide table and as a list."""
    ends = random.integers(NODES, size=(200, 2))
    words = (random.random((NODES, WIDTH)) < 0.1).astype(int)
    words[0, :] = 1  # every feature occurs, so that the list has them all
    names = [f"n{node}" for node in range(NODES)]
    columns = [f"w{at:02d}" for at in range(WIDTH)]
    edges = pd.DataFrame(
        {"source": [names[a] for a, _ in ends], "target": [names[b] for _, b in ends]}
    )
    wide = pd.DataFrame(words, columns=columns)
    wide.insert(0, "id", names)
    node, word = np.nonzero(words)
    listed = pd.DataFrame({"id": [names[n] for n in node], "feature": [columns[w] for w in word]})
    paths = {}
    for role, frame in (("edges", edges), ("wide", wide), ("list", listed)):
        paths[role] = tmp_path / f"{role}.csv"
        frame.to_csv(paths[role], index=False)
    return paths


def test_a_wide_table_is_never_text_and_reads_the_same_as_cell_by_cell(
    graph: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert WIDTH > WIDE
    typed = read_graph(graph["edges"], graph["wide"])
    monkeypatch.setattr("nora.ingest.text.WIDE", 1000)
    as_text = read_graph(graph["edges"], graph["wide"])
    assert torch.equal(typed.dataset.data.x, as_text.dataset.data.x)
    assert typed.notes == as_text.notes
    assert typed.feature_names == as_text.feature_names


def test_columns_of_a_wide_table_that_are_words_dates_or_gaps_read_the_same_as_cell_by_cell(
    graph: dict[str, Path], random: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pd.read_csv(graph["wide"], dtype=str)
    count = len(table)
    table["country"] = random.choice(["fr", "de", ""], count)
    table["since"] = "2024-01-" + pd.Series(random.integers(10, 28, count)).astype(str)
    table["height"] = random.normal(size=count).astype(str)
    table["gaps"] = random.choice(["1.5", "", "NA", "nan", "7"], count)
    table["late"] = ["1"] * (count - 1) + ["0.25"]
    table["signed"] = "+" + pd.Series(random.integers(9, size=count)).astype(str)
    table.to_csv(graph["wide"], index=False)
    typed = read_graph(graph["edges"], graph["wide"])
    monkeypatch.setattr("nora.ingest.text.WIDE", 1000)
    as_text = read_graph(graph["edges"], graph["wide"])
    assert torch.allclose(typed.dataset.data.x, as_text.dataset.data.x)
    assert typed.notes == as_text.notes
    assert typed.feature_names == as_text.feature_names


def test_numbers_of_a_wide_table_have_their_text_when_asked(graph: dict[str, Path]) -> None:
    def header(row: list[str]) -> bool:
        return row[0] == "id"

    table = read(graph["wide"], Wanted("features", header, header))["features"]
    numbers = table.cells[5].numbers
    assert numbers is not None
    assert numbers.dtype == np.int8
    assert table.cells[5].text.tolist() == [str(value) for value in numbers]
    assert table.place(7) == "wide.csv, line 9"


def test_a_list_gives_the_same_features_as_a_wide_table(graph: dict[str, Path]) -> None:
    wide, listed = (read_graph(graph["edges"], graph[form]) for form in ("wide", "list"))
    assert wide.feature_names == listed.feature_names
    assert wide.dataset.node_names == listed.dataset.node_names
    assert torch.equal(wide.dataset.data.x, listed.dataset.data.x)


def test_reading_tells_how_many_bytes_it_has_read(graph: dict[str, Path]) -> None:
    reply: list[int] = []
    read_graph(graph["edges"], graph["wide"], advance=reply.append)
    assert sum(reply) == graph["edges"].stat().st_size + graph["wide"].stat().st_size


@pytest.mark.parametrize("form", ["wide", "list"])
def test_compressed_tables_read_as_what_they_hold(graph: dict[str, Path], form: str) -> None:
    plain = read_graph(graph["edges"], graph[form])
    packed = {}
    for role in ("edges", form):
        packed[role] = graph[role].with_suffix(".csv.gz")
        packed[role].write_bytes(gzip.compress(graph[role].read_bytes()))
    found = read_graph(packed["edges"], packed[form])
    assert found.dataset.name == "edges"
    assert torch.equal(found.dataset.data.x, plain.dataset.data.x)
    assert torch.equal(found.dataset.data.edge_index, plain.dataset.data.edge_index)


def test_matrices_are_edges_and_features_by_their_rows_numbers(tmp_path: Path) -> None:
    ends = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
    mmwrite(tmp_path / "edges.mtx", coo_array((np.ones(4), ends), shape=(4, 4)))
    mmwrite(tmp_path / "x.mtx", coo_array(([1.0, 1.0, 1.0], ([0, 1, 3], [2, 0, 2])), shape=(4, 3)))
    found = read_graph(tmp_path / "edges.mtx", tmp_path / "x.mtx")
    assert found.dataset.node_names == ("1", "2", "3", "4")
    assert found.dataset.data.num_edges == 8
    assert found.feature_names == ("f1", "f3")
    assert found.dataset.data.x.tolist() == [[0, 1], [1, 0], [0, 0], [0, 1]]


def test_a_folder_as_ogb_lays_it_out(tmp_path: Path) -> None:
    raw = tmp_path / "ogbn_tiny" / "raw"
    raw.mkdir(parents=True)
    for name, text in {
        "edge": "0,1\n1,2\n2,3\n3,0\n",
        "node-feat": "0.5,1\n1.5,0\n2.5,1\n3.5,0\n",
        "node-label": "0\n1\nnan\n1\n",
    }.items():
        (raw / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
    found = read_graph(tmp_path / "ogbn_tiny")
    assert found.dataset.name == "ogbn_tiny"
    assert found.dataset.data.num_edges == 8
    assert found.dataset.data.x[:, 1].tolist() == [1, 0, 1, 0]
    assert found.dataset.data.y.tolist() == [0, 1, -1, 1]


@pytest.mark.parametrize("collated", [True, False])
def test_a_folder_that_pyg_has_processed(tmp_path: Path, collated: bool) -> None:
    data = Data(
        x=torch.eye(4),
        edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]),
        y=torch.tensor([0, 1, 1, -1]),
    )
    (tmp_path / "processed").mkdir()
    stored = (data.to_dict(), None, Data) if collated else data.to_dict()
    torch.save(stored, tmp_path / "processed" / "data.pt")
    found = read_graph(tmp_path)
    assert found.dataset.data.num_edges == 6
    assert torch.equal(found.dataset.data.x, torch.eye(4))
    assert found.dataset.data.y.tolist() == [0, 1, 1, -1]


def test_what_a_processed_file_holds_is_used_or_reported(tmp_path: Path) -> None:
    stored = {
        "edge_index": torch.tensor([[0, 1, 2], [1, 2, 3]]),
        "edge_weight": torch.tensor([[0.5], [2.0], [1.0]]),  # a column, as transforms leave it
        "edge_attr": torch.ones(3, 2),
        "y": torch.ones(4, 3),
        "train_mask": None,
    }
    torch.save(stored, tmp_path / "data.pt")
    found = read_graph(tmp_path, directed=True)
    assert found.dataset.data.edge_weight.tolist() == [0.5, 2.0, 1.0]
    reply = "not used: edge_attr, y (y is not"
    assert reply in "\n".join(found.notes)
    torch.save(stored | {"edge_weight": torch.ones(3, 2)}, tmp_path / "data.pt")
    with pytest.raises(ValueError, match=r"edge_weight is \[3, 2\], expected one number"):
        read_graph(tmp_path)


def test_labels_of_several_columns_are_reported_and_not_used(tmp_path: Path) -> None:
    (tmp_path / "edge.csv").write_text("0,1\n1,2\n2,0\n")
    (tmp_path / "node-label.csv").write_text("0,1\n1,1\n0,0\n")
    found = read_graph(tmp_path)
    assert found.dataset.data.y.tolist() == [-1, -1, -1]
    assert any("node-label.csv has 2 columns" in note for note in found.notes)


def test_a_processed_file_that_would_run_code_is_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple:
            return (print, ("run",))

    torch.save(Evil(), tmp_path / "data.pt")
    with pytest.raises(ValueError, match="holds more than a graph's tensors"):
        read_graph(tmp_path)


def test_numbers_are_kept_as_small_as_they_can_be() -> None:
    assert smallest(np.array([300.0])).dtype == np.int16
    assert smallest(np.array([0.5])).dtype == np.float32
    assert smallest(np.array([0.1, 1e39])).dtype == np.float64
    assert smallest(np.array([2.0**62])).dtype == np.float32
    assert smallest(np.array([0.5, np.nan])).dtype == np.float32
    assert np.isnan(smallest(np.array([1.0, np.nan]))).tolist() == [False, True]


PROCESSED = {
    "one dimension": ({"x": torch.ones(3)}, r"x is \[3\], expected a row for each node"),
    "three dimensions": ({"x": torch.ones(3, 2, 2)}, r"x is \[3, 2, 2\]"),
    "complex": ({"x": torch.ones(3, 2, dtype=torch.complex64)}, "expected a tensor of real"),
    "eight bits": ({"x": torch.ones(3, 2).to(torch.float8_e5m2)}, "expected a tensor of real"),
    "text": ({"x": "text"}, "x is of type str"),
    "below 0": ({"edge_index": torch.tensor([[0, -1], [1, 0]])}, "int64 from -1, expected whole"),
    "floats": ({"edge_index": torch.ones(2, 3)}, "expected whole numbers from 0"),
    "half": ({"x": torch.eye(3).bfloat16()}, ""),
    "gradients": ({"x": torch.eye(3).requires_grad_()}, ""),
    "truths": ({"x": torch.eye(3).bool()}, ""),
    "keys": ({("a", "b"): 1, 3: 4}, ""),
}


@pytest.mark.parametrize("what", PROCESSED)
def test_an_odd_processed_file_is_read_or_refused_in_words(what: str, tmp_path: Path) -> None:
    stored, says = PROCESSED[what]
    torch.save({"edge_index": torch.tensor([[0, 1, 2], [1, 2, 0]])} | stored, tmp_path / "data.pt")
    if says:
        with pytest.raises(ValueError, match=says) as caught:
            read_graph(tmp_path)
        assert _advice(caught.value)
    else:
        assert read_graph(tmp_path).dataset.data.num_nodes == 3
