"""From a table of labels to `y`: one class per node, −1 where it is not known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nora.ingest.nodes import LABEL, Rows, check_repeats
from nora.ingest.table import Table


@dataclass(frozen=True, eq=False)
class Classes:
    """Node labels.

    Attributes:
        y: Positions in `names`, −1 where unknown, `[N]`.
        names: The classes' names, sorted.
        notes: What was found.
    """

    y: np.ndarray
    names: tuple[str, ...]
    notes: tuple[str, ...]


def label_at(table: Table, id_at: int) -> int:
    """Which column of a label table holds the label."""
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
            f"{table.name}: which column holds the label? It has {names}. Call it 'label'"
        )
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
    first, repeats = check_repeats(rows, table.cells[at], "a label")
    notes = []
    if repeats:
        notes.append(f"{repeats:,} repeated rows of {table.name} were merged")
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
    kept = first[(rows.node[first] >= 0) & (table.cells[at][first] != "")]
    given = table.cells[at][kept].astype(str)
    if not given.size:
        raise ValueError(f"{table.name} labels no node: every label is blank")
    names = sorted(set(given.tolist()), key=_natural)
    if len(names) > 2 and 2 * len(names) > len(given):
        raise ValueError(
            f"{table.name}: the labels of {len(given):,} nodes are {len(names):,} different ones (e.g. "
            f"{names[0]!r} and {names[1]!r}). A label is a class that many nodes share; is this a "
            "column of names or of measurements?"
        )
    number = {name: position for position, name in enumerate(names)}
    y = np.full(num_nodes, -1, dtype=np.int64)
    y[rows.node[kept]] = [number[name] for name in given.tolist()]
    return Classes(y, tuple(names), tuple(notes))


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
