"""Operations along some axes, which compute each row by itself if the axis of the rows is not among them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from nora.engine.lower.anything import on_everything
from nora.engine.lower.builder import Builder
from nora.engine.lower.known import Layout, Tracked, Uniform
from nora.engine.lower.lowerings import lower
from nora.engine.lower.pointwise import bring_to_rows
from nora.engine.trace.align import AlignedOp, Sized
from nora.engine.trace.trace import Ref

aten = torch.ops.aten


def no_ids(builder: Builder, op: AlignedOp) -> None:
    """Refuse row numbers among the arguments."""
    if any(isinstance(o, Tracked) and o.ids for o in builder.operands(op.args)):
        builder.unsupported("uses node or edge ids as quantities")


@lower(
    "_softmax", "_log_softmax", "_safe_softmax", "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin",
    "topk", "kthvalue", "glu", "renorm", "constant_pad_nd", "tril", "triu", "diff", "mode",
)  # fmt: skip
def along_one_axis(builder: Builder, op: AlignedOp) -> None:
    """An operation along another axis than the rows': row-wise."""
    no_ids(builder, op)
    found = builder[op.args["self"]]
    others = [o for o in builder.operands(op.args) if o is not found and not hasattr(o, "numel")]
    size = builder.ndim(op.args["self"])
    layout = builder.layout(op.args["self"])
    if op.name == "constant_pad_nd":
        padded = {size - 1 - k // 2 for k, n in enumerate(op.args["pad"]) if n}
    elif op.name in ("tril", "triu"):
        padded = {size - 1, size - 2}
    elif op.name == "renorm":
        padded = set(range(size)) - {op.args["dim"] % size}
    else:
        padded = {int(op.args.get("dim", -1)) % max(size, 1)}
    if layout.axis in padded or others:
        on_everything(builder, op)
        return
    if len(op.shapes[0]) < size and layout.axis is not None:  # without the axis that is reduced
        layout = layout.at(layout.axis - (min(padded) < layout.axis))
    builder.apply(op, layout)


@lower("sort")
def lower_sort(builder: Builder, op: AlignedOp) -> None:
    """Sort along another axis than the rows'; sorted rows are a new structure."""
    from nora.engine.lower.structure import sorted_rows

    size = builder.ndim(op.args["self"])
    layout = builder.layout(op.args["self"])
    if int(op.args["dim"]) % max(size, 1) == layout.axis:
        sorted_rows(builder, op)
        return
    no_ids(builder, op)
    builder.apply(op, layout)


@lower("native_layer_norm", "native_group_norm", "native_batch_norm", "_native_batch_norm_legit_no_training",
      "_native_batch_norm_legit", "batch_norm", "convolution", "_batch_norm_impl_index")  # fmt: skip
def normalised(builder: Builder, op: AlignedOp) -> None:
    """Normalisations: over a row's own entries, or by statistics that were learnt."""
    no_ids(builder, op)
    found = builder[op.args["input"]]
    others = [
        ref
        for key, ref in op.args.items()
        if key != "input" and isinstance(ref, Ref) and isinstance(builder[ref], Tracked | Uniform)
    ]
    if others or not isinstance(found, Tracked | Uniform):
        builder.unsupported("normalises by values that depend on the graph")
    layout, size = found.layout, builder.ndim(op.args["input"])
    args = dict(op.args)
    whole = layout.axis != 0
    if op.name == "native_layer_norm":
        whole = (layout.axis or 0) >= size - len(op.args["normalized_shape"])
    elif op.name == "native_group_norm":
        if isinstance(args["N"], Sized) and not whole:
            from nora.engine.lower.known import RowCount

            args["N"] = RowCount(layout.factor)
    elif "batch_norm" in op.name:
        learnt = op.args.get("running_mean") is not None and not op.args.get("training", False)
        whole = whole or not learnt
    if whole or any(isinstance(a, Sized) for a in args.values()):
        on_everything(builder, op)
        return
    affine = _learnt_affine(builder, op) if "batch_norm" in op.name and size == 2 else None
    # Statistics that come with the result have rows along other axes, and are not used.
    _first_result(builder, op, layout, affine or args, aten.addcmul.default if affine else None)


def _learnt_affine(builder: Builder, op: AlignedOp) -> dict[str, Any] | None:
    """Batch norm by learnt statistics, as one product and one sum; None if that is not the same.

    The operation itself computes these factors in every call, which takes three times as long.
    """
    names = ("weight", "bias", "running_mean", "running_var")
    known: list[Any] = [
        builder[ref] if isinstance(ref, Ref) else ref for ref in map(op.args.get, names)
    ]
    found = builder.rowed(op.args["input"])
    rows = found.rows if isinstance(found, Uniform) else found.value.none
    dtypes = {tensor.dtype for tensor in (rows, *known) if tensor is not None}
    if len(dtypes) > 1 or not dtypes <= {torch.float32, torch.float64}:
        return None
    weight, bias, mean, variance = known
    with torch.no_grad():
        scale = (variance + op.args["eps"]).rsqrt()
        scale = scale if weight is None else scale * weight
        shift = (0 if bias is None else bias) - mean * scale
    return {"self": shift, "tensor1": op.args["input"], "tensor2": scale, "value": 1}


def _first_result(
    builder: Builder, op: AlignedOp, layout: Layout, args: dict[str, Any], func: Any = None
) -> None:
    for number in op.outs[1:]:
        if number is not None:
            builder.unsupported_result(number, "returns statistics, which are not supported")
    kept = {number: builder.known[number] for number in op.outs if number in builder.known}
    builder.apply(replace(op, outs=op.outs[:1]), layout, args, func=func)
    builder.known.update(kept)


@lower("scatter", "scatter_add", "scatter_reduce", "gather", "take_along_dim")
def along_one_axis_by_index(builder: Builder, op: AlignedOp) -> None:
    """Gather or scatter by an index: row-wise along another axis than the rows', else between rows."""
    from nora.engine.lower.gathers import gathered_along
    from nora.engine.lower.scatters import scattered_along

    size = builder.ndim(op.args["self"])
    dim = int(op.args["dim"]) % max(size, 1)
    index = builder[op.args["index"]]
    axes = {
        o.layout.axis
        for o in builder.operands(op.args)
        if isinstance(o, Tracked | Uniform) and o.layout.axis is not None
    }
    if dim in axes:
        (gathered_along if op.name in ("gather", "take_along_dim") else scattered_along)(
            builder, op, dim
        )
        return
    if isinstance(index, Tracked) and index.ids:
        builder.unsupported("uses node or edge ids as quantities")
    if len(axes) != 1:
        builder.unsupported("combines rows along different axes")
    args, layout = bring_to_rows(builder, op, dict(op.args))
    builder.apply(op, layout, args)


@lower("select_scatter", "slice_scatter", "select_backward", "slice_backward")
def put_along_one_axis(builder: Builder, op: AlignedOp) -> None:
    """A part along another axis than the rows' replaced by something else."""
    ids = {k.ids if isinstance(k, Tracked) else "" for k in builder.operands(op.args)}
    if ids not in ({""}, {"id"}):
        no_ids(builder, op)
    size = len(op.shapes[0])
    dim = int(op.args["dim"]) % size
    layouts = {}
    for key in ("self", "src"):
        found = builder[op.args[key]]
        if isinstance(found, Tracked | Uniform):
            axis = found.layout.axis
            if axis is None:
                on_everything(builder, op)
                return
            if key == "src" and op.name == "select_scatter" and axis >= dim:
                axis += 1
            layouts[key] = found.layout.at(axis)
    if len(set(layouts.values())) != 1:
        builder.unsupported("combines rows along different axes")
    layout = next(iter(layouts.values()))
    if layout.axis == dim:
        on_everything(builder, op)
        return
    for key in ("self", "src"):
        found = builder[op.args[key]]
        if not isinstance(found, Tracked | Uniform) and found.dim():
            builder.unsupported("writes a constant tensor to rows, or rows into a constant tensor")
    builder.apply(op, layout, ids=ids.pop())
