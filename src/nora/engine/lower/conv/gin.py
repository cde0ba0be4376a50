"""`GINConv`: `nn((1 + ε) x_k + Σ_{j→k} x_j)`. (`GINEConv` is local: its messages are not linear.)"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.nn import GINConv

from nora.engine.ir.op import Value
from nora.engine.lower.builder import Builder
from nora.engine.lower.conv.sage import aggregation, both_ends
from nora.engine.lower.lowerings import lower


@lower(GINConv)
def gin(builder: Builder, conv: Any, x: Any, edge_index: Tensor, size: Any = None) -> Value | None:
    """Sum the inputs, then the network on the rows that changed."""
    ends, kind = both_ends(x), aggregation(conv)
    if ends is None or kind is None or size is not None:
        return None
    sent, own = ends
    total = builder.propagate(sent, builder.edges(edge_index, normalise=kind))
    summed = builder.rows(lambda total, root: total + (1 + conv.eps) * root, total, own)
    return builder.rows(conv.nn, summed)
