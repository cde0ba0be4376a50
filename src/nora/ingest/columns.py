"""Which column means what: the ends, the weight and the type of an edge; a node's id and its label.

Columns are known by usual names, or named by the caller (headers are in any language). Of an edge table that
has neither, the first two columns are the ends, unless it looks like a table of nodes; of a table about
nodes, the first column is the id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from nora.ingest.ids import IdTable, KnownIds, plain_id
from nora.ingest.table import Header, Table, canonical
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
ID, LABEL = ("id", "node", "name"), ("label", "class")
USUAL = frozenset({name for pair in ENDS for name in pair} | {*WEIGHT, *TYPE})


@dataclass(frozen=True)
class EdgeColumns:
    """The columns of an edge table as the caller names them; None for the usual names.

    >>> table = Table("t.csv", ("von", "nach", "Menge"), (), str)
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
        return any(canonical(cell) in USUAL for cell in row)

    def weight_at(self, table: Table) -> int | None:
        """The column of weights, if there is one."""
        return self._at(table, self.weight, "weight_column", WEIGHT)

    def type_at(self, table: Table) -> int | None:
        """The column of types, if there is one."""
        return self._at(table, self.type, "type_column", TYPE)

    def _at(
        self, table: Table, name: str | None, parameter: str, usual: Sequence[str]
    ) -> int | None:
        if name is not None:
            return _position(table, name, parameter)
        found = table.column(*usual)
        # Unless the caller calls it something else.
        return None if found is None or found in table.called(self.named) else found

    def ends_of(self, table: Table, notes: list[str]) -> tuple[int, int]:
        """Which columns hold the two ends of an edge; noted where it is a guess."""
        if len(table.columns) < 2:
            raise ValueError(
                f"{table.name} has one column: an edge needs two, e.g. source,target (separated by commas, "
                f"semicolons or tabs){TITLED}"
            )
        if self.source is not None and self.target is not None:
            return (
                _position(table, self.source, "source_column"),
                _position(table, self.target, "target_column"),
            )
        for first, second in ENDS:
            source, target = table.column(first), table.column(second)
            if source is not None and target is not None:
                return source, target
        if not any(table.columns):
            return _first_two(table, notes)
        if table.column(*ID) is not None and table.column(*LABEL) is not None:
            raise ValueError(_like_labels(table.name, table.columns[:4]))
        others = table.called(self.named)
        free = [
            at
            for at, name in enumerate(table.columns)
            if name and at not in others and canonical(name) not in {*WEIGHT, *TYPE}
        ]
        if len(free) < 2:
            raise ValueError(
                f"{table.name}: which columns are the two ends of an edge? It has "
                f"{', '.join(filter(None, table.columns))}. Call them source and target, or give "
                f"{ends_named()}"
            )
        _check_not_nodes(table, free[0], free[1])
        one, two = (table.columns[at] for at in free[:2])
        notes.append(
            f"the columns {one!r} and {two!r} of {table.name} are used as source and target"
        )
        return free[0], free[1]


def _position(table: Table, name: str, parameter: str) -> int:
    found = table.called([name])
    if found:
        return min(found)
    known = [column for column in table.columns if column]
    there = (
        f"it has {', '.join(known[:20])}"
        if known
        else f"its first line is {', '.join(column.cell(0) for column in table.cells[:4])}"
    )
    raise ValueError(
        f"no column of {table.name} is called {name!r} ({option(parameter)}): {there}.{nearest(name, known)}"
    )


def _first_two(table: Table, notes: list[str]) -> tuple[int, int]:
    """The first two columns of a table without a header, where one of the first line's ids occurs again."""
    ends = table.cells[:2]
    head = ends[0].cell(0), ends[1].cell(0)
    if canonical(head[0]) in ID and canonical(head[1]) in LABEL:
        raise ValueError(_like_labels(table.name, head))
    if not any((column.text[1:] == cell).any() for column in ends for cell in head):
        numbered = (
            ". A first column without a name looks like the row numbers of pandas: "
            "to_csv(…, index=False) leaves them out"
        )
        hint = numbered if not head[0] else TITLED if not head[1] else ""
        raise ValueError(
            f"{table.place(0)}: is {head[0]!r}, {head[1]!r} a header or an edge? Neither occurs "
            "again. Name the columns source,target in the first line, or give "
            f"{ends_named()}{hint}"
        )
    notes.append(
        f"{table.name} has no header that NORA knows: its first two columns are used as "
        "source and target"
    )
    return 0, 1


