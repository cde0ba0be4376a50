"""From a table of labels to `y`: one class per node, −1 where it is not known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nora.ingest.ids import alike, in_one_spelling, plain
from nora.ingest.nodes import LABEL, Rows, about_guess, check_repeats
from nora.options import option

FEWEST, MANY = 3, 50
# What other programs write for a label that is not known, and what may be the name of a class.
MISSING, MAYBE_MISSING = ("nan",), ("na", "n/a", "null", "none", "?")


@dataclass(frozen=True, eq=False)
class Classes:
    """Node labels.

    Attributes:
        y: Positions in `names`, −1 where unknown, `[N]`.
        names: The classes' names, sorted.
        notes: What was found.
        unmatched: Which labels are of no node, in words; empty when there are none.
    """

    y: np.ndarray
    names: tuple[str, ...]
    notes: tuple[str, ...]
    unmatched: str = ""


def label_at(rows: Rows, named: str | None, notes: list[str]) -> int:
    """Which column of a label table holds the label: the one named, called so, or the only one."""
    table, id_at = rows.table, rows.id_at
    if named is not None:
        chosen = table.called([named]) - {id_at}
        if not chosen:
            known = ", ".join(filter(None, table.columns)) or "none with a name"
            raise ValueError(f"{table.name} has no column {named!r} for the labels; it has {known}")
        return min(chosen)
    found = table.column(*LABEL)
    if found is not None and found != id_at:
        return found
    others = [
        at
        for at, name in enumerate(table.columns)
        if at != id_at and (name or not any(table.columns))
    ]
    if len(others) != 1:
        names = ", ".join(filter(None, table.columns)) or f"{len(table.columns)} without names"
        raise ValueError(
            f"{table.name}: which column holds the label? It has {names}. Call it 'label', or "
            f"name it with {option('label_column')}"
        )
    notes += about_guess(table, others[0], "label")
    return others[0]


def labels_of(rows: Rows, at: int, num_nodes: int) -> Classes:
    """The classes of all nodes; labels of unknown ids are left out, and noted.

    Args:
        rows: A table about nodes.
        at: The column with the labels; a blank cell is an unknown label.
        num_nodes: Number of nodes `N`.
    """
    table = rows.table
    table.check_text(at, "label")
    first, repeats = check_repeats(rows, [at], "a label")
    notes = []
    if repeats:
        rows_were = "repeated row" if repeats == 1 else "repeated rows"
        merged = "was merged" if repeats == 1 else "were merged"
        notes.append(f"{repeats:,} {rows_were} of {table.name} {merged}")
    unmatched = ""
    stray = np.flatnonzero(rows.node < 0)
    if stray.size:
        row = int(stray[0])
        ids = (
            "id, which no edge or feature names, was"
            if stray.size == 1
            else ("ids, which no edge or feature names, were")
        )
        notes.append(
            f"the label{'s' * (stray.size > 1)} of {stray.size:,} {ids} left out: "
            f"{str(rows.ids[row])!r} ({table.place(row)})" + (" …" if stray.size > 1 else "")
        )
        strangers = len(np.unique(rows.ids[stray].astype(str)))
        everyone = len(np.unique(rows.ids.astype(str)))
        unmatched = (
            f"{strangers:,} of the {everyone:,} ids in {table.name} match{'es' * (strangers == 1)} no "
            f"node (e.g. {str(rows.ids[row])!r}, {table.place(row).rsplit(', ', 1)[-1]})"
        )
    text = _spelt(table.cells[at], table.name, notes)
    kept = first[(rows.node[first] >= 0) & (text[first] != "")]
    given = text[kept].astype(str)
    if not given.size:
        raise ValueError(
            f"{table.name} labels no node: every label is blank"
            + (f", or of an id that is none: {unmatched}" if unmatched else "")
        )
    names = sorted(set(given.tolist()), key=_natural)
    if len(names) > 2 and 2 * len(names) > len(given):
        raise ValueError(
            f"{table.name}: the labels of {len(given):,} nodes are {len(names):,} different ones (e.g. "
            f"{names[0]!r} and {names[1]!r}). A label is a class that many nodes share; is this a "
            "column of names or of measurements?"
        )
    if len(names) > MANY and FEWEST * len(names) > len(given):
        raise ValueError(
            f"{table.name}: {len(names):,} classes for {len(given):,} labelled nodes, "
            f"{len(given) / len(names):.1f} each: too few to learn and to test. Join rare ones under one "
            "name, or leave their labels blank"
        )
    number = {name: position for position, name in enumerate(names)}
    y = np.full(num_nodes, -1, dtype=np.int64)
    y[rows.node[kept]] = [number[name] for name in given.tolist()]
    notes += _about_classes(names, np.bincount(y[y >= 0], minlength=len(names)))
    return Classes(y, tuple(names), tuple(notes), unmatched)


def _spelt(cells: np.ndarray, name: str, notes: list[str]) -> np.ndarray:
    """The labels with one spelling for each: `0` and `0.0` are one class, `nan` is none."""
    distinct = pd.unique(cells)
    missing = [one for one in distinct if one.lower() in MISSING]
    if missing:
        count = int(np.isin(cells.astype(str), missing).sum())
        notes.append(
            f"{count:,} label{'s' * (count != 1)} {missing[0]!r} of {name}: taken as not known"
        )
        cells = cells.copy()
        cells[np.isin(cells.astype(str), missing)] = ""
    for one in distinct:
        if one.lower() in MAYBE_MISSING:
            notes.append(
                f"{one!r} is taken as the name of a class of {name}; if it means that a label is not "
                "known, leave the cell blank"
            )
    both = next(
        (one for one in distinct if plain(one) != one and plain(one) in set(distinct)), None
    )
    if both is not None:
        notes.append(
            f"the labels {plain(both)!r} and {both!r} of {name} are one class, a whole number"
        )
        cells = in_one_spelling(cells)
    return cells


def _about_classes(names: list[str], sizes: np.ndarray) -> list[str]:
    """Classes that look like a slip.

    >>> _about_classes(["Left", "left", "right"], np.array([9, 4, 2]))[0]
    "the classes 'Left' and 'left' differ only in case or blanks: taken as different classes"
    """
    notes = [
        f"the classes {one!r} and {two!r} differ only in case or blanks: taken as different classes"
        for one, two in alike(names)[:3]
    ]
    small = [position for position, size in enumerate(sizes) if size < FEWEST]
    if small:
        which = ", ".join(f"{names[at]!r}: {sizes[at]}" for at in small[:3])
        more = ", …" if len(small) > 3 else ""
        what = "class has" if len(small) == 1 else "classes have"
        notes.append(
            f"{len(small):,} {what} fewer than {FEWEST} nodes ({which}{more}): too few to learn and "
            "to test"
        )
    return notes


def _natural(name: str) -> tuple[int, float, str]:
    """Numbers in their order, before words in theirs.

    >>> sorted(["10", "left", "9"], key=_natural)
    ['9', '10', 'left']
    """
    try:
        number = float(name)
    except ValueError:
        number = math.nan
    return (0, number, name) if math.isfinite(number) else (1, 0.0, name)
