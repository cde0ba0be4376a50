"""From an edge table to nodes and edges.

A row is an edge. Rows that repeat one are merged, and their weights added. Read as undirected, an edge
is stored in both directions, as PyTorch Geometric does it; `a,b` and `b,a` are then the same edge.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from nora.ingest.columns import EdgeColumns
from nora.ingest.ids import IdTable
from nora.ingest.numbers import numbers, rewritten
from nora.ingest.table import Column, Table
from nora.options import option
from nora.wording import count, short

# In a `Type` column of Gephi these say how edges are drawn.
DRAWN = {"directed", "undirected", "mutual"}
# Models count in float32, which ends at 3e38.
LARGEST = 1e30


@dataclass(frozen=True, eq=False)
class EdgeList:
    """Nodes and distinct edges.

    Attributes:
        ids: The nodes' ids, in order of appearance.
        index: `[2, E]`, sorted.
        weight: `[E]`, or None.
        kind: Position in `kinds` of each edge's type `[E]`, or None.
        kinds: The types' names, sorted.
    """

    ids: list[str]
    index: np.ndarray
    weight: np.ndarray | None
    kind: np.ndarray | None
    kinds: tuple[str, ...]


def edge_list(
    named: IdTable,
    columns: EdgeColumns,
    directed: bool,
    notes: list[str],
    left_out: Collection[int] = (),
) -> EdgeList:
    """The nodes and edges of an edge table.

    Args:
        named: The table, with no blank at an end.
        columns: Which columns hold weights and types.
        directed: Keep the direction of edges.
        notes: Gets what was found.
        left_out: Columns that are not to be used.
    """
    table = named.table
    weight_at, kind_at = (
        None if at in left_out else at for at in (columns.weight_at(table), columns.type_at(table))
    )
    index, ids = _numbered(*named.columns)
    weight = None if weight_at is None else _weights(table, weight_at)
    kind, kinds = (None, ()) if kind_at is None else _kinds(table, kind_at, notes)
    used = {*named.ids, weight_at, kind_at}
    unused = [name for at, name in enumerate(table.columns) if name and at not in used]
    if unused:
        notes.append(f"columns of {table.name} that are not used: {', '.join(unused)}")
    keys = _Keys(len(ids), len(kinds))
    found, weight = (_one_way if directed else _both_ways)(keys, index, kind, weight, notes)
    ends, kind = keys.apart(found)
    return EdgeList(ids, ends, weight, kind, kinds)


def _numbered(source: Column, target: Column) -> tuple[np.ndarray, list[str]]:
    """Ends `[2, rows]` as positions in the ids, and the ids in order of appearance, row by row.

    >>> _numbered(Column(pa.array(["b", "a"])), Column(pa.array(["c", "b"])))[1]
    ['b', 'c', 'a']
    """
    many = len(source.texts)
    both = pc.dictionary_encode(pa.concat_arrays([source.texts, target.texts]))
    codes, ids = both.indices.to_numpy(zero_copy_only=False), both.dictionary
    seen = np.full(len(ids), 2 * len(source.codes))
    for at, (column, own) in enumerate(((source, codes[:many]), (target, codes[many:]))):
        first = np.empty(len(column.texts), dtype=np.int64)
        first[column.codes[::-1]] = np.arange(len(column.codes))[::-1]  # the last one written stays
        seen[own] = np.minimum(seen[own], 2 * first + at)
    order = np.argsort(seen)
    place = np.empty(len(ids), dtype=np.int64)
    place[order] = np.arange(len(ids))
    ends = np.stack([place[codes[:many]][source.codes], place[codes[many:]][target.codes]])
    return ends, ids.take(pa.array(order)).to_pylist()


def _weights(table: Table, at: int) -> np.ndarray:
    values = numbers(table, at)
    for wrong, what in (
        (np.isnan(values), "is not a number"),
        (np.isinf(values), "is not finite"),
        (values < 0, "is negative; weights must be at least 0"),
        (values > LARGEST, f"is more than {LARGEST:g}; divide all weights by a number"),
        ((values > 0) & (values < 1 / LARGEST), f"is less than {1 / LARGEST:g}, and not 0"),
    ):
        if wrong.any():
            row = int(np.argmax(wrong))
            cell = table.cells[at].cell(row)
            given = f"{short(cell, 40)!r} " if cell else "that is blank "
            raise ValueError(f"{table.place(row)}: the weight {given}{what}{rewritten(cell)}")
    if values.sum() > LARGEST:
        raise ValueError(f"{table.name}: all weights together are more than {LARGEST:g}")
    if not values.any():
        raise ValueError(
            f"{table.name}: all weights are 0, so no edge would count; correct them, or leave them "
            f"out with {option('ignore', [table.columns[at]])}"
        )
    return values


def _kinds(table: Table, at: int, notes: list[str]) -> tuple[np.ndarray | None, tuple[str, ...]]:
    column = table.cells[at]
    if {str(name).lower() for name in column.distinct} <= DRAWN:
        notes.append(
            f"the column {table.columns[at]!r} of {table.name} holds whether edges are directed: not used "
            f"(see {option('directed', True)})"
        )
        return None, ()
    table.check_filled(at, "type")
    place, kinds = pd.factorize(column.distinct, sort=True)
    return place[column.codes].astype(np.int64), tuple(str(kind) for kind in kinds)


class _Keys:
    """An edge as one number, its ends and its type beside each other in bits.

    Numbers are sorted alone, and quickly taken apart.
    """

    def __init__(self, nodes: int, kinds: int) -> None:
        self.of_node, self.of_kind = nodes.bit_length(), kinds.bit_length()
        if 2 * self.of_node + self.of_kind + 1 > 63:
            raise ValueError(f"{nodes:,} nodes with {kinds:,} types of edges are too many")

    def of(self, source: np.ndarray, target: np.ndarray, kind: np.ndarray | None) -> np.ndarray:
        """The number of each edge."""
        # In place wherever it can be: a million edges are eight megabytes each time.
        keys = source << self.of_node
        keys |= target
        keys <<= self.of_kind
        if kind is not None:
            keys |= kind
        return keys

    def apart(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Ends `[2, E]` and types `[E]`, if there are any."""
        ends = np.empty((2, len(keys)), dtype=np.int64)
        np.right_shift(keys, self.of_kind, out=ends[1])
        np.right_shift(ends[1], self.of_node, out=ends[0])
        ends[1] &= (1 << self.of_node) - 1
        return ends, keys & ((1 << self.of_kind) - 1) if self.of_kind else None


