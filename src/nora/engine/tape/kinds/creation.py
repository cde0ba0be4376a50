"""Tensors made from sizes alone: the same row over and over, or the numbers of the rows."""

from __future__ import annotations

import torch

from nora.engine.tape.follow import Walk, kind
from nora.engine.tape.program import Sized, Step
from nora.engine.tape.tracked import Layout, Tracked, filled


@kind(
    "zeros", "ones", "full", "empty", "new_zeros", "new_ones", "new_full", "new_empty", "zeros_like",
    "ones_like", "full_like", "empty_like", "scalar_tensor", "empty_strided", "new_empty_strided", "zero",
)  # fmt: skip
def filled_with(walk: Walk, step: Step) -> None:
    """One number everywhere; what is left empty is filled before it is read."""
    name, dtype = step.name, step.op.dtypes[0]
    number = 0
    if "ones" in name:
        number = 1
    elif "full" in name:
        number = step.args["fill_value"]
    elif name == "scalar_tensor":
        number = step.args["s"]
    if isinstance(number, Sized):
        space = walk.space_of_size(number.values)
        if space is None or step.shapes[0]:
            walk.refuse("takes a number that depends on the graph")
        assert space is not None
        count = walk.count(space)
        walk.set(Tracked(walk.rows(lambda rows: rows.to(dtype), count.value), Layout(None)))
        return
    made = filled(step.shapes[0], torch.tensor(number, dtype=dtype))
    if made is None:
        walk.cannot(step.op.outs[0] or 0, "makes a tensor of all rows by all rows")
        return
    walk.set(made)


@kind("arange")
def numbered(walk: Walk, step: Step) -> None:
    """The numbers of all rows of a space."""
    start, end = step.args.get("start", 0), step.args["end"]
    space = walk.space_of_size(end.values) if isinstance(end, Sized) else None
    if start != 0 or step.args.get("step", 1) != 1 or space is None:
        walk.refuse("counts to a number that depends on the graph")
    assert space is not None
    if step.op.dtypes[0] not in (torch.long, torch.int):
        walk.refuse("takes the numbers of nodes or edges for quantities")
    key = ("arange", id(space), step.op.dtypes[0])
    if key not in walk.named:
        walk.named[key] = torch.arange(space.size, dtype=step.op.dtypes[0])
    walk.set(Tracked(walk.fixed(walk.named[key], space), Layout(0), "id"))
