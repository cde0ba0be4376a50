"""Edges removed and added for good, in the arrays where they are.

A graph of millions of edges that loses one is the same arrays with everything behind it moved by one place.
They are moved where they are, and what follows from them (degrees, normalisation) is written only where it
changes: the arrays of the edges before the edit are used up by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from nora.engine.exec.added_edges import AddedRows
from nora.engine.ir.edges import EdgeDelta, Edges
from nora.sparse import expanded

# Entries that are kept free, at least, and as a share of those that are there.
SPARE, SHARE = 1024, 1 / 64
# Entries `[first, last)` that go, or a value by its number that comes in front of `first`.
Cut = tuple[int, int, int | None]


class Room:
    """An array with room at its end.

    Args:
        values: What is in it; copied.

    Example:
        >>> room = Room(torch.tensor([5, 6, 7]))
        >>> room.splice([(0, 1, None), (3, 3, 0)], torch.tensor([8]))
        >>> room.values
        tensor([6, 7, 8])
        >>> room.appended(torch.tensor([9]))
        tensor([6, 7, 8, 9])
    """

    def __init__(self, values: Tensor) -> None:
        self.count = 0
        self.array = np.empty(0, dtype=values.numpy().dtype)
        self._make_room(len(values))
        self.appended(values)

    def _make_room(self, more: int) -> None:
        count = self.count + more
        if count > len(self.array):
            array = np.empty(count + max(SPARE, int(SHARE * count)), dtype=self.array.dtype)
            array[: self.count] = self.array[: self.count]
            self.array = array

    @property
    def values(self) -> Tensor:
        """What is in it, which the next edit writes to."""
        return torch.from_numpy(self.array[: self.count])

    def appended(self, more: Tensor) -> Tensor:
        """All values, with some more at the end."""
        self._make_room(len(more))
        self.array[self.count : self.count + len(more)] = more.numpy()
        self.count += len(more)
        return self.values

    def splice(self, cuts: Sequence[Cut], new: Tensor) -> None:
        """Take out values that go, and put in those that come; in the order of `cuts`."""
        moves, come = [], []
        start = by = 0
        for first, last, which in cuts:
            moves.append((start, first, by))
            if which is not None:
                come.append((first + by, which))
                by += 1
            start, by = last, by - (last - first)
        moves.append((start, self.count, by))
        self._make_room(max(by, 0))
        array = self.array
        # Nothing is overwritten before it has moved: first those that move down, the first of them first.
        for first, last, by in [one for one in moves if one[2] < 0] + [
            one for one in reversed(moves) if one[2] > 0
        ]:
            array[first + by : last + by] = array[first:last]
        for place, which in come:
            array[place] = new[which]
        self.count += moves[-1][2]


class Rooms:
    """The arrays of the edges of one convolution, which edits write to.

    Args:
        edges: The edges; their arrays are copied.
    """

    def __init__(self, edges: Edges) -> None:
        assert edges.edge_id is not None
        self.source, self.target = Room(edges.source), Room(edges.target)
        self.weight = None if edges.weight is None else Room(edges.weight)
        self.edge_id = Room(edges.edge_id)
        self.by_edge_id = [Room(values) for values in edges.by_edge_id]
        self.by_target, self.by_source = _Csr(edges.by_target, edges), _Csr(edges.by_source, edges)
        self.count, self.degree = edges.count.clone(), edges.degree.clone()
        same = edges.norm_src is edges.norm_dst
        self.norm_dst = edges.norm_dst.clone()
        self.norm_src = self.norm_dst if same else edges.norm_src


class _Csr:
    """One CSR form of edges, in as few bytes as hold it: its arrays move whenever an edge comes or goes.

    Args:
        csr: The form: `indptr`, the other ends, and the edges; copied.
        edges: The edges.
    """

    def __init__(self, csr: tuple[Tensor, Tensor, Tensor], edges: Edges) -> None:
        small = torch.int if max(edges.num_nodes, 2 * len(csr[2])) < 2**31 else torch.long
        self.indptr = csr[0].clone()
        self.rooms = [Room(values.to(small)) for values in csr[1:]]
        self.weight = None if edges.weight is None else Room(edges.weight[csr[2]])

    @property
    def arrays(self) -> tuple[Tensor, Tensor, Tensor]:
        """The form as it is."""
        column, edge = (room.values for room in self.rooms)
        return self.indptr, column, edge

    def splice(
        self, lost: Tensor, row: Tensor, column: Tensor, edge: Tensor, weight: Tensor | None
    ) -> None:
        """Take out the entries at `lost` (sorted), and put others at the ends of their rows."""
        order = row.argsort(stable=True)
        row, new = row[order], [column[order], edge[order]]
        indptr = self.indptr
        cuts: list[Cut] = [(place, place + 1, None) for place in lost.tolist()]
        # Where they come, as places before anything has gone.
        cuts += [(place, place, k) for k, place in enumerate(indptr[row + 1].tolist())]
        cuts.sort(key=lambda cut: (cut[0], cut[1] > cut[0], cut[2] or 0))
        change = torch.zeros_like(indptr)
        change.index_add_(0, row + 1, torch.ones_like(row))
        gone = torch.searchsorted(indptr, lost, right=True)
        change.index_add_(0, gone, -torch.ones_like(gone))
        rooms = list(self.rooms)
        if self.weight is not None and weight is not None:
            rooms, new = [*rooms, self.weight], [*new, weight[order]]
        for room, values in zip(rooms, new, strict=True):
            room.splice(cuts, values)
        indptr += change.cumsum_(0)


def exchanged(
    edges: Edges, delta: EdgeDelta, rooms: Rooms, added_rows: AddedRows | None, first: int
) -> Edges:
    """The edges after some are removed and others added, nothing sorted again; `edges` are used up.

    Args:
        edges: The edges.
        delta: What one edit removes and adds.
        rooms: Their arrays.
        arrivals: The edges that the edit adds.
        first: The edge id of the first edge that the edit adds.
    """
    lost = delta.place >= 0
    place = delta.place[lost].sort().values
    source, target, added = delta.source[~lost], delta.target[~lost], delta.added[~lost]
    new = torch.arange(len(source)) + edges.source.numel()
    by_target, by_source = rooms.by_target, rooms.by_source
    gone = by_target.rooms[1].values[place].long()
    # Where the same edges stand by source.
    owner, position, _ = expanded(by_source.indptr, edges.source[gone])
    other = position[by_source.rooms[1].values[position] == gone[owner]].sort().values
    weight, weights, more = edges.weight, edges.weight_range, None
    if weight is not None and rooms.weight is not None:
        more = delta.weight[~lost]
        weights = torch.cat([weights, more])
        weights = torch.stack(weights.aminmax()) if len(weights) else weights
        more = more.to(weight.dtype)
        weight = rooms.weight.appended(more)
    made = replace(
        edges,
        source=rooms.source.appended(source),
        target=rooms.target.appended(target),
        weight=weight,
        edge_id=rooms.edge_id.appended(torch.where(added < 0, -1, added + first)),
    )
    if added_rows is not None and edges.own_loops is not None:
        ids, nodes = edges.own_loops
        _, which, node, _, _ = edges.added(added_rows)[1]
        loops = torch.cat([ids, which + first]), torch.cat([nodes, node])
        made = replace(made, own_loops=loops)
    by_target.splice(place, target, source, new, more)
    by_source.splice(other, source, target, new, more)
    _count(edges, rooms, delta.target.unique(), weight)
    known = added >= 0
    passed = edges.by_edge_id[0]
    counts = torch.bincount(added[known] + first - (len(passed) - 1))
    vars(made).update(
        by_edge_id=(
            rooms.by_edge_id[0].appended(passed[-1] + counts.cumsum(0)),
            rooms.by_edge_id[1].appended(new[known]),
        ),
        weight_range=weights,
        by_target=by_target.arrays,
        by_source=by_source.arrays,
        _ids=(by_source.arrays[1], by_target.arrays[1]),
        weight_by_source=None if by_source.weight is None else by_source.weight.values,
        weight_by_target=None if by_target.weight is None else by_target.weight.values,
        count=rooms.count,
        degree=rooms.degree,
        norm_dst=rooms.norm_dst,
        norm_src=rooms.norm_src,
    )
    return made


def _count(edges: Edges, rooms: Rooms, node: Tensor, weight: Tensor | None) -> None:
    """Count the edges into some nodes again, and what follows from that."""
    indptr, _, edge = rooms.by_target.arrays
    owner, position, _ = expanded(indptr, node)
    ones = torch.ones(len(position), dtype=torch.double)
    if edges.normalise == "sym" and weight is not None:
        ones = weight[edge[position].long()].double()
    degree = torch.zeros(len(node), dtype=torch.double).index_add_(0, owner, ones)
    rooms.count[node] = indptr[node + 1] - indptr[node]
    rooms.degree[node] = degree
    rooms.norm_dst[node] = edges.scale(degree)