Weighted = tuple[np.ndarray, np.ndarray | None]


def _one_way(
    keys: _Keys,
    index: np.ndarray,
    kind: np.ndarray | None,
    weight: np.ndarray | None,
    notes: list[str],
) -> Weighted:
    """Distinct edges, sorted, and their weights."""
    found, weight = _merged(keys.of(index[0], index[1], kind), weight, notes)
    _note_loops(keys.apart(found)[0], notes)
    return found, weight


def _both_ways(
    keys: _Keys,
    index: np.ndarray,
    kind: np.ndarray | None,
    weight: np.ndarray | None,
    notes: list[str],
) -> Weighted:
    """Distinct edges in both directions, with the same type and weight."""
    ways = keys.of(np.minimum(*index), np.maximum(*index), kind)
    ways <<= 1
    ways |= index[0] > index[1]  # the last bit is the direction in which an edge was listed
    ways, weight = _merged(ways, weight, notes)
    ways >>= 1
    new = _changes(ways)
    pairs = ways if new.all() else ways[new]
    ends, kind = keys.apart(pairs)
    loop = ends[0] == ends[1]
    _note_loops(ends, notes)
    if weight is not None and len(pairs) < len(ways):
        pair = np.cumsum(new) - 1
        listed = np.bincount(pair)
        total: np.ndarray = np.bincount(pair, weight)
        # A list of a symmetric matrix holds every edge twice; else the two directions add up.
        if ((listed == 2) | loop).all() and np.allclose((total / listed)[pair], weight):
            total = total / listed
        else:
            are = count(int((listed == 2).sum()), "pair is", "pairs are")
            notes.append(
                f"{are} listed in both directions: one undirected edge, with both weights added"
            )
        weight = total
    other = keys.of(ends[1], ends[0], kind)
    if loop.any():
        other = other[~loop]
    both = np.concatenate([pairs, other])
    if weight is None:
        both.sort()
        return both, None
    order = np.argsort(both)
    return both[order], np.concatenate([weight, weight[~loop]])[order]


def _merged(keys: np.ndarray, weight: np.ndarray | None, notes: list[str]) -> Weighted:
    """Each number once, from the smallest, with the weights of its copies added."""
    rows = len(keys)
    if weight is None:
        keys.sort()
        new = _changes(keys)
        keys = keys if new.all() else keys[new]
    else:
        keys, copy_of = np.unique(keys, return_inverse=True)
        weight = np.bincount(copy_of, weight)
    if len(keys) < rows:
        were = count(rows - len(keys), "duplicate row was", "duplicate rows were")
        notes.append(f"{were} merged{', their weights added' * (weight is not None)}")
    return keys, weight


def _changes(keys: np.ndarray) -> np.ndarray:
    """Mask of sorted numbers that differ from the one before."""
    new = np.empty(len(keys), dtype=bool)
    new[:1] = True
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return new


def _note_loops(ends: np.ndarray, notes: list[str]) -> None:
    loops = int((ends[0] == ends[1]).sum())
    if loops:
        notes.append(f"{count(loops, 'self-loop')}: kept")
