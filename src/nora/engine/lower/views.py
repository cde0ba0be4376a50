"""Views: the same entries in another shape; the rows' axis moves along."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from nora.engine.ir.space import Space
from nora.engine.lower.anything import on_everything
from nora.engine.lower.builder import Builder
from nora.engine.lower.known import Layout, RowCount, Tracked, Uniform, filled
from nora.engine.lower.lowerings import lower
from nora.engine.trace.align import AlignedOp, Sized

aten = torch.ops.aten


def _layout(builder: Builder, op: AlignedOp) -> Layout:
    return builder.layout(op.args["self"])


def _ids(builder: Builder, op: AlignedOp) -> Any:
    found = builder[op.args["self"]]
    return found.ids if isinstance(found, Tracked) else ""


def _passed_on(builder: Builder, op: AlignedOp, axis: int, **how: Any) -> None:
    """Execute the operation on rows, which lie along this axis afterwards."""
    builder.apply(op, _layout(builder, op).at(axis), ids=_ids(builder, op), **how)


def _whole_graph(builder: Builder, op: AlignedOp) -> bool:
    found = builder[op.args["self"]]
    return isinstance(found, Tracked) and found.space is builder.graph


def _dim(builder: Builder, op: AlignedOp) -> int:
    return int(op.args["dim"]) % max(builder.ndim(op.args["self"]), 1)


@lower("t", "transpose", "permute")
def turned(builder: Builder, op: AlignedOp) -> None:
    """Axes in another order."""
    size = builder.ndim(op.args["self"])
    order = list(range(size))
    if op.name == "permute":
        order = [d % size for d in op.args["dims"]]
    elif op.name == "t":
        order.reverse()
    else:
        a, b = op.args["dim0"] % size, op.args["dim1"] % size
        order[a], order[b] = order[b], order[a]
    _passed_on(builder, op, order.index(_layout(builder, op).axis or 0))


@lower("unsqueeze")
def unsqueezed(builder: Builder, op: AlignedOp) -> None:
    """One axis more."""
    axis = _layout(builder, op).axis or 0
    new = op.args["dim"] % (builder.ndim(op.args["self"]) + 1)
    _passed_on(builder, op, axis + (new <= axis))


@lower("squeeze")
def squeezed(builder: Builder, op: AlignedOp) -> None:
    """Axes of size 1 fewer."""
    layout = _layout(builder, op)
    axis = layout.axis or 0
    shape = builder.shapes[op.args["self"].id]
    given = op.args.get("dim")
    dims = range(len(shape)) if given is None else [given] if isinstance(given, int) else given
    removed = [d % len(shape) for d in dims if shape[d % len(shape)][0] == 1]
    if axis in removed:
        builder.unsupported("removes the axis of nodes or edges if there is only one")
    # Only these axes: with few rows, others may happen to have size 1.
    given = {"self": op.args["self"], "dim": removed}
    fewer = sum(d < axis for d in removed)
    _passed_on(builder, op, axis - fewer, args=given, func=aten.squeeze.dims)


def relocate(builder: Builder, op: AlignedOp, layout: Layout) -> Layout:
    """The layout of the rows after a view."""
    before, after = builder.shapes[op.args["self"].id], op.shapes[0]
    axis = layout.axis or 0
    found = builder.rowed(op.args["self"])
    sizes = found.space.sizes if isinstance(found, Tracked) else found.sizes
    left = prod(s[0] for k, s in enumerate(before) if k < axis) * layout.outer
    passed = 1
    for k, dims in enumerate(after):
        factors = {d // n for d, n in zip(dims, sizes, strict=True) if n} or {layout.factor}
        fits = len(factors) == 1 and all(
            d == n * next(iter(factors)) for d, n in zip(dims, sizes, strict=True)
        )
        if fits and passed and left % passed == 0:
            factor, outer = next(iter(factors)), left // passed
            # No other axis that depends on the graph may follow the rows' axis.
            constant = all(len(set(d)) == 1 for d in after[k + 1 :])
            if factor and factor % outer == 0 and constant:
                inner = factor // outer
                if passed * outer == left:
                    return Layout(k, outer, inner)
        passed *= dims[0]
        if len(set(dims)) > 1:
            break
    label = found.space.label if isinstance(found, Tracked) else "a tensor sized by the graph"
    builder.unsupported(f"breaks up the rows of {label}")


def sizes_for(op: AlignedOp, layout: Layout) -> list[Any]:
    """The shape of a result, with the number of rows left open."""
    return [
        RowCount(layout.factor) if k == layout.axis else dims[0]
        for k, dims in enumerate(op.shapes[0])
    ]


@lower("view", "_unsafe_view", "reshape", "_reshape_alias", "flatten", "unflatten", "view_as")
def reshaped(builder: Builder, op: AlignedOp) -> None:
    """Another shape that keeps rows together."""
    found = builder[op.args["self"]]
    if _whole_graph(builder, op):
        on_everything(builder, op)
        return
    if "dtype" in op.args:
        builder.unsupported("reinterprets the bits of a tensor as another type")
    if isinstance(found, Uniform):
        single = found.single
        if single is not None:
            again = filled(op.shapes[0], single)
            if again is not None:
                builder.set(again)
                return
    layout = relocate(builder, op, _layout(builder, op))
    given = {"self": op.args["self"], "shape": sizes_for(op, layout)}
    builder.apply(op, layout, given, ids=_ids(builder, op), func=aten.reshape.default)


def _spread(builder: Builder, op: AlignedOp, tensor: Tensor) -> None:
    """A constant tensor, repeated for every row of a space."""
    sized = [k for k, dims in enumerate(op.shapes[0]) if len(set(dims)) > 1]
    padded = [1] * (len(op.shapes[0]) - tensor.dim()) + list(tensor.shape)
    if len(sized) != 1 or padded[sized[0]] != 1:
        builder.unsupported("repeats a constant tensor")
    axis = sized[0]
    wide = [dims[0] for dims in op.shapes[0]]
    wide[axis] = 1
    times = [n // m if m else 1 for n, m in zip(wide, padded, strict=True)]
    rows = tensor.reshape(padded).repeat(times).movedim(axis, 0)
    builder.set(Uniform(rows, Layout(axis), op.shapes[0][axis]))


@lower("expand")
def lower_expand(builder: Builder, op: AlignedOp) -> None:
    """Axes repeated without copying."""
    found = builder[op.args["self"]]
    if isinstance(found, Tensor):
        _spread(builder, op, found)
        return
    if isinstance(found, Tracked) and found.space is builder.graph:
        sized = [k for k, dims in enumerate(op.shapes[0]) if len(set(dims)) > 1]
        if len(sized) != 1:
            on_everything(builder, op)
            return
        space = builder.space_of_size(op.shapes[0][sized[0]])
        if space is None:
            builder.unsupported("expands to rows that belong to no known space")
        shape = [dims[0] for dims in op.shapes[0]]
        before = [s[0] for s in builder.shapes[op.args["self"].id]]
        padded = [1] * (len(shape) - len(before)) + before
        rest = padded[: sized[0]] + padded[sized[0] + 1 :]
        wide = shape[: sized[0]] + shape[sized[0] + 1 :]

        def spread(rows: Any) -> Any:
            return rows.reshape(len(rows), *rest).expand(len(rows), *wide)

        value = builder.rows(spread, builder.broadcast(found, space))
        builder.set(Tracked(value, Layout(sized[0])))
        return
    layout = _layout(builder, op)
    shift = len(op.shapes[0]) - builder.ndim(op.args["self"])
    layout = layout.at((layout.axis or 0) + shift)
    sized = [k for k, dims in enumerate(op.shapes[0]) if len(set(dims)) > 1 and k != layout.axis]
    if sized:
        builder.unsupported("expands rows along the axis of other rows")
    builder.apply(op, layout, {**op.args, "size": sizes_for(op, layout)}, ids=_ids(builder, op))


@lower("repeat")
def lower_repeat(builder: Builder, op: AlignedOp) -> None:
    """Copies along other axes than the rows'."""
    repeats = op.args["repeats"]
    found = builder[op.args["self"]]
    if isinstance(found, Tensor):
        _spread(builder, op, found)
        return
    if any(isinstance(r, Sized) for r in repeats):
        if isinstance(found, Uniform) and found.single is not None:
            again = filled(op.shapes[0], found.single)
            if again is not None:
                builder.set(again)
                return
        if isinstance(found, Tracked) and found.space is builder.graph:
            lower_expand(builder, op)
            return
        builder.unsupported("repeats rows once for every node or edge")
    if _whole_graph(builder, op):
        on_everything(builder, op)
        return
    layout = _layout(builder, op)
    axis = (layout.axis or 0) + len(repeats) - builder.ndim(op.args["self"])
    if repeats[axis] != 1:
        builder.unsupported("repeats the rows")
    _passed_on(builder, op, axis)


