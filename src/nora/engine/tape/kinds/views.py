"""Views: the same entries in another shape; the rows' axis moves along."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import Tensor

from nora.engine.tape.follow import Walk, kind
from nora.engine.tape.kinds.anything import on_everything
from nora.engine.tape.program import Sized, Step
from nora.engine.tape.tracked import Layout, RowCount, Tracked, Uniform, filled

aten = torch.ops.aten


def _layout(walk: Walk, step: Step) -> Layout:
    return walk.layout(step.args["self"])


def _ids(walk: Walk, step: Step) -> Any:
    found = walk[step.args["self"]]
    return found.ids if isinstance(found, Tracked) else ""


def _moved(layout: Layout, axis: int) -> Layout:
    return Layout(axis, layout.outer, layout.inner)


def _whole_graph(walk: Walk, step: Step) -> bool:
    found = walk[step.args["self"]]
    return isinstance(found, Tracked) and found.space is walk.graph


def _dims(walk: Walk, step: Step, name: str = "dim") -> int:
    size = walk.ndim(step.args["self"])
    return int(step.args[name]) % max(size, 1)


@kind("t", "transpose", "permute", "movedim", "swapaxes", "adjoint", "numpy_T")
def turned(walk: Walk, step: Step) -> None:
    """Axes in another order."""
    size = walk.ndim(step.args["self"])
    order = list(range(size))
    if step.name == "permute":
        order = [d % size for d in step.args["dims"]]
    elif step.name == "t":
        order.reverse()
    elif step.name == "transpose":
        a, b = step.args["dim0"] % size, step.args["dim1"] % size
        order[a], order[b] = order[b], order[a]
    else:
        walk.refuse("is of no known kind")
    layout = _layout(walk, step)
    walk.apply(step, _moved(layout, order.index(layout.axis or 0)), ids=_ids(walk, step))


@kind("unsqueeze")
def unsqueezed(walk: Walk, step: Step) -> None:
    """One axis more."""
    layout = _layout(walk, step)
    axis = layout.axis or 0
    new = step.args["dim"] % (walk.ndim(step.args["self"]) + 1)
    walk.apply(step, _moved(layout, axis + (new <= axis)), ids=_ids(walk, step))


@kind("squeeze")
def squeezed(walk: Walk, step: Step) -> None:
    """Axes of size 1 fewer."""
    layout = _layout(walk, step)
    axis = layout.axis or 0
    shape = walk.shapes[step.args["self"].id]
    given = step.args.get("dim")
    dims = range(len(shape)) if given is None else [given] if isinstance(given, int) else given
    gone = [d % len(shape) for d in dims if shape[d % len(shape)][0] == 1]
    if axis in gone:
        walk.refuse("takes away the axis of the nodes or edges where there is one of them")
    # Only these axes: with few rows, others may happen to have size 1.
    func = aten.squeeze.dims
    walk.apply(
        step,
        _moved(layout, axis - sum(d < axis for d in gone)),
        {"self": step.args["self"], "dim": gone},
        ids=_ids(walk, step),
        func=func,
    )


def relocate(walk: Walk, step: Step, layout: Layout) -> Layout:
    """Where the rows are after a view."""
    before, after = walk.shapes[step.args["self"].id], step.shapes[0]
    axis = layout.axis or 0
    found = walk[step.args["self"]]
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
            if factor and factor % outer == 0 and _inner_fits(before, after, axis, k, layout):
                inner = factor // outer
                if passed * outer == left:
                    return Layout(k, outer, inner)
        passed *= dims[0]
        if len(set(dims)) > 1:
            break
    walk.refuse(f"breaks up the rows of {_label(found)}")
    return layout


def _inner_fits(before: Any, after: Any, axis: int, k: int, layout: Layout) -> bool:
    """Whether nothing else that depends on the graph comes behind the rows."""
    return all(len(set(d)) == 1 for d in after[k + 1 :])


def _label(found: Any) -> str:
    return found.space.label if isinstance(found, Tracked) else "a tensor sized by the graph"


def sizes_for(step: Step, layout: Layout) -> list[Any]:
    """The shape of a result, with the number of rows left open."""
    return [
        RowCount(layout.factor) if k == layout.axis else dims[0]
        for k, dims in enumerate(step.shapes[0])
    ]


@kind("view", "_unsafe_view", "reshape", "_reshape_alias", "flatten", "unflatten", "view_as")
def reshaped(walk: Walk, step: Step) -> None:
    """Another shape that keeps rows together."""
    found = walk[step.args["self"]]
    if _whole_graph(walk, step):
        on_everything(walk, step)
        return
    if "dtype" in step.args:
        walk.refuse("reads the bits of a tensor as another type")
    if isinstance(found, Uniform):
        single = found.single
        if single is not None:
            again = filled(step.shapes[0], single)
            if again is not None:
                walk.set(again)
                return
    layout = relocate(walk, step, _layout(walk, step))
    func = aten.reshape.default
    walk.apply(
        step,
        layout,
        {"self": step.args["self"], "shape": sizes_for(step, layout)},
        ids=_ids(walk, step),
        func=func,
    )


def _spread(walk: Walk, step: Step, tensor: Tensor) -> None:
    """A tensor of the model's own, repeated for every row of something."""
    sized = [k for k, dims in enumerate(step.shapes[0]) if len(set(dims)) > 1]
    padded = [1] * (len(step.shapes[0]) - tensor.dim()) + list(tensor.shape)
    if len(sized) != 1 or padded[sized[0]] != 1:
        walk.refuse("repeats a tensor of the model's own")
    axis = sized[0]
    wide = [dims[0] for dims in step.shapes[0]]
    wide[axis] = 1
    times = [n // m if m else 1 for n, m in zip(wide, padded, strict=True)]
    rows = tensor.reshape(padded).repeat(times).movedim(axis, 0)
    walk.set(Uniform(rows, Layout(axis), step.shapes[0][axis]))


@kind("expand")
def expanded(walk: Walk, step: Step) -> None:
    """Axes repeated without copying."""
    found = walk[step.args["self"]]
    if isinstance(found, Tensor):
        _spread(walk, step, found)
        return
    if isinstance(found, Tracked) and found.space is walk.graph:
        sized = [k for k, dims in enumerate(step.shapes[0]) if len(set(dims)) > 1]
        if len(sized) != 1:
            on_everything(walk, step)
            return
        space = walk.space_of_size(step.shapes[0][sized[0]])
        if space is None:
            walk.refuse("spreads over rows of nothing that is known")
        assert space is not None
        shape = [dims[0] for dims in step.shapes[0]]
        before = [s[0] for s in walk.shapes[step.args["self"].id]]
        padded = [1] * (len(shape) - len(before)) + before
        rest = padded[: sized[0]] + padded[sized[0] + 1 :]
        wide = shape[: sized[0]] + shape[sized[0] + 1 :]

        def spread(rows: Any) -> Any:
            return rows.reshape(len(rows), *rest).expand(len(rows), *wide)

        value = walk.rows(spread, walk.broadcast(found, space))
        walk.set(Tracked(value, Layout(sized[0])))
        return
    layout = _layout(walk, step)
    shift = len(step.shapes[0]) - walk.ndim(step.args["self"])
    layout = _moved(layout, (layout.axis or 0) + shift)
    sized = [k for k, dims in enumerate(step.shapes[0]) if len(set(dims)) > 1 and k != layout.axis]
    if sized:
        walk.refuse("spreads rows over all rows")
    walk.apply(step, layout, {**step.args, "size": sizes_for(step, layout)}, ids=_ids(walk, step))


@kind("repeat")
def repeated(walk: Walk, step: Step) -> None:
    """Copies along other axes than the rows'."""
    repeats = step.args["repeats"]
    found = walk[step.args["self"]]
    if isinstance(found, Tensor):
        _spread(walk, step, found)
        return
    if any(isinstance(r, Sized) for r in repeats):
        if isinstance(found, Uniform) and found.single is not None:
            again = filled(step.shapes[0], found.single)
            if again is not None:
                walk.set(again)
                return
        if isinstance(found, Tracked) and found.space is walk.graph:
            expanded(walk, step)
            return
        walk.refuse("repeats rows as often as there are nodes or edges")
    if _whole_graph(walk, step):
        on_everything(walk, step)
        return
    layout = _layout(walk, step)
    axis = (layout.axis or 0) + len(repeats) - walk.ndim(step.args["self"])
    if repeats[axis] != 1:
        walk.refuse("repeats the rows")
    walk.apply(step, _moved(layout, axis), ids=_ids(walk, step))


@kind("select")
def selected(walk: Walk, step: Step) -> None:
    """One entry along another axis than the rows'."""
    layout, dim = _layout(walk, step), _dims(walk, step)
    if dim == layout.axis:
        on_everything(walk, step)
        return
    walk.apply(
        step, _moved(layout, (layout.axis or 0) - (dim < (layout.axis or 0))), ids=_ids(walk, step)
    )


@kind("slice")
def sliced(walk: Walk, step: Step) -> None:
    """Some entries along another axis than the rows'."""
    layout, dim = _layout(walk, step), _dims(walk, step)
    if dim != layout.axis:
        walk.apply(step, layout, ids=_ids(walk, step))
        return
    whole = step.shapes[0][dim] == walk.shapes[step.args["self"].id][dim]
    if whole and step.args["step"] == 1:
        walk.set(walk[step.args["self"]])
        return
    found = walk[step.args["self"]]
    if isinstance(found, Tracked) and found.layout.plain and found.space is not walk.graph:
        _cut(walk, step, found, dim)
        return
    if isinstance(found, Uniform) and found.layout.plain:
        walk.set(Uniform(found.rows, found.layout, step.shapes[0][dim]))
        return
    on_everything(walk, step)


def _cut(walk: Walk, step: Step, found: Tracked, dim: int) -> None:
    """Rows that are joined of several spaces, cut where one ends and another begins."""
    start = step.args["start"]
    parts = walk.parts_of(found.space)
    begins = (0,) * walk.program.graphs
    low = start.values if isinstance(start, Sized) else (start or 0,) * walk.program.graphs
    for part in parts:
        if begins == tuple(low) and part.sizes == step.shapes[0][dim]:
            walk.set(walk.part(found, part, begins[0]))
            return
        begins = tuple(a + b for a, b in zip(begins, part.sizes, strict=True))
    on_everything(walk, step)


@kind(
    "unbind", "split", "split_with_sizes", "chunk", "unsafe_split", "unsafe_chunk", "tensor_split"
)
def divided(walk: Walk, step: Step) -> None:
    """Several parts along another axis than the rows'."""
    layout, dim = _layout(walk, step), _dims(walk, step)
    if dim == layout.axis:
        _split_rows(walk, step, dim)
        return
    fewer = step.name == "unbind" and dim < (layout.axis or 0)
    walk.apply(step, _moved(layout, (layout.axis or 0) - fewer), ids=_ids(walk, step))


def _split_rows(walk: Walk, step: Step, dim: int) -> None:
    """Rows that were joined of several spaces, taken apart again."""
    found = walk[step.args["self"]]
    if not isinstance(found, Tracked) or not found.layout.plain:
        walk.refuse("takes the rows apart")
    assert isinstance(found, Tracked)
    parts = walk.parts_of(found.space)
    sizes = [shape[dim] for shape in step.shapes]
    if [part.sizes for part in parts] != sizes:
        walk.refuse("takes the rows apart")
    start = 0
    for place, part in enumerate(parts):
        walk.set(walk.part(found, part, start), place)
        start += part.size


@kind("flip", "roll")
def flipped(walk: Walk, step: Step) -> None:
    """Another order along other axes than the rows'."""
    layout = _layout(walk, step)
    dims = step.args["dims"]
    size = walk.ndim(step.args["self"])
    if not dims or layout.axis in [d % size for d in dims] or _whole_graph(walk, step):
        on_everything(walk, step)
        return
    walk.apply(step, layout, ids=_ids(walk, step))
