"""Pass: fuse gather → scale by a number per edge → sum into one op.

This is most of what convolutions compute, with weights that may change too. The fused op stores no messages,
and its compiled loop computes each changed message once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from nora.engine.ir.changed_rows import ChangedRows, scales
from nora.engine.ir.op import Chunk, Op, Value
from nora.engine.ir.pointers import ptr_of
from nora.engine.ops.gather import Gather
from nora.engine.ops.reduce import CANCELLATION_RATIO, FEW, Reduce


class WeightedSum(Op):
    """`out_k = start_k + Σ_{e → k} weight_e y_{source(e)}`.

    Args:
        gather: The gather of node rows to edges.
        product: Its product with the weights; None without weights.
        scatter: The sum.
    """

    def __init__(self, gather: Gather, product: Op | None, scatter: Reduce) -> None:
        self.gather, self.product, self.scatter = gather, product, scatter
        weights = [v for v in product.inputs if v is not gather.output] if product else []
        super().__init__([gather.inputs[0], scatter.inputs[1], *weights], scatter.output)
        self.weight: Value | None = weights[0] if weights else None

    def changed(self, chunk: Chunk, inputs: Sequence[ChangedRows]) -> ChangedRows:
        """By the fused loop if possible, else one op after the other."""
        y, start = inputs[0], inputs[1]
        weights = inputs[2] if self.weight is not None else None
        if not len(start) and self._plain() and not chunk.num_added(self.gather.output.space):
            return chunk.backend.weighted_sum(self, chunk, y, weights)
        return self.one_by_one(chunk, y, weights, start)

    def one_by_one(
        self,
        chunk: Chunk,
        y: ChangedRows,
        weights: ChangedRows | None,
        start: ChangedRows | None = None,
    ) -> ChangedRows:
        """Gather, then multiply by the weights, then sum."""
        read = self.gather.changed(chunk, [y])
        if self.product is not None:
            sides = {self.gather.output: read, self.weight: weights}
            given = [sides[value] for value in self.product.inputs]
            read = self.product.changed(chunk, [c for c in given if c is not None])
        return self.scatter.changed(chunk, [read, chunk.nothing() if start is None else start])

    @cached_property
    def units(self) -> tuple[Tensor, Tensor]:
        """The scales of the columns, and the size of each gathered row in them."""
        y = self.inputs[0].base_rows().flatten(1)
        unit = scales(y)
        return unit, y.abs() @ unit.t()

    def _plain(self) -> bool:
        rows = self.output.base_rows()
        return rows.dim() >= 2 and rows.dtype in (torch.float32, torch.float64)

    def compute(self, *inputs: Tensor) -> Tensor:
        """See `Op.compute`."""
        y, start = inputs[0], inputs[1]
        rows = self.gather.compute(y)
        if self.product is not None:
            sides = {self.gather.output: rows, self.weight: inputs[-1]}
            rows = self.product.compute(*(sides[v] for v in self.product.inputs))
        return self.scatter.compute(rows, start)

    def set_depth(self) -> None:
        """See `Op.set_depth`."""
        self.gather.set_depth()
        if self.product is not None:
            self.product.set_depth()
        self.scatter.set_depth()

    def hops(self) -> Sequence[tuple[Tensor, Tensor]]:
        """See `Op.hops`."""
        return self.scatter.hops()

    def needs(self) -> Sequence[Value]:
        """Everything it reads, and its own sums."""
        return [*self.inputs, self.output]

    def arrays(
        self, chunk: Chunk, y: ChangedRows, weights: ChangedRows | None
    ) -> dict[str, tuple[Tensor, Tensor]]:
        """The arrays of a chunk that the compiled loops read."""
        edit, edge = chunk.lost(self.gather.output.space)
        gone_removal, gone = chunk.lost(self.output.space)
        count = len(chunk.edits)
        none = torch.zeros(count + 1, dtype=torch.long)
        changed = weights is not None and len(weights) > 0
        assert weights is None or isinstance(weights, ChangedRows)
        return {
            "lost": (ptr_of(edit, count), edge),
            "gone": (ptr_of(gone_removal, count), gone),
            "w": (weights.ptr, weights.node) if changed and weights else (none, none[:0]),
            "y": (y.ptr, y.node) if len(y) else (none, none[:0]),
        }

    few, digits = FEW, CANCELLATION_RATIO


def fuse_aggregation(ops: list[Op], output: Value) -> list[Op]:
    """Fuse the pattern into one op, wherever nothing else reads the values in between."""
    readers: dict[Value, int] = {output: 2}
    for op in ops:
        for key in set(op.inputs):
            readers[key] = readers.get(key, 0) + 1
    made: dict[Value, Op] = {op.output: op for op in ops}
    swallowed: set[Op] = set()
    found: dict[Op, Op] = {}
    for op in ops:
        if type(op) is not Reduce or op.reduce != "sum":
            continue
        inner = made.get(op.inputs[0])
        if inner is None or readers[inner.output] > 1 or inner.output.static:
            continue
        gather: Op | None = inner
        product: Op | None = None
        if inner.scales is not None:
            gather = made.get(inner.scales)
            product = inner
            if len(inner.inputs) != 2 or gather is None or readers[gather.output] > 1:
                continue
        if not isinstance(gather, Gather):
            continue
        found[op] = WeightedSum(gather, product, op)
        swallowed |= {gather} | ({product} if product is not None else set())
    return [found.get(op, op) for op in ops if op not in swallowed]
