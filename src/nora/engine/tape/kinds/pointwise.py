"""Pointwise operations: every entry by itself, with broadcasting."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nora.engine.tape.follow import Walk, kind
from nora.engine.tape.kinds.anything import on_everything
from nora.engine.tape.program import Sized, Step
from nora.engine.tape.tape import Ref
from nora.engine.tape.tracked import Ids, Known, Layout, Tracked, Uniform
from nora.engine.tape.trees import leaves, mapped

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
COPIES = ("clone", "alias", "detach", "_to_copy", "positive", "contiguous", "lift_fresh_copy")
# What torch does not tag as pointwise (see `is_pointwise`), in all or in some of its overloads.
UNTAGGED = (
    *COPIES, "floor_divide", "log_sigmoid_forward", "hardswish", "_prelu_kernel", "__and__", "__or__", "copy",
    "fill", "masked_fill", "where", "rsub", "true_divide",
)  # fmt: skip


def bring_to_rows(walk: Walk, step: Step, args: dict[str, Any]) -> tuple[dict[str, Any], Layout]:
    """Arguments that all hold rows of one space along one axis, or are broadcast over it.

    Returns:
        The arguments, with what is known of the whole graph handed to every row, and the layout.
    """
    ndim = len(step.shapes[0])
    refs = list(dict.fromkeys(a for a in leaves(args) if isinstance(a, Ref)))
    shift = {ref: ndim - walk.ndim(ref) for ref in refs}

    def placed(ref: Ref) -> Layout:
        layout = walk.layout(ref)
        return Layout((layout.axis or 0) + shift[ref], layout.outer, layout.inner)

    rowed = [
        ref for ref in refs if isinstance(walk[ref], Tracked) and walk[ref].space is not walk.graph
    ]
    uniform = [ref for ref in refs if isinstance(walk[ref], Uniform)]
    leading = rowed or uniform
    layout = placed(leading[0])
    for ref in rowed:
        if placed(ref) != layout:
            walk.refuse("meets rows along different axes")
    first = walk[leading[0]]
    axis = layout.axis
    assert axis is not None and not isinstance(first, Tensor)
    new: dict[Ref, Ref] = {}
    for ref in refs:
        found = walk[ref]
        if isinstance(found, Uniform):
            same = walk.shapes[ref.id]
            if placed(ref).axis != axis or same[axis - shift[ref]] != step.shapes[0][axis]:
                walk.refuse("meets a tensor that is sized by other rows")
            if placed(ref) != layout:
                new[ref] = walk.temporary(_relaid(found, layout, shift[ref]))
        elif isinstance(found, Tensor):
            at = axis - shift[ref]
            if at >= 0 and found.size(at) != 1:
                if not isinstance(first, Tracked) or not layout.plain:
                    walk.refuse("meets a tensor of the model's own")
                assert isinstance(first, Tracked)
                new[ref] = walk.temporary(walk.own_rows(found, at, first.space))
        elif found.space is walk.graph:
            assert isinstance(first, Tracked) or rowed == []
            new[ref] = walk.temporary(_to_every_row(walk, found, ref, first, layout, ndim))
    return mapped(lambda a: new.get(a, a) if isinstance(a, Ref) else a, args), layout


def _relaid(found: Uniform, layout: Layout, shift: int) -> Known:
    """A uniform tensor in a layout that merges other axes with the rows."""
    axis = (layout.axis or 0) - shift
    rows = found.rows.unflatten(0, (1, 1)).movedim(1, axis + 1)  # [1, …, outer·inner = 1, …]
    rows = rows.unsqueeze(axis + 1)
    sizes = list(rows.shape)
    sizes[axis + 1], sizes[axis + 2] = layout.outer, layout.inner
    return Uniform(rows.expand(sizes), Layout(axis, layout.outer, layout.inner), found.sizes)


def _to_every_row(
    walk: Walk, found: Tracked, ref: Ref, first: Known, layout: Layout, ndim: int
) -> Tracked:
    """What is known of the whole graph as a tensor with a row for every row of a space."""
    if isinstance(first, Uniform):
        space = walk.space_of_size(first.sizes)
        if space is None:
            walk.refuse("meets rows of nothing that is known")
    else:
        assert isinstance(first, Tracked)
        space = first.space
    assert space is not None and layout.axis is not None
    shape = [1] * (ndim - walk.ndim(ref)) + [sizes[0] for sizes in walk.shapes[ref.id]]
    if shape[layout.axis] != 1:
        walk.refuse("meets what is known of the whole graph along another axis")
    rest = shape[: layout.axis] + shape[layout.axis + 1 :]
    if not layout.plain:
        rest = [*shape[: layout.axis], 1, 1, *shape[layout.axis + 1 :]]
        wide = [*shape[: layout.axis], layout.outer, layout.inner, *shape[layout.axis + 1 :]]
    else:
        wide = rest

    def spread(rows: Tensor) -> Tensor:
        return rows.reshape(len(rows), *rest).expand(len(rows), *wide)

    return Tracked(walk.rows(spread, walk.broadcast(found, space)), layout)


@kind("pointwise", *UNTAGGED)
def pointwise(walk: Walk, step: Step) -> None:
    """The operation on the rows that have changed."""
    args = dict(step.args)
    if not any(isinstance(o, Tracked | Uniform) for o in walk.operands(args)):
        walk.refuse("takes a number that depends on the graph")
    ids = number_ids(walk, step)
    if ids:  # numbers of rows are only ever computed on the asked graph
        args = {k: a.values[0] if isinstance(a, Sized) else a for k, a in args.items()}
    if not ids and any(_is_sized(a) for a in args.values()):
        args = _with_counts(walk, step, args)
        if args is None:
            on_everything(walk, step)
            return
    if all(
        not isinstance(o, Uniform) and (isinstance(o, Tensor) or o.space is walk.graph)
        for o in walk.operands(args)
    ):
        on_everything(walk, step)
        return
    given, layout = bring_to_rows(walk, step, args)
    walk.apply(step, layout, given, ids=ids)


def _is_sized(a: Any) -> bool:
    return isinstance(a, Sized)


def _with_counts(walk: Walk, step: Step, args: dict[str, Any]) -> Any:
    """Arguments with the number of nodes or edges as something a removal changes."""
    if not step.op.func._schema.overload_name.startswith("Tensor"):
        walk.refuse("takes a number that depends on the graph")
    for name, value in args.items():
        if isinstance(value, Sized):
            space = walk.space_of_size(value.values)
            if space is None or name == "alpha":
                walk.refuse("takes a number that depends on the graph")
            assert space is not None
            args[name] = walk.temporary(walk.count(space))
    return args


def number_ids(walk: Walk, step: Step) -> Ids:
    """What becomes of row numbers; they are no quantities."""
    found = [o.ids for o in walk.operands(step.args) if isinstance(o, Tracked)]
    if not any(found):
        return ""
    name, args = step.name, step.args
    others = [o for o in walk.operands(args) if not (isinstance(o, Tracked) and o.ids)]
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
    if name == "copy" and found == [found[-1]] * 2 and step.op.dtypes[0] == torch.long:
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
    walk.refuse("takes the numbers of nodes or edges for quantities")
    return ""
