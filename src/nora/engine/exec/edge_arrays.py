"""Edges removed and added for good, in the arrays where they are.

Every row of a CSR form has room behind it: an edge that goes lets the rest of its row move up, one that comes
is put at the end of its row. A row without room is copied to the end of the arrays, with twice its size. So
an edit writes to the rows of its edges alone, and so do the degrees and factors that follow; the arrays of
the edges before the edit are used up by it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from nora.engine.exec.added_edges import AddedRows
from nora.engine.ir.edges import EdgeDelta, Edges

# Entries that are kept free at the end of arrays, at least, and as a share of those that are there.
SPARE, SHARE = 1024, 1 / 64


def _with_room(array: np.ndarray, count: int, more: int) -> np.ndarray:
    """The first `count` values in an array that has room for `more`; itself where it has."""
    if count + more <= len(array):
        return array
    larger = np.empty(count + more + max(SPARE, int(SHARE * count)), dtype=array.dtype)
    larger[:count] = array[:count]
    return larger


class Growing:
    """An array with room at its end.

    Args:
        values: What is in it; copied.

    Example:
        >>> array = Growing(torch.tensor([5, 6, 7]))
        >>> array.appended(torch.tensor([9]))
        tensor([5, 6, 7, 9])
    """

    def __init__(self, values: Tensor) -> None:
        self.count = len(values)
        self.array = _with_room(values.numpy()[:0], 0, self.count)
        self.array[: self.count] = values.numpy()

    def appended(self, more: Tensor) -> Tensor:
        """All values, with some more at the end."""
        self.array = _with_room(self.array, self.count, len(more))
        self.array[self.count : self.count + len(more)] = more.numpy()
        self.count += len(more)
        return torch.from_numpy(self.array[: self.count])


class GapRows:
    """One CSR form of edges with gaps between its rows; within a row, edges ascend.

    Args:
        csr: The form: `indptr`, the other ends, and the edges; copied.
        edges: The edges.

    Attributes:
        start, end: Where every row begins and ends `[N]`.
        column, edge, weight: The other end, the edge and its weight at every position, gaps included.
    """

    def __init__(self, csr: tuple[Tensor, Tensor, Tensor], edges: Edges) -> None:
        small = torch.int if max(edges.num_nodes, 2 * len(csr[2])) < 2**31 else torch.long
        self.start, self.end = csr[0][:-1].clone().numpy(), csr[0][1:].clone().numpy()
        self._limit, self._used = self.end.copy(), len(csr[2])
        parts = [csr[1].to(small), csr[2].to(small)]
        parts += [] if edges.weight is None else [edges.weight[csr[2]]]
        self._arrays = [Growing(values).array for values in parts]

    @property
    def tensors(self) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor, Tensor | None]:
        """The form as it is, the ends of its rows, and the weights."""
        column, edge, *weight = map(torch.from_numpy, self._arrays)
        form = torch.from_numpy(self.start), column, edge
        return form, torch.from_numpy(self.end), weight[0] if weight else None

    def remove(self, row: int, edge: int) -> None:
        """Take an edge out of a row."""
        start, end = self.start[row], self.end[row]
        at = start + np.searchsorted(self._arrays[1][start:end], edge)
        for array in self._arrays:
            array[at : end - 1] = array[at + 1 : end]
        self.end[row] = end - 1

    def add(self, row: int, *values: float) -> None:
        """Put an edge, which is after all others, at the end of a row: its other end, itself, its weight."""
        if self.end[row] == self._limit[row]:
            self._move(row)
        for array, value in zip(self._arrays, values, strict=True):
            array[self.end[row]] = value
        self.end[row] += 1

    def _move(self, row: int) -> None:
        start, end, to = self.start[row], self.end[row], self._used
        count, room = end - start, 2 * (end - start) + 2
        self._arrays = [_with_room(array, to, room) for array in self._arrays]
        for array in self._arrays:
            array[to : to + count] = array[start:end]
        self.start[row], self.end[row], self._limit[row] = to, to + count, to + room
        self._used += room


class LiveEdges:
    """The arrays of the edges of one convolution, which edits write to.

    Args:
        edges: The edges; their arrays are copied.
    """

    def __init__(self, edges: Edges) -> None:
        assert edges.edge_id is not None
        self.source, self.target = Growing(edges.source), Growing(edges.target)
        self.weight = None if edges.weight is None else Growing(edges.weight)
        self.edge_id = Growing(edges.edge_id)
        self.by_edge_id = [Growing(values) for values in edges.by_edge_id]
        self.by_target = GapRows(edges.by_target, edges)
        self.by_source = GapRows(edges.by_source, edges)
        self.count, self.degree = edges.count.clone(), edges.degree.clone()
        same = edges.norm_src is edges.norm_dst
        self.norm_dst = edges.norm_dst.clone()
        self.norm_src = self.norm_dst if same else edges.norm_src


def exchanged(
    edges: Edges, delta: EdgeDelta, live: LiveEdges, added_rows: AddedRows | None, first: int
) -> Edges:
    """The edges after some are removed and others added; `edges` are used up.

    Args:
        edges: The edges.
        delta: What one edit removes and adds.
        live: Their arrays.
        added_rows: The edges that the edit adds.
        first: The edge id of the first edge that the edit adds.
    """
    lost = delta.place >= 0
    removed = edges.by_target[2][delta.place[lost]].long()
    for edge, source, target in (
        torch.stack([removed, edges.source[removed], edges.target[removed]]).t().tolist()
    ):
        live.by_target.remove(target, edge)
        live.by_source.remove(source, edge)
    source, target, added = delta.source[~lost], delta.target[~lost], delta.added[~lost]
    new = torch.arange(len(source)) + edges.source.numel()
    weight, weights = edges.weight, edges.weight_range
    columns = [source.tolist(), target.tolist(), new.tolist()]
    if weight is not None and live.weight is not None:
        more = delta.weight[~lost]
        weights = torch.cat([weights, more])
        weights = torch.stack(weights.aminmax()) if len(weights) else weights
        weight = live.weight.appended(more.to(weight.dtype))
        columns.append(more.tolist())
    for start, end, *values in zip(*columns, strict=True):
        live.by_target.add(end, start, *values)
        live.by_source.add(start, end, *values)
    own_loops = edges.own_loops
    if added_rows is not None and own_loops is not None:
        _, which, node, _, _ = edges.added(added_rows)[1]
        own_loops = torch.cat([own_loops[0], which + first]), torch.cat([own_loops[1], node])
    by_source, out_end, weight_by_source = live.by_source.tensors
    by_target, in_end, weight_by_target = live.by_target.tensors
    made = replace(
        edges,
        source=live.source.appended(source),
        target=live.target.appended(target),
        weight=weight,
        edge_id=live.edge_id.appended(torch.where(added < 0, -1, added + first)),
        own_loops=own_loops,
        ends=(out_end, in_end),
    )
    known = added >= 0
    passed = edges.by_edge_id[0]
    counts = torch.bincount(added[known] + first - (len(passed) - 1))
    vars(made).update(
        by_edge_id=(
            live.by_edge_id[0].appended(passed[-1] + counts.cumsum(0)),
            live.by_edge_id[1].appended(new[known]),
        ),
        weight_range=weights,
        by_target=by_target,
        by_source=by_source,
        _ids=(by_source[1], by_target[1]),
        weight_by_source=weight_by_source,
        weight_by_target=weight_by_target,
        count=live.count,
        degree=live.degree,
        norm_dst=live.norm_dst,
        norm_src=live.norm_src,
    )
    _count(made, delta.target.unique())
    return made


def _count(edges: Edges, node: Tensor) -> None:
    """Count the edges into some nodes again, and what follows from that."""
    owner, position, _ = edges.into(node)
    ones = torch.ones(len(position), dtype=torch.double)
    if edges.normalise == "sym" and edges.weight is not None:
        ones = edges.weight[edges.by_target[2][position].long()].double()
    degree = torch.zeros(len(node), dtype=torch.double).index_add_(0, owner, ones)
    edges.count[node] = torch.bincount(owner, minlength=len(node))
    edges.degree[node] = degree
    edges.norm_dst[node] = edges.scale(degree)
