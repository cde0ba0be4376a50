"""Lowerings of modules whose operations depend on values in a way that a trace cannot show.

Medians sort all values by group, typed linear layers sort rows by type. What they compute per row or group is
simple, but their traced operations mix all rows.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.nn import HeteroLinear
from torch_geometric.nn.aggr import MedianAggregation, QuantileAggregation

from nora.engine.lower.builder import Builder
from nora.engine.lower.known import Known, Layout, Tracked, Uniform
from nora.engine.lower.lowerings import lower
from nora.engine.ops.reduce import GroupBy


@lower(MedianAggregation, QuantileAggregation, raw=True)
def by_group(
    builder: Builder,
    module: Any,
    x: Known | None,
    index: Known | None = None,
    ptr: Known | None = None,
    dim_size: Any = None,
    dim: int = -2,
) -> Known | None:
    """An aggregation of groups of rows, computed again for each group with a changed row."""
    if not isinstance(x, Tracked) or not isinstance(index, Tracked):
        return None
    if ptr is not None or dim not in (-2, 0):
        return None
    # Where in all values a group begins must not tip which of its own are taken.
    halves = bool(((2 * module.q) % 1 == 0).all()) and module.interpolation != "nearest"
    if not halves and module.interpolation != "linear":
        return None
    shape = builder.result_shape
    space = builder.space_of_size(shape[0])
    plain = x.layout == index.layout == Layout(0) and builder.ndim_of(x) == 2
    fits = index.value.static and index.ids == "id" and builder.ndim_of(index) == 1
    if space is None or not plain or not fits or x.space is not index.space:
        return None
    builder.structure.append(index.value)
    which = index.value.base_rows()
    if not x.space.covers(which, space):
        return None

    def reduce(rows: Tensor, group: Tensor, count: int) -> Tensor:
        return module(rows, group, dim_size=count, dim=0)

    fill, width = float(module.fill_value), tuple(n[0] for n in shape[1:])
    made = builder.add(GroupBy(x.value, which, reduce, fill, width, space))
    return Tracked(made, Layout(0))


@lower(HeteroLinear, raw=True)
def by_type(builder: Builder, module: Any, x: Known | None, type_vec: Known | None) -> Known | None:
    """A linear map with weights by the row's own type."""
    if not isinstance(x, Tracked) or not isinstance(type_vec, Tracked | Uniform):
        return None
    flat = x.layout.tensor(x.value.none) if x.layout.axis == 0 else None
    if flat is None or flat.dim() != 2 or type_vec.layout != x.layout:
        return None
    types = builder.repeated(type_vec, x.space) if isinstance(type_vec, Uniform) else type_vec.value
    if types.space is not x.space or (isinstance(type_vec, Tracked) and type_vec.ids):
        return None
    weight, bias = module.weight.detach(), module.bias
    layout = x.layout

    def mapped(rows: Tensor, type_: Tensor) -> Tensor:
        flat, which = layout.tensor(rows), layout.tensor(type_)
        out = flat.new_zeros(len(flat), weight.size(2))
        for number in which.unique().tolist():
            chosen = which == number
            out[chosen] = flat[chosen] @ weight[number]
        return layout.rows(out if bias is None else out + bias.detach()[which])

    return Tracked(
        builder.rows(mapped, x.value, types, numel=weight.size(2) * layout.factor), layout
    )
