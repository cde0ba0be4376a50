"""Excel workbooks in, as if saved as CSV; what is not a single table of values is rejected."""

from __future__ import annotations

import io
import sys
import zipfile
from datetime import date, datetime
from pathlib import Path

import openpyxl
import pytest
import torch

from nora.ingest import read_graph
from nora.limits import memory_limit
from shell import refused

EDGES = [("source", "target", "weight"), ("007", "b, c", 2), ("b, c", "d", 0.5), ("d", "007", 1)]
NODES = [
    ("id", "age", "since", "vip"),
    ("007", 41.0, date(2024, 12, 31), True),
    ("b, c", None, datetime(2024, 1, 2), False),
    ("d", 3.5, date(2023, 5, 6), True),
]


def written(path: Path, *sheets: list[tuple]) -> Path:
    book = openpyxl.Workbook()
    for at, rows in enumerate(sheets):
        sheet = book.active if at == 0 else book.create_sheet()
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_a_workbook_is_read_like_its_csv(tmp_path: Path) -> None:
    book = read_graph(
        written(tmp_path / "edges.xlsx", EDGES, []), written(tmp_path / "nodes.xlsx", NODES)
    )
    for name, rows in (("edges", EDGES), ("nodes", NODES)):
        cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
        lines = [",".join(f'"{cell}"' for cell in row) for row in cells]
        text = "\n".join(lines).replace(" 00:00:00", "").replace("True", "true")
        (tmp_path / f"{name}.csv").write_text(text.replace("False", "false"))
    plain = read_graph(tmp_path / "edges.csv", tmp_path / "nodes.csv")
    assert book.dataset.node_names == plain.dataset.node_names == ("007", "b, c", "d")
    assert book.feature_names == plain.feature_names
    for key in ("x", "edge_index", "edge_weight"):
        assert torch.equal(book.dataset.data[key], plain.dataset.data[key]), key


def test_a_row_is_named_by_its_number(tmp_path: Path) -> None:
    rows = [EDGES[0], (), ("a", "b", 1), ("", "c", 1)]
    with pytest.raises(ValueError, match=r"e\.xlsx, line 4: the source id.*blank"):
        read_graph(written(tmp_path / "e.xlsx", rows))


@pytest.mark.parametrize(
    ("sheets", "message"),
    [
        ([EDGES, EDGES], r"2 sheets.*content \('Sheet', 'Sheet1'\): save"),
        ([[]], "e.xlsx is empty"),
        ([[*EDGES, ("x", "#DIV/0!", 1)]], "cell B5: #DIV/0! is an error.*spreadsheet"),
        ([[*EDGES, ("x", "=A1", 1)]], "cell B5 holds a formula without its value"),
    ],
)
def test_what_is_no_single_table_of_values_is_refused(
    sheets: list, message: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "e.xlsx", *sheets)
    with pytest.raises(ValueError, match=message):
        read_graph(path)


def changed(path: Path, **parts: bytes) -> None:
    """Replace parts of a workbook by other bytes."""
    with zipfile.ZipFile(path) as archive:
        known = {one: archive.read(one) for one in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in known.items():
            new = next((v for k, v in parts.items() if k in name.replace("/", "_")), content)
            archive.writestr(name, new)


ENTITIES = b"""<?xml version="1.0"?><!DOCTYPE x [
<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;"><!ENTITY e "&d;&d;&d;&d;&d;&d;">
<!ENTITY f "&e;&e;&e;&e;&e;&e;&e;&e;"><!ENTITY g "&f;&f;&f;&f;&f;&f;&f;&f;"><!ENTITY h "&g;&g;&g;&g;&g;&g;">
]><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData><row r="1">
<c r="A1" t="inlineStr"><is><t>&h;&h;&h;</t></is></c></row></sheetData></worksheet>"""


@pytest.mark.parametrize(
    "part",
    [
        {"sheet1": b"<worksheet"},
        {"sheet1": b""},
        {"xl_workbook.xml": b"<x/>"},
        {"sheet1": ENTITIES},
        {"styles": b"\xff\xfe broken"},
    ],
)
def test_a_damaged_or_hostile_workbook_is_one_line_and_status_2(part: dict, tmp_path: Path) -> None:
    path = written(tmp_path / "e.xlsx", EDGES)
    changed(path, **part)
    assert "e.xlsx" in refused("run", "--edges", path, "--out", tmp_path / "o")
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("content", [b"PK", b"", b"\xd0\xcf\x11\xe0" + bytes(600), b"a,b\n1,2\n"])
def test_what_is_no_workbook_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "e.xlsx").write_bytes(content)
    with pytest.raises(ValueError, match=r"\.xlsx file.*table as CSV"):
        read_graph(tmp_path / "e.xlsx")


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = written(tmp_path / "e.xlsx", EDGES)
    changed(path, sheet1=b" " * 200_000_000)
    assert path.stat().st_size < 1_000_000
    with memory_limit("1GB"), pytest.raises(ValueError, match=r"e\.xlsx would take 2\.4 GB"):
        read_graph(path)


def test_a_cell_far_away_is_no_table_of_everything_between(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in EDGES:
        book.active.append(row)
    book.active.cell(200_000, 16_000, "far")
    book.save(tmp_path / "e.xlsx")
    with memory_limit("2GB"), pytest.raises(ValueError, match="would take 192 GB"):
        read_graph(tmp_path / "e.xlsx")


def test_without_openpyxl_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "e.xlsx", EDGES)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    reply = refused("run", "--edges", path, "--out", tmp_path / "o")
    assert "pip install 'nora-influence[excel]'" in reply


def test_other_spreadsheets_are_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "e.ods").write_bytes(io.BytesIO(b"PK").getvalue())
    with pytest.raises(ValueError, match=r"save its table as \.xlsx.*CSV"):
        read_graph(tmp_path / "e.ods")
