"""A user's file or frame as columns of text, every cell with a place to point to when something is wrong.

Everything is read as text, so that the id `007` stays `007` and nobody called `NA` goes missing; the
modules that know what a column means turn it into numbers. Reading is vectorised: which line a bad cell
stands on is looked up only once there is one.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from nora.ingest.formats import TABLES

DELIMITERS = ("\t", ";", ",")
SNIFFED_LINES = 20
# No use in a name, and of harm in a terminal; XML has no place for most of them.
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

Header = Callable[[list[str]], bool]


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of text.

    Attributes:
        name: The file's name (of a frame, its part: `edges`), for messages.
        columns: The columns' names, stripped; empty where they have none.
        cells: One array of strings `[rows]` per column, stripped of surrounding blanks.
        place: From a row to where it is, e.g. `edges.csv, line 7`.
        decimal_comma: Whether `1,5` may be a number: where columns are parted by semicolons.
    """

    name: str
    columns: tuple[str, ...]
    cells: tuple[np.ndarray, ...]
    place: Callable[[int], str]
    decimal_comma: bool = False

    def __len__(self) -> int:
        return len(self.cells[0]) if self.cells else 0

    def column(self, *names: str) -> int | None:
        """Position of the first of these names that a column has (see `canonical`).

        >>> Table("t.csv", ("Node ID", "Class"), (), str).column("id", "node")
        0
        """
        known = [canonical(column) for column in self.columns]
        return next((known.index(name) for name in names if name in known), None)

    def called(self, names: Iterable[str]) -> set[int]:
        """Positions of the columns with these names, as written or but for the case.

        >>> Table("t.csv", ("Age", "age", "Bio"), (), str).called(["age", "bio"])
        {1, 2}
        """
        titles = [title(self, at) for at in range(len(self.columns))]
        found = set()
        for name in names:
            exact = {at for at, one in enumerate(titles) if one == name}
            found |= exact or {at for at, one in enumerate(titles) if one.lower() == name.lower()}
        return found

    def check_filled(self, at: int, what: str) -> None:
        """Raise unless every cell of a column is filled with text that can be shown."""
        cells = self.cells[at]
        blank = np.flatnonzero(cells == "")
        if blank.size:
            raise ValueError(
                f"{self.place(int(blank[0]))}: the {what} is blank; fill it in or delete the line"
            )
        self.check_text(at, what)

    def check_text(self, at: int, what: str) -> None:
        """Raise when a cell holds control characters."""
        if CONTROL.search("".join(self.cells[at])):
            row = next(row for row, text in enumerate(self.cells[at]) if CONTROL.search(text))
            raise ValueError(
                f"{self.place(row)}: the {what} {str(self.cells[at][row])!r} holds a control "
                "character; remove it"
            )


def title(table: Table, at: int) -> str:
    """What a column is called, or which one it is."""
    return table.columns[at] or f"column {at + 1}"


def canonical(column: str) -> str:
    """A column's name as it is compared: `Source_ID`, `source id` and `source` are the same.

    >>> canonical(" Source-ID "), canonical("Id")
    ('source', 'id')
    """
    name = re.sub(r"[\W_]+", "_", column.lower()).strip("_")
    return name.removesuffix("_id")


def read_table(
    source: Path | pd.DataFrame,
    is_header: Header,
    recognised: Header,
    ignore: Iterable[str] = (),
    name: str = "table",
) -> Table:
    """Read a CSV, TSV or Parquet file, or a frame.

    Args:
        source: The file, whose suffix says what it is; or a frame, of which a named index is a column.
        is_header: Whether a first row names the columns; asked for text files only.
        recognised: Whether a first row holds a column name that means something here: tells
            between two delimiters that are both possible.
        ignore: Columns that need not be readable.
        name: What a frame is called in messages.
    """
    if isinstance(source, pd.DataFrame):
        return _frame_table(source, name, set(ignore))
    suffix = source.suffix.lower()
    if suffix not in TABLES:
        raise ValueError(
            f"cannot read {source.name!r}: a table is a file named {', '.join(TABLES[:-1])} or "
            f"{TABLES[-1]}"
        )
    if suffix == ".parquet":
        return _parquet(source, set(ignore))
    return _text_table(source, is_header, recognised)


