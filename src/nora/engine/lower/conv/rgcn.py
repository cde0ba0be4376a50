"""`RGCNConv`: `Σ_r mean_{j→k in r} W_r x_j + W_root x_k + b`, each relation a sum of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import FastRGCNConv, RGCNConv

from nora.engine.ir.op import Value
from nora.engine.lower.builder import Builder
from nora.engine.lower.conv.sage import aggregation, both_ends
from nora.engine.lower.lowerings import lower
from nora.models.rgcn import TypedConv


def _messages(builder: Builder, conv: Any, sent: Value) -> Callable[[int], Value]:
    """The messages of each relation, however its weight matrix is stored."""
    if conv.num_bases is not None:
        # What relations share is mapped once, and mixed for each.
        shared = builder.rows(partial(_of_each_base, conv.weight), sent)
        return lambda number: builder.rows(partial(_mixed, conv.comp[number]), shared)
    maps = conv.weight
    if conv.num_blocks is not None:
        maps = torch.stack([torch.block_diag(*blocks) for blocks in conv.weight])
    return lambda number: builder.rows(partial(_mapped, maps[number]), sent)


def _of_each_base(bases: Tensor, rows: Tensor) -> Tensor:
    """`[n, bases, out]`."""
    return torch.stack([_mapped(one, rows) for one in bases], dim=1)


def _mixed(mix: Tensor, rows: Tensor) -> Tensor:
    """`[n, out]` of `[n, bases, out]`."""
    return torch.einsum("b,nbo->no", mix, rows)


def _mapped(weight: Tensor, rows: Tensor) -> Tensor:
    """`rows` are features, or node ids that are looked up."""
    return rows @ weight if rows.is_floating_point() else weight[rows]


@lower(RGCNConv, FastRGCNConv, TypedConv)
def rgcn(
    builder: Builder, conv: Any, x: Any, edge_index: Tensor, edge_type: Tensor | None = None
) -> Value | None:
    """One sum per relation; sum and mean commute with the linear maps."""
    ends, kind = both_ends(x), aggregation(conv)
    if ends is None or kind is None:
        return None
    sent, own = ends
    plus: Any = conv.bias
    if conv.root is not None:
        bias = 0.0 if conv.bias is None else conv.bias
        plus = builder.rows(lambda rows: _mapped(conv.root, rows) + bias, own)
    out: Value | None = None
    messages_by = _messages(builder, conv, sent)
    for number in range(conv.num_relations):
        which = None if edge_type is None else (edge_type, number)  # None as `TypedConv` has it
        if out is None or (edge_type is not None and bool((edge_type == number).any())):
            edges = builder.edges(edge_index, normalise=kind, kind=which)
            out = builder.propagate(messages_by(number), edges, plus if out is None else out)
    assert out is not None
    return out
