"""Rows selected by a mask that depends on values: `deg[deg < 0.5] += 1`, `(deg == 3).nonzero()`.

The selection changes with every removal, so these rows have no space of their own. Instead, operations are
computed for all rows, and when the result is written back, `where` uses it only at selected rows. Any other
use is unsupported.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from nora.engine.lower.builder import Builder
from nora.engine.lower.known import Known, Layout, Picked, Tracked
from nora.engine.lower.lowerings import LOWERINGS
from nora.engine.lower.products import FACTORS
from nora.engine.trace.align import AlignedOp
from nora.engine.trace.trace import Ref, mapped

# Reading the rows that are picked, and writing them back.
READS = ("index", "index_select")
WRITES = ("index_put", "index_copy", "index_fill")
# What only looks at row numbers in another shape.
VIEWS = ("unbind", "select", "squeeze", "reshape", "flatten", "t")


def pick_rows(builder: Builder, mask: Tracked, found: Tracked, place: int = 0) -> bool:
    """Set the result to the rows of a tensor that a mask selects; False if they are of another space."""
    plain = builder.is_mask(mask) and builder.ndim_of(mask) == 1 and mask.layout.plain
    same = builder.as_rows_of(found, mask.space) if plain else None
    if same is None or not same.layout.plain or same.layout.axis != 0:
        return False
    assert builder.at is not None
    number = builder.at.outs[place]
    if number is not None:
        builder.known[number] = Picked(mask, same)
    return True


def pick_numbers(builder: Builder, mask: Tracked) -> bool:
    """Set the result to the ids of the rows that a mask selects; False if they are of another space."""
    every = torch.arange(mask.space.size)
    return pick_rows(builder, mask, Tracked(builder.fixed(every, mask.space), Layout(0), "id"))


def on_picked(builder: Builder, op: AlignedOp, row_wise: bool) -> None:
    """An operation on rows that a mask selects."""
    picked = [one for one in builder.operands(op.args) if isinstance(one, Picked)]
    first = picked[0]
    if any(one.mask.value is not first.mask.value for one in picked):
        builder.unsupported("combines rows selected by different masks")
    if op.name in READS:
        _read(builder, op, first)
    elif op.name in WRITES:
        _write(builder, op, first)
    elif op.name in VIEWS and first.rows.ids:
        if op.name == "select" and op.args["dim"] % 2 != 1:
            builder.unsupported("reads a single one of the rows that a mask selects")
        builder.set(first)
    elif row_wise or op.name in ("mm", "addmm"):
        _row_wise(builder, op, first)
    else:
        builder.unsupported(
            "computes with rows selected by a mask that depends on values (multiply rows by it instead "
            "of selecting them)"
        )


def _read(builder: Builder, op: AlignedOp, by: Picked) -> None:
    """Read rows by the ids of the selected ones."""
    refs = [ref for ref in op.args.get("indices", [op.args.get("index")]) if ref is not None]
    own = builder.known[op.args["self"].id]
    size = builder.ndim(op.args["self"])
    along = op.args.get("dim", 0) % size == 0 and (
        op.name != "index" or op.args["indices"][0] is not None
    )
    if len(refs) != 1 or not by.rows.ids or not isinstance(own, Tracked) or not along:
        builder.unsupported("reads rows selected by a mask that depends on values")
    if not pick_rows(builder, by.mask, own):
        builder.unsupported("selects rows by a mask of other rows")


def _write(builder: Builder, op: AlignedOp, given: Picked) -> None:
    """Write selected rows back to where they were read."""
    args = op.args
    by = [ref for ref in args.get("indices", [args.get("index")]) if ref is not None]
    key = next((k for k in ("values", "source", "value") if k in args), "value")
    values = args[key]
    which = builder.known[by[0].id]
    mask = which.mask if isinstance(which, Picked) and which.rows.ids else which
    own = builder.known[args["self"].id]
    same_mask = isinstance(mask, Tracked) and mask.value is given.mask.value
    if (
        len(by) != 1
        or not same_mask
        or args.get("dim", 0) % len(op.shapes[0])
        or args.get("accumulate")
    ):
        builder.unsupported("writes rows selected by one mask through another mask")
    mask = given.mask
    target = builder.rowed_known(own, mask.space)
    if target is None or target.layout != Layout(0) or target.ids:
        builder.unsupported("writes to rows through a mask of other rows")
    written: Known = builder.known[values.id] if isinstance(values, Ref) else torch.tensor(values)
    if isinstance(written, Picked):
        rows = written.rows
        if rows.ids or builder.ndim_of(rows) != builder.ndim_of(target):
            builder.unsupported("writes rows of another shape")
        made = builder.rows(written_where, target.value, mask.value, rows.value, numel=8)
    elif isinstance(written, Tensor) and written.numel() == 1:
        put = partial(written_where, new=written.reshape(()))
        made = builder.rows(put, target.value, mask.value, numel=8)
    else:
        builder.unsupported("writes other rows than its mask selects")
    builder.set(Tracked(made, target.layout))


def written_where(old: Tensor, chosen: Tensor, new: Tensor, add: bool = False) -> Tensor:
    """Rows or entries where a mask holds, written or added to; the mask has fewer axes, or as many."""
    chosen = chosen.view(*chosen.shape, *[1] * (old.dim() - chosen.dim()))
    new = new.to(old.dtype)
    return torch.where(chosen, old + new if add else new, old)


def _row_wise(builder: Builder, op: AlignedOp, first: Picked) -> None:
    """Execute a row-wise operation on all rows."""
    args, sizes = dict(op.args), first.rows.space.sizes
    if op.name in FACTORS and not isinstance(builder.known[args[FACTORS[op.name][0]].id], Picked):
        builder.unsupported("multiplies by rows selected by a mask that depends on values")

    def whole(leaf: object) -> object:
        found = builder.known[leaf.id] if isinstance(leaf, Ref) else None
        if isinstance(found, Picked):
            if found.rows.ids:
                builder.unsupported("uses row ids as quantities")
            return builder.temporary(found.rows)
        plain = found is None or (isinstance(found, Tensor) and _spreads(found, op))
        if not plain:
            builder.unsupported("combines rows selected by a mask with rows that are not")
        return leaf

    shapes = tuple((sizes, *shape[1:]) for shape in op.shapes)
    done = replace(op, args=mapped(whole, args), shapes=shapes)
    lowering = LOWERINGS["pointwise" if op.name not in FACTORS else op.name]
    lowering.function(builder, done)
    for number in op.outs:
        made = builder.known.get(number) if number is not None else None
        if number is None or not isinstance(made, Tracked) or made.layout != Layout(0):
            builder.unsupported("computes with rows selected by a mask that depends on values")
        builder.known[number] = Picked(first.mask, made)


def _spreads(tensor: Tensor, op: AlignedOp) -> bool:
    """Whether a constant tensor is broadcast to every row in the same way."""
    return op.name in FACTORS or tensor.dim() < len(op.shapes[0]) or tensor.size(0) == 1
