"""Added edges, as rows of every space that a model makes of the graph's edges.

A model does the same with an added edge as with those that are there: it reads its source, adds to
its target, turns it round, leaves it in front of the self-loops. What that is can be read off the edges of
the graph: where each of them stands in a space, and which of its ends an index names there. Only what
holds for *every* edge of a type (self-loops apart) holds for a new one; where edges of a type differ in
this, a full pass is taken.

New rows follow the last one of their space. They are rows that have changed, in every value of the space, so
that their original rows are never read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from nora.engine.exec.edge_templates import AddedEdgeError, Templates
from nora.engine.ir.changed_rows import ChangedRows
from nora.engine.ir.edges import Edges, well_behaved
from nora.engine.ir.op import Op, RowOp, Value
from nora.engine.ir.pointers import owner_of
from nora.engine.ir.space import Space
from nora.engine.ops.gather import Concat, Gather, sorted_by_removal
from nora.engine.ops.reduce import Reduce
from nora.engine.ops.whole import WholeGraphOp
from nora.engine.passes.fuse_aggregation import WeightedSum
from nora.engine.passes.fuse_softmax import Grouped
from nora.graph.edge_lookup import EdgeType
from nora.graph.edit_batch import AddedEdges

if TYPE_CHECKING:
    from nora.engine.ir.edges import AddedEdgeRule
    from nora.engine.program import Program


class AddedTypeRows(NamedTuple):
    """A new row for every added edge of a type in a space.

    Attributes:
        key: The edge type.
        rows: The rows of the space that the graph's own edges of the type have here; see `Templates.slots`.
        which: The added edges.
        new: Their rows.
    """

    key: EdgeType
    rows: Tensor
    which: Tensor
    new: Tensor


class AddedRows:
    """The edges that the edits of a chunk add, in every space.

    Args:
        templates: What edges become.
        added: The edges, by type.
        count: The number of edits in the chunk.

    Attributes:
        ends: Sources and targets of all added edges, global ids `[2, m]`.
        edit: The edit of each `[m]`.
        which: Which of them are of a type.
    """

    def __init__(
        self, templates: Templates, added: Mapping[EdgeType, AddedEdges], count: int
    ) -> None:
        self.templates, self.added, self.num_edits = templates, added, count
        self.which: dict[EdgeType, Tensor] = {}
        start = 0
        for key, one in added.items():
            templates.of(key)
            self.which[key] = torch.arange(start, start + len(one))
            start += len(one)
        parts = [one.edge_index + templates.shift(key) for key, one in added.items()]
        self.ends = torch.cat(parts, dim=1)
        self.edit_of = torch.cat([owner_of(one.ptr) for one in added.values()])
        self._slots: dict[Space, list[AddedTypeRows]] = {}
        self._index: dict[tuple[Space, Tensor, Space], Tensor] = {}
        self._values: dict[Value, Tensor] = {}

    @cached_property
    def loops(self) -> bool:
        """Whether a self-loop is added."""
        return bool((self.ends[0] == self.ends[1]).any())

    def slots(self, space: Space) -> list[AddedTypeRows]:
        """The new rows of a space: one for every added edge of a type, as often as others have one."""
        if space not in self._slots:
            found, start = [], space.size
            for key, which in self.which.items():
                for rows in self.templates.slots(space, key):
                    found.append(AddedTypeRows(key, rows, which, start + torch.arange(len(which))))
                    start += len(which)
            self._slots[space] = found
        return self._slots[space]

    def edges(self, space: Space) -> Tensor:
        """Which of all added edges each new row of a space is `[rows]`."""
        return torch.cat([self.ends[0, :0], *(slot.which for slot in self.slots(space))])

    def edit(self, space: Space) -> Tensor:
        """The edit of each new row of a space `[rows]`."""
        return self.edit_of[self.edges(space)]

    def count(self, space: Space) -> int:
        """How many rows are new."""
        return 0 if space.origin is None else sum(len(slot.new) for slot in self.slots(space))

    def index(self, space: Space, index: Tensor, target: Space) -> Tensor:
        """The rows of `target` that the new rows of a space name by an index."""
        known = (space, index, target)
        if known not in self._index:
            parts = [index[:0], *(self._named(slot, index, target) for slot in self.slots(space))]
            self._index[known] = torch.cat(parts)
        return self._index[known]

    def _named(self, slot: AddedTypeRows, index: Tensor, target: Space) -> Tensor:
        what, at = self.templates.end(slot.rows, index, target, slot.key)
        if what == "slot":
            return [other for other in self.slots(target) if other.key == slot.key][at].new
        if what == "row":
            return torch.full_like(slot.which, at)
        found = self.templates.places(target)[self.ends[at, slot.which]]
        if bool((found < 0).any()):
            raise AddedEdgeError(f"a new edge has none of the {target.label}")
        return found

    def at(self, space: Space, index: Tensor, target: Space, rows: Tensor) -> Tensor:
        """`index[rows]`, new rows included."""
        more = self.count(space)
        if not more:
            return index[rows]
        new = rows >= space.size
        found = index[rows.clamp(max=space.size - 1)]
        found[new] = self.index(space, index, target)[rows[new] - space.size]
        return found

    def concat(self, op: Concat) -> list[Tensor]:
        """Of every part: the row, in the whole, of each of its new rows."""
        whole, found = self.slots(op.output.space), []
        for part, start in zip(op.inputs, op.starts, strict=False):
            mine = [torch.empty(0, dtype=torch.long)]
            for slot in self.slots(part.space):
                rows = slot.rows + start
                mine += [o.new for o in whole if o.key == slot.key and torch.equal(o.rows, rows)]
            found.append(torch.cat(mine))
            if len(found[-1]) != self.count(part.space):
                raise AddedEdgeError(
                    "the model concatenates added edges with others in an unknown order"
                )
        if sum(map(len, found)) != self.count(op.output.space):
            raise AddedEdgeError(
                "the model concatenates added edges with others in an unknown order"
            )
        return found

    def rows(self, value: Value) -> Tensor:
        """The new rows of a value that depends on attributes of the edges alone."""
        if value not in self._values:
            self._values[value] = self._made(value)
        return self._values[value]

    def _made(self, value: Value) -> Tensor:
        space, op = value.space, value.op
        if value in self.templates.given:
            return self._attribute(*self.templates.given[value], value)
        if op is None:
            assert value.base is not None
            first = value.base[:1]
            if not bool(
                ((value.base == first) | ((value.base != value.base) & (first != first))).all()
            ):
                raise AddedEdgeError(f"the model stores values for the {space.label}")
            return first.expand(self.count(space), *first.shape[1:])
        if isinstance(op, RowOp):
            if not self.count(space):
                return value.none
            return op.function(*(self.rows(one) for one in op.inputs))
        if isinstance(op, Gather):
            source = op.inputs[0]
            index = self.index(space, op.index, source.space)
            if not self.count(source.space):
                if not source.static:
                    raise AddedEdgeError("attributes of added edges depend on changed values")
                return source.at(index)
            every = self.rows(source)
            if bool((index < source.space.size).any()):
                raise AddedEdgeError("attributes of added edges are read from other edges")
            return every[index - source.space.size]
        raise AddedEdgeError(
            f"attributes of added edges are computed in an unsupported way ({type(op).__name__})"
        )

    def _attribute(self, key: EdgeType, name: str, value: Value) -> Tensor:
        """An attribute of the added edges of a type."""
        none = value.none
        one = self.added.get(key)
        if one is None:
            return none
        if name == "edge_index":
            return one.edge_index.t()
        if name == "adj_t":
            found = one.attributes.get("edge_weight")
            return none.new_ones(len(one)) if found is None else found.to(none)
        if name not in one.attributes:
            raise AddedEdgeError(f"{name} of an added edge is unknown")
        return one.attributes[name].to(none)

    def of_convolution(self, rule: AddedEdgeRule) -> tuple[Tensor, ...]:
        """Added edges of a convolution: `edit`, `which` of all added edges, `source`, `target`, `weight`."""
        which = self.edges(rule.space)
        source, target = (self._ends(rule, side) for side in (0, 1))
        weight = torch.ones_like(which, dtype=torch.double)
        if rule.weight is not None:
            weight = self._beside(rule.weight, rule.space).reshape(-1).double()
        columns = (self.edit_of[which], which, source, target, weight)
        if rule.kind is None:
            return columns
        value, wanted = rule.kind
        mine = self._beside(value, rule.space) == wanted
        return tuple(column[mine] for column in columns)

    def _ends(self, rule: AddedEdgeRule, side: int) -> Tensor:
        """The sources or targets of the added edges of a convolution."""
        slots, side_of = self.slots(rule.space), self.templates.side
        parts = [self.ends[side_of(one.rows, rule.ends, side, one.key), one.which] for one in slots]
        return torch.cat([self.ends[side, :0], *parts])

    def _beside(self, value: Value, space: Space) -> Tensor:
        """New rows of an attribute of the edges of a space."""
        if value.space is not space:
            theirs, own = value.space.origin, space.origin
            if theirs is None or own is None or not torch.equal(theirs, own):
                raise AddedEdgeError("the model changes the order of edge attributes")
        return self.rows(value)

    def seeds(self, ops: Sequence[Op]) -> dict[Value, ChangedRows]:
        """New rows of all values that are given."""
        found = {}
        for op in ops:
            for value in op.inputs:
                if value.op is None and self.count(value.space) and value not in found:
                    every = torch.arange(self.count(value.space)) + value.space.size
                    found[value] = sorted_by_removal(
                        self.edit(value.space), every, self.rows(value), self.num_edits
                    )
        return found

    def check(self, program: Program) -> None:
        """Look everything up that the ops will ask for.

        Raises:
            AddedEdgeError: Where something is not known.
        """
        for op in program.ops:
            if isinstance(op, Gather):
                self._check_gather(op)
            elif isinstance(op, Reduce):
                self._check_scatter(op)
            elif isinstance(op, WeightedSum):
                self._check_gather(op.gather)
                self._check_scatter(op.scatter)
            elif isinstance(op, Grouped):
                if self.count(op.along.nodes):
                    raise AddedEdgeError("the model computes new edges from other edges")
                self._check_into(op.along.edges, op.along.index, op.along.nodes)
            elif isinstance(op, Concat):
                self.concat(op)
            elif isinstance(op, WholeGraphOp) and op.extremum and not self.count(op.output.space):
                continue  # in whichever order
            elif not isinstance(op, RowOp) and any(
                self.count(value.space) for value in (*op.inputs, op.output)
            ):
                raise AddedEdgeError("an operation needs all edges at once")
            edges = getattr(op, "edges", None)
            if isinstance(edges, Edges):
                self._check_edges(edges)
        self.seeds(program.ops)

    def _check_edges(self, edges: Edges) -> None:
        rule = edges.for_added
        if rule is None:
            raise AddedEdgeError("a rule does not support added edges")
        if rule.kind is not None:
            value, _ = rule.kind
            known = self.templates.distinct(value)
            if not bool(torch.isin(self._beside(value, rule.space), known).all()):
                raise AddedEdgeError("the graph has no edge of the added type")
        weight = self.of_convolution(rule)[4]
        summed = rule.weight is not None and edges.normalise == "sym" and edges.weight is not None
        if summed and not well_behaved(torch.cat([edges.weight_range, weight])):
            raise AddedEdgeError(
                "the sum of edge weights cancels, and would have to be computed again"
            )

    def _check_gather(self, op: Gather) -> None:
        if self.count(op.output.space):
            self.index(op.output.space, op.index, op.inputs[0].space)

    def _check_scatter(self, op: Reduce) -> None:
        if op.reduce == "last" and self.count(op.inputs[0].space):
            raise AddedEdgeError(
                "the model assigns values to some edges, and the last one of several decides"
            )
        self._check_into(op.inputs[0].space, op.index, op.output.space)

    def _check_into(self, space: Space, index: Tensor, target: Space) -> None:
        if self.count(target) and self.count(space):
            raise AddedEdgeError("the model computes new edges from other edges")
        if self.count(space):
            self.index(space, index, target)
