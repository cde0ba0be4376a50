"""From a table of labels to `y`: one class per node, −1 where it is not known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nora.ingest.ids import lookalikes, plain_id
from nora.ingest.nodes import NodeRows, first_rows
from nora.ingest.table import Column
from nora.wording import count

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


def labels_of(rows: NodeRows, at: int, num_nodes: int) -> Classes:
    """The classes of all nodes; labels of unknown ids are left out, and noted.

    Args:
        rows: A table about nodes.
        at: The column with the labels; a blank cell is an unknown label.
        num_nodes: Number of nodes `N`.
    """
    table = rows.table
    table.check_text(at, "label")
    notes: list[str] = []
    first = first_rows(rows, [at], "a label", notes)
    unmatched = _unmatched(rows, notes)
    column = _spelt(table.cells[at], table.name, notes)
    kept = first[(rows.node[first] >= 0) & ~column.blank()[first]]
    if not kept.size:
        raise ValueError(
            f"{table.name} labels no node: every label is blank"
            + (f", or belongs to an unknown id: {unmatched}" if unmatched else "")
        )
    given = column.codes[kept]
    names = sorted((str(column.distinct[code]) for code in np.unique(given)), key=_natural)
    _check_classes(table.name, names, len(given))
    number = {name: position for position, name in enumerate(names)}
    place = np.array([number.get(str(one), -1) for one in column.distinct])
    y = np.full(num_nodes, -1, dtype=np.int64)
    y[rows.node[kept]] = place[given]
    notes += _about_classes(names, np.bincount(y[y >= 0], minlength=len(names)))
    return Classes(y, tuple(names), tuple(notes), unmatched)


def _unmatched(rows: NodeRows, notes: list[str]) -> str:
    """Which labels are of no node, in words; empty when there are none."""
    table, ids = rows.table, rows.table.cells[rows.id_at]
    stray = np.flatnonzero(rows.node < 0)
    if not stray.size:
        return ""
    row = int(stray[0])
    one = stray.size == 1
    notes.append(
        f"the label{'s' * (not one)} of {count(stray.size, 'id')}, which no edge or feature names, "
        f"{'was' if one else 'were'} left out: {rows.id(row)!r} ({table.place(row)}){' …' * (not one)}"
    )
    strangers = len(np.unique(ids.codes[stray]))
    return (
        f"{strangers:,} of the {len(ids.texts):,} ids in {table.name} match{'es' * (strangers == 1)} no "
        f"node (e.g. {rows.id(row)!r}, {table.place(row).rsplit(', ', 1)[-1]})"
    )


def _check_classes(name: str, names: list[str], labelled: int) -> None:
    """Raise when there are too many classes for the nodes that have one."""
    if len(names) > 2 and 2 * len(names) > labelled:
        raise ValueError(
            f"{name}: the labels of {labelled:,} nodes are {len(names):,} different ones (e.g. "
            f"{names[0]!r} and {names[1]!r}). A label is a class that many nodes share; is this a "
            "column of names or of measurements?"
        )
    if len(names) > MANY and FEWEST * len(names) > labelled:
        raise ValueError(
            f"{name}: {len(names):,} classes for {labelled:,} labelled nodes, "
            f"{labelled / len(names):.1f} each: too few to learn and to test. Join rare ones under one "
            "name, or leave their labels blank"
        )


def _spelt(column: Column, name: str, notes: list[str]) -> Column:
    """The labels with one spelling for each: `0` and `0.0` are one class, `nan` is none."""
    texts = [str(one) for one in column.distinct]
    missing = [one for one in texts if one.lower() in MISSING]
    if missing:
        cells = int(np.isin(column.codes, [texts.index(one) for one in missing]).sum())
        notes.append(f"{count(cells, 'label')} {missing[0]!r} of {name}: treated as unknown")
        column = column.respelt(lambda one: "" if one in missing else one)
    for one in texts:
        if one.lower() in MAYBE_MISSING:
            notes.append(
                f"{one!r} is used as the name of a class of {name}; if it means that a label is "
                "unknown, leave the cell blank"
            )
    known = set(texts)
    both = next((one for one in texts if plain_id(one) != one and plain_id(one) in known), None)
    if both is not None:
        notes.append(
            f"the labels {plain_id(both)!r} and {both!r} of {name} are one class, a whole number"
        )
        column = column.respelt(plain_id)
    return column


def _about_classes(names: list[str], sizes: np.ndarray) -> list[str]:
    """Classes that look like a slip.

    >>> _about_classes(["Left", "left", "right"], np.array([9, 4, 2]))[0]
    "the classes 'Left' and 'left' differ only in case or blanks: treated as different classes"
    """
    notes = [
        f"the classes {one!r} and {two!r} differ only in case or blanks: treated as different classes"
        for one, two in lookalikes(names)[:3]
    ]
    small = [position for position, size in enumerate(sizes) if size < FEWEST]
    if small:
        which = ", ".join(f"{names[at]!r}: {sizes[at]}" for at in small[:3])
        notes.append(
            f"{count(len(small), 'class has', 'classes have')} fewer than {FEWEST} nodes "
            f"({which}{', …' * (len(small) > 3)}): too few to learn and to test"
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
