"""`DrGATConv`: attention between `D^(−1/2)` and `D^(+1/2)`, with the degrees as a value of their own.

A removal changes the degrees of the nodes it sent to, so they send and receive on another scale. The
degrees are a sum over in-edges like any other; attention and the rest follow from their changed rows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nora.engine.plan import Plan
from nora.engine.rules import rule
from nora.engine.steps.step import Value
from nora.models.drgat import DrGATConv


@rule(DrGATConv)
def drgat(plan: Plan, conv: Any, x: Value, edge_index: Tensor) -> Value:
    """Degrees, then what is sent and its score, then the weighted sums of reached nodes anew."""
    edges = plan.edges(edge_index, self_loops=1.0, own_loops=False)
    ones = conv.att.new_ones(plan.num_nodes, 1)
    degrees = plan.propagate(plan.constant(ones), edges, drawn=False)  # roots are taken of them
    y = plan.rows(conv.sent, plan.rows(conv.lin, x), degrees)
    near = plan.rows(conv.score, y)
    far = plan.constant(torch.zeros_like(near.whole()))
    total = plan.attend(y, near, far, edges, conv.negative_slope)
    return plan.rows(conv.received, total, degrees, plan.rows(conv.res, x))
