"""Reductions: within a row, or over all rows to a value of the whole graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nora.engine.lower.anything import on_everything
from nora.engine.lower.builder import Builder
from nora.engine.lower.known import Layout, Tracked, Uniform
from nora.engine.lower.lowerings import lower
from nora.engine.lower.row_call import bound
from nora.engine.lower.rowwise import no_ids
from nora.engine.trace.align import AlignedOp


def _dims(op: AlignedOp, size: int) -> list[int]:
    given: Any = op.args.get("dim")
    if given is None or given == []:
        return list(range(size))
    return [d % max(size, 1) for d in ([given] if isinstance(given, int) else given)]


@lower(
    "sum", "mean", "amax", "amin", "max", "min", "prod", "linalg_vector_norm", "norm", "var", "std",
    "var_mean", "std_mean", "logsumexp", "argmax", "argmin", "any", "all", "median", "nanmedian",
    "count_nonzero", "nansum", "aminmax", "nanmean",
)  # fmt: skip
def lower_reduction(builder: Builder, op: AlignedOp) -> None:
    """Reduce within rows, or over the rows themselves."""
    found = builder[op.args["self"]]
    assert isinstance(found, Tracked | Uniform)
    if isinstance(found, Tracked) and found.ids:
        _largest_number(builder, op, found)
        return
    no_ids(builder, op)
    size = builder.ndim(op.args["self"])
    dims, axis = _dims(op, size), found.layout.axis
    if axis is None:
        on_everything(builder, op)
        return
    if axis not in dims:
        fewer = 0 if op.args.get("keepdim", False) else sum(d < axis for d in dims)
        builder.apply(op, found.layout.at(axis - fewer))
        return
    floating = op.dtypes[0] is not None and op.dtypes[0].is_floating_point
    if isinstance(found, Uniform) and op.name in ("max", "min", "amax", "amin", "any", "all"):
        # The same row over and over: what holds of one holds of all.
        _of_one_row(builder, op, found)
        return
    if op.name in ("sum", "mean") and isinstance(found, Tracked) and floating:
        _over_rows(builder, op, found, dims)
        return
    on_everything(builder, op)
    if op.name in ("sum", "any") and isinstance(found, Tracked):
        _note_count(builder, op, found)


def _note_count(builder: Builder, op: AlignedOp, mask: Tracked) -> None:
    """Note which rows a number counts, so that comparisons of it in Python code become guards."""
    made = builder.known.get(op.outs[0] or 0)
    static = builder.is_mask(mask) and mask.value.static and builder.ndim_of(mask) == 1
    if not static or not isinstance(made, Tracked):
        return
    rows = mask.value.base_rows().nonzero().flatten()
    space = mask.space.picked(rows, f"{mask.space.label} that a mask picks", (len(rows),))
    count = ("rows", space, 1)
    builder.counted[made.value] = ("gt", (count, 0)) if op.name == "any" else ("bool", (count,))


def _of_one_row(builder: Builder, op: AlignedOp, found: Uniform) -> None:
    """Reduce equal rows, by reducing one of them."""
    one = found.layout.tensor(found.rows)
    args, kwargs = bound(op, lambda ref: one if ref == op.args["self"] else builder[ref])
    out = op.func(*args, **kwargs)
    builder.set(out[0] if isinstance(out, tuple | list) else out)
    for number in op.outs[1:]:
        if number is not None:
            builder.unsupported_result(number, "returns the position of the largest of equal rows")


def _largest_number(builder: Builder, op: AlignedOp, found: Tracked) -> None:
    """The largest row id, which may only be used as a size."""
    if op.name not in ("max", "amax") or not found.value.static:
        builder.unsupported("uses node or edge ids as quantities")
    builder.structure.append(found.value)
    rows = found.value.base_rows()
    base = rows.max().reshape(1) if rows.numel() else rows.new_zeros(1)
    builder.set(Tracked(builder.fixed(base, builder.graph), Layout(None), "id"))


def _over_rows(builder: Builder, op: AlignedOp, found: Tracked, dims: list[int]) -> None:
    """Sum or mean over all rows, corrected for changed and removed rows."""
    layout, dtype = found.layout, op.dtypes[0]
    shape = [dims_[0] for dims_ in op.shapes[0]]
    others = [d for d in dims if d != layout.axis]

    def own(rows: Tensor) -> Tensor:
        # Each row's own share, in double: a sum over all nodes loses digits that single rows show.
        tensor = layout.tensor(rows.double())
        if others:
            tensor = tensor.sum(dim=others, keepdim=True)
        return layout.rows(tensor)

    each = builder.rows(own, found.value)
    space = found.space
    index = torch.zeros(space.size, dtype=torch.long)
    none = each.none
    start = builder.fixed(none.new_zeros(1, *none.shape[1:]), builder.graph)
    total = builder.scattered(each, index, start, "sum", True)
    extra = layout.factor
    for d in others:
        extra *= builder.shapes[op.args["self"].id][d][0]

    def finish(rows: Tensor, *counts: Tensor) -> Tensor:
        if not layout.plain:
            inner = (layout.axis or 0) + 1
            rows = rows.sum(dim=(inner, inner + 1))
        if counts:
            rows = rows / (counts[0] * extra).view(-1, *[1] * (rows.dim() - 1))
        return rows.reshape(len(rows), *shape).to(dtype)

    counted = [builder.count(space).value] if op.name == "mean" else []
    builder.set(Tracked(builder.rows(finish, total, *counted), Layout(None)))
