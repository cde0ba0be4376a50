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

from nora.ingest.cells import Words
from nora.ingest.edge_columns import USUAL, EdgeColumns
from nora.ingest.numbers import numbers, rewritten
from nora.ingest.table import Table
from nora.options import option
from nora.wording import short

# What a `Type` column of Gephi says is how its edges are drawn.
DRAWN = {"directed", "undirected", "mutual"}
# Models count in float32, which ends at 3e38.
LARGEST = 1e30


@dataclass(frozen=True, eq=False)
class Edges:
    """Nodes and distinct edges.

    Attributes:
        ids: The nodes' ids, in order of appearance.
        index: `[2, E]`, sorted.
        weight: `[E]`, or None.
        kind: Position in `kinds` of each edge's type `[E]`, or None.
        kinds: The types' names, sorted.
        notes: What was found.
    """

    ids: list[str]
    index: np.ndarray
    weight: np.ndarray | None
    kind: np.ndarray | None
    kinds: tuple[str, ...]
    notes: tuple[str, ...]


def edges_of(
    table: Table,
    ends: tuple[int, int],
    directed: bool,
    left_out: Collection[int | None] = (),
    columns: EdgeColumns = USUAL,
) -> Edges:
    """The nodes and edges of an edge table.

    Args:
        table: The table, with no blank at an end.
        ends: Its columns of source and target.
        directed: Keep the direction of edges.
        left_out: Columns that are not to be used.
        columns: Which columns hold weights and types.
    """
    notes: list[str] = []
    weight_at, kind_at = (
        None if at in left_out else at for at in (columns.weight_at(table), columns.type_at(table))
    )
    index, ids = _numbered(*(table.words(at) for at in ends))
    weight = None if weight_at is None else _weights(table, weight_at)
    kind, kinds = (None, ()) if kind_at is None else _kinds(table, kind_at, notes)
    used = {*ends, weight_at, kind_at}
    unused = [name for at, name in enumerate(table.columns) if name and at not in used]
    if unused:
        notes.append(f"columns of {table.name} that are not used: {', '.join(unused)}")
    sizes = len(ids), len(kinds)
    if weight is None:
        index, kind = _distinct(index, kind, *sizes, directed, notes)
    else:
        index, weight, kind = _merged(index, weight, kind, *sizes, notes)
        _tell_loops(index, notes)
        if not directed:
            index, weight, kind = _both_ways(index, weight, kind, *sizes, notes)
        order = np.argsort(_keys(index, kind, *sizes))
        index, weight = index[:, order], weight[order]
        kind = None if kind is None else kind[order]
    return Edges(
        ids=[str(one) for one in ids],
        index=index,
        weight=weight,
        kind=kind,
        kinds=kinds,
        notes=tuple(notes),
    )


def _tell_loops(index: np.ndarray, notes: list[str]) -> None:
    loops = int((index[0] == index[1]).sum())
    if loops:
        notes.append(
            f"{loops:,} edge{'s lead' if loops > 1 else ' leads'} from a node to itself: kept"
        )


def _numbered(source: Words, target: Words) -> tuple[np.ndarray, np.ndarray]:
    """Ends `[2, rows]` as positions in the ids, and the ids in order of appearance, row by row.

    >>> _numbered(Words.of(np.array(["b", "a"])), Words.of(np.array(["c", "b"])))[1].tolist()
    ['b', 'c', 'a']
    """
    count = len(source.texts)
    both = pc.dictionary_encode(pa.concat_arrays([source.texts, target.texts]))
    codes, ids = both.indices.to_numpy(zero_copy_only=False), both.dictionary
    seen = np.full(len(ids), 2 * len(source.codes))
    for at, (words, own) in enumerate(((source, codes[:count]), (target, codes[count:]))):
        seen[own] = np.minimum(seen[own], 2 * _first_rows(words) + at)
    order = np.argsort(seen)
    place = np.empty(len(ids), dtype=np.int64)
    place[order] = np.arange(len(ids))
    ends = np.stack([place[codes[:count]][source.codes], place[codes[count:]][target.codes]])
    return ends, np.asarray(ids.to_numpy(zero_copy_only=False), dtype=object)[order]


def _first_rows(words: Words) -> np.ndarray:
    """The first row of each text."""
    first = np.empty(len(words.texts), dtype=np.int64)
    first[words.codes[::-1]] = np.arange(len(words.codes))[::-1]  # the last one written stays
    return first


def _weights(table: Table, at: int) -> np.ndarray:
    values = numbers(table, at)
    for wrong, what in (
        (np.isnan(values), "is not a number"),
        (np.isinf(values), "is not finite"),
        (values < 0, "is negative; weights say how strong a tie is, from 0 up"),
        (values > LARGEST, f"is more than {LARGEST:g}; divide all weights by a number"),
        ((values > 0) & (values < 1 / LARGEST), f"is less than {1 / LARGEST:g}, and not 0"),
    ):
        rows = np.flatnonzero(wrong)
        if rows.size:
            row = int(rows[0])
            cell = str(table.cells[at][row])
            given = f"{short(cell, 40)!r} " if cell else "that is blank "
            raise ValueError(f"{table.place(row)}: the weight {given}{what}{rewritten(cell)}")
    if values.sum() > LARGEST:
        raise ValueError(f"{table.name}: all weights together are more than {LARGEST:g}")
    if not values.any():
        raise ValueError(
            f"{table.name}: all weights are 0, so that no edge would count; mend them, or leave them "
            f"out with {option('ignore', [table.columns[at]])}"
        )
    return values