@lower("select")
def selected(builder: Builder, op: AlignedOp) -> None:
    """One entry along another axis than the rows'."""
    layout, dim = _layout(builder, op), _dim(builder, op)
    if dim == layout.axis:
        on_everything(builder, op)
        return
    _passed_on(builder, op, (layout.axis or 0) - (dim < (layout.axis or 0)))


@lower("slice")
def sliced(builder: Builder, op: AlignedOp) -> None:
    """Some entries along another axis than the rows'."""
    layout, dim = _layout(builder, op), _dim(builder, op)
    if dim != layout.axis:
        builder.apply(op, layout, ids=_ids(builder, op))
        return
    whole = op.shapes[0][dim] == builder.shapes[op.args["self"].id][dim]
    if whole and op.args["step"] == 1:
        builder.set(builder[op.args["self"]])
        return
    found = builder[op.args["self"]]
    if isinstance(found, Tracked) and found.layout.plain and found.space is not builder.graph:
        _cut(builder, op, found, dim)
        return
    if isinstance(found, Uniform) and found.layout.plain:
        builder.set(Uniform(found.rows, found.layout, op.shapes[0][dim]))
        return
    on_everything(builder, op)


def _cut(builder: Builder, op: AlignedOp, found: Tracked, dim: int) -> None:
    """A slice of concatenated spaces, which begins and ends with one of them."""
    start = op.args["start"]
    if found.space.everlasting and not isinstance(start, Sized) and op.args["step"] == 1:
        begin = range(found.space.size)[slice(start, None)].start
        lengths = [op.shapes[0][dim]]
        if begin:
            lengths.insert(0, (begin,) * builder.traced.graphs)
        builder.set(
            builder.part(found, _span(builder, found.space, lengths, len(lengths) - 1), begin)
        )
        return
    parts = builder.parts_of(found.space)
    begins = (0,) * builder.traced.graphs
    low = start.values if isinstance(start, Sized) else (start or 0,) * builder.traced.graphs
    for part in parts:
        if begins == tuple(low) and part.sizes == op.shapes[0][dim]:
            builder.set(builder.part(found, part, begins[0]))
            return
        begins = tuple(a + b for a, b in zip(begins, part.sizes, strict=True))
    on_everything(builder, op)


