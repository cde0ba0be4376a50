"""The columns of a table: text, or numbers that have never been text.

A wide table of numbers holds hundreds of millions of cells, of which nobody wants the text. Such columns
are kept as numbers, as small as they can be without a loss; their text is made when it is asked for, to be
shown in a message or because the column turns out to hold ids or labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

SMALL = (np.int8, np.int16, np.float32)


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column of numbers.

    Attributes:
        values: `[rows]`, of any type of number; 0 where blank.
        blank: Mask `[rows]` of cells that are not known; None when all are.
    """

    values: np.ndarray
    blank: np.ndarray | None = None

    def floats(self) -> np.ndarray:
        """The values as floats `[rows]`, NaN where blank."""
        found = self.values.astype(np.float64)
        if self.blank is not None:
            found[self.blank] = np.nan
        return found

    def mask(self) -> np.ndarray:
        """Which cells are blank, `[rows]`."""
        return np.zeros(len(self.values), dtype=bool) if self.blank is None else self.blank

    def rows(self, chosen: np.ndarray) -> Numbers:
        """Some rows of it."""
        blank = None if self.blank is None else self.blank[chosen]
        return Numbers(self.values[chosen], blank)

    @classmethod
    def joined(cls, parts: Sequence[Numbers]) -> Numbers:
        """Parts one below the other."""
        blank = None
        if any(part.blank is not None for part in parts):
            blank = np.concatenate([part.mask() for part in parts])
        return cls(np.concatenate([part.values for part in parts]), blank)

    @classmethod
    def of(cls, column: pa.Array) -> Numbers:
        """Of a column of Arrow's numbers."""
        blank = None
        if column.null_count:
            blank = column.is_null().to_numpy(zero_copy_only=False)
            column = column.fill_null(0)
        return cls(smallest(column.to_numpy(zero_copy_only=False)), blank)


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
            if bool((smaller == values).all()):
                return smaller
    return values


@dataclass(frozen=True, eq=False)
class Words:
    """A column of text, each different text once.

    What can be asked of all texts at once is asked of Arrow's, which are not objects of Python.

    Attributes:
        codes: Positions in `texts`, `[rows]`.
        texts: The texts, each of which occurs, in order of appearance.
    """

    codes: np.ndarray
    texts: pa.StringArray

    @cached_property
    def distinct(self) -> np.ndarray:
        """The texts as objects."""
        return np.asarray(self.texts.to_numpy(zero_copy_only=False), dtype=object)

    def hold_blanks(self) -> bool:
        """Whether some cell holds nothing: seen from the texts alone."""
        return bool(pc.index(self.texts, "").as_py() >= 0)

    def blank(self) -> np.ndarray:
        """Mask `[rows]` of the cells that hold nothing."""
        return np.asarray(self.codes == pc.index(self.texts, "").as_py())

    def are_plain(self) -> bool:
        """Whether all texts are of the ASCII characters that can be seen, and blanks."""
        return plain_ascii(self.texts)

    def text(self) -> np.ndarray:
        """The text of every row, `[rows]`."""
        return self.distinct[self.codes]

    def rows(self, chosen: np.ndarray | slice) -> Words:
        """Some rows of it."""
        codes, used = pd.factorize(self.codes[chosen])
        return Words(codes, self.texts.take(pa.array(used)))

    @classmethod
    def of(cls, text: np.ndarray) -> Words:
        """Of text `[rows]`."""
        codes, distinct = pd.factorize(np.asarray(text, dtype=object))
        return cls(codes, pa.array(distinct, pa.string()))

    @classmethod
    def read(cls, column: pa.ChunkedArray | pa.Array) -> Words:
        """Of a column of Arrow's text, or of codes for it, stripped."""
        if isinstance(column, pa.Array):
            column = pa.chunked_array([column])
        if column.null_count:
            column = pc.fill_null(column, "")
        if not pa.types.is_dictionary(column.type):
            column = pc.dictionary_encode(column)
        parts = column.unify_dictionaries().chunks
        if not parts:
            return cls.of(np.array([], dtype=object))
        codes = np.concatenate([part.indices.to_numpy(zero_copy_only=False) for part in parts])
        texts = pc.utf8_trim_whitespace(parts[0].dictionary)
        if texts.equals(parts[0].dictionary):
            return cls(codes, texts)
        once = pc.dictionary_encode(texts)  # two may differ in blanks alone
        return cls(once.indices.to_numpy(zero_copy_only=False)[codes], once.dictionary)


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


Column = Words | np.ndarray | Callable[[], Words]


class Cells(Sequence[Any]):
    """The text of every column, made when it is asked for.

    Args:
        columns: Text, or what reads it.
        numbers: The columns that are numbers, by their positions.
    """

    def __init__(self, columns: Sequence[Column], numbers: dict[int, Numbers]) -> None:
        self._columns, self.numbers = list(columns), numbers
        self._texts: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self._columns)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return tuple(self[one] for one in range(*at.indices(len(self))))
        if at not in self._texts:
            column = self._columns[at]
            self._texts[at] = column if isinstance(column, np.ndarray) else self.words(at).text()
        return self._texts[at]

    def words(self, at: int) -> Words:
        """A column's different texts, and where they stand."""
        column = self._columns[at]
        if callable(column):
            column = self._columns[at] = column()
        elif isinstance(column, np.ndarray):
            column = self._columns[at] = Words.of(column)
        return column

    def is_text(self, at: int) -> bool:
        """Whether a column's text is at hand."""
        return not callable(self._columns[at])

    def rows(self, chosen: np.ndarray) -> Cells:
        """Some rows of every column."""

        def some(column: Column) -> Column:
            if isinstance(column, np.ndarray):
                return column[chosen]
            return (lambda: column().rows(chosen)) if callable(column) else column.rows(chosen)

        numbers = {at: one.rows(chosen) for at, one in self.numbers.items()}
        return Cells([some(column) for column in self._columns], numbers)

    def with_text(self, at: int, text: np.ndarray) -> Cells:
        """The same with another text in one column."""
        columns = list(self._columns)
        columns[at] = text
        return Cells(columns, {key: one for key, one in self.numbers.items() if key != at})


def filled(cells: Cells) -> np.ndarray:
    """Mask of the rows in which some cell is not blank, `[rows]`."""
    found: np.ndarray | None = None
    for at in range(len(cells)):
        if cells.is_text(at):
            words = cells.words(at)
            if not words.hold_blanks():
                return np.ones(len(words.codes), dtype=bool)
            mine = ~words.blank()
            found = mine if found is None else found | mine
            if found.all():
                return found
    for one in cells.numbers.values():
        mine = ~one.mask()
        found = mine if found is None else found | mine
    assert found is not None
    return found
