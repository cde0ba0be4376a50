"""Scatters: reduce rows of one space to those of another, e.g. messages to their target nodes."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from nora.engine.ir.op import Value
from nora.engine.ir.space import Space, whole_graph
from nora.engine.lower.anything import on_everything
from nora.engine.lower.builder import Builder
from nora.engine.lower.gathers import index_rows, masked, narrowed
from nora.engine.lower.known import Dense, Layout, Tracked, Uniform
from nora.engine.lower.lowerings import lower
from nora.engine.lower.masks import written_where
from nora.engine.lower.rowwise import no_ids
from nora.engine.ops.reduce import Reduction
from nora.engine.trace.align import AlignedOp

REDUCTIONS: dict[str, Reduction] = {
    "sum": "sum", "prod": "prod", "amax": "amax", "amin": "amin", "mean": "mean", "add": "sum",
    "multiply": "prod",
}  # fmt: skip


def scattered_along(builder: Builder, op: AlignedOp, dim: int) -> None:
    """`scatter_add` and similar operations along the rows' axis."""
    args = op.args
    reduce: Reduction = "sum"
    keep = True
    if op.name == "scatter_reduce" or "reduce" in args:
        reduce = REDUCTIONS[args["reduce"]]
        keep = bool(args.get("include_self", True))
    elif op.name == "scatter":
        reduce = "last"
    source = builder[args["src"]] if "src" in args else args["value"]
    index = builder[args["index"]]
    shape = builder.shapes[args["index"].id]
    if isinstance(index, Tracked):
        index = narrowed(builder, index, dim)
    if not isinstance(source, Tensor | Tracked | Uniform):
        rest = tuple(s for k, s in enumerate(shape) if k != dim)
        row = torch.full((1, *[s[0] for s in rest]), source, dtype=op.dtypes[0])
        source = Uniform(row, Layout(dim), shape[dim])
    elif "src" in args and builder.shapes[args["src"].id] != shape:
        builder.unsupported("reduces only a part of its rows")
    into(builder, op, builder[args["self"]], dim, index, source, reduce, keep)


@lower("index_add", "index_reduce")
def index_add(builder: Builder, op: AlignedOp) -> None:
    """Add rows to other rows, by their ids."""
    args = op.args
    dim = int(args["dim"]) % max(builder.ndim(args["self"]), 1)
    index = builder[args["index"]]
    if isinstance(index, Tensor):
        own = builder[args["self"]]
        if not isinstance(own, Tensor) and own.layout.axis not in (dim, None):
            builder.apply(op, own.layout)
            return
        on_everything(builder, op)
        return
    if args.get("alpha", 1) != 1:
        builder.unsupported("adds a multiple of its rows")
    if isinstance(index, Tracked):
        index = builder.static_index(index)
    reduce: Reduction = "sum" if op.name == "index_add" else REDUCTIONS[args["reduce"]]
    keep = bool(args.get("include_self", True))
    into(builder, op, builder[args["self"]], dim, index, builder[args["source"]], reduce, keep)


@lower("index_put")
def index_put(builder: Builder, op: AlignedOp) -> None:
    """`self[index] = values`, or `+=`."""
    args = op.args
    given = [(axis, ref) for axis, ref in enumerate(args["indices"]) if ref is not None]
    if len(given) != 1:
        builder.unsupported("writes by several indices at once")
    axis, ref = given[0]
    index, own, values = builder[ref], builder[args["self"]], builder[args["values"]]
    reduce: Reduction = "sum" if args.get("accumulate") else "last"
    if isinstance(index, Tensor):
        if isinstance(own, Tracked | Uniform) and own.layout.axis not in (axis, None):
            no_ids(builder, op)
            if isinstance(values, Tensor) or values.layout == own.layout:
                builder.apply(op, own.layout)
                return
        on_everything(builder, op)
        return
    if isinstance(index, Uniform):
        builder.unsupported("writes by an index that depends on the graph")
    if builder.is_mask(index):
        _by_mask(builder, op, own, axis, index, values, reduce)
        return
    index = builder.static_index(index)
    if isinstance(values, Tensor):
        if values.numel() != 1:
            builder.unsupported("writes a constant tensor to rows")
        wide = [s[0] for k, s in enumerate(op.shapes[0]) if k != axis]
        values = Uniform(
            values.reshape([1] * (1 + len(wide))).expand(1, *wide), Layout(axis), index.space.sizes
        )
    into(builder, op, own, axis, index, values, reduce, True)


def _by_mask(
    builder: Builder,
    op: AlignedOp,
    own: Dense,
    axis: int,
    mask: Tracked,
    values: Dense,
    reduce: Reduction,
) -> None:
    """Replace values where a mask is true."""
    no_ids(builder, op)
    number = values.reshape(()) if isinstance(values, Tensor) and values.numel() == 1 else None
    if builder.ndim_of(mask) != 1 and number is not None and axis == 0:
        _by_entries(builder, own, mask, number, reduce)
        return
    if builder.ndim_of(mask) != 1 or not mask.layout.plain:
        builder.unsupported("writes by a mask over several axes")
    if isinstance(own, Uniform):
        own = Tracked(builder.repeated(own, mask.space), own.layout)
    if isinstance(own, Tensor) or own.space is not mask.space or own.layout.axis != axis:
        builder.unsupported("writes to rows through a mask of other rows")
    if isinstance(values, Tensor):
        if values.dim() > len(op.shapes[0]) - 1 and values.numel() != 1:
            builder.unsupported("writes a constant tensor to rows")
        new = values if number is None else number
        put = partial(written_where, new=new, add=reduce == "sum")
        builder.set(Tracked(builder.rows(put, own.value, mask.value), own.layout))
        return
    mask = builder.static_index(mask, "a mask")
    sizes = builder.shapes[op.args["values"].id][axis]
    space, rows = masked(builder, mask, sizes)
    if isinstance(values, Uniform):
        values = Tracked(builder.repeated(values, space), values.layout)
    if values.space is not space or values.layout.axis != axis:
        builder.unsupported("writes other rows than its mask selects")
    if builder.ndim_of(values) != builder.ndim_of(own):
        builder.unsupported("writes rows of another shape")
    made = builder.scattered(values.value, rows, own.value, reduce, True)
    builder.set(Tracked(made, own.layout))


