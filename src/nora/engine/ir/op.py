"""The base class of operations: how an op computes its rows, and which of them an edit changes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from nora.engine.exec.kernels.backend import Backend
from nora.engine.ir.changed_rows import ChangedRows, Drift, Frontier
from nora.engine.ir.edges import EdgeDelta, Edges
from nora.engine.ir.pointers import find_unsorted, owner_of
from nora.engine.ir.space import Space
from nora.engine.store.array_store import enter, moved
from nora.graph.edit_batch import EditBatch
from nora.sparse import expanded

if TYPE_CHECKING:
    from nora.engine.estimate.sampling import ChunkSampling
    from nora.engine.exec.added_edges import AddedRows

# A block of rows should stay in a core's own cache while it goes through a map.
BLOCK_BYTES = 2**19
# What is made of a block of rows.
Then = Callable[[Tensor], tuple[Tensor, ...]]
# The form of a row-wise function.
Form = Literal["", "affine", "relu"]
# The depth of a value that changes at every node, however far it is from the removed one.
EVERYWHERE = 1_000_000


@dataclass(eq=False)
class Value:
    """Rows of a space on the original graph, made by an operation.

    Attributes:
        space: Where its rows live.
        depth: How many hops from a removed node its rows can change; −1: never; `EVERYWHERE` or more: all
            change.
        base: Original rows `[size, …]`, while they are needed.
        op: The operation that computes them; None for inputs.
        stored: Whether all rows are stored if any are needed; else they are computed on demand.
        kept: The same rows in a saved engine, read on demand.
        like: An empty tensor `[0, …]` with their shape and type, once known.
    """

    space: Space
    depth: int
    base: Tensor | None = None
    op: Op | None = None
    stored: bool = True
    kept: Tensor | None = None
    like: Tensor | None = None

    def __post_init__(self) -> None:
        if self.base is not None:
            self.like = self.base.new_empty(0, *self.base.shape[1:])
        enter("value", self)

    @property
    def static(self) -> bool:
        """Whether no edit changes any remaining row."""
        return self.depth < 0

    @property
    def none(self) -> Tensor:
        """An empty tensor `[0, …]` with the shape and type of the rows."""
        return self.at(torch.zeros(0, dtype=torch.long))

    @property
    def width(self) -> int:
        """Numbers per row."""
        if self.like is None:
            self.like = self.at(torch.zeros(min(1, self.space.size), dtype=torch.long))[:0].clone()
        return math.prod(self.like.shape[1:]) if self.space.size else 0

    def write(self, node: Tensor, rows: Tensor) -> None:
        """Make new rows the original ones, where these are kept."""
        if self.base is not None:
            self.base.index_copy_(0, node, rows)

    def base_rows(self) -> Tensor:
        """All original rows."""
        if self.base is None:
            self.base = self.kept
        if self.base is not None:
            return self.base
        assert self.op is not None, "given rows are never freed"
        found = self.op.compute(*(value.base_rows() for value in self.op.inputs))
        self.like = found.new_empty(0, *found.shape[1:])
        if self.stored:
            self.base = found = moved(found)
        return found

    def at(self, rows: Tensor) -> Tensor:
        """Some original rows."""
        if self.base is not None:
            return self.base[rows]
        if self.like is not None and not rows.numel():
            return self.like
        if self.stored:
            return self.base_rows()[rows]
        assert self.op is not None
        return self.op.at(rows)


@dataclass
class Tally:
    """What a chunk took, and how much of it was left to chance.

    Attributes:
        bytes: Memory of all changed rows on the way.
        full_passes: Edits that broke a guard, and got a full pass each.
        planned: The variance that each removal's draws were planned with, in units of importance, float64
            `[c]`: 0 where all rows were computed; None where none are drawn.
    """

    bytes: int = 0
    full_passes: int = 0
    planned: Tensor | None = None


@dataclass(frozen=True)
class Chunk:
    """One chunk of edits on its way through the program.

    Attributes:
        moved: `Drift.moved` of the ops whose rows are updated in place.
        drift: Their drift after the edit, filled by the ops.
        writes: Whether rows are updated in place: those of every value as soon as no op needs the old ones.
    """

    edits: EditBatch
    num_nodes: int
    backend: Backend
    tally: Tally = field(default_factory=Tally)
    gone: dict[Space, tuple[Tensor, Tensor]] = field(default_factory=dict)
    deltas: dict[Edges, EdgeDelta] = field(default_factory=dict)
    added_rows: AddedRows | None = None
    sampling: ChunkSampling | None = None
    moved: Mapping[Op, Tensor] = field(default_factory=dict)
    drift: dict[Op, Drift] = field(default_factory=dict)
    writes: bool = False

    def drift_of(self, op: Op, node: Tensor, sent: Tensor, like: Tensor) -> Drift | None:
        """The drift of the reached rows of an op, if they are updated in place; see `Drift.of`."""
        if op in self.moved:
            self.drift[op] = Drift.of(self.moved[op], node, sent, like)
        return self.drift.get(op)

    def num_added(self, space: Space) -> int:
        """How many rows are added to a space."""
        return 0 if self.added_rows is None else self.added_rows.count(space)

    def original(self, value: Value, rows: Tensor) -> Tensor:
        """Original rows; arbitrary for added rows, which have all changed."""
        if self.num_added(value.space):
            rows = rows.clamp(max=value.space.size - 1)
        return value.at(rows)

    def nothing(self) -> ChangedRows:
        """No changed rows."""
        edits = self.edits
        return ChangedRows(torch.zeros_like(edits.ptr), edits.node[:0], torch.empty(0))

    def frontier(self, edges: Edges, changed: ChangedRows, also: tuple[Tensor, Tensor]) -> Frontier:
        """Where changed rows arrive; the pairs `also` (`ptr`, `node`) are reached in any case.

        So are the targets of removed and added edges.
        """
        delta, (ptr, node) = self.delta(edges), also
        if not len(delta):
            return self.backend.find_frontier(edges, self.edits, changed, also, delta)
        edit = torch.cat([owner_of(ptr), owner_of(delta.ptr)])
        order = edit.argsort(stable=True)
        both = ptr + delta.ptr, torch.cat([node, delta.target])[order]
        frontier = self.backend.find_frontier(edges, self.edits, changed, both, delta)
        slot = torch.empty_like(frontier.also)
        slot[order] = frontier.also
        frontier.edges_changed[slot[len(node) :]] = True
        return replace(frontier, also=slot[: len(node)])

    def delta(self, edges: Edges) -> EdgeDelta:
        """The edges that are removed from and added to a convolution."""
        if edges not in self.deltas:
            self.deltas[edges] = edges.delta(self.edits, self.added_rows)
        return self.deltas[edges]

    def lost(self, space: Space) -> tuple[Tensor, Tensor]:
        """The rows of a space that every edit removes: `edit`, `row`."""
        if space not in self.gone:
            self.gone[space] = space.lost(self.edits)
        return self.gone[space]

    def align(self, values: Sequence[Value], changed: Sequence[ChangedRows]) -> list[ChangedRows]:
        """Bring all inputs to the same pairs; rows that did not change are filled in from the original."""
        if not any(len(c) for c in changed):
            none = torch.zeros(0, dtype=torch.long, device=self.edits.node.device)
            return [
                ChangedRows(c.ptr, c.node, v.at(none)) for c, v in zip(changed, values, strict=True)
            ]
        size = values[0].space.size + self.num_added(values[0].space)
        joined = next(c for c in changed if len(c))
        places: dict[Tensor, Tensor | None] = {joined.node: None}
        for other in changed:
            if len(other) and other.node not in places:
                if _same_pairs(other, joined):
                    places[other.node] = None
                    continue
                ptr, node, at, at_other = self.backend.union(joined, other, size)
                places = {key: at if old is None else at[old] for key, old in places.items()}
                places[other.node] = at_other
                joined = ChangedRows(ptr, node, other.rows)
        aligned = []
        for value, c in zip(values, changed, strict=True):
            place = places.get(c.node) if len(c) else None
            if len(c) and place is None:
                rows = c.rows
            elif len(c) == len(joined.node) and place is not None:
                rows = torch.empty_like(c.rows)
                rows[place] = c.rows
            else:
                rows = self.original(value, joined.node)
                if len(c):
                    rows = (
                        rows.clone() if rows.data_ptr() == 0 or not rows.is_contiguous() else rows
                    )
                    rows[place] = c.rows
            aligned.append(ChangedRows(joined.ptr, joined.node, rows))
        return aligned


def _same_pairs(a: ChangedRows, b: ChangedRows) -> bool:
    return len(a) == len(b) and torch.equal(a.node, b.node) and torch.equal(a.ptr, b.ptr)


@dataclass(frozen=True, eq=False)
class Move:
    """A move of rows along edges: gathered from nodes to edges, or reduced from edges to nodes.

    Attributes:
        edges, nodes: The spaces of both.
        index: The node of each edge, `[size of edges]`.
        reduces: Whether it reduces rows of edges to nodes; else it gathers rows of nodes.
    """

    edges: Space
    nodes: Space
    index: Tensor
    reduces: bool

    def node_of(self, chunk: Chunk, row: Tensor) -> Tensor:
        """The nodes of some rows of edges, added rows included."""
        if chunk.added_rows is None:
            return self.index[row]
        return chunk.added_rows.at(self.edges, self.index, self.nodes, row)

    def edges_of(self, chunk: Chunk, edit: Tensor, node: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The edges of some pairs (edit, node) after the edit: their `owner` (the pair), `row` and `edit`."""
        indptr, found = self.nodes.sorted_by(self.index)
        owner, position, _ = expanded(indptr, node)
        row, whose = found[position], edit[owner]
        left = self.edges.survive(chunk.edits, whose, row)
        owner, row, whose = owner[left], row[left], whose[left]
        added = chunk.added_rows
        if added is None or not added.count(self.edges):
            return owner, row, whose
        new, size = added.edit(self.edges), self.nodes.size
        wanted = new * size + added.index(self.edges, self.index, self.nodes)
        at, there = find_unsorted(edit * size + node, wanted)
        rows = (torch.arange(len(wanted)) + self.edges.size)[there]
        return (
            torch.cat([owner, at[there]]),
            torch.cat([row, rows]),
            torch.cat([whose, new[there]]),
        )


