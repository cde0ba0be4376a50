"""`APPNP`: `K` times `(1−α) P x + α x_0`."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.nn import APPNP

from nora.engine.ir.op import Value
from nora.engine.lower.builder import Builder
from nora.engine.lower.conv.gcn import gcn_edges
from nora.engine.lower.lowerings import lower


@lower(APPNP)
def appnp(
    builder: Builder, conv: Any, x: Value, edge_index: Tensor, edge_weight: Tensor | None = None
) -> Value:
    """`K` hops, each with the start mixed in."""
    edges = gcn_edges(builder, conv, edge_index, edge_weight)
    start = builder.rows(lambda rows: conv.alpha * rows, x)
    out = x
    for _ in range(conv.K):
        out = builder.propagate(
            builder.rows(lambda rows: (1 - conv.alpha) * rows, out), edges, plus=start
        )
    return out
