"""Feature and label tables: rows about nodes, named by their ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nora.ingest.ids import IdTable
from nora.ingest.table import Table
from nora.wording import count

SPELLINGS: dict[str, Callable[[str], str]] = {
    "without '.0' at the end": lambda text: text.removesuffix(".0"),
    "without leading zeros": lambda text: text.lstrip("0"),
    "in lower case": str.lower,
    "without '@'": lambda text: text.removeprefix("@"),
}


@dataclass(frozen=True, eq=False)
class NodeRows:
    """A table's rows with the node each is about.

    Attributes:
        table: The table.
        id_at: Its column of ids.
        node: Position of each row's node, −1 where no node has that id, `[rows]`.
    """

    table: Table
    id_at: int
    node: np.ndarray

    def id(self, row: int) -> str:
        """The id that a row has."""
        return self.table.cells[self.id_at].cell(row)


def node_rows(named: IdTable, ids: list[str]) -> NodeRows:
    """Which node every row is about.

    Raises:
        ValueError: When no row is about a node of the graph.
    """
    table, (id_at,) = named.table, named.ids
    column = table.cells[id_at]
    found = pc.fill_null(pc.index_in(column.texts, pa.array(ids, pa.string())), -1)
    node = found.to_numpy(zero_copy_only=False)[column.codes]
    if not (node >= 0).any():
        cells = column.distinct
        raise ValueError(
            f"{table.place(0)}: none of the {len(cells):,} ids in {table.name} occurs among "
            f"the edges (e.g. {str(cells[0])!r}; the edges name e.g. {ids[0]!r}): do the ids match?"
            f"{_hint(cells, ids)}"
        )
    return NodeRows(table, id_at, node)


def _hint(cells: np.ndarray, ids: list[str]) -> str:
    """How ids would match, when a common slip explains why they do not.

    >>> _hint(np.array(["7.0", "8.0"], dtype=object), ["7", "8"])
    " They would without '.0' at the end"
    """
    for words, spelt in SPELLINGS.items():
        if {spelt(one) for one in ids} & {spelt(cell) for cell in cells}:
            return f" They would {words}"
    return ""


def first_rows(rows: NodeRows, columns: Sequence[int], what: str, notes: list[str]) -> np.ndarray:
    """The first row of every node; rows that repeat one are noted.

    Args:
        rows: The rows.
        columns: The columns that are not ids.
        what: What the table gives, for the message.
        notes: Gets a sentence about repeated rows.

    Raises:
        ValueError: When a node has two rows that differ.
    """
    table = rows.table
    codes, many = table.cells[rows.id_at].codes, len(table.cells[rows.id_at].texts)
    if many == len(codes):
        return np.arange(many)
    first = np.full(many, len(codes))
    np.minimum.at(first, codes, np.arange(len(codes)))
    same = np.ones(len(codes), dtype=bool)
    for at in columns:
        column = table.cells[at]
        given = column.codes if column.numbers is None else column.numbers
        again = given[first[codes]]
        same &= (given == again) | ((given != given) & (again != again))  # NaN is itself
    other = np.flatnonzero(~same)
    if other.size:
        row = int(other[0])
        before = table.place(int(first[codes[row]])).rsplit(", ", 1)[-1]
        raise ValueError(
            f"{table.place(row)}: {rows.id(row)!r} has {what} already, and others, in "
            f"{before}; keep one of them"
        )
    repeated = count(len(codes) - many, "repeated row")
    notes.append(f"{repeated} of {table.name} {'was' if len(codes) - many == 1 else 'were'} merged")
    return np.sort(first)
