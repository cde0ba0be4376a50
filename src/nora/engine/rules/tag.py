"""`TAGConv`: `Σ_{k=0}^{K} P^k X W_k + b`."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.nn import TAGConv

from nora.engine.plan import Plan
from nora.engine.rules import rule
from nora.engine.rules.gcn import gcn_edges
from nora.engine.steps.step import Value


@rule(TAGConv)
def tag(
    plan: Plan, conv: Any, x: Value, edge_index: Tensor, edge_weight: Tensor | None = None
) -> Value:
    """Horner's scheme: `(… (X W_K) P + X W_{K−1}) P + …`, at the width of the output."""
    edges = gcn_edges(plan, conv, edge_index, edge_weight, loops=False)
    out = plan.rows(conv.lins[-1], x)
    for lin in reversed(list(conv.lins[:-1])):
        out = plan.propagate(out, edges, plus=plan.rows(lin, x))
    return out if conv.bias is None else plan.rows(lambda rows: rows + conv.bias, out)
