"""`DrGATConv`: attention between `D^(−1/2)` and `D^(+1/2)`, with the degrees as a value of their own.

A removal changes the degrees of the targets of the removed node, and so the factors of their messages. The
degrees are a sum over in-edges like any other, so their changed rows go through the program as usual.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nora.engine.ir.op import Value
from nora.engine.lower.builder import Builder
from nora.engine.lower.lowerings import lower
from nora.models.drgat import DrGATConv


@lower(DrGATConv)
def drgat(builder: Builder, conv: Any, x: Value, edge_index: Tensor) -> Value:
    """Degrees, then what is sent and its score, then new weighted sums of the reached nodes."""
    edges = builder.edges(edge_index, self_loops=1.0, own_loops=False)
    ones = conv.att.new_ones(builder.num_nodes, 1)
    degrees = builder.propagate(
        builder.constant(ones), edges, drawn=False
    )  # roots are taken of them
    y = builder.rows(conv.sent, builder.rows(conv.lin, x), degrees)
    alpha_src = builder.rows(conv.score, y)
    alpha_dst = builder.constant(torch.zeros_like(alpha_src.base_rows()))
    total = builder.attend(y, alpha_src, alpha_dst, edges, conv.negative_slope)
    return builder.rows(conv.received, total, degrees, builder.rows(conv.res, x))
