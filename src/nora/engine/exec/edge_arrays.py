"""Edges that go and come for good, in the arrays where they are.

A graph of millions of edges that loses one is the same arrays with everything behind it moved by one place;
copying them would take longer than telling what the edge was worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from nora.engine.exec.kernels.vectorised import expanded
from nora.engine.ir.edges import Edges, Ties

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
        edges: The edges; what they have is copied.
    """

    def __init__(self, edges: Edges) -> None:
        self.source, self.target = Room(edges.source), Room(edges.target)
        self.weight = None if edges.weight is None else Room(edges.weight)
        self.number = None if edges.number is None else Room(edges.number)
        self.by_target = [Room(values) for values in edges.by_target[1:]]
        self.by_source = [Room(values) for values in edges.by_source[1:]]


def exchanged(edges: Edges, ties: Ties, rooms: Rooms) -> Edges:
    """The edges after some have gone and others come, nothing sorted anew; `edges` are used up."""
    lost = ties.place >= 0
    place = ties.place[lost].sort().values
    come = torch.stack([ties.source[~lost], ties.target[~lost]])
    count = edges.source.numel()
    number = torch.arange(come.size(1)) + count
    by_target, by_source = edges.by_target, edges.by_source
    gone = by_target[2][place]
    # Where the same edges stand by source.
    owner, position, _ = expanded(by_source[0], edges.source[gone])
    other = position[by_source[2][position] == gone[owner]].sort().values
    weight, known = edges.weight, None
    if weight is not None and rooms.weight is not None:
        weight = rooms.weight.appended(ties.weight[~lost].to(weight.dtype))
    if rooms.number is not None:
        known = rooms.number.appended(torch.full_like(number, -1))
    made = replace(
        edges,
        source=rooms.source.appended(come[0]),
        target=rooms.target.appended(come[1]),
        weight=weight,
        number=known,
    )
    into = _spliced(by_target[0], rooms.by_target, place, come[1], come[0], number)
    vars(made)["by_target"] = into
    out = _spliced(by_source[0], rooms.by_source, other, come[0], come[1], number)
    vars(made)["by_source"] = out
    node = ties.target.unique()
    owner, position, _ = expanded(into[0], node)
    ones = torch.ones(len(position), dtype=torch.double)
    if edges.normalise == "sym" and weight is not None:
        ones = weight[into[2][position]].double()
    degree = edges.degree.clone()
    degree[node] = torch.zeros(len(node), dtype=torch.double).index_add_(0, owner, ones)
    vars(made)["degree"] = degree
    left = edges.left.clone()
    left[node] = edges.scale(degree[node])
    vars(made)["left"] = left
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
