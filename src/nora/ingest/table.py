"""A user's file or frame as columns, every cell with a place to point to when something is wrong.

What may be an id or a label is text, so that the id `007` stays `007` and nobody called `NA` goes missing;
the modules that know what a column means turn it into numbers. Columns of a wide table, a Parquet file or a
frame that are numbers stay numbers (`cells`). Which line a bad cell stands on is looked up only once there
is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nora.ingest.cells import Cells, Numbers, Words, filled
from nora.ingest.formats import TABLES, kind_of
from nora.ingest.text import read_text
from nora.ingest.wide import FROM_COLUMNS
from nora.limits import check_fits
from nora.options import option
from nora.parquet import read_parquet

# No use in a name, and of harm in a terminal; XML has no place for most of them.
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

# Bytes in memory, all that is made of a cell included.
TEXT_CELL, NUMBER_CELL = 40, 8
# Under which a frame carries the name of the file it was made from.
FILE = "nora_file"

Header = Callable[[list[str]], bool]


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of text.

    Attributes:
        name: The file's name (of a frame, its part: `edges`), for messages.
        columns: The columns' names, stripped; empty where they have none.
        cells: The text of each column `[rows]`, stripped of surrounding blanks.
        place: From a row to where it is, e.g. `edges.csv, line 7`.
        decimal_comma: Whether `1,5` may be a number: where columns are parted by semicolons.
    """

    name: str
    columns: tuple[str, ...]
    cells: Sequence[Any]
    place: Callable[[int], str]
    decimal_comma: bool = False

    def __len__(self) -> int:
        return len(self.cells[0]) if self.cells else 0

    def numbers(self, at: int) -> Numbers | None:
        """A column's numbers, where it was read as such."""
        return self.cells.numbers.get(at) if isinstance(self.cells, Cells) else None

    def words(self, at: int) -> Words:
        """A column's different texts, and where they stand."""
        return self.cells.words(at) if isinstance(self.cells, Cells) else Words.of(self.cells[at])

    def with_text(self, at: int, text: np.ndarray) -> Table:
        """The table with another text in one column."""
        cells = self.cells if isinstance(self.cells, Cells) else Cells(self.cells, {})
        return replace(self, cells=cells.with_text(at, text))

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
        words = self.words(at)
        blank = np.flatnonzero(words.blank() if words.hold_blanks() else [])
        if blank.size:
            raise ValueError(
                f"{self.place(int(blank[0]))}: the {what} is blank; fill it in or delete the line"
            )
        self.check_text(at, what)

    def check_text(self, at: int, what: str) -> None:
        """Raise when a cell holds control characters."""
        words = self.words(at)
        if not words.are_plain() and CONTROL.search("".join(words.distinct)):
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
    meaning: Iterable[str] = (),
    advance: Callable[[int], None] = lambda _: None,
) -> Table:
    """Read a CSV, TSV or Parquet file, or a frame.

    Args:
        source: The file, whose suffix says what it is; or a frame, of which a named index is a column.
        is_header: Whether a first row names the columns; asked for text files only.
        recognised: Whether a first row holds a column name that means something here: tells
            between two delimiters that are both possible.
        ignore: Columns that need not be readable.
        name: What a frame is called in messages.
        meaning: Names (see `canonical`) of columns whose text is wanted, even of numbers.
        advance: Called with the number of bytes read.
    """
    left_out = set(ignore)
    if isinstance(source, pd.DataFrame):
        name = str(source.attrs.get(FILE, name))
        return _unrepeated(_frame_table(source, name, left_out), left_out)
    suffix = kind_of(source)
    if suffix not in TABLES:
        raise ValueError(
            f"cannot read {source.name!r}: a table is a file named {', '.join(TABLES[:-1])} or "
            f"{TABLES[-1]}"
        )
    if suffix == ".parquet":
        table = _parquet(source, left_out)
        advance(source.stat().st_size)
    else:
        found = read_text(
            source, is_header, recognised, lambda name: canonical(name) in set(meaning), advance
        )
        cells = found.cells
        table = _filled_rows(source.name, found.columns, cells, found.place, found.decimal_comma)
    return _unrepeated(table, left_out)


