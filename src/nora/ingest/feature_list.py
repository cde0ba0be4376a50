"""Features as a list: a row for each feature that a node has, and none for those that are 0.

    id,feature          id,feature,value
    ann,python          ann,python,12
    ann,maps            bob,maps,0.5

The form for bags of words, tags or genes: as long as there are entries, however many different features
there are. Values are divided by their feature's root mean square, so that none drowns the others; what is
not listed stays 0.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nora.ingest.nodes import NodeRows
from nora.ingest.numbers import numbers, rewritten
from nora.ingest.table import Table, canonical
from nora.limits import check_fits
from nora.wording import count

WORTH_ASKING = 1 << 24
FEATURE, VALUE = ("feature", "word", "term", "tag", "token"), ("value", "count", "weight", "tfidf")


@dataclass(frozen=True, eq=False)
class Features:
    """Node features.

    Attributes:
        x: `[N, F]`.
        names: Of the features, e.g. `followers` or `country=fr`.
        columns: The columns that they come from.
        notes: What was found and done.
    """

    x: np.ndarray
    names: tuple[str, ...]
    columns: tuple[str, ...]
    notes: tuple[str, ...]


def is_list(table: Table, id_at: int) -> bool:
    """Whether a table of features is a list: `id,feature` or `id,feature,value`, so called."""
    names = [canonical(name) for at, name in enumerate(table.columns) if at != id_at]
    if not names or names[0] not in FEATURE:
        return False
    return len(names) == 1 or (len(names) == 2 and names[1] in VALUE)


def listed_features(rows: NodeRows, columns: Sequence[int], num_nodes: int) -> Features:
    """The features of all nodes from a list.

    Args:
        rows: The list's rows, with the node each is about.
        columns: Its columns of features and, if there is one, of values.
        num_nodes: Number of nodes `N`.
    """
    table, node = rows.table, rows.node
    table.check_filled(columns[0], "feature")
    column = table.cells[columns[0]]
    place, names = pd.factorize(column.distinct, sort=True)
    code = place[column.codes]
    check_fits(f"{len(names):,} features of {num_nodes:,} nodes", 4 * num_nodes * len(names))
    valued = len(columns) > 1
    values = _values(table, columns[1]) if valued else np.ones(len(code), dtype=np.float32)
    x = _zeros(num_nodes, len(names))
    cell = node.astype(np.int64) * len(names) + code
    first = _first_of_each(cell, x)
    notes = []
    if first is not None:
        other = np.flatnonzero(values != values[first])
        if other.size:
            row = int(other[0])
            before = table.place(int(first[row])).rsplit(", ", 1)[-1]
            raise ValueError(
                f"{table.place(row)}: {rows.id(row)!r} has the feature {str(names[code[row]])!r} "
                f"already, and another value of it, in {before}; keep one of them"
            )
        kept = first == np.arange(len(first))
        notes.append(f"{int((~kept).sum()):,} repeated rows of {table.name} were merged")
        node, code, cell, values = node[kept], code[kept], cell[kept], values[kept]
    notes.insert(0, f"{table.name} is a list of {len(code):,} features that are not 0")
    if valued and not np.isin(values, (0, 1)).all():
        largest = np.zeros(len(names))
        np.maximum.at(largest, code, np.abs(values))
        largest[largest == 0] = 1
        values = values / largest[code]
        square = np.bincount(code, values**2, len(names)) / num_nodes
        values = values / np.sqrt(np.where(square > 0, square, 1))[code]
        notes.append("values were divided by their feature's root mean square")
    absent = num_nodes - int((np.bincount(node, minlength=num_nodes) > 0).sum())
    if absent:
        which = count(absent, "node has", "nodes have")
        notes.append(f"{which} no row in {table.name}: all features are 0")
    x.ravel()[cell] = values
    used = (table.title(columns[0]),)
    return Features(x, tuple(str(one) for one in names), used, tuple(notes))


def _zeros(rows: int, columns: int) -> np.ndarray:
    """A matrix of zeros, every page of which will be written to: asked for at once, that is quicker."""
    size = 4 * rows * columns
    if size < WORTH_ASKING or not hasattr(mmap, "MAP_POPULATE"):
        return np.zeros((rows, columns), dtype=np.float32)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    return np.frombuffer(mmap.mmap(-1, size, flags=flags), dtype=np.float32).reshape(rows, columns)


def _first_of_each(cell: np.ndarray, x: np.ndarray) -> np.ndarray | None:
    """For every row the first one of the same cell `[rows]`; None when no two are of the same.

    Whether there are two is seen by writing row numbers into the cells of `x`, which is quicker than
    sorting; they are left there, to be written over.
    """
    number = np.arange(len(cell), dtype=np.int32 if len(cell) < 2**31 else np.int64)
    place = x.ravel().view(np.int32)
    if number.dtype == np.int32:
        place[cell] = number
        if bool((place[cell] == number).all()):
            return None
    copy_of, distinct = pd.factorize(cell)
    first = np.empty(len(distinct), dtype=np.int64)
    first[copy_of[::-1]] = number[::-1]  # the last one written stays
    return np.asarray(first[copy_of])


def _values(table: Table, at: int) -> np.ndarray:
    values = numbers(table, at)
    wrong = ~np.isfinite(values)
    if wrong.any():
        row = int(np.argmax(wrong))
        given = table.cells[at].cell(row)
        what = f"the value {given!r} is not a number" if given else "the value is blank"
        raise ValueError(
            f"{table.place(row)}: {what}; leave out the rows of features that are 0{rewritten(given)}"
        )
    return values
