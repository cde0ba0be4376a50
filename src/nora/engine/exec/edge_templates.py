"""How a model uses the graph's edges, learnt from the existing ones; see `added_edges.py`."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from nora.engine.ir.op import Value
from nora.engine.ir.space import Space
from nora.graph.edge_lookup import EdgeLookup


class AddedEdgeError(Exception):
    """It is not known what a model does with an added edge; the message says why."""


class Template(NamedTuple):
    """The edges of one type without self-loops: their numbers `[K]` and ends, global ids `[2, K]`."""

    number: Tensor
    ends: Tensor


class Templates:
    """The rows that each edge of the graph has in every space, by edge type; computed once.

    Args:
        lookup: The graph's edges.
        starts: The first global id of every node type.
        given: The values of edges before the model runs, with the edge type and name of each.
    """

    def __init__(
        self, lookup: EdgeLookup, starts: dict[Any, int], given: dict[Value, tuple[Any, str]]
    ) -> None:
        self.lookup, self.starts, self.given = lookup, starts, given
        self._known: dict[Any, Template] = {}
        self._slots: dict[tuple[Space, Any], list[Tensor]] = {}
        self._found: dict[tuple[Any, ...], Any] = {}

    def shift(self, key: Any) -> Tensor:
        """The offsets from local to global ids of both ends of a type's edges `[2, 1]`."""
        ends = (0, 0) if key is None else (self.starts[key[0]], self.starts[key[2]])
        return torch.tensor(ends).unsqueeze(1)

    def of(self, key: Any) -> Template:
        """The edges of a type."""
        if key not in self._known:
            own = self.lookup.types[key]
            ends = own.edges.cpu() + self.shift(key)
            rows = (ends[0] != ends[1]).nonzero().flatten()
            if not len(rows):
                raise AddedEdgeError("the graph has no edge of the added type")
            self._known[key] = Template(rows + own.start, ends[:, rows])
        return self._known[key]

    def distinct(self, value: Value) -> Tensor:
        """The values that an edge attribute takes."""
        known = ("distinct", value)
        if known not in self._found:
            self._found[known] = value.base_rows().unique()
        return self._found[known]

    def slots(self, space: Space, key: Any) -> list[Tensor]:
        """The rows of a space that every edge of a type has: the first of each `[K]`, then the second."""
        if space.origin is None:
            return []
        if (space, key) not in self._slots:
            number = self.of(key).number
            indptr, row = space.by_origin
            reach = torch.cat(
                [indptr, indptr[-1:].expand(max(0, self.lookup.total + 1 - len(indptr)))]
            )
            counts = reach[number + 1] - reach[number]
            count = int(counts[0])
            if bool((counts != count).any()):
                raise AddedEdgeError(
                    f"the model treats some of the graph's edges differently from others ({space.label})"
                )
            self._slots[space, key] = [row[reach[number] + at] for at in range(count)]
        return self._slots[space, key]

    def end(self, rows: Tensor, index: Tensor, space: Space, key: Any) -> tuple[str, Any]:
        """What an index into `space` means at the rows of a type's edges: an end, a slot, or one row for all.

        Args:
            rows: The rows `[K]`; see `slots`.
            index: Rows of `space`, one for every row of another.
            space: Whose rows are named.
            key: The edge type.
        """
        known = (rows, index, space)
        if known not in self._found:
            self._found[known] = self._named(index[rows], space, key)
        return self._found[known]

    def side(self, rows: Tensor, ends: Tensor, side: int, key: Any) -> int:
        """Which end of a type's edges `ends[side]` has at their rows: 0 is where they start."""
        known = ("side", rows, ends, side)
        if known not in self._found:
            named, own = ends[side][rows], self.of(key).ends
            which = next((at for at in (0, 1) if torch.equal(named, own[at])), None)
            if which is None:
                raise AddedEdgeError("the target of an added edge is unknown")
            self._found[known] = which
        return self._found[known]

    def _named(self, named: Tensor, space: Space, key: Any) -> tuple[str, Any]:
        for at, slot in enumerate(self.slots(space, key)):
            if torch.equal(named, slot):
                return "slot", at
        if not space.global_ and space.ends.size(0) <= 1 and space.origin is None:
            place = self.places(space)
            for at, end in enumerate(self.of(key).ends):
                if torch.equal(named, place[end]):
                    return "end", at
        if space.everlasting and space.global_ and bool((named == named[0]).all()):
            return "row", int(named[0])
        raise AddedEdgeError(f"it is unknown to which of the {space.label} an added edge belongs")

    def places(self, space: Space) -> Tensor:
        """The row of every node in a space of nodes `[num_nodes]`, −1 without one."""
        known = ("places", space)
        if known not in self._found:
            place = torch.full((space.num_nodes,), -1)
            every = torch.arange(space.size)
            if not space.ends.size(0):  # nodes that stay
                if space.size != space.num_nodes:
                    raise AddedEdgeError(
                        f"it is unknown which of the {space.label} belongs to which node"
                    )
                place = every
            else:
                place[space.ends[0]] = every
                if not torch.equal(place[space.ends[0]], every):
                    raise AddedEdgeError(f"a node has several of the {space.label}")
            self._found[known] = place
        return self._found[known]