class Op(ABC):
    """An operation: computes original rows once, and changed rows for every chunk.

    A new kind of operation defines `compute`, `changed`, `set_depth` and `hops`. All other methods have
    defaults that are correct for any operation, and can be overridden to be faster.

    Attributes:
        inputs: The values it reads.
        output: The value it makes.
        rowwise: Whether every output row depends only on the same row of the inputs.
        scales: The input whose rows are scaled by one number per row of the other, if the op does only that.
        samples: Whether it can compute a random sample of changed rows, and uses the weights of changed input
            rows.
        leads: Whether it passes its rows in blocks to the row-wise ops that alone read them.
    """

    rowwise = False
    scales: Value | None = None
    samples = False
    leads = False

    def __init__(self, inputs: Sequence[Value], output: Value) -> None:
        self.inputs = tuple(inputs)
        self.output = output
        output.op = self
        enter("step", self)

    @abstractmethod
    def changed(self, chunk: Chunk, inputs: Sequence[ChangedRows]) -> ChangedRows:
        """Changed output rows from changed input rows."""

    def passed_on(
        self, chunk: Chunk, inputs: Sequence[ChangedRows], then: Then
    ) -> Sequence[ChangedRows]:
        """Changed rows of the values of `then`, from changed output rows; empty if there are none."""
        changed = self.changed(chunk, inputs)
        if not len(changed):
            return []
        return [replace(changed, rows=rows) for rows in then(changed.rows)]

    @abstractmethod
    def compute(self, *inputs: Tensor) -> Tensor:
        """All output rows from all input rows, on the whole graph; differentiable."""

    def at(self, rows: Tensor) -> Tensor:
        """Some original output rows."""
        return self.output.base_rows()[rows]

    def row_share(self, source: Tensor, target: Tensor) -> Tensor | None:
        """The share of each source's row of the first input that arrives at its target, `[M]` or `[M, H]`.

        None if the op does not pass rows on in proportion.
        """
        return None

    def importances(self, importance: Tensor) -> Sequence[Tensor]:
        """Importance of the rows of each input, given the importance of the output's rows `[N]`."""
        return [importance if self.rowwise else torch.ones_like(importance) for _ in self.inputs]

    def set_depth(self) -> None:
        """Set the depth of the output from those of the inputs; called if it can change at all."""
        self.output.depth = max(value.depth for value in self.inputs)

    def hops(self) -> Sequence[tuple[Tensor, Tensor]]:
        """How a change can move in one hop: pairs (changed node, reached node)."""
        return ()

    def needs(self) -> Sequence[Value]:
        """The values whose original rows this op reads."""
        return self.inputs

    def move(self) -> Move | None:
        """How it moves rows between edges and nodes, if it does only that; else None."""
        return None

    def within(self, owner: Tensor, *inputs: Tensor) -> Tensor:
        """As `compute`, on the rows of some nodes and of the edges into them; edge `i` leads to `owner[i]`.

        Asked of ops that move rows along these edges or are row-wise.
        """
        return self.compute(*inputs)

    def absorbed(self, inner: Op) -> Op | None:
        """This op fused with `inner`, which computes one of its inputs, if both can be one op."""
        return None


