"""`TAGConv`: `Σ_{k=0}^{K} P^k X W_k + b`."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.nn import TAGConv

from nora.engine.ir.op import Value
from nora.engine.lower.builder import Builder
from nora.engine.lower.conv.gcn import gcn_edges
from nora.engine.lower.lowerings import lower


@lower(TAGConv)
def tag(
    builder: Builder, conv: Any, x: Value, edge_index: Tensor, edge_weight: Tensor | None = None
) -> Value:
    """Horner's scheme: `(… (X W_K) P + X W_{K−1}) P + …`, at the width of the output."""
    edges = gcn_edges(builder, conv, edge_index, edge_weight, loops=False)
    out = builder.rows(conv.lins[-1], x)
    for lin in reversed(list(conv.lins[:-1])):
        out = builder.propagate(out, edges, plus=builder.rows(lin, x))
    return out if conv.bias is None else builder.rows(lambda rows: rows + conv.bias, out)
