"""`RGCNConv`: `Σ_r mean_{j→k in r} W_r x_j + W_root x_k + b`, each relation a sum of its own."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import FastRGCNConv, RGCNConv

from nora.engine.plan import Plan
from nora.engine.rules import rule
from nora.engine.rules.sage import aggregation, both_ends
from nora.engine.steps.step import Value
from nora.models.rgcn import TypedConv


def _maps(conv: Any) -> Tensor:
    """Every relation's map `[R, in, out]`, whatever it is stored as."""
    if conv.num_bases is not None:
        return torch.einsum("rb,bio->rio", conv.comp, conv.weight)
    if conv.num_blocks is not None:
        return torch.stack([torch.block_diag(*blocks) for blocks in conv.weight])
    return conv.weight


def _mapped(weight: Tensor, rows: Tensor) -> Tensor:
    """`rows` are features, or numbers that are looked up."""
    return rows @ weight if rows.is_floating_point() else weight[rows]


@rule(RGCNConv, FastRGCNConv, TypedConv)
def rgcn(
    plan: Plan, conv: Any, x: Any, edge_index: Tensor, edge_type: Tensor | None = None
) -> Value | None:
    """Sum and mean commute with the maps."""
    ends, kind = both_ends(x), aggregation(conv)
    if ends is None or kind is None:
        return None
    sent, own = ends
    plus: Any = conv.bias
    if conv.root is not None:
        bias = 0.0 if conv.bias is None else conv.bias
        plus = plan.rows(lambda rows: _mapped(conv.root, rows) + bias, own)
    out: Value | None = None
    for number, weight in enumerate(_maps(conv)):
        which = None if edge_type is None else (edge_type, number)  # None as `TypedConv` has it
        if out is None or (edge_type is not None and bool((edge_type == number).any())):
            messages = plan.rows(partial(_mapped, weight), sent)
            edges = plan.edges(edge_index, normalise=kind, kind=which)
            out = plan.propagate(messages, edges, plus if out is None else out)
    assert out is not None
    return out
