"""A format is one module and one entry: everything that takes files then takes it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

from nora.analysis.early_checks import check_files
from nora.ingest import read_graph
from nora.ingest.formats import FORMATS, ROLES, Format, existing
from nora.ingest.table import Table, Wanted, arrow_table


def read_lines(path: Path, wanted: Wanted) -> dict[str, Table]:
    """JSON Lines: an object per row."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {wanted.role: arrow_table(pa.Table.from_pylist(rows), path.name, wanted.ignore)}


@pytest.fixture
def json_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two things that a format needs."""
    module = ModuleType("nora.ingest.json_lines")
    module.read = read_lines  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(FORMATS, ".jsonl", Format("json_lines"))


@pytest.mark.usefixtures("json_lines")
def test_a_module_and_an_entry_are_a_format_in_every_role(tmp_path: Path) -> None:
    files = {role: tmp_path / f"{role}.jsonl" for role in ROLES}
    ends = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]
    rows = {
        "edges": [{"source": one, "target": two} for one, two in ends],
        "features": [{"id": one, "age": at} for at, one in enumerate("abcd")],
        "labels": [{"id": one, "label": "xy"[at % 2]} for at, one in enumerate("abcd")],
    }
    for role, path in files.items():
        path.write_text("".join(json.dumps(row) + "\n" for row in rows[role]))
    check_files(**files)
    reading = read_graph(**files)
    assert reading.dataset.node_names == ("a", "b", "c", "d")
    assert reading.dataset.data.num_edges == 8
    assert reading.feature_names == ("age",)
    assert reading.dataset.data.y.tolist() == [0, 1, 0, 1]


@pytest.mark.usefixtures("json_lines")
def test_a_refused_name_lists_the_formats_of_its_role(tmp_path: Path) -> None:
    path = tmp_path / "labels.doc"
    path.touch()
    with pytest.raises(
        ValueError, match=r"use a \.csv, \.tsv, \.txt, \.parquet, \.xlsx, \.jsonl file"
    ):
        existing(path, "labels")


def test_every_format_has_a_reader() -> None:
    for one in FORMATS.values():
        assert callable(one.read)
        assert set(one.roles) <= set(ROLES)
