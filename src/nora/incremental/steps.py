"""The kinds of steps a plan is made of, and what each does with changed rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType

import torch
from torch import Tensor

from nora.incremental.changed import Attention, Changed, Reach, Removals
from nora.incremental.dense import propagate_everywhere
from nora.incremental.edges import Edges
from nora.incremental.vectorised import expanded, find, owner_of, pick, weigh

# A block of rows should stay in a core's own cache while it goes through a map.
BLOCK_BYTES = 2**19
# The depth of a value that changes at every node, however far it is from the removed one.
EVERYWHERE = 1_000_000


@dataclass(eq=False)
class Value:
    """A node-level value of the plan with its original rows.

    Attributes:
        base: Original rows `[N, …]`; freed when no step needs them.
        depth: How many hops from a removed node its rows can change; −1: they never do, `EVERYWHERE`
            or more: all of them do.
        width: Numbers per row.
    """

    base: Tensor | None
    depth: int
    width: int = 0

    def __post_init__(self) -> None:
        self.width = self.whole()[:1].numel()

    def whole(self) -> Tensor:
        """All original rows."""
        assert self.base is not None, "these rows were freed"
        return self.base


@dataclass
class Tally:
    """What a chunk took, and what pruning left out.

    Attributes:
        bytes: Memory of all changed rows on the way.
        mass: L1 mass of message changes, in typical messages.
        pruned: The part of it that was not propagated.
        lost: The same by removal `[c]`, for each step that passes messages, in order.
    """

    bytes: int = 0
    mass: float = 0.0
    pruned: float = 0.0
    lost: list[Tensor] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Share of the mass that was not propagated."""
        return self.pruned / self.mass if self.mass > 0 else 0.0


