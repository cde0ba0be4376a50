"""Excel workbooks (`.xlsx`) as the text that Excel itself would save as CSV, a line per row of the sheet.

Read by `openpyxl`, which is loaded when a workbook is met (extra `[excel]`). Nothing in a workbook is
executed: of formulas the saved values are read. Wrong numbers are never made up: a formula without a saved
value, an error value such as `#DIV/0!` and a second sheet with content are refused by name.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from nora.limits import check_fits
from nora.wording import listed, short

# What a byte of unpacked XML, and a cell of the table, take in memory at most.
BYTES_EACH, CELL = 12, 60
EXTRA = "pip install 'nora-influence[excel]'"


def workbook_text(path: Path) -> bytes:
    """The only sheet with content of a workbook as CSV in UTF-8."""
    try:
        import openpyxl
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"to read {path.name}, openpyxl is needed: {EXTRA}; or save the table as CSV"
        ) from None
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(one.file_size for one in archive.infolist())
    except zipfile.BadZipFile:
        raise ValueError(
            f"{path.name} is not an .xlsx file: it is of another kind, damaged or protected by a password; "
            "save the table as CSV"
        ) from None
    check_fits(path.name, BYTES_EACH * size)
    try:
        return _as_csv(path, openpyxl)
    except (_InvalidWorkbookError, MemoryError):
        raise
    except Exception as error:  # whatever the parser trips over in a file from anybody
        reason = short(f"{type(error).__name__}: {error}", 200)
        raise ValueError(
            f"{path.name} is not readable as .xlsx ({reason}); save it as CSV"
        ) from error


class _InvalidWorkbookError(ValueError):
    """A workbook that can be read, but not as one table."""


def _as_csv(path: Path, openpyxl: Any) -> bytes:
    book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
    try:
        tables = {sheet.title: _rows(sheet, path.name) for sheet in book.worksheets}
    finally:
        book.close()
    found = {title: rows for title, rows in tables.items() if any(map(any, rows))}
    if not found:
        raise _InvalidWorkbookError(f"{path.name} is empty")
    if len(found) > 1:
        raise _InvalidWorkbookError(
            f"{path.name} has {len(found)} sheets with content ({listed(map(repr, found), 5)}): save each as "
            "a file of its own"
        )
    ((title, rows),) = found.items()
    if any("" in row[: len(rows[0])] for row in rows):
        _check_formulas(path, title, openpyxl)
    width = max(map(len, rows))
    check_fits(path.name, CELL * width * len(rows), len(rows))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    # A line for every row, so that messages name the row by its number.
    writer.writerows([*row, *[""] * (width - len(row))] for row in rows)
    return text.getvalue().encode("utf-8", "replace")


def _rows(sheet: Any, name: str) -> list[list[str]]:
    """The texts of a sheet, row by row, without blank cells at the end of a row and blank rows at the end."""
    sheet.reset_dimensions()  # a file may claim any size
    rows: list[list[str]] = []
    last = 0
    for number, row in enumerate(sheet.iter_rows(), start=1):
        texts = [_text(cell, name) for cell in row]
        while texts and not texts[-1]:
            texts.pop()
        if texts:
            rows += [[] for _ in range(number - 1 - last)]
            rows.append(texts)
            last = number
    return rows


def _text(cell: Any, name: str) -> str:
    value = cell.value
    if value is None:
        return ""
    if cell.data_type == "e":
        raise _InvalidWorkbookError(
            f"{name}, cell {cell.coordinate}: {value} is an error of the spreadsheet; correct the cell or "
            "leave it blank"
        )
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return " ".join(str(value).split("\n")).strip()


def _check_formulas(path: Path, title: str, openpyxl: Any) -> None:
    """Raise where a cell is blank because the value of its formula was never saved."""
    values, formulas = (
        openpyxl.load_workbook(path, read_only=True, data_only=only, keep_links=False)
        for only in (True, False)
    )
    try:
        for known, given in zip(_cells(values[title]), _cells(formulas[title]), strict=False):
            if known.value is None and given.data_type == "f":
                raise _InvalidWorkbookError(
                    f"{path.name}, cell {given.coordinate} holds a formula without its value: open the "
                    "workbook in Excel or LibreOffice and save it, or save the table as CSV"
                )
    finally:
        values.close()
        formulas.close()


def _cells(sheet: Any) -> Iterator[Any]:
    sheet.reset_dimensions()
    for row in sheet.iter_rows():
        yield from row
