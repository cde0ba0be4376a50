"""A mix of values whose weights depend on the whole graph, so an edit changes every row a little.

The weights are computed from each value's mean over all nodes. An edit corrects the means for changed and
removed rows; every row is then the same sum with new weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import torch
from torch import Tensor

from nora.engine.ir.changed_rows import ChangedRows
from nora.engine.ir.op import EVERYWHERE, Chunk, Op, Value
from nora.engine.ir.pointers import owner_of
from nora.engine.ops.low_rank import LowRankOp, LowRankRows, Still, summed
from nora.engine.store.array_store import made_once

# From the values' means over all nodes `[…, K, F]` to their weights `[…, K]`.
Weights = Callable[[Tensor], Tensor]


def _sums(values: Sequence[Value]) -> Tensor:
    return torch.stack([value.base_rows().sum(dim=0, dtype=torch.double) for value in values])


class Blend(Op):
    """`out = Σ_k a_k z_k` with `a = weights(means over all nodes of z_1 … z_K)`.

    Args:
        weights: From means to weights.
        inputs: The values to mix, `[N, F]` each.
    """

    def __init__(self, weights: Weights, inputs: Sequence[Value]) -> None:
        self.weights = weights
        (whole,) = made_once(
            "blend", lambda: (self.compute(*(value.base_rows() for value in inputs)),)
        )
        output = Value(inputs[0].space, EVERYWHERE, whole)
        super().__init__(inputs, output)
        # Sums over all nodes lose digits that single rows would show.
        (self.sums,) = made_once("blend", lambda: (_sums(inputs),))

    def set_depth(self) -> None:
        """All rows change."""

    def compute(self, *inputs: Tensor) -> Tensor:
        """See `Op.compute`."""
        stacked = torch.stack(inputs)
        return torch.einsum("knf,k->nf", stacked, self.weights(stacked.mean(dim=1)))

    def changed(self, chunk: Chunk, inputs: Sequence[ChangedRows]) -> ChangedRows:
        """All remaining rows, with the new weights."""
        mixer = Blended(self, [Still(value) for value in self.inputs])
        pairs = zip(mixer.inputs, inputs, strict=True)
        return mixer.mixed(chunk, [LowRankRows.of_changed(*pair) for pair in pairs]).spread(chunk)


class Blended(LowRankOp):
    """The directions of a mix: the mixed values, and their own directions."""

    op: Blend

    def __init__(self, op: Blend, inputs: Sequence[LowRankOp | Still]) -> None:
        super().__init__(op, inputs, len(inputs) + sum(one.count for one in inputs))

    def blocks(self) -> Iterator[Tensor]:
        """See `LowRankOp.blocks`."""
        yield from self._kept

    @cached_property
    def _kept(self) -> list[Tensor]:
        # Nothing is copied: these are the inputs' own.
        own = [value.base_rows().unsqueeze(0) for value in self.op.inputs]
        return own + [block for one in self.inputs for block in one.kept]

    @cached_property
    def _sums(self) -> list[Tensor]:
        """Each input's directions summed over all nodes `[J, F]`, float64."""
        like = self.op.sums[:1, :0].new_zeros(0, self.value.width)
        return [
            torch.cat([like, *(block.sum(dim=1, dtype=torch.double) for block in one.kept)])
            for one in self.inputs
        ]

    def mixed(self, chunk: Chunk, inputs: Sequence[LowRankRows]) -> LowRankRows:
        """New weights from corrected means, which also mix the rows `apart`."""
        op, edits, n = self.op, chunk.edits, chunk.num_nodes
        like = self.value.base_rows()
        owner = owner_of(edits.ptr)
        left = n - (edits.ptr[1:] - edits.ptr[:-1])
        sums = op.sums.expand(len(edits), -1, -1).clone()
        for k, (update, along) in enumerate(zip(inputs, self._sums, strict=True)):
            apart = update.apart
            sums[:, k] += update.shift @ along
            sums[:, k].index_add_(0, owner, -update.at(owner, edits.node).double())
            sums[:, k].index_add_(0, apart.edit, apart.rows.double())
        weight = op.weights(sums / left.clamp(min=1).view(-1, 1, 1))
        moved = [weight - op.weights(op.sums / n)]
        parts = []
        for k, update in enumerate(inputs):
            apart, mine = update.apart, weight[:, k : k + 1]
            moved.append(mine * update.shift)
            if len(apart):
                rows = apart.rows * mine[apart.edit].to(like.dtype)
                parts.append((apart.keys(n), rows))
        chunk.tally.bytes += sum(rows.nbytes for _, rows in parts)
        return LowRankRows(self, torch.cat(moved, dim=1), summed(chunk, parts, like[:0]))
