"""Tensors put together: side by side, or the rows of one space after those of another."""

from __future__ import annotations

import torch
from torch import Tensor

from nora.engine.tape.follow import Walk, kind
from nora.engine.tape.kinds.anything import on_everything
from nora.engine.tape.program import Step
from nora.engine.tape.tracked import Ids, Layout, Tracked, Uniform


@kind("cat", "stack")
def joined(walk: Walk, step: Step) -> None:
    """Along another axis than the rows' every row by itself; along theirs a space of both."""
    refs = list(step.args["tensors"])
    size = len(step.shapes[0])
    dim = int(step.args["dim"]) % size
    stacking = step.name == "stack"
    if step.name == "cat":
        # torch lets tensors of shape [0] join anything.
        refs = [ref for ref in refs if walk.shapes[ref.id] != ((0,) * walk.program.graphs,)] or refs
    known = [walk[ref] for ref in refs]
    if any(not isinstance(k, Tensor) and k.layout.axis is None for k in known):
        on_everything(walk, step)
        return
    layouts = {
        Layout(
            (k.layout.axis or 0) + (stacking and dim <= (k.layout.axis or 0)),
            k.layout.outer,
            k.layout.inner,
        )
        for k in known
        if not isinstance(k, Tensor)
    }
    if len(layouts) != 1:
        walk.refuse("meets rows along different axes")
    layout = next(iter(layouts))
    ids: set[Ids] = {k.ids if isinstance(k, Tracked) else "" for k in known}
    if len(ids) > 1:
        walk.refuse("joins numbers of nodes or edges with quantities")
    if layout.axis == dim and not stacking:
        _one_after_the_other(walk, known, layout, step)
        return
    if any(isinstance(k, Tensor) for k in known):
        space = next((k.space for k in known if isinstance(k, Tracked)), None)
        axis = (layout.axis or 0) - (stacking and dim < (layout.axis or 0))
        if space is None or not layout.plain:
            walk.refuse("meets a tensor of the model's own")
        assert space is not None
        refs = [
            walk.temporary(walk.own_rows(k, axis, space)) if isinstance(k, Tensor) else ref
            for k, ref in zip(known, refs, strict=True)
        ]
    walk.apply(step, layout, {**step.args, "tensors": refs}, ids=next(iter(ids)))


def _one_after_the_other(walk: Walk, known: list, layout: Layout, step: Step) -> None:
    if not layout.plain:
        walk.refuse("joins rows that are merged with other axes")
    parts = []
    for k in known:
        if isinstance(k, Tensor):
            if k.size(layout.axis or 0) == 0:
                continue
            walk.refuse("joins rows with a tensor of the model's own")
        if isinstance(k, Uniform):
            space = walk.space_of_size(k.sizes)
            if space is None:
                walk.refuse("joins rows of nothing that is known")
            assert space is not None
            rows = k.rows.expand(space.size, *k.rows.shape[1:])
            parts.append(walk.fixed(rows, space))
        else:
            parts.append(k.value)
    dtype = step.op.dtypes[0]
    same = [
        p if p.at(torch.zeros(0, dtype=torch.long)).dtype == dtype
        else walk.rows(lambda rows: rows.to(dtype), p)
        for p in parts
    ]  # fmt: skip
    number: Ids = next((k.ids for k in known if isinstance(k, Tracked)), "")
    if len(same) == 1:
        walk.set(Tracked(same[0], layout, number))
        return
    walk.set(Tracked(walk.concatenated(same), layout, number))
