"""`TIMMEConv`: means over the neighbours of every adjacency, mixed by attention over these."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from nora.engine.plan import Plan, UnsupportedError
from nora.engine.rules import rule
from nora.engine.steps.step import Value
from nora.models.timme import TIMMEConv


@rule(TIMMEConv)
def timme(plan: Plan, conv: Any, x: Value, edge_indices: Any) -> Value:
    """Each adjacency's result is kept and corrected; the attention mixes them anew."""
    edges = list(edge_indices.values() if isinstance(edge_indices, dict) else edge_indices)
    if not all(isinstance(edge_index, Tensor) for edge_index in edges):
        raise UnsupportedError("it takes edges that were prepared for multiplication")
    width = conv.out_channels

    def sent(number: int) -> Value:
        if conv.lin is None:
            return plan.rows(lambda rows: rows[:, number], x)
        weight = conv.lin.weight[number * width : (number + 1) * width]
        return plan.linear(weight, x)

    results = []
    for number, edge_index in enumerate(edges):
        for way, reverse in enumerate((True, False)):
            mean = plan.edges(edge_index, normalise="mean", reverse=reverse)
            results.append(plan.propagate(sent(2 * number + way), mean))
    return plan.blend(conv.weights, *results, sent(conv.num_adjacencies - 1))
