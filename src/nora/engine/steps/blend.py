"""Values mixed by weights that depend on the whole graph: a removal changes every node a little.

The weights follow from each value's mean over all nodes. The means are corrected for the rows that
changed and for those that went; every row then is the same sum with new weights: one dense product for a
whole chunk, and a correction where rows of the mixed values themselves have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nora.engine.changed import Changed
from nora.engine.ledger import made_once
from nora.engine.pointers import owner_of
from nora.engine.steps.step import EVERYWHERE, Chunk, Step, Value

# From the values' means over all nodes `[…, K, F]` to their weights `[…, K]`.
Weights = Callable[[Tensor], Tensor]


def _sums(values: Sequence[Value]) -> Tensor:
    return torch.stack([value.whole().sum(dim=0, dtype=torch.double) for value in values])


class Blend(Step):
    """`out = Σ_k a_k z_k` with `a = weights(means over all nodes of z_1 … z_K)`.

    Args:
        weights: From means to weights.
        inputs: The values to mix, `[N, F]` each.
    """

    def __init__(self, weights: Weights, inputs: Sequence[Value]) -> None:
        self.weights = weights
        (whole,) = made_once("blend", lambda: (self.whole(*(value.whole() for value in inputs)),))
        output = Value(inputs[0].space, EVERYWHERE, whole)
        super().__init__(inputs, output)
        # Sums over all nodes lose digits that single rows would show.
        (self.sums,) = made_once("blend", lambda: (_sums(inputs),))

    def settle(self) -> None:
        """All rows change, wherever it begins."""

    def whole(self, *inputs: Tensor) -> Tensor:
        """See `Step.whole`."""
        stacked = torch.stack(inputs)
        return torch.einsum("knf,k->nf", stacked, self.weights(stacked.mean(dim=1)))

    def changed(self, chunk: Chunk, inputs: Sequence[Changed]) -> Changed:
        """Every row that is left, with the new weights."""
        removals, n, width = chunk.removals, chunk.num_nodes, self.output.width
        count, like = len(removals), self.inputs[0].whole()
        gone = owner_of(removals.ptr)
        left = n - (removals.ptr[1:] - removals.ptr[:-1])
        sums = self.sums.expand(count, -1, -1).clone()
        deltas = []
        for k, (value, changed) in enumerate(zip(self.inputs, inputs, strict=True)):
            whole = value.whole()
            sums[:, k].index_add_(0, gone, -whole[removals.node].double())
            if len(changed):
                delta = changed.rows - whole[changed.node]
                sums[:, k].index_add_(0, changed.removal, delta.double())
                deltas.append((k, changed, delta))
        means = sums / left.clamp(min=1).view(-1, 1, 1)
        weight = self.weights(means).to(like.dtype)
        rows = like.new_zeros(count, n * width)
        for k, value in enumerate(self.inputs):
            rows.addmm_(weight[:, k : k + 1], value.whole().reshape(1, -1))
        rows = rows.view(count * n, width)
        for k, changed, delta in deltas:
            at = changed.removal * n + changed.node
            rows.index_add_(0, at, delta * weight[changed.removal, k].unsqueeze(-1))
        keep = torch.ones(count * n, dtype=torch.bool, device=rows.device)
        keep[gone * n + removals.node] = False
        node = torch.arange(n, device=rows.device).repeat(count)[keep]
        chunk.tally.bytes += rows.nbytes + sum(delta.nbytes for _, _, delta in deltas)
        ptr = torch.zeros(count + 1, dtype=torch.long, device=rows.device)
        ptr[1:] = left.cumsum(0)
        return Changed(ptr, node, rows[keep])
