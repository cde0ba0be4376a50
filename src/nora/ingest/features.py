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
from nora.ingest.nodes import LABEL, Rows, check_repeats
from nora.ingest.numbers import numbers, rewritten, unknown
from nora.ingest.table import Table, canonical, title
from nora.limits import check_fits
from nora.options import option

MOST_WORDS, BLOCK = 50, 64
DATE = r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}"
ISO = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"

AS_DATES = "dates are read as 2024-12-31"


def features_of(rows: Rows, num_nodes: int, left_out: Collection[int] = ()) -> Features | None:
    """The features of all nodes, or None when the table has no column for them.

    Args:
        rows: A table about nodes, every one of which is known (`node >= 0`).
        num_nodes: Number of nodes `N`.
        left_out: Columns that are no features.
    """
    table, name = rows.table, rows.table.name
    headed = any(table.columns)
    columns = [
        at
        for at in range(len(table.columns))
        if at != rows.id_at
        and at not in left_out
        and (
            table.columns[at] or not headed
        )  # spreadsheets and pandas leave columns without a name
    ]
    if not columns:
        return None
    if is_list(table, rows.id_at):
        return listed_features(rows, columns, num_nodes)
    first, repeats = check_repeats(rows, columns, "features")
    node = rows.node[first]
    parts: list[np.ndarray] = []
    names: list[str] = []
    used: list[str] = []
    count = _Count(repeats=repeats, absent=num_nodes - len(node))
    wordy: list[tuple[str, list[str]]] = []
    for at in columns:
        typed = table.numbers(at)
        blank = unknown(table.cells[at]) if typed is None else typed.mask()
        if blank.all():
            count.empty.append(title(table, at))
            continue
        if typed is not None and typed.blank is None and _is_binary(typed.values):
            column = np.zeros((num_nodes, 1), dtype=np.int8)
            column[node, 0] = typed.values[first]
            if count.absent:
                column = column.astype(np.float32)
                column[_others(num_nodes, node)] = typed.values[first].mean(dtype=np.float64)
            names.append(title(table, at))
            used.append(title(table, at))
            parts.append(column)
            continue
        values = None if typed is not None else _days(table, at, blank)
        count.dates += values is not None
        if values is None:
            values = _numeric(table, at, blank)
        if values is None:
            block, kinds = _one_hot(table, at)
            if len(kinds) > MOST_WORDS:
                wordy.append((title(table, at), kinds))
                continue
            column = np.zeros((num_nodes, len(kinds)), dtype=np.float32)
            column[node] = block[first]
            names += [f"{title(table, at)}={kind}" for kind in kinds]
            count.words += 1
            if all(re.fullmatch(DATE, kind) for kind in kinds):
                count.dated.append(title(table, at))
        else:
            count.filled += int(blank[first].sum())
            known = values[first][~blank[first]]
            binary = bool(np.isin(known, (0, 1)).all())
            whole = np.full(num_nodes, np.nan)
            whole[node] = values[first]
            column = (whole if binary else standardised(whole))[:, None].astype(np.float32)
            column[np.isnan(column)] = np.float32(known.mean()) if binary else np.float32(0)
            count.scaled += not binary
            names.append(title(table, at))
        used.append(title(table, at))
        parts.append(column)
    if wordy:
        raise ValueError(_too_wordy(name, wordy))
    return Features(
        _together(parts, num_nodes), tuple(names), tuple(used), tuple(_said(name, count))
    )


def _is_binary(values: np.ndarray) -> bool:
    return values.dtype == np.int8 and bool(((values == 0) | (values == 1)).all())


def _others(num_nodes: int, node: np.ndarray) -> np.ndarray:
    """Mask `[N]` of the nodes that no row is about."""
    others = np.ones(num_nodes, dtype=bool)
    others[node] = False
    return others


def _together(parts: list[np.ndarray], num_nodes: int) -> np.ndarray:
    """Columns beside each other in float32; every part is let go once it is in its place."""
    x = np.empty((num_nodes, sum(part.shape[1] for part in parts)), dtype=np.float32)
    check_fits("the features", x.nbytes)
    parts.reverse()
    at = 0
    while parts:
        # A few at a time: writing one column touches as much memory as writing sixteen.
        block = np.concatenate([parts.pop() for _ in range(min(BLOCK, len(parts)))], axis=1)
        x[:, at : at + block.shape[1]] = block
        at += block.shape[1]
    return x


@dataclass
class _Count:
    """What was met on the way through the columns."""

    repeats: int
    absent: int
    scaled: int = 0
    dates: int = 0
    words: int = 0
    dated: list[str] = field(default_factory=list)
    filled: int = 0
    empty: list[str] = field(default_factory=list)


