"""Pointwise operations: every entry by itself, with broadcasting."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nora.engine.lower.anything import on_everything
from nora.engine.lower.builder import Builder
from nora.engine.lower.known import Dense, Ids, Layout, Tracked, Uniform
from nora.engine.lower.lowerings import lower
from nora.engine.trace.align import AlignedOp, Sized
from nora.engine.trace.trace import Ref, leaves, mapped

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
COPIES = ("clone", "alias", "detach", "_to_copy", "positive", "contiguous", "lift_fresh_copy")
# What torch does not tag as pointwise (see `is_pointwise`), in all or in some of its overloads.
UNTAGGED = (
    *COPIES, "floor_divide", "log_sigmoid_forward", "hardswish", "_prelu_kernel", "__and__", "__or__", "copy",
    "fill", "masked_fill", "where", "rsub", "true_divide",
)  # fmt: skip


def bring_to_rows(
    builder: Builder, op: AlignedOp, args: dict[str, Any]
) -> tuple[dict[str, Any], Layout]:
    """Arguments that all hold rows of one space along one axis, or are broadcast over it.

    Returns:
        The arguments, with values of the whole graph repeated for every row, and the layout.
    """
    ndim = len(op.shapes[0])
    refs = list(dict.fromkeys(a for a in leaves(args) if isinstance(a, Ref)))
    shift = {ref: ndim - builder.ndim(ref) for ref in refs}

    def placed(ref: Ref) -> Layout:
        layout = builder.layout(ref)
        return layout.at((layout.axis or 0) + shift[ref])

    known = {ref: builder[ref] for ref in refs}
    rowed = [
        ref
        for ref, one in known.items()
        if isinstance(one, Tracked) and one.space is not builder.graph
    ]
    uniform = [ref for ref in refs if isinstance(builder[ref], Uniform)]
    leading = rowed or uniform
    layout = placed(leading[0])
    for ref in rowed:
        if placed(ref) != layout:
            builder.unsupported("combines rows along different axes")
    first = builder.rowed(leading[0])
    axis = layout.axis
    assert axis is not None and not isinstance(first, Tensor)
    new: dict[Ref, Ref] = {}
    for ref in refs:
        found = builder[ref]
        if isinstance(found, Uniform):
            same = builder.shapes[ref.id]
            if placed(ref).axis != axis or same[axis - shift[ref]] != op.shapes[0][axis]:
                builder.unsupported("combines tensors whose rows belong to different spaces")
            if placed(ref) != layout:
                new[ref] = builder.temporary(_relaid(found, layout, shift[ref]))
        elif isinstance(found, Tensor):
            at = axis - shift[ref]
            if at >= 0 and found.size(at) != 1:
                if not isinstance(first, Tracked) or not layout.plain:
                    builder.unsupported("combines rows with a constant tensor of another length")
                new[ref] = builder.temporary(builder.own_rows(found, at, first.space))
        elif found.space is builder.graph:
            assert isinstance(first, Tracked) or rowed == []
            new[ref] = builder.temporary(_to_every_row(builder, found, ref, first, layout, ndim))
    return mapped(lambda a: new.get(a, a) if isinstance(a, Ref) else a, args), layout


def _relaid(found: Uniform, layout: Layout, shift: int) -> Dense:
    """A uniform tensor in a layout that merges other axes with the rows."""
    axis = (layout.axis or 0) - shift
    rows = found.rows.unflatten(0, (1, 1)).movedim(1, axis + 1)  # [1, …, outer·inner = 1, …]
    rows = rows.unsqueeze(axis + 1)
    sizes = list(rows.shape)
    sizes[axis + 1], sizes[axis + 2] = layout.outer, layout.inner
    return Uniform(rows.expand(sizes), layout.at(axis), found.sizes)


def _to_every_row(
    builder: Builder, found: Tracked, ref: Ref, first: Tracked | Uniform, layout: Layout, ndim: int
) -> Tracked:
    """A value of the whole graph as a tensor with a row for every row of a space."""
    if isinstance(first, Uniform):
        space = builder.space_of_size(first.sizes)
        if space is None:
            builder.unsupported("combines rows that belong to no known space")
    else:
        space = first.space
    axis = layout.axis or 0
    shape = [1] * (ndim - builder.ndim(ref)) + [sizes[0] for sizes in builder.shapes[ref.id]]
    if shape[axis] != 1:
        builder.unsupported("combines a value of the whole graph with rows along another axis")
    rest = shape[:axis] + shape[axis + 1 :]
    if not layout.plain:
        rest = [*shape[:axis], 1, 1, *shape[axis + 1 :]]
        wide = [*shape[:axis], layout.outer, layout.inner, *shape[axis + 1 :]]
    else:
        wide = rest

    def spread(rows: Tensor) -> Tensor:
        return rows.reshape(len(rows), *rest).expand(len(rows), *wide)

    return Tracked(builder.rows(spread, builder.broadcast(found, space)), layout)


@lower("pointwise", *UNTAGGED)
def pointwise(builder: Builder, op: AlignedOp) -> None:
    """Execute the operation on changed rows only."""
    args = dict(op.args)
    if not any(isinstance(o, Tracked | Uniform) for o in builder.operands(args)):
        builder.unsupported("uses a number that depends on the graph")
    ids = number_ids(builder, op)
    if ids:  # numbers of rows are only ever computed on the asked graph
        args = {k: a.values[0] if isinstance(a, Sized) else a for k, a in args.items()}
    if not ids and any(isinstance(a, Sized) for a in args.values()):
        args = _with_counts(builder, op, args)
        if args is None:
            on_everything(builder, op)
            return
    if all(
        isinstance(o, Tensor) or (isinstance(o, Tracked) and o.space is builder.graph)
        for o in builder.operands(args)
    ):
        on_everything(builder, op)
        return
    given, layout = bring_to_rows(builder, op, args)
    builder.apply(op, layout, given, ids=ids)


def _with_counts(builder: Builder, op: AlignedOp, args: dict[str, Any]) -> Any:
    """Arguments in which the number of nodes or edges is a value that removals change."""
    if not op.func._schema.overload_name.startswith("Tensor"):
        builder.unsupported("uses a number that depends on the graph")
    for name, value in args.items():
        if isinstance(value, Sized):
            space = builder.space_of_size(value.values)
            if space is None or name == "alpha":
                builder.unsupported("uses a number that depends on the graph")
            args[name] = builder.temporary(builder.count(space))
    return args


def number_ids(builder: Builder, op: AlignedOp) -> Ids:
    """Handle row ids in an operation, which must not be used as quantities."""
    found = [o.ids for o in builder.operands(op.args) if isinstance(o, Tracked)]
    if not any(found):
        return ""
    name, args = op.name, op.args
    others = [o for o in builder.operands(args) if not (isinstance(o, Tracked) and o.ids)]
    numbers = [
        a
        for key, a in args.items()
        if key not in ("alpha", "dtype", "memory_format")
        and isinstance(a, int | float | Sized)
        and not isinstance(a, bool)
    ]
    if name in COPIES and not any(isinstance(o, Uniform) for o in others):
        dtype = args.get("dtype")
        if dtype is None or not dtype.is_floating_point:
            return found[0]
    if name == "copy" and found == [found[-1]] * 2 and op.dtypes[0] == torch.long:
        return found[-1]
    if name in COMPARISONS and not others and not numbers:
        return ""
    if name in ("add", "mul") and args.get("alpha", 1) == 1 and not others:
        if len(numbers) == 1 and isinstance(numbers[0], Sized):
            return "scaled" if name == "mul" else found[0]
        if name == "add" and not numbers and sorted(found) == ["id", "scaled"]:
            return "key"
    if name == "where" and not found[0] and len(set(found[1:])) == 1 and not others:
        return found[-1]
    if name in ("add", "sub") and not others and numbers == [0]:
        return found[0]
    builder.unsupported("uses node or edge ids as quantities")
