"""Which columns of an edge table hold the two ends, the weight and the type of an edge.

They are known by usual names, or named by the caller (headers are in any language). Of a table that has
neither, the first two columns are the ends, unless it looks like a table of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from nora.ingest.nodes import ID, LABEL
from nora.ingest.table import Table, canonical, read_table
from nora.ingest.text import TITLED
from nora.options import option
from nora.registry import nearest

ENDS = (
    ("source", "target"),
    ("from", "to"),
    ("src", "dst"),
    ("follower", "followee"),
    ("follower", "followed"),
    ("sender", "receiver"),
    ("u", "v"),
    ("node1", "node2"),
)
WEIGHT, TYPE = ("weight",), ("type", "edge_type", "relation")


@dataclass(frozen=True)
class EdgeColumns:
    """The columns of an edge table as the caller names them; None for the usual names.

    >>> table = Table("t.csv", ("von", "nach", "Menge"), (["a"], ["b"], ["2"]), str)
    >>> EdgeColumns("von", "nach", "menge").weight_at(table)
    2
    """

    source: str | None = None
    target: str | None = None
    weight: str | None = None
    type: str | None = None

    def __post_init__(self) -> None:
        if (self.source is None) != (self.target is None):
            raise ValueError(f"give both {ends_named()}, or neither")
        twice = [name for name in self.named if self.named.count(name) > 1]
        if twice:
            raise ValueError(f"the column {twice[0]!r} cannot mean two things of an edge at once")

    @property
    def named(self) -> tuple[str, ...]:
        """The names that the caller gave."""
        given = (self.source, self.target, self.weight, self.type)
        return tuple(name for name in given if name is not None)

    def among(self, row: list[str]) -> bool:
        """Whether a first row names a column of edges."""
        given = {name.strip().lower() for name in self.named}
        if given:
            return any(cell.strip().lower() in given for cell in row)
        return any(canonical(cell) in _usual() for cell in row)

    def ends_at(self, table: Table) -> tuple[int, int] | None:
        """The columns of source and target, by the caller's names or the usual ones."""
        if self.source is not None and self.target is not None:
            ends = (("source", self.source), ("target", self.target))
            found = tuple(_position(table, name, f"{end}_column") for end, name in ends)
            return found[0], found[1]
        for first, second in ENDS:
            source, target = table.column(first), table.column(second)
            if source is not None and target is not None:
                return source, target
        return None

    def weight_at(self, table: Table) -> int | None:
        """The column of weights, if there is one."""
        if self.weight is not None:
            return _position(table, self.weight, "weight_column")
        return self._unnamed(table, WEIGHT)

    def type_at(self, table: Table) -> int | None:
        """The column of types, if there is one."""
        if self.type is not None:
            return _position(table, self.type, "type_column")
        return self._unnamed(table, TYPE)

    def _unnamed(self, table: Table, names: tuple[str, ...]) -> int | None:
        """A column with one of the usual names, unless the caller calls it something else."""
        found = table.column(*names)
        return None if found is None or found in table.called(self.named) else found


USUAL = EdgeColumns()


def _usual() -> set[str]:
    return {name for pair in ENDS for name in pair} | {*WEIGHT, *TYPE}


def _position(table: Table, name: str, parameter: str) -> int:
    found = table.called([name])
    if found:
        return min(found)
    known = [column for column in table.columns if column]
    there = (
        f"it has {', '.join(known[:20])}"
        if known
        else f"its first line is {', '.join(str(column[0]) for column in table.cells[:4])}"
    )
    raise ValueError(
        f"no column of {table.name} is called {name!r} ({option(parameter)}): {there}.{nearest(name, known)}"
    )


def edge_table(
    source: Path | pd.DataFrame,
    columns: EdgeColumns = USUAL,
    ignore: Iterable[str] = (),
    advance: Callable[[int], None] = lambda _: None,
) -> Table:
    """Read an edge table; one without a header has its ends in the first two columns."""
    meaning = _usual() | {canonical(name) for name in columns.named}
    table = read_table(source, columns.among, columns.among, ignore, "edges", meaning, advance)
    if len(table.columns) < 2:
        raise ValueError(
            f"{table.name} has one column: an edge needs two, e.g. source,target (parted by commas, "
            f"semicolons or tabs){TITLED}"
        )
    return table


def ends_of(table: Table, notes: list[str], columns: EdgeColumns = USUAL) -> tuple[int, int]:
    """Which columns hold the two ends of an edge."""
    ends = columns.ends_at(table)
    if ends is not None:
        return ends
    if not any(table.columns):
        return _first_two(table, notes)
    if table.column(*ID) is not None and table.column(*LABEL) is not None:
        raise ValueError(_like_labels(table.name, table.columns[:4]))
    named = [at for at, name in enumerate(table.columns) if name]
    others = table.called(columns.named)
    free = [
        at
        for at in named
        if at not in others and canonical(table.columns[at]) not in {*WEIGHT, *TYPE}
    ]
    if len(free) < 2:
        raise ValueError(
            f"{table.name}: which columns are the two ends of an edge? It has "
            f"{', '.join(filter(None, table.columns))}. Call them source and target, or give "
            f"{ends_named()}"
        )
    _refuse_nodes(table, free[0], free[1])
    one, two = (table.columns[at] for at in free[:2])
    notes.append(f"the columns {one!r} and {two!r} of {table.name} are taken as source and target")
    return free[0], free[1]


def _first_two(table: Table, notes: list[str]) -> tuple[int, int]:
    """The first two columns of a table without a header, where one of the first line's ids occurs again."""
    head = table.cells[0][0], table.cells[1][0]
    if canonical(head[0]) in ID and canonical(head[1]) in LABEL:
        raise ValueError(_like_labels(table.name, head))
    others = np.concatenate([column[1:] for column in table.cells[:2]])
    if not any((others == cell).any() for cell in head):
        numbered = (
            ". A first column without a name looks like the row numbers of pandas: "
            "to_csv(…, index=False) leaves them out"
        )
        raise ValueError(
            f"{table.place(0)}: is {head[0]!r}, {head[1]!r} a header or an edge? Neither occurs "
            f"again. Name the columns source,target in the first line, or give {ends_named()}"
            + (numbered if not head[0] else TITLED if not head[1] else "")
        )
    notes.append(
        f"{table.name} has no header that is recognised: its first two columns are taken as "
        "source and target"
    )
    return 0, 1


def ends_named() -> str:
    """The options that name the two ends of an edge."""
    return f"{option('source_column')} and {option('target_column')}"


def _refuse_nodes(table: Table, first: int, second: int) -> None:
    """Raise where the first columns are rather a node's id and something about it."""
    ids, others = table.words(first), table.words(second)
    if len(ids.distinct) < len(table) or len(table) < 2:
        return
    values = table.numbers(second)
    apart = not set(ids.distinct) & set(others.distinct)
    fractions = values is not None and bool((np.nan_to_num(values.floats()) % 1).any())
    if canonical(table.columns[first]) in ID or apart or fractions:
        raise ValueError(
            f"{table.name} looks like a table of nodes ({', '.join(table.columns[:4])}), not of edges: "
            f"every {table.columns[first]!r} is there once. Give it as {option('features')}; if it is one of "
            f"edges, name its ends with {ends_named()}"
        )


def _like_labels(name: str, columns: Iterable[str]) -> str:
    return (
        f"{name} looks like a table of labels ({', '.join(columns)}), not of edges; give it as "
        f"{option('labels')}, and a table with the columns source and target as {option('edges')}"
    )