def ends_named() -> str:
    """The options that name the two ends of an edge."""
    return f"{option('source_column')} and {option('target_column')}"


def _check_not_nodes(table: Table, first: int, second: int) -> None:
    """Raise where the first columns are rather a node's id and something about it."""
    ids, others = table.cells[first], table.cells[second]
    if len(ids.texts) < len(table) or len(table) < 2:
        return
    apart = not set(ids.distinct) & set(others.distinct)
    fractions = others.numbers is not None and bool((np.nan_to_num(others.numbers) % 1).any())
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


def node_header(known: KnownIds) -> tuple[Header, Header]:
    """Whether a first row names columns about nodes: not when it begins with an id; and for sure."""
    return (
        lambda row: canonical(row[0]) in ID or row[0] not in known,
        lambda row: any(canonical(cell) in {*ID, *LABEL} for cell in row),
    )


def node_column(table: Table, role: str, known: KnownIds, notes: list[str]) -> int:
    """The column of ids of a table about nodes: the one called so, else the first, or the first with a name.

    What pandas writes without a name in front is either the ids or a mere row number.
    """
    if len(table.columns) < 2:
        raise ValueError(
            f"{table.name} has one column: it needs the node's id and at least one more, e.g. "
            "id,label (separated by commas, semicolons or tabs)"
        )
    found = table.column(*ID)
    for pair in ENDS[:4]:
        if found is None and all(table.column(name) is not None for name in pair):
            what = "id,label" if role == "labels" else "id, then one column for each feature"
            raise ValueError(
                f"{table.name} looks like a table of edges ({', '.join(table.columns[:4])}), but is given "
                f"as {role}=, which needs {what}"
            )
    if found is None:
        found = next((at for at, name in enumerate(table.columns) if name), 0)
        if found:

            def matches(at: int) -> tuple[int, int]:
                return len(known.plain.intersection(map(plain_id, table.cells[at].distinct))), at

            found = max((0, found), key=matches)
    table.check_filled(found, "id")
    notes += _about_guess(table, found, "id", ID)
    return found


def _about_guess(table: Table, at: int, meaning: str, names: Sequence[str]) -> list[str]:
    """A note if a column is used for something other than its name says."""
    if canonical(table.columns[at]) in names:
        return []
    if not any(table.columns):
        return [f"{table.name} has no header: its column {at + 1} is used as the {meaning}"]
    named = repr(table.columns[at]) if table.columns[at] else f"{table.title(at)}, without a name,"
    return [f"{named} of {table.name} is used as the {meaning}"]


def label_column_of(table: Table, id_at: int, named: str | None, notes: list[str]) -> int:
    """Which column of a label table holds the label: the one named, called so, or the only one."""
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
    notes += _about_guess(table, others[0], "label", LABEL)
    return others[0]


def called_label(table: Table, id_at: int, left_out: Collection[int] = ()) -> int | None:
    """The column of a feature table that holds labels, if one is called so."""
    found = table.column(*reversed(LABEL))
    return None if found == id_at or found in left_out else found


def named_label(tables: Iterable[IdTable], name: str) -> tuple[IdTable, int]:
    """The table of features or attributes, and its column, that the caller names to hold the labels."""
    tables = list(tables)
    for named in tables:
        found = named.table.called([name]) - set(named.ids)
        if found:
            return named, min(found)
    known = [one.table.title(at) for one in tables for at in range(1, len(one.table.columns))]
    there = f"there are {', '.join(known[:20])}" if known else "there are no features or attributes"
    raise ValueError(f"no column for labels is called {name!r}: {there}.{nearest(name, known)}")


def check_ignored(ignore: Iterable[str], tables: Collection[IdTable]) -> None:
    """Raise when a column to leave out is not there, or cannot be left out."""
    for name in ignore:
        for named in tables:
            if named.table.called([name]) & set(named.ids):
                raise ValueError(
                    f"the column {name!r} of {named.table.name} holds the ids; it is needed"
                )
        if not any(named.table.called([name]) for named in tables):
            known = [one.table.title(at) for one in tables for at in range(len(one.table.columns))]
            raise ValueError(
                f"no column is called {name!r}, so it cannot be ignored.{nearest(name, known)}"
            )
