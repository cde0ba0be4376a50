"""`cat` and `stack`: columns side by side, or the rows of one space after those of another."""

from __future__ import annotations

import torch
from torch import Tensor

from nora.engine.lower.anything import on_everything
from nora.engine.lower.builder import Builder
from nora.engine.lower.known import Ids, Layout, Tracked, Uniform
from nora.engine.lower.lowerings import lower
from nora.engine.trace.align import AlignedOp


@lower("cat", "stack")
def lower_cat(builder: Builder, op: AlignedOp) -> None:
    """Along another axis than the rows', row-wise; along theirs, rows of a joined space."""
    refs = list(op.args["tensors"])
    size = len(op.shapes[0])
    dim = int(op.args["dim"]) % size
    stacking = op.name == "stack"
    if op.name == "cat":
        # torch lets tensors of shape [0] join anything.
        refs = [
            ref for ref in refs if builder.shapes[ref.id] != ((0,) * builder.traced.graphs,)
        ] or refs
    known = [builder[ref] for ref in refs]
    if any(not isinstance(k, Tensor) and k.layout.axis is None for k in known):
        on_everything(builder, op)
        return
    layouts = {
        k.layout.at((k.layout.axis or 0) + (stacking and dim <= (k.layout.axis or 0)))
        for k in known
        if not isinstance(k, Tensor)
    }
    if len(layouts) != 1:
        builder.unsupported("combines rows along different axes")
    layout = next(iter(layouts))
    ids: set[Ids] = {k.ids if isinstance(k, Tracked) else "" for k in known}
    if len(ids) > 1:
        builder.unsupported("concatenates node or edge ids with quantities")
    if layout.axis == dim and not stacking:
        _one_after_the_other(builder, known, layout, op)
        return
    if any(isinstance(k, Tensor) for k in known):
        space = next((k.space for k in known if isinstance(k, Tracked)), None)
        axis = (layout.axis or 0) - (stacking and dim < (layout.axis or 0))
        if space is None or not layout.plain:
            builder.unsupported("combines rows with a constant tensor of another length")
        refs = [
            builder.temporary(builder.own_rows(k, axis, space)) if isinstance(k, Tensor) else ref
            for k, ref in zip(known, refs, strict=True)
        ]
    builder.apply(op, layout, {**op.args, "tensors": refs}, ids=next(iter(ids)))


def _one_after_the_other(builder: Builder, known: list, layout: Layout, op: AlignedOp) -> None:
    if not layout.plain:
        builder.unsupported("concatenates rows that are merged with other axes")
    uniform = [k for k in known if isinstance(k, Uniform)]
    if len(uniform) == len(known) and all(torch.equal(k.rows, uniform[0].rows) for k in uniform):
        builder.set(Uniform(uniform[0].rows, layout, op.shapes[0][layout.axis or 0]))
        return
    parts = []
    for k in known:
        if isinstance(k, Tensor):
            if k.size(layout.axis or 0) == 0:
                continue
            builder.unsupported("concatenates rows with a constant tensor")
        if isinstance(k, Uniform):
            space = builder.space_of_size(k.sizes)
            if space is None:
                builder.unsupported("concatenates rows that belong to no known space")
            parts.append(builder.repeated(k, space))
        else:
            parts.append(k.value)
    dtype = op.dtypes[0]
    same = [
        p if p.none.dtype == dtype
        else builder.rows(lambda rows: rows.to(dtype), p)
        for p in parts
    ]  # fmt: skip
    number: Ids = next((k.ids for k in known if isinstance(k, Tracked)), "")
    if len(same) == 1:
        builder.set(Tracked(same[0], layout, number))
        return
    builder.set(Tracked(builder.concatenated(same), layout, number))