def _frame_table(frame: pd.DataFrame, name: str, ignore: set[str]) -> Table:
    # An index without a name is mere row numbers, with gaps where rows were filtered.
    frame = frame if frame.index.name is None else frame.reset_index()
    columns: dict[str, pa.Array] = {}
    for at, column in enumerate(map(str, frame.columns)):
        if column in columns:
            raise ValueError(f"{name}: two columns are called {column!r}; rename one of them")
        if column.strip() in ignore:
            columns[column] = pa.nulls(len(frame))
            continue
        try:
            columns[column] = pa.array(frame.iloc[:, at], from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            raise ValueError(
                f"{name}: column {column!r} holds values of several types; make them text with "
                f".astype(str), or leave it out (ignore={[column]})"
            ) from None
    return _arrow_table(pa.table(columns), name, ignore)


def _parquet(path: Path, ignore: set[str]) -> Table:
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        raise ValueError(f"{path.name} is not a readable Parquet file: {error}") from error
    return _arrow_table(table, path.name, ignore)


def _arrow_table(table: pa.Table, file: str, ignore: set[str]) -> Table:
    cells = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name.strip() in ignore:
            cells.append(np.full(len(column), "", dtype=object))
            continue
        try:
            cells.append(_strings(pc.cast(column, pa.string())))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise ValueError(
                f"{file}: column {name!r} holds {column.type}, which is no text and no "
                f"number; leave it out (ignore={[name]})"
            ) from None
    return _filled_rows(
        file,
        tuple(name.strip() for name in table.column_names),
        cells,
        lambda row: f"{file}, row {row + 1}",
    )


def _strings(column: pa.ChunkedArray) -> np.ndarray:
    trimmed = pc.utf8_trim_whitespace(pc.fill_null(column, ""))
    return np.asarray(trimmed.to_numpy(), dtype=object)


def _text_table(path: Path, is_header: Header, recognised: Header) -> Table:
    name = path.name
    text = _comments_blanked(_decoded(path.read_bytes(), name))
    if not text.strip():
        raise ValueError(f"{name} is empty")
    delimiter = "\t" if path.suffix.lower() == ".tsv" else _delimiter(text, recognised)
    if delimiter == " ":
        text, delimiter = re.sub(r"(?m)^[ \t]+|[ \t]+$", "", text), "\t"
        text = re.sub(r"[ \t]+", "\t", text)
    first = next(row for _, row in _records(text, delimiter))
    table = _parsed(text, delimiter, len(first), name)
    cells = [_strings(column) for column in table.columns]
    headed = is_header([cell.strip() for cell in first])
    columns = tuple(str(column[0]) for column in cells) if headed else ("",) * len(cells)
    skipped = 1 if headed else 0

    def place(row: int) -> str:
        """The line is counted only now."""
        found = next(islice(_records(text, delimiter), row + skipped, None), None)
        return f"{name}, line {found[0]}" if found else f"{name}, row {row + skipped + 1}"

    body = [column[skipped:] for column in cells]
    return _filled_rows(name, columns, body, place, decimal_comma=delimiter == ";")


def _filled_rows(
    name: str,
    columns: tuple[str, ...],
    cells: list[np.ndarray],
    place: Callable[[int], str],
    decimal_comma: bool = False,
) -> Table:
    """The table without rows of blank cells, which spreadsheets leave at the end."""
    if not cells or not len(cells[0]):
        raise ValueError(f"{name} is empty: it has no rows below its header")
    filled = np.zeros(len(cells[0]), dtype=bool)
    for column in cells:
        filled |= column != ""
    rows = np.flatnonzero(filled)
    if not rows.size:
        raise ValueError(f"{name} is empty: all of its cells are blank")
    if len(rows) == len(filled):
        return Table(name, columns, tuple(cells), place, decimal_comma)
    kept = tuple(column[rows] for column in cells)
    return Table(name, columns, kept, lambda row: place(int(rows[row])), decimal_comma)


def _decoded(raw: bytes, name: str) -> str:
    """The file's text: UTF-8, with or without a byte-order mark, or UTF-16 with one."""
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16", errors="replace")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{name}, line {line}: byte 0x{raw[error.start]:02x} is not UTF-8; save the file as UTF-8"
        ) from None


def _comments_blanked(text: str) -> str:
    """The text with comment lines at its top (`# …`, `% …`) made blank; line numbers stay.

    >>> _comments_blanked("# made by hand\\na,b\\n")
    '\\na,b\\n'
    """
    top = re.match(r"(?:[ \t]*(?:[#%][ \t][^\n]*|[#%]?)\r?\n)+", text)
    return "\n" * top[0].count("\n") + text[top.end() :] if top else text


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every record that is not an empty line."""
    reader = csv.reader(io.StringIO(text, newline=None), delimiter=delimiter)
    line = 1
    try:
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error:  # a cell larger than the module takes
        return


def _delimiter(text: str, recognised: Header) -> str:
    """Tab, semicolon or comma, whichever parts the first lines alike; a blank as a last resort."""
    rows = {
        mark: [row for _, row in islice(_records(text, mark), SNIFFED_LINES)]
        for mark in (*DELIMITERS, " ")
    }
    for mark in DELIMITERS:
        if len(rows[mark][0]) > 1 and recognised([cell.strip() for cell in rows[mark][0]]):
            return mark
    for mark in DELIMITERS:
        if len(rows[mark][0]) > 1 and len({len(row) for row in rows[mark]}) == 1:
            return mark
    found = next((mark for mark in DELIMITERS if len(rows[mark][0]) > 1), None)
    words = {len(" ".join(row).split()) for row in rows[" "]}
    if found is None and len(words) == 1 and words != {1}:
        return " "
    return found or ","


def _parsed(text: str, delimiter: str, width: int, name: str) -> pa.Table:
    """All records as columns `0 … width−1` of text; a row of another width is an error."""
    columns = [str(at) for at in range(width)]
    try:
        return pacsv.read_csv(
            pa.BufferReader(text.encode()),
            pacsv.ReadOptions(column_names=columns),
            pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            pacsv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        blanked = re.sub(r"(?m)^ +$", "", text)
        if blanked != text:
            return _parsed(blanked, delimiter, width, name)
        raise ValueError(_misfit(text, delimiter, width, name) or f"{name}: {error}") from None


def _misfit(text: str, delimiter: str, width: int, name: str) -> str | None:
    """What to say about the first row that has not as many columns as the first one."""
    mark = {"\t": "tabs", ";": "semicolons", ",": "commas"}[delimiter]
    for line, row in _records(text, delimiter):
        if len(row) != width:
            hint = "; is a quotation mark left open?" * any("\n" in cell for cell in row)
            few = "too few" if len(row) < width else "too many"
            return (
                f"{name}, line {line}: {len(row)} column{'s' * (len(row) != 1)}, which is {few}: "
                f"the first row has {width}, parted by {mark}{hint}"
            )
    return None
