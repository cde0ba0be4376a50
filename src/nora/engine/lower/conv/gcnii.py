"""`GCN2Conv`: `((1−α) P x + α x_0) ((1−β) I + β W)`, the square maps moved before the sum."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import GCN2Conv

from nora.engine.ir.op import Value
from nora.engine.lower.builder import Builder
from nora.engine.lower.conv.gcn import gcn_edges
from nora.engine.lower.lowerings import lower


@lower(GCN2Conv)
def gcnii(
    builder: Builder,
    conv: Any,
    x: Value,
    x_0: Value,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
) -> Value:
    """`P` commutes with the maps, so they act on changed inputs instead of changed outputs."""
    edges = gcn_edges(builder, conv, edge_index, edge_weight)

    identity = torch.eye(conv.channels, dtype=conv.weight1.dtype, device=conv.weight1.device)

    def mapping(share: float, weight: Tensor) -> Tensor:
        return share * ((1 - conv.beta) * identity + conv.beta * weight)

    first = mapping(1 - conv.alpha, conv.weight1)
    second = mapping(conv.alpha, conv.weight1 if conv.weight2 is None else conv.weight2)
    sent = builder.rows(lambda rows: rows @ first, x)
    return builder.propagate(sent, edges, plus=builder.rows(lambda rows: rows @ second, x_0))
