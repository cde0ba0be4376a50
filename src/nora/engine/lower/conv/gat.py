"""`GATConv`: neighbours weighted by a softmax of `LeakyReLU(a_src · W x_j + a_dst · W x_k)`."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.nn import GATConv

from nora.engine.ir.op import Value
from nora.engine.lower.builder import Builder
from nora.engine.lower.conv.sage import both_ends
from nora.engine.lower.lowerings import lower


@lower(GATConv)
def gat(
    builder: Builder,
    conv: Any,
    x: Any,
    edge_index: Tensor,
    edge_attr: Tensor | None = None,
    size: Any = None,
    return_attention_weights: Any = None,
) -> Value | None:
    """Linear layers and both parts of the scores, then attention, which recomputes only the frontier."""
    ends = both_ends(x)
    plain = edge_attr is None or conv.lin_edge is None
    if ends is None or not plain or size is not None or return_attention_weights:
        return None
    sent, own = ends
    map_src, map_dst = (conv.lin_src, conv.lin_dst) if conv.lin is None else (conv.lin, conv.lin)
    heads, width = conv.heads, conv.out_channels
    loops = 1.0 if conv.add_self_loops else None
    edges = builder.edges(edge_index, self_loops=loops, own_loops=loops is None)
    y = builder.rows(lambda rows: rows.view(-1, heads, width), builder.rows(map_src, sent))
    y_dst = y
    if sent is not own or map_src is not map_dst:
        y_dst = builder.rows(lambda rows: rows.view(-1, heads, width), builder.rows(map_dst, own))
    alpha_src = builder.rows(lambda rows: (rows * conv.att_src).sum(dim=-1), y)
    alpha_dst = builder.rows(lambda rows: (rows * conv.att_dst).sum(dim=-1), y_dst)
    out = builder.attend(y, alpha_src, alpha_dst, edges, conv.negative_slope)
    if conv.concat:
        out = builder.rows(lambda rows: rows.flatten(1), out)
    else:
        out = builder.rows(lambda rows: rows.mean(dim=1), out)
    if conv.res is not None:
        out = builder.rows(lambda rows, root: rows + root, out, builder.rows(conv.res, own))
    return out if conv.bias is None else builder.rows(lambda rows: rows + conv.bias, out)
