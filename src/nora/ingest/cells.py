"""The columns of a table: text, or numbers that have never been text.

A wide table of numbers holds hundreds of millions of cells, of which nobody wants the text. Such columns
are kept as numbers, as small as they can be without a loss; their text is made when it is asked for, to be
shown in a message or because the column turns out to hold ids or labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
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


Text = Callable[[], np.ndarray]


class Cells(Sequence[Any]):
    """The text of every column, made when it is asked for.

    Args:
        columns: Arrays of text `[rows]`, or what makes one.
        numbers: The columns that are numbers, by their positions.
    """

    def __init__(self, columns: Sequence[np.ndarray | Text], numbers: dict[int, Numbers]) -> None:
        self._columns, self.numbers = list(columns), numbers

    def __len__(self) -> int:
        return len(self._columns)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return tuple(self[one] for one in range(*at.indices(len(self))))
        column = self._columns[at]
        if callable(column):
            column = self._columns[at] = column()
        return column

    def is_text(self, at: int) -> bool:
        """Whether a column's text is at hand."""
        return not callable(self._columns[at])

    def rows(self, chosen: np.ndarray) -> Cells:
        """Some rows of every column."""

        def some(column: np.ndarray | Text) -> np.ndarray | Text:
            return (lambda: column()[chosen]) if callable(column) else column[chosen]

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
            mine = cells[at] != ""
            found = mine if found is None else found | mine
    if found is not None and found.all():
        return found
    for one in cells.numbers.values():
        mine = ~one.mask()
        found = mine if found is None else found | mine
    assert found is not None
    return found


def strings(column: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """A column of text, stripped, as Python's strings; one object for each different text."""
    encoded = pc.dictionary_encode(pc.fill_null(column, ""))
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # no chunks at all
        return np.array([], dtype=object)
    words = pc.utf8_trim_whitespace(encoded.dictionary)
    distinct = np.asarray(words.to_numpy(zero_copy_only=False), dtype=object)
    return distinct[encoded.indices.to_numpy(zero_copy_only=False)]
