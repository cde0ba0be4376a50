"""Edges removed and added for good, in the arrays where they are.

A graph of millions of edges that loses one is the same arrays with everything behind it moved by one place;
copying them would take longer than telling what the edge was worth.
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
        >>> room.spliced([(0, 1, None), (3, 3, 0)], torch.tensor([8]))
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

    def appended(self, more: Tensor) -> Tensor:
        """All values, with some more at the end."""
        self._make_room(len(more))
        self.array[self.count : self.count + len(more)] = more.numpy()
        self.count += len(more)
        return torch.from_numpy(self.array[: self.count])

    def spliced(self, cuts: Sequence[Cut], new: Tensor) -> Tensor:
        """All values without those that go, and with those that come; in the order of `cuts`."""
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
        # Nobody is written over before it has moved: first those that move down, the first of them first.
        for first, last, by in [one for one in moves if one[2] < 0] + [
            one for one in reversed(moves) if one[2] > 0
        ]:
            array[first + by : last + by] = array[first:last]
        for place, which in come:
            array[place] = new[which]
        self.count += moves[-1][2]
        return torch.from_numpy(array[: self.count])


class Rooms:
    """The arrays of the edges of one convolution.

    Args:
        edges: The edges; their arrays are copied.
    """

    def __init__(self, edges: Edges) -> None:
        assert edges.edge_id is not None
        self.source, self.target = Room(edges.source), Room(edges.target)
        self.weight = None if edges.weight is None else Room(edges.weight)
        self.edge_id = Room(edges.edge_id)
        self.by_edge_id = [Room(values) for values in edges.by_edge_id]
        self.by_target = [Room(values) for values in edges.by_target[1:]]
        self.by_source = [Room(values) for values in edges.by_source[1:]]


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
    by_target, by_source = edges.by_target, edges.by_source
    gone = by_target[2][place]
    # Where the same edges stand by source.
    owner, position, _ = expanded(by_source[0], edges.source[gone])
    other = position[by_source[2][position] == gone[owner]].sort().values
    weight, weights = edges.weight, edges.weight_range
    if weight is not None and rooms.weight is not None:
        more = delta.weight[~lost]
        weight = rooms.weight.appended(more.to(weight.dtype))
        weights = torch.cat([weights, more])
        weights = torch.stack(weights.aminmax()) if len(weights) else weights
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
    known = added >= 0
    passed = edges.by_edge_id[0]
    counts = torch.bincount(added[known] + first - (len(passed) - 1))
    vars(made)["by_edge_id"] = (
        rooms.by_edge_id[0].appended(passed[-1] + counts.cumsum(0)),
        rooms.by_edge_id[1].appended(new[known]),
    )
    vars(made)["weight_range"] = weights
    into = _spliced(by_target[0], rooms.by_target, place, target, source, new)
    vars(made)["by_target"] = into
    vars(made)["by_source"] = _spliced(by_source[0], rooms.by_source, other, source, target, new)
    node = delta.target.unique()
    owner, position, _ = expanded(into[0], node)
    ones = torch.ones(len(position), dtype=torch.double)
    if edges.normalise == "sym" and weight is not None:
        ones = weight[into[2][position]].double()
    degree = edges.degree.clone()
    degree[node] = torch.zeros(len(node), dtype=torch.double).index_add_(0, owner, ones)
    vars(made)["degree"] = degree
    norm_dst = edges.norm_dst.clone()
    norm_dst[node] = edges.scale(degree[node])
    vars(made)["norm_dst"] = norm_dst
    return made


def _spliced(
    indptr: Tensor, rooms: list[Room], lost: Tensor, row: Tensor, column: Tensor, number: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """CSR arrays without the entries at `lost` (sorted), with others at the ends of their rows."""
    order = row.argsort(stable=True)
    row, column, number = row[order], column[order], number[order]
    change = torch.zeros(len(indptr), dtype=torch.long)
    change.index_add_(0, row + 1, torch.ones_like(row))
    gone = torch.searchsorted(indptr, lost, right=True)
    change.index_add_(0, gone, -torch.ones_like(gone))
    at = indptr[row + 1]  # where they come, as places before anything has gone
    cuts: list[Cut] = [(place, place + 1, None) for place in lost.tolist()]
    cuts += [(place, place, k) for k, place in enumerate(at.tolist())]
    cuts.sort(key=lambda cut: (cut[0], cut[1] > cut[0], cut[2] or 0))
    columns, edges = (
        room.spliced(cuts, new) for room, new in zip(rooms, (column, number), strict=True)
    )
    return indptr + change.cumsum(0), columns, edges