@lower(
    "unbind", "split", "split_with_sizes", "chunk", "unsafe_split", "unsafe_chunk", "tensor_split"
)
def divided(builder: Builder, op: AlignedOp) -> None:
    """Several parts along another axis than the rows'."""
    layout, dim = _layout(builder, op), _dim(builder, op)
    if dim == layout.axis:
        _split_rows(builder, op, dim)
        return
    fewer = op.name == "unbind" and dim < (layout.axis or 0)
    _passed_on(builder, op, (layout.axis or 0) - fewer)


def _span(builder: Builder, space: Space, sizes: Sequence[tuple[int, ...]], place: int) -> Space:
    """One of several consecutive parts of rows that no edit removes."""
    start = sum(each[0] for each in sizes[:place])
    rows = torch.arange(start, start + sizes[place][0])
    return builder.subspace(space, rows, ("span of", space, start, len(rows)), sizes[place])


def _split_rows(builder: Builder, op: AlignedOp, dim: int) -> None:
    """Split rows that were concatenated from several spaces."""
    found = builder[op.args["self"]]
    if not isinstance(found, Tracked) or not found.layout.plain:
        builder.unsupported("splits the rows")
    parts = builder.parts_of(found.space)
    sizes = [shape[dim] for shape in op.shapes]
    if len(parts) == 1 and found.space.everlasting:
        parts = [_span(builder, found.space, sizes, place) for place in range(len(sizes))]
    if [part.sizes for part in parts] != sizes:
        builder.unsupported("splits the rows")
    start = 0
    for place, part in enumerate(parts):
        builder.set(builder.part(found, part, start), place)
        start += part.size


@lower("flip", "roll")
def lower_flip(builder: Builder, op: AlignedOp) -> None:
    """Another order along other axes than the rows'."""
    layout = _layout(builder, op)
    dims = op.args["dims"]
    size = builder.ndim(op.args["self"])
    if not dims or layout.axis in [d % size for d in dims] or _whole_graph(builder, op):
        on_everything(builder, op)
        return
    builder.apply(op, layout, ids=_ids(builder, op))
