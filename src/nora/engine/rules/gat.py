"""`GATConv`: neighbours weighted by a softmax of `LeakyReLU(a_src · W x_j + a_dst · W x_k)`."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.nn import GATConv

from nora.engine.plan import Plan
from nora.engine.rules import rule
from nora.engine.rules.sage import both_ends
from nora.engine.steps.step import Value


@rule(GATConv)
def gat(
    plan: Plan,
    conv: Any,
    x: Any,
    edge_index: Tensor,
    edge_attr: Tensor | None = None,
    size: Any = None,
    return_attention_weights: Any = None,
) -> Value | None:
    """Linear maps and both score parts are kept; only reached neighbourhoods are summed anew."""
    ends = both_ends(x)
    plain = edge_attr is None or conv.lin_edge is None
    if ends is None or not plain or size is not None or return_attention_weights:
        return None
    sent, own = ends
    near_map, far_map = (conv.lin_src, conv.lin_dst) if conv.lin is None else (conv.lin, conv.lin)
    heads, width = conv.heads, conv.out_channels
    loops = 1.0 if conv.add_self_loops else None
    edges = plan.edges(edge_index, self_loops=loops, own_loops=loops is None)
    y = plan.rows(lambda rows: rows.view(-1, heads, width), plan.rows(near_map, sent))
    heard = y
    if sent is not own or near_map is not far_map:
        heard = plan.rows(lambda rows: rows.view(-1, heads, width), plan.rows(far_map, own))
    near = plan.rows(lambda rows: (rows * conv.att_src).sum(dim=-1), y)
    far = plan.rows(lambda rows: (rows * conv.att_dst).sum(dim=-1), heard)
    out = plan.attend(y, near, far, edges, conv.negative_slope)
    if conv.concat:
        out = plan.rows(lambda rows: rows.flatten(1), out)
    else:
        out = plan.rows(lambda rows: rows.mean(dim=1), out)
    if conv.res is not None:
        out = plan.rows(lambda rows, root: rows + root, out, plan.rows(conv.res, own))
    return out if conv.bias is None else plan.rows(lambda rows: rows + conv.bias, out)