class RowOp(Op):
    """A row-wise function.

    Args:
        function: From rows of the inputs to rows of the output.
        inputs: The values it reads.
        output: The value it makes.
        form: `affine` in all inputs together, `relu`, or unknown.
        scales: See `Op`.
    """

    rowwise = True

    def __init__(
        self,
        function: Callable[..., Tensor],
        inputs: Sequence[Value],
        output: Value,
        form: Form = "",
        scales: Value | None = None,
    ) -> None:
        super().__init__(inputs, output)
        self.function, self.form, self.scales = function, form, scales

    def changed(self, chunk: Chunk, inputs: Sequence[ChangedRows]) -> ChangedRows:
        """Apply the function to the changed rows, in blocks that stay in cache."""
        if not any(len(c) for c in inputs):
            return chunk.nothing()
        weight = next(c.weight for c in inputs if len(c))
        if len(inputs) > 1:
            inputs = chunk.align(self.inputs, inputs)
        first = inputs[0]
        wide = max(c.rows[:1].numel() * c.rows.element_size() for c in inputs)
        block = max(64, BLOCK_BYTES // max(wide, 1))
        if len(first) <= 2 * block:
            rows = self.function(*(c.rows for c in inputs))
        else:
            blocks = zip(*(c.rows.split(block) for c in inputs), strict=True)
            rows = torch.cat([self.function(*block) for block in blocks])
        return ChangedRows(first.ptr, first.node, rows, weight)

    def compute(self, *inputs: Tensor) -> Tensor:
        """See `Op.compute`."""
        return self.function(*inputs)

    def at(self, rows: Tensor) -> Tensor:
        """See `Op.at`."""
        return self.function(*(value.at(rows) for value in self.inputs))

    def needs(self) -> Sequence[Value]:
        """Original rows matter only where several inputs meet."""
        return self.inputs if len(self.inputs) > 1 else ()

    def absorbed(self, inner: Op) -> RowOp | None:
        """Fuse with another row-wise function that computes an input, so the rows in between are never
        stored.

        Only if this one reads nothing else, or nothing that the other does not read too: then the same rows
        change, and no row is computed in vain.
        """
        others = {value for value in self.inputs if value is not inner.output}
        if not isinstance(inner, RowOp) or (others and not others.issuperset(inner.inputs)):
            return None
        kept = [value for value in self.inputs if value is not inner.output]
        inputs = list(dict.fromkeys([*kept, *inner.inputs]))
        of_inner = [inputs.index(value) for value in inner.inputs]
        of_outer = [None if value is inner.output else inputs.index(value) for value in self.inputs]
        first, second = inner.function, self.function

        def function(*rows: Tensor) -> Tensor:
            made = first(*(rows[at] for at in of_inner))
            return second(*(made if at is None else rows[at] for at in of_outer))

        both: Form = "affine" if inner.form == self.form == "affine" else ""
        return RowOp(function, inputs, self.output, both)
