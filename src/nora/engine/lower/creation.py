"""Tensors created from sizes alone: constant rows (`zeros`, `full`), and row ids (`arange`)."""

from __future__ import annotations

import torch

from nora.engine.lower.builder import Builder
from nora.engine.lower.known import Layout, Tracked, filled
from nora.engine.lower.lowerings import lower
from nora.engine.trace.align import AlignedOp, Sized


@lower(
    "zeros", "ones", "full", "empty", "new_zeros", "new_ones", "new_full", "new_empty", "zeros_like",
    "ones_like", "full_like", "empty_like", "scalar_tensor", "empty_strided", "new_empty_strided", "zero",
)  # fmt: skip
def filled_with(builder: Builder, op: AlignedOp) -> None:
    """One number everywhere; what is left empty is filled before it is read."""
    name, dtype = op.name, op.dtypes[0]
    number = 0
    if "ones" in name:
        number = 1
    elif "full" in name:
        number = op.args["fill_value"]
    elif name == "scalar_tensor":
        number = op.args["s"]
    if isinstance(number, Sized):
        space = builder.space_of_size(number.values)
        if space is None or op.shapes[0]:
            builder.unsupported("uses a number that depends on the graph")
        count = builder.count(space)
        builder.set(Tracked(builder.rows(lambda rows: rows.to(dtype), count.value), Layout(None)))
        return
    made = filled(op.shapes[0], torch.tensor(number, dtype=dtype))
    if made is None:
        builder.unsupported_result(
            op.outs[0] or 0, "makes a tensor with an entry for every pair of rows"
        )
        return
    builder.set(made)


@lower("arange")
def numbered(builder: Builder, op: AlignedOp) -> None:
    """The numbers of all rows of a space."""
    start, end = op.args.get("start", 0), op.args["end"]
    space = builder.space_of_size(end.values) if isinstance(end, Sized) else None
    if start != 0 or op.args.get("step", 1) != 1 or space is None:
        builder.unsupported("counts up to a number that depends on the graph")
    if op.dtypes[0] not in (torch.long, torch.int):
        builder.unsupported("uses node or edge ids as quantities")
    key = ("arange", space, op.dtypes[0])
    if key not in builder.named:
        builder.named[key] = torch.arange(space.size, dtype=op.dtypes[0])
    builder.set(Tracked(builder.fixed(builder.named[key], space), Layout(0), "id"))
