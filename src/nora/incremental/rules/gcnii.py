"""`GCN2Conv`: `((1−α) P x + α x_0) ((1−β) I + β W)`, the square maps moved before the sum."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.nn import GCN2Conv

from nora.incremental.plan import Plan
from nora.incremental.rules import rule
from nora.incremental.rules.gcn import gcn_edges
from nora.incremental.steps import Value


@rule(GCN2Conv)
def gcnii(
    plan: Plan,
    conv: Any,
    x: Value,
    x_0: Value,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
) -> Value:
    """`P` commutes with the maps, so they act on changed inputs instead of changed outputs."""
    edges = gcn_edges(plan, conv, edge_index, edge_weight)

    def mapped(rows: Tensor, weight: Tensor) -> Tensor:
        return (1 - conv.beta) * rows + conv.beta * (rows @ weight)

    second = conv.weight1 if conv.weight2 is None else conv.weight2
    sent = plan.rows(lambda rows: (1 - conv.alpha) * mapped(rows, conv.weight1), x)
    start = plan.rows(lambda rows: conv.alpha * mapped(rows, second), x_0)
    return plan.rows(lambda total, start: total + start, plan.propagate(sent, edges), start)