def _kinds(table: Table, at: int, notes: list[str]) -> tuple[np.ndarray | None, tuple[str, ...]]:
    names = {str(name).lower() for name in table.words(at).distinct}
    if names <= DRAWN:
        notes.append(
            f"the column {table.columns[at]!r} of {table.name} says whether edges are directed: not used "
            f"(see {option('directed', True)})"
        )
        return None, ()
    table.check_filled(at, "type")
    words = table.words(at)
    place, kinds = pd.factorize(words.distinct, sort=True)
    return place[words.codes].astype(np.int64), tuple(str(kind) for kind in kinds)


def _keys(index: np.ndarray, kind: np.ndarray | None, nodes: int, kinds: int) -> np.ndarray:
    """One number for each edge, types apart."""
    pair = index[0] * nodes + index[1]
    return pair if kind is None else pair * kinds + kind


Weighted = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def _distinct(
    index: np.ndarray,
    kind: np.ndarray | None,
    nodes: int,
    kinds: int,
    directed: bool,
    notes: list[str],
) -> tuple[np.ndarray, np.ndarray | None]:
    """Distinct edges without weights, sorted.

    An edge is one number, its ends and its type beside each other in bits: numbers are sorted alone, and
    quickly taken apart.
    """
    of_node, of_kind = nodes.bit_length(), kinds.bit_length()

    # In place wherever it can be: a million edges are eight megabytes each time.
    def packed(first: np.ndarray, second: np.ndarray, of: np.ndarray | None) -> np.ndarray:
        keys = first << of_node
        keys |= second
        if of is not None:
            keys <<= of_kind
            keys |= of
        return keys

    def apart(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        of = None if kind is None else keys & (1 << of_kind) - 1
        ends = np.empty((2, len(keys)), dtype=np.int64)
        np.right_shift(keys, of_node + (of_kind if kind is not None else 0), out=ends[0])
        np.right_shift(keys, of_kind if kind is not None else 0, out=ends[1])
        ends[1] &= (1 << of_node) - 1
        return ends, of

    if 2 * of_node + of_kind + 1 > 63:
        raise ValueError(f"{nodes:,} nodes with {kinds:,} types of edges are more than can be told")
    if directed:
        keys = _sorted_once(packed(index[0], index[1], kind))
        _tell_repeated(index.shape[1] - len(keys), "", notes)
        found, of = apart(keys)
        _tell_loops(found, notes)
        return found, of
    # The last bit tells which way an edge was listed.
    low, high = np.minimum(*index), np.maximum(*index)
    keys = packed(low, high, kind)
    keys <<= 1
    keys |= index[0] > index[1]
    keys = _sorted_once(keys)
    _tell_repeated(index.shape[1] - len(keys), "", notes)
    keys >>= 1
    keys = _each_once(keys)
    ends, of = apart(keys)
    _tell_loops(ends, notes)
    other = packed(ends[1], ends[0], of)
    if (ends[0] == ends[1]).any():
        other = other[ends[0] != ends[1]]
    both = np.concatenate([keys, other])
    both.sort()
    return apart(both)


def _sorted_once(keys: np.ndarray) -> np.ndarray:
    """Each number once, from the smallest; they are sorted in place."""
    keys.sort()
    return _each_once(keys)


def _each_once(keys: np.ndarray) -> np.ndarray:
    """Each of sorted numbers once; themselves where none is there twice."""
    new = np.empty(len(keys), dtype=bool)
    new[:1] = True
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return keys if new.all() else keys[new]


def _tell_repeated(repeated: int, added: str, notes: list[str]) -> None:
    if repeated:
        rows = "duplicate row was" if repeated == 1 else "duplicate rows were"
        notes.append(f"{repeated:,} {rows} merged{added}")


def _merged(
    index: np.ndarray,
    weight: np.ndarray,
    kind: np.ndarray | None,
    nodes: int,
    kinds: int,
    notes: list[str],
) -> Weighted:
    """Distinct edges, with the weights of their copies added."""
    _, first, copy_of = np.unique(
        _keys(index, kind, nodes, kinds), return_index=True, return_inverse=True
    )
    repeated = index.shape[1] - len(first)
    if not repeated:
        return index, weight, kind
    _tell_repeated(repeated, ", their weights added", notes)
    total: np.ndarray = np.bincount(copy_of, weight, len(first))
    return index[:, first], total, None if kind is None else kind[first]


def _both_ways(
    index: np.ndarray,
    weight: np.ndarray,
    kind: np.ndarray | None,
    nodes: int,
    kinds: int,
    notes: list[str],
) -> Weighted:
    """Every edge in both directions, with the same type and weight."""
    low_high = np.sort(index, axis=0)
    _, first, copy_of, count = np.unique(
        _keys(low_high, kind, nodes, kinds),
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    twice = int((count > 1).sum())
    total: np.ndarray = np.bincount(copy_of, weight, len(first))
    average = total / count
    loop = index[0] == index[1]
    # A list of a symmetric matrix says everything twice; else the two directions add up.
    if bool(((count[copy_of] == 2) | loop).all()) and np.allclose(average[copy_of], weight):
        total = average
    elif twice:
        notes.append(
            f"{twice:,} pair{'s are' if twice > 1 else ' is'} listed in both directions: one "
            "undirected edge, with both weights added"
        )
    low_high, kind = low_high[:, first], None if kind is None else kind[first]
    back = np.flatnonzero(low_high[0] != low_high[1])
    return (
        np.concatenate([low_high, low_high[::-1, back]], axis=1),
        np.concatenate([total, total[back]]),
        None if kind is None else np.concatenate([kind, kind[back]]),
    )
