"""From a table of features to `x`.

A column of numbers is standardised (mean 0, deviation 1), so that a column of followers does not drown
one of shares; a column of 0 and 1 stays as it is. A column of words gets one 0/1 column per word.
Unknown numbers are the column's mean, unknown words all zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nora.ingest.nodes import LABEL, Rows, check_repeats
from nora.ingest.numbers import numbers, unknown
from nora.ingest.table import Table, canonical

MOST_WORDS = 50


@dataclass(frozen=True, eq=False)
class Features:
    """Node features.

    Attributes:
        x: `[N, F]`.
        names: Of the features, e.g. `followers` or `country=fr`.
        notes: What was found and done.
    """

    x: np.ndarray
    names: tuple[str, ...]
    notes: tuple[str, ...]


def features_of(rows: Rows, num_nodes: int, left_out: set[int] | None = None) -> Features | None:
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
        and at not in (left_out or ())
        and (
            table.columns[at] or not headed
        )  # spreadsheets and pandas leave columns without a name
    ]
    if not columns:
        return None
    given = np.stack([table.cells[at] for at in columns], axis=1)
    first, repeats = check_repeats(rows, given, "features")
    notes = []
    if repeats:
        notes.append(f"{repeats:,} repeated rows of {name} were merged")
    node = rows.node[first]
    parts: list[np.ndarray] = []
    names: list[str] = []
    filled = scaled = words = 0
    for at in columns:
        title = table.columns[at] or f"column {at + 1}"
        values, blank = _numeric(table, at, title)
        if values is None:
            block, kinds = _one_hot(table, at, title)
            column = np.zeros((num_nodes, len(kinds)), dtype=np.float32)
            column[node] = block[first]
            names += [f"{title}={kind}" for kind in kinds]
            words += 1
        else:
            filled += int(blank[first].sum())
            known = values[first][~blank[first]]
            binary = bool(np.isin(known, (0, 1)).all())
            whole = np.full(num_nodes, np.nan)
            whole[node] = values[first]
            column = (whole if binary else standardised(whole))[:, None].astype(np.float32)
            mean = np.float32(known.mean()) if binary and known.size else np.float32(0)
            column[np.isnan(column)] = mean
            scaled += not binary
            names.append(title)
        parts.append(column)
    notes += _said(name, scaled, words, filled, num_nodes - len(node))
    return Features(np.concatenate(parts, axis=1), tuple(names), tuple(notes))


def _said(name: str, scaled: int, words: int, filled: int, absent: int) -> list[str]:
    notes = []
    if scaled:
        which = "column of numbers was" if scaled == 1 else "columns of numbers were"
        notes.append(f"{scaled:,} {which} standardised (mean 0, deviation 1)")
    if words:
        which = "column of words became" if words == 1 else "columns of words became"
        notes.append(f"{words:,} {which} one 0/1 feature per word")
    if filled:
        notes.append(f"{filled:,} blank cells of {name} were filled with their column's mean")
    if absent:
        notes.append(
            f"{absent:,} node{'s have' if absent > 1 else ' has'} no row in {name}: their numbers "
            "are the column's mean"
        )
    return notes


def standardised(values: np.ndarray) -> np.ndarray:
    """Values `[n]` with mean 0 and deviation 1; a column without variation becomes 0. NaN stays.

    >>> standardised(np.array([1.0, 3.0, np.nan])).tolist()
    [-1.0, 1.0, nan]
    """
    known = values[~np.isnan(values)]
    if not known.size:
        return np.zeros_like(values)
    deviation = known.std()
    return (values - known.mean()) / (deviation if deviation > 1e-12 * abs(known.mean()) else 1.0)


def _numeric(table: Table, at: int, title: str) -> tuple[np.ndarray | None, np.ndarray]:
    """A column as numbers with a mask of unknown ones; None when it is a column of words."""
    values, blank = numbers(table, at), unknown(table.cells[at])
    values[blank] = np.nan
    words = np.isnan(values) & ~blank
    if 2 * words.sum() > (~blank).sum():
        return None, blank
    for wrong, what in ((words, "is not a number"), (np.isinf(values), "is not finite")):
        bad = np.flatnonzero(wrong)
        if bad.size:
            row = int(bad[0])
            raise ValueError(
                f"{table.place(row)}: {str(table.cells[at][row])!r} in the column {title!r} {what}, "
                "unlike others there; mend it, or leave the cell blank if it is not known"
            )
    return values, blank


def _one_hot(table: Table, at: int, title: str) -> tuple[np.ndarray, list[str]]:
    """One column of 0 and 1 per word `[rows, words]`; none for a blank cell."""
    table.check_text(at, "word")
    words, codes = np.unique(table.cells[at].astype(str), return_inverse=True)
    kinds = [str(word) for word in words if word]
    if len(kinds) > MOST_WORDS:
        raise ValueError(
            f"{table.name}: the column {title!r} holds {len(kinds):,} different words (e.g. "
            f"{kinds[0]!r} and {kinds[1]!r}; at most {MOST_WORDS} can become features). Leave the "
            "column out, or join rare words under one"
        )
    block = np.eye(len(words), dtype=np.float32)[codes]
    return block[:, [at for at, word in enumerate(words) if word]], kinds


def label_column(table: Table, id_at: int) -> int | None:
    """The column of a feature table that holds labels, if one is called so."""
    known = [canonical(column) for column in table.columns]
    found = next((known.index(name) for name in reversed(LABEL) if name in known), None)
    return None if found == id_at else found
