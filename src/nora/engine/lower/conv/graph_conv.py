"""`GraphConv`: `W_rel · Σ_{j→k} w_jk x_j + W_root x_k`."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import GraphConv

from nora.engine.ir.op import Value
from nora.engine.lower.builder import Builder, is_linear
from nora.engine.lower.conv.sage import aggregation, both_ends
from nora.engine.lower.lowerings import lower


@lower(GraphConv)
def graph_conv(
    builder: Builder,
    conv: Any,
    x: Any,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    size: Any = None,
) -> Value | None:
    """Sum and mean commute with the linear map."""
    ends, kind = both_ends(x), aggregation(conv)
    linear = is_linear(conv.lin_rel) and is_linear(conv.lin_root)
    if ends is None or kind is None or size is not None or not linear:
        return None
    sent, own = ends
    messages = builder.rows(lambda rows: F.linear(rows, conv.lin_rel.weight), sent)
    bias = conv.lin_rel.bias
    root = builder.rows(lambda rows: F.linear(rows, conv.lin_root.weight, bias), own)
    return builder.propagate(messages, builder.edges(edge_index, edge_weight, normalise=kind), root)
