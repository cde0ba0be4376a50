"""`SAGEConv`: `W_l · aggr_{j→k} x_j + W_r x_k`, with mean or sum moved behind the linear map."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import SAGEConv
from torch_geometric.nn.aggr import MeanAggregation, SumAggregation

from nora.engine.ir.edges import Normalise
from nora.engine.ir.op import Value
from nora.engine.lower.builder import Builder, is_linear
from nora.engine.lower.lowerings import lower
from nora.models.sage import MeanConv


def aggregation(conv: Any) -> Normalise | None:
    """`mean`, `none` (a plain sum), or None when sums over neighbours do not express it."""
    kinds: dict[type, Normalise] = {MeanAggregation: "mean", SumAggregation: "none"}
    return kinds.get(type(conv.aggr_module))


def both_ends(x: Any) -> tuple[Value, Value] | None:
    """The rows of sources and targets, from `x` or `(x_source, x_target)`; None without both."""
    if not isinstance(x, tuple | list):
        return x, x
    if len(x) != 2 or not all(isinstance(part, Value) for part in x):
        return None
    return x[0], x[1]


@lower(SAGEConv, MeanConv)
def sage(builder: Builder, conv: Any, x: Any, edge_index: Tensor, size: Any = None) -> Value | None:
    """Mean and sum commute with the linear map."""
    kind, ends = aggregation(conv), both_ends(x)
    maps = [conv.lin_l, *([conv.lin_r] if conv.root_weight else [])]
    if kind is None or ends is None or size is not None or not all(map(is_linear, maps)):
        return None
    sent, own = ends
    if conv.project and hasattr(conv, "lin"):
        sent = builder.rows(lambda rows: rows.relu(), builder.rows(conv.lin, sent))
    messages = builder.rows(lambda rows: F.linear(rows, conv.lin_l.weight), sent)
    plus = bias = conv.lin_l.bias
    if conv.root_weight:
        plus = builder.rows(lambda rows: F.linear(rows, conv.lin_r.weight, bias), own)
    out = builder.propagate(messages, builder.edges(edge_index, normalise=kind), plus)
    if conv.normalize:
        out = builder.rows(lambda rows: F.normalize(rows, p=2.0, dim=-1), out)
    return out
