"""Reductions: over a row's own entries, or over all rows to something known of the whole graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nora.engine.tape.builder import bound
from nora.engine.tape.follow import Walk, kind
from nora.engine.tape.kinds.anything import on_everything
from nora.engine.tape.kinds.rowwise import no_ids
from nora.engine.tape.program import Step
from nora.engine.tape.tracked import Layout, Tracked, Uniform


def _dims(step: Step, size: int) -> list[int]:
    given: Any = step.args.get("dim")
    if given is None or given == []:
        return list(range(size))
    return [d % max(size, 1) for d in ([given] if isinstance(given, int) else given)]


@kind(
    "sum", "mean", "amax", "amin", "max", "min", "prod", "linalg_vector_norm", "norm", "var", "std",
    "var_mean", "std_mean", "logsumexp", "argmax", "argmin", "any", "all", "median", "nanmedian",
    "count_nonzero", "nansum", "aminmax", "nanmean",
)  # fmt: skip
def reduced(walk: Walk, step: Step) -> None:
    """Rows stay rows, unless they are what is reduced."""
    found = walk[step.args["self"]]
    assert isinstance(found, Tracked | Uniform)
    if isinstance(found, Tracked) and found.ids:
        _largest_number(walk, step, found)
        return
    no_ids(walk, step)
    size = walk.ndim(step.args["self"])
    dims, axis = _dims(step, size), found.layout.axis
    if axis is None:
        on_everything(walk, step)
        return
    if axis not in dims:
        fewer = 0 if step.args.get("keepdim", False) else sum(d < axis for d in dims)
        layout = Layout(axis - fewer, found.layout.outer, found.layout.inner)
        walk.apply(step, layout)
        return
    floating = step.op.dtypes[0] is not None and step.op.dtypes[0].is_floating_point
    if isinstance(found, Uniform) and step.name in ("max", "min", "amax", "amin", "any", "all"):
        # The same row over and over: what holds of one holds of all.
        _of_one_row(walk, step, found)
        return
    if step.name in ("sum", "mean") and isinstance(found, Tracked) and floating:
        _over_rows(walk, step, found, dims)
        return
    on_everything(walk, step)


def _of_one_row(walk: Walk, step: Step, found: Uniform) -> None:

    one = found.layout.tensor(found.rows)
    args, kwargs = bound(step, lambda ref: one if ref == step.args["self"] else walk[ref])
    out = step.op.func(*args, **kwargs)
    walk.set(out[0] if isinstance(out, tuple | list) else out)
    for number in step.op.outs[1:]:
        if number is not None:
            walk.cannot(number, "tells which of equal rows is the largest")


def _largest_number(walk: Walk, step: Step, found: Tracked) -> None:
    """The largest row number there is: it may be used as a size, and as nothing else."""
    if step.name not in ("max", "amax") or not found.value.static:
        walk.refuse("takes the numbers of nodes or edges for quantities")
    walk.frozen.append(found.value)
    rows = found.value.whole()
    base = rows.max().reshape(1) if rows.numel() else rows.new_zeros(1)
    walk.set(Tracked(walk.fixed(base, walk.graph), Layout(None), "id"))


def _over_rows(walk: Walk, step: Step, found: Tracked, dims: list[int]) -> None:
    """Sum or mean over all rows: corrected for those that changed and those that went."""
    layout, dtype = found.layout, step.op.dtypes[0]
    walk.ndim(step.args["self"])
    shape = [dims_[0] for dims_ in step.shapes[0]]
    others = [d for d in dims if d != layout.axis]

    def own(rows: Tensor) -> Tensor:
        # Each row's own share, in double: a sum over all nodes loses digits that single rows show.
        tensor = layout.tensor(rows.double())
        if others:
            tensor = tensor.sum(dim=others, keepdim=True)
        return layout.rows(tensor)

    each = walk.rows(own, found.value)
    space = found.space
    index = torch.zeros(space.size, dtype=torch.long)
    none = each.at(torch.zeros(0, dtype=torch.long))
    start = walk.fixed(none.new_zeros(1, *none.shape[1:]), walk.graph)
    total = walk.scattered(each, index, start, "sum", True)
    extra = layout.factor
    for d in others:
        extra *= walk.shapes[step.args["self"].id][d][0]

    def finish(rows: Tensor, *counts: Tensor) -> Tensor:
        if not layout.plain:
            inner = (layout.axis or 0) + 1
            rows = rows.sum(dim=(inner, inner + 1))
        if counts:
            rows = rows / (counts[0] * extra).view(-1, *[1] * (rows.dim() - 1))
        return rows.reshape(len(rows), *shape).to(dtype)

    counted = [walk.count(space).value] if step.name == "mean" else []
    walk.set(Tracked(walk.rows(finish, total, *counted), Layout(None)))