def _by_entries(
    builder: Builder, own: Dense, mask: Tracked, number: Tensor, reduce: Reduction
) -> None:
    """Write one number where a mask over several axes is true."""
    if not isinstance(own, Tracked) or own.layout != mask.layout or own.space is not mask.space:
        builder.unsupported("writes to rows through a mask of other rows")
    put = partial(written_where, new=number, add=reduce == "sum")
    builder.set(Tracked(builder.rows(put, own.value, mask.value), own.layout))


def into(
    builder: Builder,
    op: AlignedOp,
    own: Dense,
    dim: int,
    index: Dense,
    source: Any,
    reduce: Reduction,
    keep: bool,
) -> None:
    """Rows of `source` reduced into `own` along `dim` by `index`."""
    for part in (own, source):
        if isinstance(part, Tracked) and part.ids:
            builder.unsupported("uses node or edge ids as quantities")
    if isinstance(index, Tensor):
        on_everything(builder, op)
        return
    if isinstance(index, Uniform):
        space = source.space if isinstance(source, Tracked) else builder.space_of_size(index.sizes)
        number = index.single
        if space is None or number is None:
            builder.unsupported("reduces by an index that depends on the graph")
        index = Tracked(builder.fixed(number.long().expand(space.size), space), Layout(0))
    if index.ids not in ("id", ""):
        builder.unsupported("reduces by an index that does not hold row ids")
    space = index.space
    if isinstance(source, Tensor):
        source = builder.own_rows(source, dim, space)
    if isinstance(source, Uniform):
        if source.layout.axis != dim or not source.layout.plain:
            builder.unsupported("reduces along another axis than the rows'")
        source = Tracked(builder.repeated(source, space), source.layout)
    source = builder.as_rows_of(source, space) or source
    if source.space is not space or source.layout.axis != dim or not source.layout.plain:
        builder.unsupported(f"reduces rows of {source.space.label} by an index of {space.label}")
    which = index_rows(builder, index)
    start = _start(builder, own, dim, index, which, op)
    layout = Layout(dim)
    if start.space is builder.graph:  # one row: a value of the whole graph
        _into_one(builder, source, start, reduce, keep, dim)
        return
    builder.set(Tracked(builder.scattered(source.value, which, start, reduce, keep), layout))


def _into_one(
    builder: Builder, source: Tracked, start: Value, reduce: Reduction, keep: bool, dim: int
) -> None:
    """Reduce all rows to a single row, which keeps its axis of size 1."""
    index = torch.zeros(source.space.size, dtype=torch.long)
    made = builder.scattered(source.value, index, start, reduce, keep)
    builder.set(Tracked(builder.rows(lambda rows: rows.unsqueeze(dim + 1), made), Layout(None)))


def _start(
    builder: Builder, own: Dense, dim: int, index: Tracked, which: Tensor, op: AlignedOp
) -> Value:
    """The initial values of the reduction, as rows of the space it reduces to."""
    sizes = op.shapes[0][dim]
    if isinstance(own, Tracked):
        if own.layout.axis != dim or not own.layout.plain:
            if own.space is builder.graph and not index.ids:
                builder.unsupported("adds to a value of the whole graph")
            builder.unsupported("reduces to rows along another axis")
        return own.value
    if not index.ids:  # groups that are the same on every graph
        if isinstance(own, Uniform):
            builder.unsupported("uses quantities as row ids")
        space = _groups(builder, own.size(dim))
        return builder.fixed(own.movedim(dim, 0), space)
    space = _target(builder, index.space, which, sizes)
    if isinstance(own, Tensor):
        if own.size(dim) != space.size:
            builder.unsupported("adds rows to a constant tensor")
        return builder.fixed(own.movedim(dim, 0), space)
    if own.layout.axis != dim:
        builder.unsupported("reduces along another axis than the rows'")
    return builder.repeated(own, space)


def _groups(builder: Builder, count: int) -> Space:
    if count not in builder.slots:
        space = whole_graph(builder.num_nodes, count)
        sizes = (count,) * builder.traced.graphs
        builder.slots[count] = Space(
            space.label, sizes, space.ends, builder.num_nodes, global_=True
        )
    return builder.slots[count]


def _target(builder: Builder, source: Space, which: Tensor, sizes: tuple[int, ...]) -> Space:
    """The space whose row ids an index holds: it has the right size, and no row is removed before its
    edges."""
    known = [s for s in [*builder.nodes, *builder.spaces] if s.sizes == sizes]
    for space in known:
        if source.covers(which, space):
            return space
    # The largest number that occurs, and one more: as many of a type's first nodes.
    for space in builder.nodes:
        if all(n <= m for n, m in zip(sizes, space.sizes, strict=True)) and sizes[0] <= space.size:
            first = torch.arange(sizes[0])
            if not which.numel() or int(which.max()) < sizes[0]:
                part = space.picked(first, space.label, sizes)
                if source.covers(which, part):
                    return builder.entered(part)
    builder.unsupported("reduces to rows that belong to no known space")
