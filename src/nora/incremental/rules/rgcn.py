"""`RGCNConv`: `root x_k + Σ_t mean_{j→k of type t} W_t x_j`, one mean per edge type."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import RGCNConv

from nora.incremental.plan import Plan
from nora.incremental.rules import local, rule
from nora.incremental.rules.sage import aggregation
from nora.incremental.steps import Value
from nora.models.rgcn import TypedConv


@rule(RGCNConv, TypedConv)
def rgcn(
    plan: Plan, conv: Any, x: Any, edge_index: Tensor, edge_type: Tensor | None = None
) -> Value:
    """The means are added up one after the other; what is no mean or sum is recomputed locally."""
    kind = aggregation(conv)
    embedded = not isinstance(x, Value) or not x.whole().is_floating_point()
    if kind is None or embedded or conv.num_blocks is not None:
        return local(plan, conv, x, edge_index, edge_type)
    if edge_type is None:
        edge_type = edge_index.new_zeros(edge_index.size(1))
    maps = conv.weight
    if conv.num_bases is not None:
        maps = (conv.comp @ maps.flatten(1)).unflatten(1, maps.shape[1:])
    root = maps.new_zeros(maps.shape[1:]) if conv.root is None else conv.root
    total = plan.rows(lambda rows: F.linear(rows, root.t(), conv.bias), x)
    for each in edge_type.unique().tolist():
        messages = plan.rows(partial(F.linear, weight=maps[each].t()), x)
        edges = plan.edges(edge_index[:, edge_type == each], normalise=kind)
        total = plan.propagate(messages, edges, plus=total)
    return total
