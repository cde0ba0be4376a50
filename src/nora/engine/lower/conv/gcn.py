"""`GCNConv`: `D^(−1/2) (A + I) D^(−1/2) X W + b`."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.nn import GCNConv

from nora.engine.ir.edges import Edges, well_behaved
from nora.engine.ir.op import Value
from nora.engine.lower.builder import Builder
from nora.engine.lower.lowerings import lower
from nora.engine.unsupported import UnsupportedError


def gcn_edges(
    builder: Builder, conv: Any, edge_index: Tensor, edge_weight: Tensor | None, loops: bool = True
) -> Edges:
    """The edges `gcn_norm` makes for a convolution with GCN's options."""
    if not getattr(conv, "normalize", True):
        return builder.edges(edge_index, edge_weight)
    if edge_weight is not None and not well_behaved(edge_weight):
        raise UnsupportedError("weights whose sums cancel need a new sum")
    weight = None
    if loops and conv.add_self_loops:
        weight = 2.0 if getattr(conv, "improved", False) else 1.0
    return builder.edges(edge_index, edge_weight, normalise="sym", self_loops=weight)


@lower(GCNConv)
def gcn(
    builder: Builder, conv: Any, x: Value, edge_index: Tensor, edge_weight: Tensor | None = None
) -> Value:
    """Map first (rows that did not change are never mapped again), then sum."""
    edges = gcn_edges(builder, conv, edge_index, edge_weight)
    return builder.propagate(builder.rows(conv.lin, x), edges, plus=conv.bias)
