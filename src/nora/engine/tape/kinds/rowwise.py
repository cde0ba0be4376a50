"""Operations along some axes that leave the others alone: fine as long as rows are not among them."""

from __future__ import annotations

from typing import Any

import torch

from nora.engine.tape.follow import Walk, kind
from nora.engine.tape.kinds.anything import on_everything
from nora.engine.tape.kinds.pointwise import bring_to_rows
from nora.engine.tape.program import Sized, Step
from nora.engine.tape.tape import Ref
from nora.engine.tape.tracked import Layout, Tracked, Uniform

aten = torch.ops.aten
NONE = torch.zeros(0, dtype=torch.long)


def _own(walk: Walk, step: Step) -> Layout:
    return walk.layout(step.args["self"])


def no_ids(walk: Walk, step: Step) -> None:
    """Refuse row numbers among the arguments."""
    if any(isinstance(o, Tracked) and o.ids for o in walk.operands(step.args)):
        walk.refuse("takes the numbers of nodes or edges for quantities")


@kind(
    "_softmax", "_log_softmax", "_safe_softmax", "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin",
    "topk", "kthvalue", "glu", "renorm", "constant_pad_nd", "tril", "triu", "diff", "mode",
)  # fmt: skip
def along_one_axis(walk: Walk, step: Step) -> None:
    """Along an axis of its own: each row by itself."""
    no_ids(walk, step)
    found = walk[step.args["self"]]
    others = [o for o in walk.operands(step.args) if o is not found and not hasattr(o, "numel")]
    size = walk.ndim(step.args["self"])
    layout = _own(walk, step)
    if step.name == "constant_pad_nd":
        padded = {size - 1 - k // 2 for k, n in enumerate(step.args["pad"]) if n}
    elif step.name in ("tril", "triu"):
        padded = {size - 1, size - 2}
    elif step.name == "renorm":
        padded = set(range(size)) - {step.args["dim"] % size}
    else:
        padded = {int(step.args.get("dim", -1)) % max(size, 1)}
    if layout.axis in padded or others:
        on_everything(walk, step)
        return
    walk.apply(step, layout)


@kind("sort")
def sorted_entries(walk: Walk, step: Step) -> None:
    """Along an axis of its own; rows in another order are a structure of their own."""
    from nora.engine.tape.kinds.structure import sorted_rows

    size = walk.ndim(step.args["self"])
    layout = _own(walk, step)
    if int(step.args["dim"]) % max(size, 1) == layout.axis:
        sorted_rows(walk, step)
        return
    no_ids(walk, step)
    walk.apply(step, layout)


@kind("native_layer_norm", "native_group_norm", "native_batch_norm", "_native_batch_norm_legit_no_training",
      "_native_batch_norm_legit", "batch_norm", "convolution", "_batch_norm_impl_index")  # fmt: skip
def normalised(walk: Walk, step: Step) -> None:
    """Normalisations: over a row's own entries, or by statistics that were learnt."""
    no_ids(walk, step)
    found = walk[step.args["input"]]
    others = [
        ref
        for key, ref in step.args.items()
        if key != "input" and isinstance(ref, Ref) and isinstance(walk[ref], Tracked | Uniform)
    ]
    if others or not isinstance(found, Tracked | Uniform):
        walk.refuse("normalises by what depends on the graph")
    assert isinstance(found, Tracked | Uniform)
    layout, size = found.layout, walk.ndim(step.args["input"])
    args = dict(step.args)
    whole = layout.axis != 0
    if step.name == "native_layer_norm":
        whole = (layout.axis or 0) >= size - len(step.args["normalized_shape"])
    elif step.name == "native_group_norm":
        if isinstance(args["N"], Sized) and not whole:
            from nora.engine.tape.tracked import RowCount

            args["N"] = RowCount(layout.factor)
    elif "batch_norm" in step.name:
        learnt = step.args.get("running_mean") is not None and not step.args.get("training", False)
        whole = whole or not learnt
    if whole or any(isinstance(a, Sized) for a in args.values()):
        on_everything(walk, step)
        return
    affine = _learnt_affine(walk, step) if "batch_norm" in step.name and size == 2 else None
    # Statistics that come with the result have rows along other axes, and are not used.
    _first_result(walk, step, layout, affine or args, aten.addcmul.default if affine else None)


def _learnt_affine(walk: Walk, step: Step) -> dict[str, Any] | None:
    """By learnt statistics: one product and one sum, in a third of the time; None where it is not the same.

    They are what the operation itself computes first, every time it is asked.
    """
    names = ("weight", "bias", "running_mean", "running_var")
    known = [walk[ref] if isinstance(ref, Ref) else ref for ref in map(step.args.get, names)]
    found = walk[step.args["input"]]
    rows = found.rows if isinstance(found, Uniform) else found.value.at(NONE)
    dtypes = {tensor.dtype for tensor in (rows, *known) if tensor is not None}
    if len(dtypes) > 1 or not dtypes <= {torch.float32, torch.float64}:
        return None
    weight, bias, mean, variance = known
    with torch.no_grad():
        scale = (variance + step.args["eps"]).rsqrt()
        scale = scale if weight is None else scale * weight
        shift = (0 if bias is None else bias) - mean * scale
    return {"self": shift, "tensor1": step.args["input"], "tensor2": scale, "value": 1}


def _first_result(
    walk: Walk, step: Step, layout: Layout, args: dict[str, Any], func: Any = None
) -> None:
    for number in step.op.outs[1:]:
        if number is not None:
            walk.cannot(number, "tells statistics that are not followed")
    kept = {number: walk.known[number] for number in step.op.outs if number in walk.known}
    walk.apply_first(step, layout, args, func)
    walk.known.update(kept)


@kind("scatter", "scatter_add", "scatter_reduce", "gather", "take_along_dim")
def along_one_axis_by_index(walk: Walk, step: Step) -> None:
    """By an index along another axis than the rows': each row by itself; else between rows."""
    from nora.engine.tape.kinds.gathers import gathered_along
    from nora.engine.tape.kinds.scatters import scattered_along

    size = walk.ndim(step.args["self"])
    dim = int(step.args["dim"]) % max(size, 1)
    index = walk[step.args["index"]]
    axes = {
        o.layout.axis
        for o in walk.operands(step.args)
        if isinstance(o, Tracked | Uniform) and o.layout.axis is not None
    }
    if dim in axes:
        (gathered_along if step.name in ("gather", "take_along_dim") else scattered_along)(
            walk, step, dim
        )
        return
    if isinstance(index, Tracked) and index.ids:
        walk.refuse("takes the numbers of nodes or edges for quantities")
    if len(axes) != 1:
        walk.refuse("mixes rows along different axes")
    args, layout = bring_to_rows(walk, step, dict(step.args))
    walk.apply(step, layout, args)


@kind("select_scatter", "slice_scatter", "select_backward", "slice_backward")
def put_along_one_axis(walk: Walk, step: Step) -> None:
    """A part along another axis than the rows' replaced by something else."""
    ids = {k.ids if isinstance(k, Tracked) else "" for k in walk.operands(step.args)}
    if ids not in ({""}, {"id"}):
        no_ids(walk, step)
    size = len(step.shapes[0])
    dim = int(step.args["dim"]) % size
    layouts = {}
    for key in ("self", "src"):
        found = walk[step.args[key]]
        if isinstance(found, Tracked | Uniform):
            axis = found.layout.axis
            if axis is None:
                on_everything(walk, step)
                return
            if key == "src" and step.name == "select_scatter" and axis >= dim:
                axis += 1
            layouts[key] = Layout(axis, found.layout.outer, found.layout.inner)
    if len(set(layouts.values())) != 1:
        walk.refuse("meets rows along different axes")
    layout = next(iter(layouts.values()))
    if layout.axis == dim:
        on_everything(walk, step)
        return
    for key in ("self", "src"):
        found = walk[step.args[key]]
        if not isinstance(found, Tracked | Uniform) and found.dim():
            at = (
                layout.axis
                if key == "self"
                else (layout.axis or 0)
                - (step.name == "select_scatter" and dim < (layout.axis or 0))
            )
            if found.size(at or 0) != 1:
                walk.refuse("meets a tensor of the model's own that has a row for every node")
            walk.refuse("writes into a tensor that does not depend on the graph")
    walk.apply(step, layout, ids=ids.pop())
