"""From a table of features to `x`.

A column of numbers is standardised (mean 0, deviation 1), so that a column of followers does not drown
one of shares; a column of 0 and 1 stays as it is. A column of ISO dates counts as one of days. A column of
words gets one 0/1 column per word. Unknown numbers are the column's mean, unknown words all zeros; a column
without a known cell is left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from nora.ingest.feature_list import Features, is_list, listed_features
from nora.ingest.nodes import NodeRows, first_rows
from nora.ingest.numbers import UNKNOWN, numbers, rewritten, unknown
from nora.ingest.table import Column, Table
from nora.limits import check_fits
from nora.options import option
from nora.wording import count

MOST_WORDS, BLOCK = 50, 64
DATE = r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}"
ISO = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"

AS_DATES = "dates are read as 2024-12-31"


def features_of(rows: NodeRows, num_nodes: int, left_out: Collection[int] = ()) -> Features | None:
    """The features of all nodes, or None when the table has no column for them.

    Args:
        rows: A table about nodes, every one of which is known (`node >= 0`).
        num_nodes: Number of nodes `N`.
        left_out: Columns that are not features.
    """
    table = rows.table
    headed = any(table.columns)  # spreadsheets and pandas then leave some without a name
    columns = [
        at
        for at, name in enumerate(table.columns)
        if at != rows.id_at and at not in left_out and (name or not headed)
    ]
    if not columns:
        return None
    if is_list(table, rows.id_at):
        return listed_features(rows, columns, num_nodes)
    notes: list[str] = []
    first = first_rows(rows, columns, "features", notes)
    made = _MadeFeatures(table, first, rows.node[first], num_nodes)
    for at in columns:
        made.add(at)
    if made.wordy:
        raise ValueError(_too_wordy(table.name, made.wordy))
    notes += made.notes()
    return Features(made.together(), tuple(made.names), tuple(made.used), tuple(notes))


@dataclass
class _MadeFeatures:
    """Features made so far, column by column, and what was met on the way.

    Attributes:
        table: The table.
        first: The rows that count, one of each node.
        node: The node of each of these.
        num_nodes: Number of nodes `N`.
    """

    table: Table
    first: np.ndarray
    node: np.ndarray
    num_nodes: int
    parts: list[np.ndarray] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    used: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    dated: list[str] = field(default_factory=list)
    wordy: list[tuple[str, list[str]]] = field(default_factory=list)
    scaled: int = 0
    dates: int = 0
    words: int = 0
    filled: int = 0

    def add(self, at: int) -> None:
        """Make features of a column."""
        column, title = self.table.cells[at], self.table.title(at)
        blank = unknown(column)
        if blank.all():
            self.empty.append(title)
            return
        if column.numbers is not None and _is_binary(column.numbers):
            self._add_binary(column.numbers[self.first], title)
            return
        values = _days(column) if column.numbers is None else None
        self.dates += values is not None
        if values is None:
            values = _numeric(self.table, at, blank)
        if values is None:
            self._add_words(at, title)
        else:
            self._add_numbers(values[self.first], blank[self.first], title)

    def _add(self, part: np.ndarray, names: list[str], title: str) -> None:
        self.parts.append(part)
        self.names += names
        self.used.append(title)

    def _add_binary(self, values: np.ndarray, title: str) -> None:
        """0 and 1, kept small; their mean where a node has no row."""
        part = np.zeros((self.num_nodes, 1), dtype=np.int8)
        if len(self.node) < self.num_nodes:
            part = np.full((self.num_nodes, 1), values.mean(dtype=np.float64), dtype=np.float32)
        part[self.node, 0] = values
        self._add(part, [title], title)

    def _add_numbers(self, values: np.ndarray, blank: np.ndarray, title: str) -> None:
        known = values[~blank]
        binary = bool(np.isin(known, (0, 1)).all())
        whole = np.full(self.num_nodes, np.nan)
        whole[self.node] = values
        part = (whole if binary else standardised(whole))[:, None].astype(np.float32)
        part[np.isnan(part)] = np.float32(known.mean()) if binary else np.float32(0)
        self.filled += int(blank.sum())
        self.scaled += not binary
        self._add(part, [title], title)

    def _add_words(self, at: int, title: str) -> None:
        """One column of 0 and 1 per word, none for a blank cell."""
        self.table.check_text(at, "word")
        column = self.table.cells[at]
        place, words = pd.factorize(column.distinct, sort=True)
        kinds = [str(word) for word in words if word]
        if len(kinds) > MOST_WORDS:
            self.wordy.append((title, kinds))
            return
        block = np.eye(len(words), dtype=np.float32)[place[column.codes[self.first]]]
        part = np.zeros((self.num_nodes, len(kinds)), dtype=np.float32)
        part[self.node] = block[:, [at for at, word in enumerate(words) if word]]
        self.words += 1
        if all(re.fullmatch(DATE, kind) for kind in kinds):
            self.dated.append(title)
        self._add(part, [f"{title}={kind}" for kind in kinds], title)

    def together(self) -> np.ndarray:
        """All features beside each other in float32; every part is let go once it is in its place."""
        parts = self.parts
        x = np.empty((self.num_nodes, sum(part.shape[1] for part in parts)), dtype=np.float32)
        check_fits("the features", x.nbytes)
        parts.reverse()
        at = 0
        while parts:
            # A few at a time: writing one column touches as much memory as writing sixteen.
            block = np.concatenate([parts.pop() for _ in range(min(BLOCK, len(parts)))], axis=1)
            x[:, at : at + block.shape[1]] = block
            at += block.shape[1]
        return x

    def notes(self) -> list[str]:
        """Notes about the columns."""
        name, notes = self.table.name, []
        if self.empty:
            several = len(self.empty) > 1
            notes.append(
                f"the column{'s' * several} {', '.join(map(repr, self.empty))} of {name} "
                f"{'are blank and were' if several else 'is blank and was'} left out"
            )
        for amount, one, many, done in (
            (self.dates, "column of dates was", "columns of dates were", "turned into days"),
            (
                self.scaled,
                "column of numbers was",
                "columns of numbers were",
                "standardised (mean 0, deviation 1)",
            ),
            (self.words, "column of words", "columns of words", "became one 0/1 feature per word"),
        ):
            if amount:
                notes.append(f"{count(amount, one, many)} {done}")
        for called in self.dated:
            notes.append(
                f"{called!r} of {name} looks like dates, and is treated as words: {AS_DATES}"
            )
        if self.filled:
            were = "was filled with its" if self.filled == 1 else "were filled with their"
            notes.append(f"{count(self.filled, 'blank cell')} of {name} {were} column's mean")
        absent = self.num_nodes - len(self.node)
        if absent:
            notes.append(
                f"{count(absent, 'node has', 'nodes have')} no row in {name}: "
                f"{'its' if absent == 1 else 'their'} numbers are the column's mean"
            )
        return notes


def _is_binary(values: np.ndarray) -> bool:
    return values.dtype == np.int8 and bool(((values == 0) | (values == 1)).all())


def _too_wordy(name: str, wordy: list[tuple[str, list[str]]]) -> str:
    """One message about all columns that cannot become features."""
    each = "; ".join(
        f"{called!r} holds {len(kinds):,} different words (e.g. {_short(kinds[0])} and "
        f"{_short(kinds[1])})"
        for called, kinds in wordy
    )
    dates = any(re.fullmatch(DATE, kinds[0]) for _, kinds in wordy)
    these = "a column" if len(wordy) == 1 else f"{len(wordy):,} columns"
    listed = [called for called, _ in wordy]
    return (
        f"{name}: {these} cannot become features: {each}; at most {MOST_WORDS} can. Leave "
        f"{'it' if len(wordy) == 1 else 'them'} out with {option('ignore', listed)}, or join rare words "
        "under one" + (f"; {AS_DATES}" if dates else "")
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:39]}…")


def standardised(values: np.ndarray) -> np.ndarray:
    """Values `[n]` with mean 0 and deviation 1; a column without variation becomes 0. NaN stays.

    >>> standardised(np.array([1.0, 3.0, np.nan])).tolist()
    [-1.0, 1.0, nan]
    """
    known = values[~np.isnan(values)]
    if not known.size:
        return np.zeros_like(values)
    scale = np.abs(known).max()
    if scale and not 1e-100 < scale < 1e100:  # squares of such numbers are none
        known, values = known / scale, values / scale
    deviation = known.std()
    return (values - known.mean()) / (deviation if deviation > 1e-12 * abs(known.mean()) else 1.0)


def _days(column: Column) -> np.ndarray | None:
    """A column of ISO dates as days since 1970 `[rows]`, NaN where unknown; None when it is none.

    >>> import pyarrow as pa
    >>> _days(Column(pa.array(["1970-01-02", "", "1970-01-03T12:00:00Z"]))).tolist()
    [1.0, nan, 2.5]
    """
    texts = pd.Series(column.distinct, dtype=object)
    blank = texts.str.lower().isin(UNKNOWN)
    if not texts[~blank].str.fullmatch(ISO).all():
        return None
    dates = pd.to_datetime(texts.mask(blank), format="ISO8601", utc=True, errors="coerce")
    if bool(dates.isna()[~blank].any()):
        return None
    days = (dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
    return days.to_numpy(dtype=float)[column.codes]


def _numeric(table: Table, at: int, blank: np.ndarray) -> np.ndarray | None:
    """A column as numbers, NaN where unknown; None when it is a column of words."""
    column, title = table.cells[at], table.title(at)
    values = numbers(table, at)
    values[blank] = np.nan
    words = np.isnan(values) & ~blank
    if 2 * words.sum() > (~blank).sum():
        _check_words(table, at, np.flatnonzero(words))
        return None
    for wrong, what in ((words, "is not a number"), (np.isinf(values), "is not finite")):
        if wrong.any():
            row = int(np.argmax(wrong))
            cell = column.cell(row)
            raise ValueError(
                f"{table.place(row)}: {_short(cell)} in the column {title!r} {what}, unlike "
                f"others there; correct it, or leave the cell blank if it is unknown{rewritten(cell)}"
            )
    return values


def _check_words(table: Table, at: int, rows: np.ndarray) -> None:
    """Raise where all words are numbers after all, written as people do."""
    cell, title = table.cells[at].cell(int(rows[0])), table.title(at)
    if all(rewritten(str(one)) for one in table.cells[at].text[rows]):
        raise ValueError(
            f"{table.place(int(rows[0]))}: {cell!r} in the column {title!r} looks like a "
            f"number, but cannot be read as one{rewritten(cell)}; or leave the column out with "
            f"{option('ignore', [title])}"
        )