@dataclass(frozen=True)
class Chunk:
    """One chunk of removals on its way through the plan."""

    removals: Removals
    num_nodes: int
    backend: ModuleType
    tolerance: float = 0.0
    tally: Tally = field(default_factory=Tally)

    def sources(
        self, edges: Edges, changed: Changed, y: Tensor, typical: float
    ) -> tuple[Tensor, ...]:
        """Whose messages change, less those whose change is below the tolerance."""
        sources = self.backend.find_sources(edges, self.removals, changed)
        if self.tolerance <= 0:
            return sources
        ptr, source, row, scale = sources
        size = self.backend.message_change(edges, sources, y, changed.rows) / max(typical, 1e-300)
        keep = (size >= self.tolerance) | (row == -2)  # what was removed is missed in any case
        self.tally.mass += float(size.sum())
        self.tally.pruned += float(size[~keep].sum())
        lost = torch.zeros(len(ptr) - 1, dtype=torch.double, device=size.device)
        missed = torch.where(keep, torch.zeros_like(size), size).double()
        self.tally.lost.append(lost.index_add(0, owner_of(ptr), missed))
        return _passed(keep)[ptr], source[keep], row[keep], scale[keep]

    def retained(
        self, sources: tuple[Tensor, ...], inputs: Sequence[Changed]
    ) -> tuple[tuple[Tensor, ...], Sequence[Changed]]:
        """The sources, and the changed rows that are among them: what was pruned counts as unchanged."""
        ptr, source, row, scale = sources
        own = row >= 0
        if self.tolerance <= 0 or int(own.sum()) == len(inputs[0]):
            return sources, inputs
        at, node, ends = row[own], source[own], _passed(own)[ptr]
        row = torch.where(own, own.cumsum(0) - 1, row)
        return (ptr, source, row, scale), [Changed(ends, node, c.rows[at]) for c in inputs]

    def receivers(self, sources: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """The changed nodes among the sources (`ptr`, `node`): what they hear must be weighed anew."""
        ptr, source, row, _ = sources
        changed = row >= 0
        return _passed(changed)[ptr], source[changed]

    def align(self, values: Sequence[Value], changed: Sequence[Changed]) -> list[Changed]:
        """All inputs on the same pairs: rows that did not change are filled in from the original."""
        if not any(len(c) for c in changed):
            return [
                Changed(c.ptr, c.node, v.whole()[:0]) for c, v in zip(changed, values, strict=True)
            ]
        joined = next(c for c in changed if len(c))
        places: dict[int, Tensor | None] = {id(joined.node): None}
        for other in changed:
            if len(other) and id(other.node) not in places:
                ptr, node, at, at_other = self.backend.union(joined, other, self.num_nodes)
                places = {key: at if old is None else at[old] for key, old in places.items()}
                places[id(other.node)] = at_other
                joined = Changed(ptr, node, other.rows)
        aligned = []
        for value, c in zip(values, changed, strict=True):
            place = places.get(id(c.node)) if len(c) else None
            if len(c) and place is None:
                rows = c.rows
            elif len(c) == len(joined.node) and place is not None:
                rows = torch.empty_like(c.rows)
                rows[place] = c.rows
            else:
                rows = value.whole()[joined.node]
                if len(c):
                    rows[place] = c.rows
            aligned.append(Changed(joined.ptr, joined.node, rows))
        return aligned


def _passed(keep: Tensor) -> Tensor:
    """How many are kept before each position, `[n+1]`."""
    passed = torch.zeros(len(keep) + 1, dtype=torch.long, device=keep.device)
    passed[1:] = keep.cumsum(0)
    return passed


class Step(ABC):
    """One step: original rows once, changed rows for every chunk."""

    def __init__(self, inputs: Sequence[Value], output: Value) -> None:
        self.inputs = tuple(inputs)
        self.output = output

    @abstractmethod
    def changed(self, chunk: Chunk, inputs: Sequence[Changed]) -> Changed:
        """Changed output rows from changed input rows."""

    @abstractmethod
    def whole(self, *inputs: Tensor) -> Tensor:
        """All output rows from all input rows, on the whole graph; differentiable."""

    def share(self, source: Tensor, target: Tensor) -> Tensor | None:
        """How much of each source's row of the first input arrives at its target, `[M]` or `[M, H]`.

        None when the step does not pass rows on in proportion.
        """
        return None

    def needs(self) -> Sequence[Value]:
        """The values whose original rows this step reads."""
        return self.inputs


class Rows(Step):
    """A map that treats every row by itself."""

    def __init__(
        self, function: Callable[..., Tensor], inputs: Sequence[Value], output: Value
    ) -> None:
        super().__init__(inputs, output)
        self.function = function

    def changed(self, chunk: Chunk, inputs: Sequence[Changed]) -> Changed:
        """Apply the map to the changed rows, a block at a time so that they stay in cache."""
        if not any(len(c) for c in inputs):
            return Changed(inputs[0].ptr, inputs[0].node[:0], torch.empty(0))
        if len(inputs) > 1:
            inputs = chunk.align(self.inputs, inputs)
        first = inputs[0]
        block = max(64, BLOCK_BYTES // (first.rows.element_size() * first.rows[:1].numel()))
        if len(first) <= 2 * block:
            rows = self.function(*(c.rows for c in inputs))
        else:
            blocks = zip(*(c.rows.split(block) for c in inputs), strict=True)
            rows = torch.cat([self.function(*block) for block in blocks])
        return Changed(first.ptr, first.node, rows)

    def whole(self, *inputs: Tensor) -> Tensor:
        """See `Step.whole`."""
        return self.function(*inputs)

    def needs(self) -> Sequence[Value]:
        """Original rows matter only where several inputs meet."""
        return self.inputs if len(self.inputs) > 1 else ()


class Propagate(Step):
    """`out_k = left_k Σ_{j→k} weight_jk right_j y_j + plus_k`: corrected, never summed anew.

    Args:
        edges: Which messages pass, and how they are scaled.
        y: What nodes send, `[N, F]`.
        total: The sums without `left`, `[N, F]`.
        plus: What is added: a value, one row `[1, F]` for all nodes, or no rows `[0, F]`.
        output: The value it computes.
    """

    def __init__(
        self, edges: Edges, y: Value, total: Tensor, plus: Value | Tensor, output: Value
    ) -> None:
        super().__init__([y, plus] if isinstance(plus, Value) else [y], output)
        self.edges = edges
        self.total = total
        self.added = plus
        size = y.whole().abs().sum(1, dtype=torch.double)
        self.typical = edges.typical(size * edges.right)

    def changed(self, chunk: Chunk, inputs: Sequence[Changed]) -> Changed:
        """Add the changes of messages to the original outputs, and scale anew where needed."""
        rows = inputs[0]
        y, whole = self.inputs[0].whole(), self.output.whole()
        plus = self.added.whole() if isinstance(self.added, Value) else self.added
        if not len(rows):
            rows = Changed(rows.ptr, rows.node, y[:0])
        more = inputs[-1] if len(inputs) > 1 else rows
        if len(inputs) == 1 or not len(more):
            more = Changed(torch.zeros_like(more.ptr), more.node[:0], y[:0])
        everybody = len(chunk.removals) * chunk.num_nodes - len(chunk.removals.node)
        if self.inputs[0].depth >= EVERYWHERE and len(rows) == everybody:
            if chunk.tolerance > 0:  # nothing is left out here
                chunk.tally.lost.append(y.new_zeros(len(chunk.removals), dtype=torch.double))
            chunk.tally.bytes += 4 * rows.rows.nbytes
            return propagate_everywhere(self.edges, chunk.removals, rows, plus, more)
        sources = chunk.sources(self.edges, rows, y, self.typical)
        reach = chunk.backend.expand(self.edges, chunk.removals, sources, (more.ptr, more.node))
        chunk.tally.bytes += 4 * reach.slot.nbytes + len(reach.source) * y[:1].nbytes
        base = (y, self.total, plus, whole)
        out = chunk.backend.accumulate(self.edges, reach, base, rows.rows, more)
        return Changed(reach.ptr, reach.node, out)

    def whole(self, *inputs: Tensor) -> Tensor:
        """See `Step.whole`."""
        total = self.edges.total(inputs[0])
        if self.edges.normalise != "none":
            total = total * self.edges.left.to(total.dtype).unsqueeze(-1)
        if isinstance(self.added, Value):
            return total + inputs[1]
        return total + self.added if len(self.added) else total

    def share(self, source: Tensor, target: Tensor) -> Tensor:
        """See `Step.share`."""
        edges = self.edges
        return edges.between(source, target) * edges.right[source] * edges.left[target]

    def needs(self) -> Sequence[Value]:
        """Everything it reads, its own output included."""
        return [*self.inputs, self.output]


class Attend(Step):
    """`out_k = Σ_{j→k} softmax_j(LeakyReLU(near_j + far_k)) y_j`."""

    def __init__(
        self, edges: Edges, inputs: Sequence[Value], base: Attention, output: Value
    ) -> None:
        super().__init__(inputs, output)
        self.edges = edges
        self.base = base
        self.typical = edges.typical(base.y.abs().flatten(1).sum(1, dtype=torch.double))

    def changed(self, chunk: Chunk, inputs: Sequence[Changed]) -> Changed:
        """Weigh what the reached nodes hear anew."""
        inputs = chunk.align(self.inputs, inputs)
        sources = chunk.sources(self.edges, inputs[0], self.base.y, self.typical)
        sources, inputs = chunk.retained(sources, inputs)
        reach = chunk.backend.expand(self.edges, chunk.removals, sources, chunk.receivers(sources))
        chunk.tally.bytes += 4 * reach.slot.nbytes
        rows = tuple(c.rows for c in inputs)
        out = chunk.backend.attend(self.edges, chunk.removals, inputs[0], reach, self.base, rows)
        return Changed(reach.ptr, reach.node, out)

    def whole(self, *inputs: Tensor) -> Tensor:
        """See `Step.whole`."""
        y, near, far = inputs
        indptr, source, _ = self.edges.by_target
        target = owner_of(indptr)
        score = near[source] + far[target]
        return weigh(score, y[source], target, self.edges.num_nodes, self.base.slope)[0]

    def share(self, source: Tensor, target: Tensor) -> Tensor:
        """See `Step.share`: the attention weight of every head."""
        base = self.base
        score = base.near[source] + base.far[target]
        score = torch.where(score < 0, score * base.slope, score)
        weight = (score - base.peak[target]).exp() / base.share[target]
        edges = self.edges.between(source, target).to(weight.dtype).unsqueeze(-1)
        # Who hears nobody has no softmax: its weight is not a number.
        return torch.where(edges > 0, weight * edges, torch.zeros_like(weight))


class Local(Step):
    """Any convolution whose output at a node depends on its own and its in-neighbours' rows only.

    The module itself is called on a small graph: one copy of every reached node, its in-neighbours
    around it, and the edges between them.

    Args:
        call: `(node rows, edge_index, edge positions) -> output rows`.
        edges: The data's edges, without added self-loops.
        inputs: Node-level inputs, the messages first.
        output: The value it computes.
    """

    def __init__(
        self,
        call: Callable[[list[Tensor], Tensor, Tensor], Tensor],
        edges: Edges,
        inputs: Sequence[Value],
        output: Value,
    ) -> None:
        super().__init__(inputs, output)
        self.call = call
        self.edges = edges
        self.no_rows = output.whole()[:0].clone()
        size = self.inputs[0].whole().abs().flatten(1).sum(1, dtype=torch.double)
        self.typical = edges.typical(size)

    def changed(self, chunk: Chunk, inputs: Sequence[Changed]) -> Changed:
        """Recompute every reached neighbourhood."""
        inputs = chunk.align(self.inputs, inputs)
        y = self.inputs[0].whole()
        sources = chunk.sources(self.edges, inputs[0], y, self.typical)
        sources, inputs = chunk.retained(sources, inputs)
        reach = chunk.backend.expand(self.edges, chunk.removals, sources, chunk.receivers(sources))
        heard = int((self.edges.count[reach.node] + 1).sum())
        width = self.output.width + sum(value.width for value in self.inputs)
        chunk.tally.bytes += heard * (width * self.no_rows.element_size() + 32)
        return Changed(reach.ptr, reach.node, self.recompute(chunk.removals, inputs, reach))

    def whole(self, *inputs: Tensor) -> Tensor:
        """See `Step.whole`."""
        every = torch.arange(self.edges.source.numel(), device=self.edges.source.device)
        edge_index = torch.stack([self.edges.source, self.edges.target])
        return self.call(list(inputs), edge_index, every)

    def recompute(self, removals: Removals, inputs: Sequence[Changed], reach: Reach) -> Tensor:
        """Output rows `[T, …]` of the reached pairs."""
        if not len(reach.node):
            return self.no_rows
        n = self.edges.num_nodes
        changed = inputs[0]
        key = changed.removal * n + changed.node
        order = key.argsort()
        sorted_key = key[order]

        def changed_row(wanted: Tensor) -> Tensor:
            at, there = find(sorted_key, wanted)
            return torch.where(there, order[at] if len(order) else at, torch.full_like(at, -1))

        indptr, source, edge = self.edges.by_target
        removal = owner_of(reach.ptr)
        owner, position, _ = expanded(indptr, reach.node)
        near = source[position]
        wanted = removal[owner] * n + near
        stays = ~torch.isin(wanted, owner_of(removals.ptr) * n + removals.node)
        owner, near, wanted, edge = owner[stays], near[stays], wanted[stays], edge[position[stays]]
        row = changed_row(wanted)
        # A neighbour's row is shared by all who read it; a self-loop reads the node's own copy.
        identity = torch.where(row >= 0, n + row, near)
        distinct, inverse = identity.unique(return_inverse=True)
        count = len(reach.node)
        near_id = torch.where(near == reach.node[owner], owner, count + inverse)
        own_row = changed_row(removal * n + reach.node)
        rows = []
        for value, c in zip(self.inputs, inputs, strict=True):
            base = value.whole()
            there = pick(distinct.clamp(max=n - 1), (distinct - n).clamp(min=-1), base, c.rows)
            rows.append(torch.cat([pick(reach.node, own_row, base, c.rows), there]))
        out = self.call(rows, torch.stack([near_id, owner]), edge)
        return out[:count]


def compose(outer: Rows, inner: Rows) -> Rows:
    """`outer` after `inner`, its only input, as one map: the rows in between are never stored."""

    def function(*rows: Tensor) -> Tensor:
        return outer.function(inner.function(*rows))

    return Rows(function, inner.inputs, outer.output)