def _unrepeated(table: Table, ignore: set[str]) -> Table:
    _check_unrepeated(table.name, table.columns, ignore)
    return table


def _check_unrepeated(name: str, columns: Sequence[str], ignore: set[str]) -> None:
    """Raise when two columns have the same name: which one is meant?"""
    seen: dict[str, int] = {}
    for at, column in enumerate(columns):
        if column and column not in ignore and column in seen:
            raise ValueError(
                f"{name}: columns {seen[column] + 1} and {at + 1} are both called {column!r}; "
                "rename or delete one of them"
            )
        seen.setdefault(column, at)


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
                f".astype(str), or leave it out ({option('ignore', [column])})"
            ) from None
    return _arrow_table(pa.table(columns), name, ignore)


def _parquet(path: Path, ignore: set[str]) -> Table:
    try:
        about = pq.read_metadata(path)
        parts = [about.row_group(at) for at in range(about.num_row_groups)]
        size = sum(part.total_byte_size for part in parts)
        # Run lengths can say much in few bytes; ids and words take more than numbers.
        cell = TEXT_CELL if about.num_columns < FROM_COLUMNS else NUMBER_CELL
        check_fits(path.name, max(size, cell * about.num_rows * about.num_columns), about.num_rows)
        schema = about.schema.to_arrow_schema()
        _check_unrepeated(path.name, schema.names, ignore)
        read = [one.name for one in schema if one.name.strip() not in ignore]
        for field in schema:
            if field.name in read:
                _check_type(path.name, field)
        table = read_parquet(path, read)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        told = str(error).splitlines()[0]
        raise ValueError(f"{path.name} is not a readable Parquet file: {told}") from error
    for at, name in enumerate(schema.names):
        if name not in read:
            table = table.add_column(at, name, pa.nulls(table.num_rows))
    return _arrow_table(table, path.name, ignore)


def _check_type(file: str, field: pa.Field) -> None:
    """Raise for a column that is neither text nor numbers, before it is read."""
    try:
        pc.cast(pa.array([], field.type), pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(
            f"{file}: column {field.name!r} holds {field.type}, which is no text and no "
            f"number; leave it out ({option('ignore', [field.name])})"
        ) from None


def _arrow_table(table: pa.Table, file: str, ignore: set[str]) -> Table:
    cells: list[Any] = []
    numbers: dict[int, Numbers] = {}
    for at, (field, column) in enumerate(zip(table.schema, table.columns, strict=True)):
        if field.name.strip() in ignore:
            cells.append(Words(np.zeros(len(column), dtype=np.int8), pa.array([""])))
            continue
        _check_type(file, field)
        if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
            cells.append(lambda column=column: Words.read(pc.cast(column, pa.string())))
            numbers[at] = Numbers.joined(
                [Numbers.of(part) for part in column.chunks or [pa.array([], column.type)]]
            )
            continue
        words = Words.read(pc.cast(column, _text_type(column.type)))
        # A dictionary may hold texts that do not occur, or not in the order of the rows.
        cells.append(words.rows(slice(None)))
    return _filled_rows(
        file,
        tuple(name.strip() for name in table.column_names),
        Cells(cells, numbers),
        lambda row: f"{file}, row {row + 1}",
    )


def _text_type(kind: pa.DataType) -> pa.DataType:
    """Text of what is text; what is encoded by a dictionary stays so."""
    return pa.dictionary(pa.int32(), pa.string()) if pa.types.is_dictionary(kind) else pa.string()


def _filled_rows(
    name: str,
    columns: tuple[str, ...],
    cells: Cells,
    place: Callable[[int], str],
    decimal_comma: bool = False,
) -> Table:
    """The table without rows of blank cells, which spreadsheets leave at the end."""
    stays = filled(cells) if len(cells) else np.zeros(0, dtype=bool)
    if not len(stays):
        raise ValueError(f"{name} is empty: it has no rows below its header")
    if stays.all():
        return Table(name, columns, cells, place, decimal_comma)
    rows = np.flatnonzero(stays)
    if not rows.size:
        raise ValueError(f"{name} is empty: all of its cells are blank")
    kept = cells.rows(rows)
    return Table(name, columns, kept, lambda row: place(int(rows[row])), decimal_comma)
