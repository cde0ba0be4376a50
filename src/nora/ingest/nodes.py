"""What feature and label tables have in common: rows that are about nodes, named by their ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from nora.ingest.ids import KnownIds, plain
from nora.ingest.table import Table, canonical, read_table, title

ID = ("id", "node", "name")
LABEL = ("label", "class")


@dataclass(frozen=True, eq=False)
class Rows:
    """A table's rows with the node each is about.

    Attributes:
        table: The table.
        id_at: Its column of ids.
        node: Position of each row's node, −1 where no node has that id, `[rows]`.
    """

    table: Table
    id_at: int
    node: np.ndarray

    @property
    def ids(self) -> np.ndarray:
        """The ids `[rows]`."""
        return self.table.cells[self.id_at]


def node_table(
    source: Path | pd.DataFrame,
    known: KnownIds,
    ignore: Iterable[str] = (),
    name: str = "nodes",
    advance: Callable[[int], None] = lambda _: None,
) -> Table:
    """Read a table about nodes; a file's first row is a header unless it begins with a node's id."""
    table = read_table(
        source,
        lambda row: canonical(row[0]) in ID or row[0] not in known,
        lambda row: any(canonical(cell) in {*ID, *LABEL} for cell in row),
        ignore,
        name,
        (*ID, *LABEL),
        advance,
    )
    if len(table.columns) < 2:
        raise ValueError(
            f"{table.name} has one column: it needs the node's id and at least one more, e.g. "
            "id,label (parted by commas, semicolons or tabs)"
        )
    return table


def id_column(table: Table, ids: Iterable[str]) -> int:
    """The column of ids: the one called so, else the first, or the first that has a name.

    What pandas writes without a name in front is either the ids or a mere row number.
    """
    found = table.column(*ID)
    if found is not None:
        return found
    named = next((at for at, name in enumerate(table.columns) if name), 0)
    if named == 0:
        return 0
    known = {plain(one) for one in ids}
    return max(
        (0, named),
        key=lambda at: (len(known.intersection(map(plain, table.words(at).distinct))), at),
    )


def about_guess(table: Table, at: int, meaning: str) -> list[str]:
    """A note when a column is not called what it is taken for."""
    names = LABEL if meaning == "label" else ID
    if canonical(table.columns[at]) in names:
        return []
    if not any(table.columns):
        return [f"{table.name} has no header: its column {at + 1} is taken as the {meaning}"]
    named = repr(table.columns[at]) if table.columns[at] else f"{title(table, at)}, without a name,"
    return [f"{named} of {table.name} is taken as the {meaning}"]


def about(table: Table, ids: list[str]) -> Rows:
    """Which node every row is about.

    Raises:
        ValueError: When an id is blank, or no row is about a node of the graph.
    """
    id_at = id_column(table, ids)
    table.check_filled(id_at, "id")
    words = table.words(id_at)
    found = pc.fill_null(pc.index_in(words.texts, pa.array(ids, pa.string())), -1)
    node = found.to_numpy(zero_copy_only=False)[words.codes]
    if not (node >= 0).any():
        cells = words.distinct
        raise ValueError(
            f"{table.place(0)}: none of the {len(cells):,} ids in {table.name} occurs among "
            f"the edges (e.g. {str(cells[0])!r}; the edges name e.g. {ids[0]!r}): do the ids match?"
            f"{_hint(cells, ids)}"
        )
    return Rows(table, id_at, node)


SPELLINGS: dict[str, Callable[[str], str]] = {
    "without '.0' at the end": lambda text: text.removesuffix(".0"),
    "without leading zeros": lambda text: text.lstrip("0"),
    "in lower case": str.lower,
    "without '@'": lambda text: text.removeprefix("@"),
}


def _hint(cells: np.ndarray, ids: list[str]) -> str:
    """How ids would match, when a common slip explains why they do not.

    >>> _hint(np.array(["7.0", "8.0"], dtype=object), ["7", "8"])
    " They would without '.0' at the end"
    """
    for words, spelt in SPELLINGS.items():
        if {spelt(one) for one in ids} & {spelt(cell) for cell in cells}:
            return f" They would {words}"
    return ""


def check_repeats(rows: Rows, columns: Sequence[int], what: str) -> tuple[np.ndarray, int]:
    """Raise when a node has two rows that differ.

    Args:
        rows: The rows.
        columns: Where a row says something of its node.
        what: What the table gives, for the message.

    Returns:
        The first row of every node, and how many rows repeat one.
    """
    words = rows.table.words(rows.id_at)
    codes, distinct = words.codes, words.distinct
    if len(distinct) == len(codes):
        return np.arange(len(codes)), 0
    first = np.full(len(distinct), len(codes))
    np.minimum.at(first, codes, np.arange(len(codes)))
    same = np.ones(len(codes), dtype=bool)
    for at in columns:
        found = rows.table.numbers(at)
        given = rows.table.cells[at] if found is None else found.floats()
        again = given[first[codes]]
        same &= (
            (given == again)
            if found is None
            else (given == again) | (np.isnan(given) & np.isnan(again))
        )
    other = np.flatnonzero(~same)
    if other.size:
        row = int(other[0])
        before = rows.table.place(int(first[codes[row]])).rsplit(", ", 1)[-1]
        raise ValueError(
            f"{rows.table.place(row)}: {str(rows.ids[row])!r} has {what} already, and others, in "
            f"{before}; keep one of them"
        )
    return np.sort(first), len(codes) - len(distinct)
