"""`GCNConv`: `D^(−1/2) (A + I) D^(−1/2) X W + b`."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.nn import GCNConv

from nora.engine.edges import Edges, well_behaved
from nora.engine.plan import Plan, UnsupportedError
from nora.engine.rules import rule
from nora.engine.steps.step import Value


def gcn_edges(
    plan: Plan, conv: Any, edge_index: Tensor, edge_weight: Tensor | None, loops: bool = True
) -> Edges:
    """The edges `gcn_norm` makes for a convolution with GCN's options."""
    if not getattr(conv, "normalize", True):
        return plan.edges(edge_index, edge_weight)
    if edge_weight is not None and not well_behaved(edge_weight):
        raise UnsupportedError("weights whose sums cancel are summed anew")
    weight = None
    if loops and conv.add_self_loops:
        weight = 2.0 if getattr(conv, "improved", False) else 1.0
    return plan.edges(edge_index, edge_weight, normalise="sym", self_loops=weight)


@rule(GCNConv)
def gcn(
    plan: Plan, conv: Any, x: Value, edge_index: Tensor, edge_weight: Tensor | None = None
) -> Value:
    """Map first (rows that did not change are never mapped again), then sum."""
    edges = gcn_edges(plan, conv, edge_index, edge_weight)
    return plan.propagate(plan.rows(conv.lin, x), edges, plus=conv.bias)
