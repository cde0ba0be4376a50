"""Edges that come, as rows of every space that a model makes of the graph's edges.

A model does the same with an edge that comes as with those that are there: it reads its source, adds to
its target, turns it round, leaves it in front of the self-loops. What that is can be read off the edges of
the graph: where each of them stands in a space, and which of its ends an index names there. Only what
holds for *every* edge of a type (self-loops apart) holds for a new one; where edges of a type differ in
this, nobody can say, and a full pass is taken.

New rows have the numbers after the last one of their space. They are rows that have changed, in every
value of the space, so that nobody asks for what they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nora.engine.changed import Changed
from nora.engine.edges import Edges, well_behaved
from nora.engine.pointers import owner_of
from nora.engine.spaces import Space
from nora.engine.steps.grouped import Grouped
from nora.engine.steps.moves import Concat, Gather, sorted_by_removal
from nora.engine.steps.reduce import Scatter
from nora.engine.steps.step import Rows, Step, Value
from nora.engine.steps.weighted import WeightedSum
from nora.engine.steps.whole import WholeOp
from nora.engine.templates import CannotComeError, Templates
from nora.problem.edge_lookup import EdgeType
from nora.problem.edit_batch import AddedEdges

if TYPE_CHECKING:
    from nora.engine.edges import AddedEdgeRule
    from nora.engine.plan import Plan


class Arrivals:
    """The edges that come with the edits of a chunk, in every space.

    Args:
        templates: What edges become.
        added: The edges, by type.
        count: The number of edits in the chunk.
    """

    def __init__(
        self, templates: Templates, added: Mapping[EdgeType, AddedEdges], count: int
    ) -> None:
        self.templates, self.count = templates, count
        self.added: dict[EdgeType, AddedEdges] = {}  # in global ids
        self._rows: dict[int, tuple[Tensor, Space]] = {}
        self._index: dict[tuple[int, int, int], tuple[Tensor, Any]] = {}
        self._values: dict[int, tuple[Tensor, Value]] = {}
        for key, one in added.items():
            templates.of(key)
            source, target = one.edge_index + templates.shift(key)
            self.added[key] = replace(one, source=source, target=target)

    @cached_property
    def loops(self) -> bool:
        """Whether a self-loop comes."""
        return any(bool((one.source == one.target).any()) for one in self.added.values())

    def removal(self, space: Space) -> Tensor:
        """The edit that each new row of a space comes with `[rows]`."""
        if id(space) not in self._rows:
            parts = [
                owner_of(one.ptr)
                for key, one in self.added.items()
                for _ in self.templates.slots(space, key)
            ]
            found = torch.cat(parts) if parts else torch.empty(0, dtype=torch.long)
            self._rows[id(space)] = (found, space)
        return self._rows[id(space)][0]

    def more(self, space: Space) -> int:
        """How many rows come."""
        return 0 if space.origin is None else len(self.removal(space))

    def _start(self, space: Space, key: Any) -> int:
        """Where the new rows of a type begin in a space."""
        start = space.size
        for other, one in self.added.items():
            if other == key:
                break
            start += len(self.templates.slots(space, other)) * len(one)
        return start

    def index(self, space: Space, index: Tensor, target: Space) -> Tensor:
        """The rows of `target` that the new rows of a space name by an index."""
        known = (id(space), id(index), id(target))
        if known not in self._index:
            parts = []
            for key, one in self.added.items():
                for rows in self.templates.slots(space, key):
                    what, which = self.templates.end(rows, index, target, key)
                    if what == "slot":
                        every = torch.arange(len(one)) + which * len(one)
                        parts.append(every + self._start(target, key))
                    elif what == "row":
                        parts.append(torch.full_like(one.source, which))
                    else:
                        found = self.templates.places(target)[(one.source, one.target)[which]]
                        if bool((found < 0).any()):
                            raise CannotComeError(f"a new edge has none of the {target.label}")
                        parts.append(found)
            found = torch.cat(parts) if parts else index[:0]
            self._index[known] = (found, (space, index, target))
        return self._index[known][0]

    def at(self, space: Space, index: Tensor, target: Space, rows: Tensor) -> Tensor:
        """`index[rows]`, new rows included."""
        more = self.more(space)
        if not more:
            return index[rows]
        new = rows >= space.size
        found = index[rows.clamp(max=space.size - 1)]
        found[new] = self.index(space, index, target)[rows[new] - space.size]
        return found

    def concat(self, step: Concat) -> list[Tensor]:
        """Of every part: the number, in the whole, of each of its new rows."""
        found = []
        made = 0
        for part, start in zip(step.inputs, step.starts, strict=False):
            mine = torch.full((self.more(part.space),), -1)
            for key, one in self.added.items():
                whole = self.templates.slots(step.output.space, key)
                every = torch.arange(len(one))
                for at, rows in enumerate(self.templates.slots(part.space, key)):
                    for place, there in enumerate(whole):
                        if torch.equal(there, rows + start):
                            first = self._start(part.space, key) - part.space.size
                            mine[first + at * len(every) + every] = (
                                self._start(step.output.space, key) + place * len(every) + every
                            )
            if bool((mine < 0).any()):
                raise CannotComeError("new edges are put together with others in an unknown order")
            made += len(mine)
            found.append(mine)
        if made != self.more(step.output.space):
            raise CannotComeError("new edges are put together with others in an unknown order")
        return found

    def rows(self, value: Value) -> Tensor:
        """The new rows of a value that nothing changes but what is said of the edges themselves."""
        if id(value) not in self._values:
            self._values[id(value)] = (self._made(value), value)
        return self._values[id(value)][0]

    def _made(self, value: Value) -> Tensor:
        space, step = value.space, value.step
        if id(value) in self.templates.given:
            return self._said(*self.templates.given[id(value)])
        if step is None:
            assert value.base is not None
            first = value.base[:1]
            if not bool(
                ((value.base == first) | ((value.base != value.base) & (first != first))).all()
            ):
                raise CannotComeError(f"the model has numbers of its own for the {space.label}")
            return first.expand(self.more(space), *first.shape[1:])
        if isinstance(step, Rows):
            if not self.more(space):
                return value.at(torch.zeros(0, dtype=torch.long))
            return step.function(*(self.rows(one) for one in step.inputs))
        if isinstance(step, Gather):
            source = step.inputs[0]
            index = self.index(space, step.index, source.space)
            if not self.more(source.space):
                if not source.static:
                    raise CannotComeError("what is said of new edges depends on what changes")
                return source.at(index)
            every = self.rows(source)
            if bool((index < source.space.size).any()):
                raise CannotComeError("what is said of new edges is read from others")
            return every[index - source.space.size]
        raise CannotComeError(
            f"what is said of new edges is made in an unknown way ({type(step).__name__})"
        )

    def _said(self, key: Any, name: str, value: Value) -> Tensor:
        """What was said of the new edges."""
        none = value.at(torch.zeros(0, dtype=torch.long))
        one = self.added.get(key)
        if one is None:
            return none
        if name == "edge_index":
            return torch.stack([one.source, one.target], dim=1) - self.templates.shift(key).t()
        if name == "adj_t":
            found = one.attributes.get("edge_weight")
            return none.new_ones(len(one)) if found is None else found.to(none)
        if name not in one.attributes:
            raise CannotComeError(f"{name} of a new edge is not known")
        return one.attributes[name].to(none)

    def of_convolution(self, rule: AddedEdgeRule) -> tuple[Tensor, ...]:
        """Added edges of a convolution: `edit`, `which` of all added edges, `source`, `target`, `weight`."""
        space = rule.space
        edit, which = self.removal(space), self._which(space)
        source, target = (self._global(space, rule.ends, side) for side in (0, 1))
        weight = torch.ones_like(edit, dtype=torch.double)
        if rule.weight is not None:
            weight = self._beside(rule.weight, space).reshape(-1).double()
        columns = (edit, which, source, target, weight)
        if rule.kind is None:
            return columns
        value, wanted = rule.kind
        mine = self._beside(value, space) == wanted
        return tuple(column[mine] for column in columns)

    def _which(self, space: Space) -> Tensor:
        """Which of all added edges each new row of a space is `[rows]`."""
        parts, start = [self.removal(space)[:0]], 0
        for key, one in self.added.items():
            parts += [torch.arange(len(one)) + start] * len(self.templates.slots(space, key))
            start += len(one)
        return torch.cat(parts)

    def _beside(self, value: Value, space: Space) -> Tensor:
        """New rows of what is said of the edges of a space."""
        if value.space is not space:
            theirs, own = value.space.origin, space.origin
            if theirs is None or own is None or not torch.equal(theirs, own):
                raise CannotComeError("what is said of edges stands in another order")
        return self.rows(value)

    def _global(self, space: Space, ends: Tensor, side: int) -> Tensor:
        """Where the new rows of a space begin or end, by what its other rows do; `ends` is `[2, rows]`."""
        parts = []
        for key, one in self.added.items():
            for rows in self.templates.slots(space, key):
                which = self.templates.side(rows, ends, side, key)
                parts.append((one.source, one.target)[which])
        return torch.cat(parts) if parts else ends[side, :0]

    def seeds(self, steps: Sequence[Step]) -> dict[int, Changed]:
        """New rows of all that is given, by the value's id."""
        found = {}
        for step in steps:
            for value in step.inputs:
                if value.step is None and self.more(value.space) and id(value) not in found:
                    every = torch.arange(self.more(value.space)) + value.space.size
                    found[id(value)] = sorted_by_removal(
                        self.removal(value.space), every, self.rows(value), self.count
                    )
        return found

    def check(self, plan: Plan) -> None:
        """Look everything up that the steps will ask for.

        Raises:
            CannotComeError: Where something is not known.
        """
        for step in plan.steps:
            if isinstance(step, Gather):
                self._check_gather(step)
            elif isinstance(step, Scatter):
                self._check_scatter(step)
            elif isinstance(step, WeightedSum):
                self._check_gather(step.gather)
                self._check_scatter(step.scatter)
            elif isinstance(step, Grouped):
                if self.more(step.nodes):
                    raise CannotComeError("edges are made of other edges")
                self._check_into(step.edges, step.index, step.nodes)
            elif isinstance(step, Concat):
                self.concat(step)
            elif isinstance(step, WholeOp) and step.extremum and not self.more(step.output.space):
                continue  # in whichever order
            elif not isinstance(step, Rows) and any(
                self.more(value.space) for value in (*step.inputs, step.output)
            ):
                raise CannotComeError("an operation takes all edges at once")
            edges = getattr(step, "edges", None)
            if isinstance(edges, Edges):
                self._check_edges(edges)
        self.seeds(plan.steps)

    def _check_edges(self, edges: Edges) -> None:
        rule = edges.for_added
        if rule is None:
            raise CannotComeError("a rule does not say what becomes of an added edge")
        if rule.kind is not None:
            value, _ = rule.kind
            known = self.templates.distinct(value)
            if not bool(torch.isin(self._beside(value, rule.space), known).all()):
                raise CannotComeError("the graph has no edge of the added kind")
        weight = self.of_convolution(rule)[4]
        summed = rule.weight is not None and edges.normalise == "sym" and edges.weight is not None
        if summed and not well_behaved(torch.cat([edges.weight_range, weight])):
            raise CannotComeError("weights whose sums cancel are summed again")

    def _check_gather(self, step: Gather) -> None:
        if self.more(step.output.space):
            self.index(step.output.space, step.index, step.inputs[0].space)

    def _check_scatter(self, step: Scatter) -> None:
        if step.reduce == "last" and self.more(step.inputs[0].space):
            raise CannotComeError("the last of several edges decides")
        self._check_into(step.inputs[0].space, step.index, step.output.space)

    def _check_into(self, space: Space, index: Tensor, target: Space) -> None:
        if self.more(target) and self.more(space):
            raise CannotComeError("edges are made of other edges")
        if self.more(space):
            self.index(space, index, target)
