"""`TIMMEConv`: means over the neighbours in every relation, mixed by attention over the relations."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from nora.engine.ir.op import Value
from nora.engine.lower.builder import Builder
from nora.engine.lower.lowerings import lower
from nora.engine.unsupported import UnsupportedError
from nora.models.timme import TIMMEConv


@lower(TIMMEConv)
def timme(builder: Builder, conv: Any, x: Value, edge_indices: Any) -> Value:
    """One corrected sum per relation, then a mix with weights from their means."""
    edges = list(edge_indices.values() if isinstance(edge_indices, dict) else edge_indices)
    if not all(isinstance(edge_index, Tensor) for edge_index in edges):
        raise UnsupportedError("its edges are already normalised")
    width = conv.out_channels

    def sent(number: int) -> Value:
        if conv.lin is None:
            return builder.rows(lambda rows: rows[:, number], x)
        weight = conv.lin.weight[number * width : (number + 1) * width]
        return builder.linear(weight, x)

    results = []
    for number, edge_index in enumerate(edges):
        for way, reverse in enumerate((True, False)):
            mean = builder.edges(edge_index, normalise="mean", reverse=reverse)
            results.append(builder.propagate(sent(2 * number + way), mean))
    return builder.blend(conv.weights, *results, sent(conv.num_adjacencies - 1))
