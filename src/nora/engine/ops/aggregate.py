"""The operations of rules: sums over neighbours, which are corrected, and attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from nora.engine.estimate.sampling import FEW, equally_weighted, folded
from nora.engine.exec.kernels.vectorised import weigh
from nora.engine.ir.changed_rows import Attention, ChangedRows, Frontier, Sums, TargetSlopes, scales
from nora.engine.ir.edges import Edges
from nora.engine.ir.op import BLOCK_BYTES, EVERYWHERE, Chunk, Op, Then, Value
from nora.engine.ir.pointers import owner_of
from nora.engine.ops.aggregate_all import propagate_everywhere
from nora.engine.passes.fuse_epilogue import passed, written_first
from nora.engine.store.array_store import made_once

# Attention weights are taken to grow by no more than this power of e where a source's score rises.
LARGEST_RISE = 20.0


def _sizes(y: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
    """The scales of the columns, and the size of each sum in them."""
    unit = scales(y)
    return unit, total.abs() @ unit.t()


class Aggregate(Op):
    """`out_k = norm_dst_k Σ_{j→k} weight_jk norm_src_j y_j + plus_k`, by corrected sums.

    Args:
        edges: The edges, and their normalisation.
        y: Messages, `[N, F]`.
        total: The sums without `norm_dst`, `[N, F]`.
        plus: What is added: a value, one row `[1, F]` for all nodes, or no rows `[0, F]`.
        output: The value it computes.
        samples: Whether its rows may be sampled; not if a later op needs exact values.
    """

    leads = True

    def __init__(
        self,
        edges: Edges,
        y: Value,
        total: Tensor,
        plus: Value | Tensor,
        output: Value,
        samples: bool = True,
    ) -> None:
        super().__init__([y, plus] if isinstance(plus, Value) else [y], output)
        self.edges, self.total, self.added, self.samples = edges, total, plus, samples
        self.unit, self.size = made_once("sizes", lambda: _sizes(y.base_rows(), total))

    def set_depth(self) -> None:
        """See `Op.set_depth`."""
        degree_depth = 2 if self.edges.normalise == "sym" else 1
        deepest = self.added.depth if isinstance(self.added, Value) else -1
        self.output.depth = max(self.inputs[0].depth + 1, degree_depth, deepest)

    def hops(self) -> Sequence[tuple[Tensor, Tensor]]:
        """See `Op.hops`."""
        return [(self.edges.source, self.edges.target)]

    def changed(self, chunk: Chunk, inputs: Sequence[ChangedRows]) -> ChangedRows:
        """Add the changes of messages to the original sums, and normalise again where needed."""
        return self.passed_on(chunk, inputs, None)[0]

    def passed_on(
        self, chunk: Chunk, inputs: Sequence[ChangedRows], then: Then | None
    ) -> Sequence[ChangedRows]:
        """See `Op.passed_on`."""
        rows = inputs[0]
        y, whole = self.inputs[0].base_rows(), self.output.base_rows()
        plus = self.added.base_rows() if isinstance(self.added, Value) else self.added
        if not len(rows):
            rows = ChangedRows(rows.ptr, rows.node, y[:0])
        more = inputs[-1] if len(inputs) > 1 else rows
        if len(inputs) == 1 or not len(more):
            more = ChangedRows(torch.zeros_like(more.ptr), more.node[:0], y[:0])
        everybody = len(chunk.edits) * chunk.num_nodes - len(chunk.edits.node)
        if self.inputs[0].depth >= EVERYWHERE and len(rows) == everybody:
            chunk.tally.bytes += 4 * rows.rows.nbytes
            delta = chunk.delta(self.edges)
            return passed(
                propagate_everywhere(self.edges, chunk.edits, rows, plus, more, delta), then
            )
        if chunk.sampling is not None and isinstance(self.added, Value):
            more = folded(more, self.added)
        frontier = chunk.frontier(self.edges, rows, (more.ptr, more.node))
        weight = None
        if chunk.sampling is not None:
            frontier, more, weight = self._sampled(chunk, frontier, rows, more)
        chunk.tally.bytes += 4 * frontier.slot.nbytes + len(frontier.source) * y[:1].nbytes
        if then is not None and not len(frontier.node):
            return []
        base = Sums(y, self.total, self.unit, self.size, plus, whole)
        if then is not None and chunk.writes:
            then = written_first(self.output, frontier.node, then)
        made = chunk.backend.propagate(
            self.edges,
            frontier,
            base,
            rows,
            more,
            chunk.delta(self.edges),
            then,
            chunk.drift_of(self, frontier.node, rows.node, self.size[:, :0]),
        )
        return [ChangedRows(frontier.ptr, frontier.node, rows, weight) for rows in made]

    def _sampled(
        self,
        chunk: Chunk,
        frontier: Frontier,
        rows: ChangedRows,
        more: ChangedRows,
    ) -> tuple[Frontier, ChangedRows, Tensor | None]:
        """A sample of the frontier by importance, and the weights of its rows."""
        assert chunk.sampling is not None
        if not chunk.sampling.samples(self) or not len(frontier.node):
            return frontier, more, None
        size = chunk.backend.message_sizes(self.edges, frontier, self.inputs[0].base_rows(), rows)
        own_size = torch.zeros(len(more), dtype=torch.double, device=size.device)
        if len(more) and isinstance(self.added, Value):
            apart = more.rows - self.added.base_rows()[more.node]
            own_size = apart.abs().sum(1, dtype=torch.double)
        share = self.edges.weight_by_source
        bounds = chunk.sampling.bounds(self, share, size, own_size, self.mass)
        return chunk.sampling.sampled(chunk.backend, self.edges, frontier, more, bounds)

    @cached_property
    def mass(self) -> Tensor:
        """`Σ|total|` of each node `[N]`, float64."""
        return self.total.abs().sum(1, dtype=torch.double)

    def importances(self, importance: Tensor) -> Sequence[Tensor]:
        """See `Op.importances`: in proportion to the share that arrives."""
        edges = self.edges
        sent = importance * edges.norm_dst.abs()
        weight = edges.weight
        arrived = (
            sent[edges.target] if weight is None else sent[edges.target] * weight.double().abs()
        )
        first = (
            torch.zeros_like(importance).index_add(0, edges.source, arrived) * edges.norm_src.abs()
        )
        return [first, importance][: len(self.inputs)]

    def compute(self, *inputs: Tensor) -> Tensor:
        """See `Op.compute`."""
        total = self.edges.total(inputs[0])
        if self.edges.normalise != "none":
            total = total * self.edges.norm_dst.to(total.dtype).unsqueeze(-1)
        if isinstance(self.added, Value):
            return total + inputs[1]
        return total + self.added if len(self.added) else total

    def row_share(self, source: Tensor, target: Tensor) -> Tensor:
        """See `Op.row_share`."""
        edges = self.edges
        return edges.between(source, target) * edges.norm_src[source] * edges.norm_dst[target]

    def needs(self) -> Sequence[Value]:
        """Everything it reads, its own output included."""
        return [*self.inputs, self.output]


class Attend(Op):
    """`out_k = Σ_{j→k} softmax_j(LeakyReLU(alpha_src_j + alpha_dst_k)) y_j`."""

    samples = True

    def __init__(
        self, edges: Edges, inputs: Sequence[Value], base: Attention, output: Value
    ) -> None:
        super().__init__(inputs, output)
        self.edges = edges
        self.base = base

    def set_depth(self) -> None:
        """See `Op.set_depth`."""
        self.output.depth = max(0, *(value.depth for value in self.inputs)) + 1

    def hops(self) -> Sequence[tuple[Tensor, Tensor]]:
        """See `Op.hops`."""
        return [(self.edges.source, self.edges.target)]

    def changed(self, chunk: Chunk, inputs: Sequence[ChangedRows]) -> ChangedRows:
        """Compute the attention of the frontier again."""
        row_weight = None
        if chunk.sampling is not None:
            inputs, row_weight = equally_weighted(self, inputs)
        inputs = chunk.align(self.inputs, inputs)
        # A node's own part of its scores may have changed.
        frontier = chunk.frontier(self.edges, inputs[0], (inputs[0].ptr, inputs[0].node))
        weight = None
        if chunk.sampling is not None:
            frontier, weight = self._sampled(chunk, frontier, inputs, row_weight)
        chunk.tally.bytes += 4 * frontier.slot.nbytes
        out = chunk.backend.attend(
            self.edges,
            chunk.edits,
            frontier,
            self.base,
            [replace(changed, weight=row_weight) for changed in inputs],
            chunk.delta(self.edges),
            None
            if row_weight is None or chunk.sampling is None
            else self.target_slopes(chunk.sampling.many),
            chunk.drift_of(self, frontier.node, inputs[0].node, self.base.share),
        )
        return ChangedRows(frontier.ptr, frontier.node, out, weight)

    def _sampled(
        self,
        chunk: Chunk,
        frontier: Frontier,
        inputs: Sequence[ChangedRows],
        row_weight: Tensor | None,
    ) -> tuple[Frontier, Tensor | None]:
        """A sample of the frontier by importance, and the weights of its rows."""
        assert chunk.sampling is not None
        if not chunk.sampling.samples(self) or not len(frontier.node):
            return frontier, None
        base, node = self.base, inputs[0].node
        source, row = frontier.source, frontier.row
        y, alpha_src, alpha_dst = (c.rows for c in inputs)
        sent_size = self.message_size
        # A higher score takes weight from all other neighbours: its own grows by the exponential.
        grown = (alpha_src - base.alpha_src[node]).clamp(max=LARGEST_RISE).exp()
        moved = (
            grown.clamp(min=1) * (y - base.y[node]).abs().sum(-1)
            + (grown - 1).abs() * sent_size[node]
        )
        turned = (alpha_dst - base.alpha_dst[node]).abs() * self.target_sensitivity[node]
        size, also = 2 * sent_size[source].sum(-1).double(), turned.sum(-1).double()
        own = row >= 0
        size[own] = moved.sum(-1).double()[row[own]]
        if row_weight is not None:
            size[own] *= row_weight[row[own]]
            also = also * row_weight
        mass = torch.zeros(self.edges.num_nodes, dtype=torch.double, device=size.device)
        bounds = chunk.sampling.bounds(self, self.shares, size, also, mass)
        no_rows = ChangedRows(torch.zeros_like(frontier.ptr), node[:0], y[:0])
        frontier, _, weight = chunk.sampling.sampled(
            chunk.backend, self.edges, frontier, no_rows, bounds
        )
        return frontier, weight

    def target_slopes(self, many: int) -> TargetSlopes:
        """The slopes of targets with more than `many` neighbours; see `TargetSlopes`."""
        return TargetSlopes(many, *self._slopes)

    @cached_property
    def _slopes(self) -> tuple[Tensor, Tensor]:
        """`∂out_k / ∂alpha_dst_k = Σ_j a_j LeakyReLU'_j (y_j − out_k)` of targets with many neighbours."""
        base, (indptr, source, _) = self.base, self.edges.by_target
        degree = indptr[1:] - indptr[:-1]
        hubs = (degree > FEW).nonzero().flatten()
        place = torch.full_like(degree, -1)
        place[hubs] = torch.arange(len(hubs), device=hubs.device)
        slope = torch.zeros_like(base.output[hubs])
        target = owner_of(indptr)
        edge = (place[target] >= 0).nonzero().flatten()
        for some in edge.split(max(1, BLOCK_BYTES // max(base.y[:1].nbytes, 1))):
            j, k = source[some], target[some]
            weight, steep = base.weights(j, k)
            moved = (weight * steep).unsqueeze(-1) * (base.y[j] - base.output[k])
            slope.index_add_(0, place[k], moved)
        return place, slope

    @cached_property
    def target_sensitivity(self) -> Tensor:
        """Change of outputs by the target's part of the scores, at most or to first order `[N, H]`."""
        place, slope = self._slopes
        found, hub = self.base.output.abs().sum(-1), place >= 0
        found[hub] = slope[place[hub]].abs().sum(-1)
        return found

    @cached_property
    def message_size(self) -> Tensor:
        """`Σ|y|` of every node and head `[N, H]`."""
        return self.base.y.abs().sum(dim=-1)

    @cached_property
    def shares(self) -> Tensor:
        """Every edge's attention weight, the mean of all heads, in the order of `Edges.by_source`."""
        indptr, target, _ = self.edges.by_source
        return self.base.weights(owner_of(indptr), target)[0].mean(dim=-1)

    def importances(self, importance: Tensor) -> Sequence[Tensor]:
        """See `Op.importances`: in proportion to the share that arrives."""
        indptr, target, _ = self.edges.by_source
        arrived = self.shares.double() * importance[target]
        sent = torch.zeros_like(importance).index_add(0, owner_of(indptr), arrived)
        return [sent, sent, importance]

    def compute(self, *inputs: Tensor) -> Tensor:
        """See `Op.compute`."""
        y, alpha_src, alpha_dst = inputs
        indptr, source, _ = self.edges.by_target
        target = owner_of(indptr)
        score = alpha_src[source] + alpha_dst[target]
        return weigh(score, y[source], target, self.edges.num_nodes, self.base.slope)[0]

    def row_share(self, source: Tensor, target: Tensor) -> Tensor:
        """See `Op.row_share`: the attention weight of every head."""
        weight = self.base.weights(source, target)[0]
        edges = self.edges.between(source, target).to(weight.dtype).unsqueeze(-1)
        # A target without sources has no softmax: its weight is NaN.
        return torch.where(edges > 0, weight * edges, torch.zeros_like(weight))
