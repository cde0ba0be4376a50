"""`SGConv`: `P^K X W + b`, with the linear map moved to the front."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import SGConv

from nora.engine.ir.op import Value
from nora.engine.lower.builder import Builder, is_linear
from nora.engine.lower.conv.gcn import gcn_edges
from nora.engine.lower.lowerings import lower


@lower(SGConv)
def sgc(
    builder: Builder, conv: Any, x: Value, edge_index: Tensor, edge_weight: Tensor | None = None
) -> Value | None:
    """`K` hops at the width of the output."""
    if not is_linear(conv.lin):
        return None
    edges = gcn_edges(builder, conv, edge_index, edge_weight)
    out = builder.rows(lambda rows: F.linear(rows, conv.lin.weight), x)
    for hop in range(conv.K):
        out = builder.propagate(out, edges, plus=conv.lin.bias if hop == conv.K - 1 else None)
    return out
