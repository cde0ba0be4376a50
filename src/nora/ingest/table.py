"""A user's file or frame as columns, every cell with a place to point to when something is wrong.

What may be an id or a label is text, so that the id `007` stays `007` and a node called `NA` is not missing;
the modules that know what a column means turn it into numbers. Columns of a wide table, a Parquet file or a
frame that are numbers stay numbers, as small as they can be without a loss: such a table has hundreds of
millions of cells, and their text is made only when it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from nora.options import option

# No use in a name, and of harm in a terminal; XML has no place for most of them.
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
SMALL = (np.int8, np.int16, np.float32)


class Column:
    """A column: its text, each different text once, and its numbers where it was read as such.

    What can be asked of all texts at once is asked of Arrow's, which are not objects of Python.

    Args:
        text: The text of every row, of any type that Arrow casts to text; or a function that reads it.
        numbers: `[rows]`, NaN where a cell is not known; None for a column of text.

    Example:
        >>> column = Column(pa.array(["b ", "a", None, "b"]))
        >>> column.distinct.tolist(), column.codes.tolist()
        (['b', 'a', ''], [0, 1, 2, 0])
    """

    def __init__(self, text: Any, numbers: np.ndarray | None = None) -> None:
        self._text, self.numbers = text, numbers

    def __len__(self) -> int:
        return len(self.codes if self.numbers is None else self.numbers)

    @cached_property
    def _encoded(self) -> tuple[np.ndarray, pa.StringArray]:
        found = self._text() if callable(self._text) else self._text
        self._text = pa.nulls(0)  # the texts are kept once from now on
        found = found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])
        parts = pc.dictionary_encode(pc.fill_null(pc.cast(found, pa.string()), "")).chunks
        if not parts:
            return np.zeros(0, dtype=np.int32), pa.array([], pa.string())
        codes = np.concatenate([part.indices.to_numpy(zero_copy_only=False) for part in parts])
        texts = pc.utf8_trim_whitespace(parts[-1].dictionary)
        if texts.equals(parts[-1].dictionary):
            return codes, texts
        once = pc.dictionary_encode(texts)  # two may differ in blanks alone
        return once.indices.to_numpy(zero_copy_only=False)[codes], once.dictionary

    @property
    def codes(self) -> np.ndarray:
        """Positions in `texts`, `[rows]`."""
        return self._encoded[0]

    @property
    def texts(self) -> pa.StringArray:
        """The different texts, stripped of surrounding blanks, in order of appearance."""
        return self._encoded[1]

    @cached_property
    def distinct(self) -> np.ndarray:
        """The different texts as objects."""
        return np.asarray(self.texts.to_numpy(zero_copy_only=False), dtype=object)

    @cached_property
    def text(self) -> np.ndarray:
        """The text of every row as objects, `[rows]`."""
        return np.asarray(self.distinct[self.codes])

    def cell(self, row: int) -> str:
        """The text of a row."""
        return str(self.texts[int(self.codes[row])].as_py())

    def first(self, text: str) -> int:
        """The first row that holds a text."""
        return int(np.argmax(self.codes == pc.index(self.texts, text).as_py()))

    def blank(self) -> np.ndarray:
        """Mask `[rows]` of the cells that hold nothing."""
        if self.numbers is not None:
            return np.isnan(self.numbers)
        return np.asarray(self.codes == pc.index(self.texts, "").as_py())

    def rows(self, chosen: np.ndarray) -> Column:
        """Some rows of it."""
        numbers = None if self.numbers is None else self.numbers[chosen]
        return Column(lambda: self.texts.take(pa.array(self.codes[chosen])), numbers)

    def respelt(self, spelt: Callable[[str], str]) -> Column:
        """The column with every text in another spelling."""
        texts = pa.array([spelt(one) for one in self.distinct], pa.string())
        return Column(texts.take(pa.array(self.codes)))


def smallest(values: np.ndarray) -> np.ndarray:
    """The same numbers in the smallest type that holds them.

    >>> smallest(np.array([0.0, 1.0])).dtype, smallest(np.array([0.1])).dtype
    (dtype('int8'), dtype('float64'))
    """
    for kind in SMALL:
        if values.dtype.itemsize <= np.dtype(kind).itemsize:
            break
        with np.errstate(invalid="ignore", over="ignore"):
            smaller = values.astype(kind)
            if bool(((smaller == values) | ((smaller != smaller) & (values != values))).all()):
                return smaller
    return values


def plain_ascii(texts: pa.StringArray) -> bool:
    """Whether all texts are of the ASCII characters that can be seen, and blanks.

    >>> plain_ascii(pa.array(["ann lee", "bob"])), plain_ascii(pa.array(["zoë"]))
    (True, False)
    """
    _, ends, held = texts.buffers()
    if held is None or not len(texts):
        return True
    ends = np.frombuffer(ends, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    letters = np.frombuffer(held, dtype=np.uint8)[ends[0] : ends[-1]]
    return not letters.size or bool(letters.min() >= ord(" ") and letters.max() <= ord("~"))


@dataclass(frozen=True, eq=False)
class Table:
    """Columns with names.

    Attributes:
        name: The file's name (of a frame, its role: `edges`), for messages.
        columns: The columns' names, stripped; empty where they have none.
        cells: The columns.
        place: From a row to where it is, e.g. `edges.csv, line 7`.
        decimal_comma: Whether `1,5` may be a number: where columns are separated by semicolons.
    """

    name: str
    columns: tuple[str, ...]
    cells: Sequence[Column]
    place: Callable[[int], str]
    decimal_comma: bool = False

    def __len__(self) -> int:
        return len(self.cells[0]) if self.cells else 0

    def title(self, at: int) -> str:
        """The name of a column, or its number if it has none."""
        return self.columns[at] or f"column {at + 1}"

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
        titles = [self.title(at) for at in range(len(self.columns))]
        found = set()
        for name in names:
            exact = {at for at, one in enumerate(titles) if one == name}
            found |= exact or {at for at, one in enumerate(titles) if one.lower() == name.lower()}
        return found

    def respelt(self, at: int, spelt: Callable[[str], str]) -> Table:
        """The table with every text of a column in another spelling."""
        cells = list(self.cells)
        cells[at] = cells[at].respelt(spelt)
        return replace(self, cells=cells)

    def check_filled(self, at: int, what: str) -> None:
        """Raise unless every cell of a column is filled with text that can be shown."""
        if pc.index(self.cells[at].texts, "").as_py() >= 0:
            raise ValueError(
                f"{self.place(self.cells[at].first(''))}: the {what} is blank; fill it in or delete "
                "the line"
            )
        self.check_text(at, what)

    def check_text(self, at: int, what: str) -> None:
        """Raise when a cell holds control characters."""
        column = self.cells[at]
        if not plain_ascii(column.texts) and CONTROL.search("".join(column.distinct)):
            odd = next(text for text in column.distinct if CONTROL.search(text))
            raise ValueError(
                f"{self.place(column.first(odd))}: the {what} {odd!r} holds a control character; "
                "remove it"
            )


def canonical(column: str) -> str:
    """A column's name as it is compared: `Source_ID`, `source id` and `source` are the same.

    >>> canonical(" Source-ID "), canonical("Id")
    ('source', 'id')
    """
    name = re.sub(r"[\W_]+", "_", column.lower()).strip("_")
    return name.removesuffix("_id")


Header = Callable[[list[str]], bool]


@dataclass(frozen=True, eq=False)
class Wanted:
    """A request to the reader of a format. It returns a table by role, or several: `edges` (of nodes
    that are named by ids), `features`, `labels`, and `attributes` of nodes that a graph file has.

    Attributes:
        role: What the file was given as: `edges`, `features` or `labels`.
        is_header: Whether a first row names the columns; for formats whose columns have no names.
        recognised: Whether a first row holds a column name that means something here.
        meaning: Names (see `canonical`) of columns whose text is wanted, even of numbers.
        ignore: Names of columns that need not be readable.
        label_column: The column that holds the labels, where the caller names it.
        directed: Whether edges keep their direction.
        notes: Gets a sentence for what the reader decides.
        advance: To be called with the number of bytes read.
    """

    role: str
    is_header: Header = lambda row: True
    recognised: Header = lambda row: False
    meaning: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    label_column: str | None = None
    directed: bool = False
    notes: list[str] = field(default_factory=list)
    advance: Callable[[int], None] = lambda _: None


def checked_table(table: Table, ignore: Iterable[str] = ()) -> Table:
    """The table without rows of blank cells, which spreadsheets leave at the end.

    Raises:
        ValueError: When no row is left, or two columns have the same name: which one is meant?
    """
    check_names(table.name, table.columns, ignore)
    if not len(table):
        raise ValueError(f"{table.name} is empty: it has no rows below its header")
    blank = np.ones(len(table), dtype=bool)
    for column in sorted(table.cells, key=lambda one: one.numbers is not None):
        blank &= column.blank()
        if not blank.any():
            return table
    if blank.all():
        raise ValueError(f"{table.name} is empty: all of its cells are blank")
    rows, place = np.flatnonzero(~blank), table.place
    return replace(
        table,
        cells=[column.rows(rows) for column in table.cells],
        place=lambda row: place(int(rows[row])),
    )


def check_names(name: str, columns: Sequence[str], ignore: Iterable[str]) -> None:
    """Raise when two columns that are not ignored have the same name."""
    seen: dict[str, int] = {}
    left_out = set(ignore)
    for at, column in enumerate(columns):
        if column and column not in left_out and column in seen:
            raise ValueError(
                f"{name}: columns {seen[column] + 1} and {at + 1} are both called {column!r}; "
                "rename or delete one of them"
            )
        seen.setdefault(column, at)


def arrow_table(table: pa.Table, name: str, ignore: Iterable[str] = ()) -> Table:
    """A table of Arrow's: numbers stay numbers, everything else is text."""
    left_out = set(ignore)
    cells = []
    for one, column in zip(table.schema, table.columns, strict=True):
        if one.name.strip() in left_out:
            cells.append(Column(pa.repeat("", len(column))))
            continue
        check_type(name, one)
        numbers = None
        if pa.types.is_floating(one.type) or pa.types.is_integer(one.type):
            numbers = smallest(column.to_numpy())
        cells.append(Column(column, numbers))
    names = tuple(column.strip() for column in table.column_names)
    return checked_table(Table(name, names, cells, lambda row: f"{name}, row {row + 1}"), left_out)


def check_type(name: str, one: pa.Field) -> None:
    """Raise for a column that is neither text nor numbers."""
    try:
        pc.cast(pa.array([], one.type), pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(
            f"{name}: column {one.name!r} holds {one.type}, which is neither text "
            f"nor numbers; leave it out ({option('ignore', [one.name])})"
        ) from None


def frame_table(frame: pd.DataFrame, name: str, ignore: Iterable[str] = ()) -> Table:
    """A frame of pandas, of which a named index is a column."""
    # An index without a name is mere row numbers, with gaps where rows were filtered.
    frame = frame if frame.index.name is None else frame.reset_index()
    left_out = set(ignore)
    columns: dict[str, pa.Array] = {}
    for at, column in enumerate(map(str, frame.columns)):
        if column in columns:
            raise ValueError(f"{name}: two columns are called {column!r}; rename one of them")
        if column.strip() in left_out:
            columns[column] = pa.nulls(len(frame))
            continue
        try:
            columns[column] = pa.array(frame.iloc[:, at], from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            raise ValueError(
                f"{name}: column {column!r} holds values of several types; make them text with "
                f".astype(str), or leave it out ({option('ignore', [column])})"
            ) from None
    return arrow_table(pa.table(columns), name, left_out)