def _said(name: str, count: _Count) -> list[str]:
    notes = []
    if count.repeats:
        which = "repeated row" if count.repeats == 1 else "repeated rows"
        merged = "was merged" if count.repeats == 1 else "were merged"
        notes.append(f"{count.repeats:,} {which} of {name} {merged}")
    if count.empty:
        which = "column" if len(count.empty) == 1 else "columns"
        left = "is blank and was" if len(count.empty) == 1 else "are blank and were"
        notes.append(f"the {which} {', '.join(map(repr, count.empty))} of {name} {left} left out")
    if count.dates:
        which = "column of dates was" if count.dates == 1 else "columns of dates were"
        notes.append(f"{count.dates:,} {which} turned into days")
    if count.scaled:
        which = "column of numbers was" if count.scaled == 1 else "columns of numbers were"
        notes.append(f"{count.scaled:,} {which} standardised (mean 0, deviation 1)")
    if count.words:
        which = "column of words became" if count.words == 1 else "columns of words became"
        notes.append(f"{count.words:,} {which} one 0/1 feature per word")
    for called in count.dated:
        notes.append(f"{called!r} of {name} looks like dates, and is taken as words: {AS_DATES}")
    if count.filled:
        which = "blank cell" if count.filled == 1 else "blank cells"
        were = "was filled with its" if count.filled == 1 else "were filled with their"
        notes.append(f"{count.filled:,} {which} of {name} {were} column's mean")
    if count.absent:
        one = count.absent == 1
        notes.append(
            f"{count.absent:,} node{' has' if one else 's have'} no row in {name}: "
            f"{'its' if one else 'their'} numbers are the column's mean"
        )
    return notes


def _too_wordy(name: str, wordy: list[tuple[str, list[str]]]) -> str:
    """What to say about columns that cannot become features, all at once."""
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


def _days(table: Table, at: int, blank: np.ndarray) -> np.ndarray | None:
    """A column of ISO dates as days since 1970 `[rows]`, NaN where blank; None when it is none.

    >>> cells = np.array(["1970-01-02", "", "1970-01-03T12:00:00Z"], dtype=object)
    >>> _days(Table("t.csv", ("since",), (cells,), str), 0, cells == "").tolist()
    [1.0, nan, 2.5]
    """
    cells = pd.Series(table.cells[at], dtype=object)
    if not cells[~blank].str.fullmatch(ISO).all():
        return None
    dates = pd.to_datetime(cells.mask(blank), format="ISO8601", utc=True, errors="coerce")
    if bool(dates.isna()[~blank].any()):
        return None
    days = (dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
    return days.to_numpy(dtype=float, copy=True)


def _numeric(table: Table, at: int, blank: np.ndarray) -> np.ndarray | None:
    """A column as numbers, NaN where unknown; None when it is a column of words."""
    values = numbers(table, at)
    values[blank] = np.nan
    words = np.isnan(values) & ~blank
    if 2 * words.sum() > (~blank).sum():
        _check_words(table, at, values, blank)
        return None
    for wrong, what in ((words, "is not a number"), (np.isinf(values), "is not finite")):
        bad = np.flatnonzero(wrong)
        if bad.size:
            row = int(bad[0])
            cell = str(table.cells[at][row])
            raise ValueError(
                f"{table.place(row)}: {_short(cell)} in the column {title(table, at)!r} {what}, unlike "
                f"others there; mend it, or leave the cell blank if it is not known{rewritten(cell)}"
            )
    return values


def _check_words(table: Table, at: int, values: np.ndarray, blank: np.ndarray) -> None:
    """Raise where all words are numbers after all, written as people do."""
    rows = np.flatnonzero(np.isnan(values) & ~blank)
    cells = table.cells[at]
    if all(rewritten(str(cells[row])) for row in rows):
        row = int(rows[0])
        raise ValueError(
            f"{table.place(row)}: {str(cells[row])!r} in the column {title(table, at)!r} looks like a "
            f"number, but cannot be read as one{rewritten(str(cells[row]))}; or leave the column out with "
            f"ignore={[title(table, at)]}"
        )


def _one_hot(table: Table, at: int) -> tuple[np.ndarray, list[str]]:
    """One column of 0 and 1 per word `[rows, words]`, none for a blank cell; the words.

    Of more words than can be features there is no block, which could be huge.
    """
    table.check_text(at, "word")
    words, codes = np.unique(table.cells[at].astype(str), return_inverse=True)
    kinds = [str(word) for word in words if word]
    if len(kinds) > MOST_WORDS:
        return np.zeros((0, 0), dtype=np.float32), kinds
    block = np.eye(len(words), dtype=np.float32)[codes]
    return block[:, [at for at, word in enumerate(words) if word]], kinds


def called_label(table: Table, id_at: int, left_out: Collection[int] = ()) -> int | None:
    """The column of a feature table that holds labels, if one is called so."""
    known = [canonical(column) for column in table.columns]
    found = next((known.index(name) for name in reversed(LABEL) if name in known), None)
    return None if found == id_at or found in left_out else found
