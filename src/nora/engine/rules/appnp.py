"""`APPNP`: `K` times `(1−α) P x + α x_0`."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.nn import APPNP

from nora.engine.plan import Plan
from nora.engine.rules import rule
from nora.engine.rules.gcn import gcn_edges
from nora.engine.steps.step import Value


@rule(APPNP)
def appnp(
    plan: Plan, conv: Any, x: Value, edge_index: Tensor, edge_weight: Tensor | None = None
) -> Value:
    """`K` hops, each with the start mixed in."""
    edges = gcn_edges(plan, conv, edge_index, edge_weight)
    start = plan.rows(lambda rows: conv.alpha * rows, x)
    out = x
    for _ in range(conv.K):
        out = plan.propagate(
            plan.rows(lambda rows: (1 - conv.alpha) * rows, out), edges, plus=start
        )
    return out
