"""Reducing rows to others': messages of edges summed at their nodes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nora.engine.spaces import Space, whole_graph
from nora.engine.steps.reduce import Reduce
from nora.engine.steps.step import Value
from nora.engine.tape.follow import Walk, kind
from nora.engine.tape.kinds.anything import on_everything
from nora.engine.tape.kinds.gathers import masked, numbers
from nora.engine.tape.kinds.rowwise import no_ids
from nora.engine.tape.program import Step
from nora.engine.tape.tracked import Known, Layout, Tracked, Uniform

REDUCTIONS: dict[str, Reduce] = {
    "sum": "sum", "prod": "prod", "amax": "amax", "amin": "amin", "mean": "mean", "add": "sum",
    "multiply": "prod",
}  # fmt: skip


def scattered_along(walk: Walk, step: Step, dim: int) -> None:
    """`scatter_add` and its kin along the rows' axis."""
    args = step.args
    reduce: Reduce = "sum"
    keep = True
    if step.name == "scatter_reduce" or "reduce" in args:
        reduce = REDUCTIONS[args["reduce"]]
        keep = bool(args.get("include_self", True))
    elif step.name == "scatter":
        reduce = "last"
    source = walk[args["src"]] if "src" in args else args["value"]
    index = walk[args["index"]]
    shape = walk.shapes[args["index"].id]
    if isinstance(index, Tracked):
        index = _narrowed(walk, index, dim)
    if not isinstance(source, Tensor | Tracked | Uniform):
        rest = tuple(s for k, s in enumerate(shape) if k != dim)
        row = torch.full((1, *[s[0] for s in rest]), source, dtype=step.op.dtypes[0])
        source = Uniform(row, Layout(dim), shape[dim])
    elif "src" in args and walk.shapes[args["src"].id] != shape:
        walk.refuse("reduces only a part of its rows")
    into(walk, step, walk[args["self"]], dim, index, source, reduce, keep)


def _narrowed(walk: Walk, index: Tracked, dim: int) -> Tracked:
    """An index that is the same over a row's whole width, as one number a row."""
    index = walk.static_index(index)
    if index.layout.axis != dim or not index.layout.plain:
        walk.refuse("reduces by an index with merged axes")
    spread = index.value.whole()
    if spread.dim() == 1:
        return index
    key = ("narrowed", id(index.value))
    if key not in walk.named:
        own = spread.flatten(1)
        if own.size(1) and not bool((own == own[:, :1]).all()):
            walk.refuse("reduces every column by an index of its own")
        first = own[:, 0].long().contiguous() if own.size(1) else own.new_zeros(len(own))
        walk.named[key] = (walk.fixed(first, index.space), index.value)
    return Tracked(walk.named[key][0], Layout(0), index.ids)


@kind("index_add", "index_reduce")
def index_add(walk: Walk, step: Step) -> None:
    """Rows added to others by a list of numbers."""
    args = step.args
    dim = int(args["dim"]) % max(walk.ndim(args["self"]), 1)
    index = walk[args["index"]]
    if isinstance(index, Tensor):
        own = walk[args["self"]]
        if not isinstance(own, Tensor) and own.layout.axis not in (dim, None):
            walk.apply(step, own.layout)
            return
        on_everything(walk, step)
        return
    if args.get("alpha", 1) != 1:
        walk.refuse("adds a multiple of its rows")
    if isinstance(index, Tracked):
        index = walk.static_index(index)
    reduce: Reduce = "sum" if step.name == "index_add" else REDUCTIONS[args["reduce"]]
    keep = bool(args.get("include_self", True))
    into(walk, step, walk[args["self"]], dim, index, walk[args["source"]], reduce, keep)


@kind("index_put")
def index_put(walk: Walk, step: Step) -> None:
    """`self[index] = values`, or `+=`."""
    args = step.args
    given = [(axis, ref) for axis, ref in enumerate(args["indices"]) if ref is not None]
    if len(given) != 1:
        walk.refuse("writes by several indices at once")
    axis, ref = given[0]
    index, own, values = walk[ref], walk[args["self"]], walk[args["values"]]
    reduce: Reduce = "sum" if args.get("accumulate") else "last"
    if isinstance(index, Tensor):
        if isinstance(own, Tracked | Uniform) and own.layout.axis not in (axis, None):
            no_ids(walk, step)
            if isinstance(values, Tensor) or values.layout == own.layout:
                walk.apply(step, own.layout)
                return
        on_everything(walk, step)
        return
    if isinstance(index, Uniform):
        walk.refuse("writes by an index that depends on the graph")
    assert isinstance(index, Tracked)
    if walk.is_mask(index):
        _by_mask(walk, step, own, axis, index, values, reduce)
        return
    index = walk.static_index(index)
    if isinstance(values, Tensor):
        if values.numel() != 1:
            walk.refuse("writes a tensor of the model's own to rows")
        wide = [s[0] for k, s in enumerate(step.shapes[0]) if k != axis]
        values = Uniform(
            values.reshape([1] * (1 + len(wide))).expand(1, *wide), Layout(axis), index.space.sizes
        )
    into(walk, step, own, axis, index, values, reduce, True)


def _by_mask(
    walk: Walk, step: Step, own: Known, axis: int, mask: Tracked, values: Known, reduce: Reduce
) -> None:
    """Where a mask holds, other values."""
    no_ids(walk, step)
    number = values.reshape(()) if isinstance(values, Tensor) and values.numel() == 1 else None
    if walk.ndim_of(mask) != 1 and number is not None and axis == 0:
        _by_entries(walk, own, mask, number, reduce)
        return
    if walk.ndim_of(mask) != 1 or not mask.layout.plain:
        walk.refuse("writes by a mask over several axes")
    if isinstance(own, Uniform):
        own = Tracked(walk.repeated(own, mask.space), own.layout)
    if isinstance(own, Tensor) or own.space is not mask.space or own.layout.axis != axis:
        walk.refuse("writes to rows by a mask of other rows")
    assert isinstance(own, Tracked)
    if isinstance(values, Tensor):
        if values.dim() > len(step.shapes[0]) - 1 and values.numel() != 1:
            walk.refuse("writes a tensor of the model's own to rows")

        written = values.reshape([]) if values.numel() == 1 else values

        def put(rows: Tensor, chosen: Tensor) -> Tensor:
            new = written
            chosen = chosen.view(-1, *[1] * (rows.dim() - 1))
            new = new.to(rows.dtype)
            return torch.where(chosen, rows + new if reduce == "sum" else new, rows)

        walk.set(Tracked(walk.rows(put, own.value, mask.value), own.layout))
        return
    mask = walk.static_index(mask, "a mask")
    sizes = walk.shapes[step.args["values"].id][axis]
    space, rows = masked(walk, mask, sizes)
    if isinstance(values, Uniform):
        values = Tracked(walk.repeated(values, space), values.layout)
    if values.space is not space or values.layout.axis != axis:
        walk.refuse("writes other rows than its mask picks")
    if walk.ndim_of(values) != walk.ndim_of(own):
        walk.refuse("writes rows of another shape")
    made = walk.scattered(values.value, rows, own.value, reduce, True)
    walk.set(Tracked(made, own.layout))


def _by_entries(walk: Walk, own: Known, mask: Tracked, number: Tensor, reduce: Reduce) -> None:
    """Where a mask over several axes holds, one number."""
    if not isinstance(own, Tracked) or own.layout != mask.layout or own.space is not mask.space:
        walk.refuse("writes to rows by a mask of other rows")
    assert isinstance(own, Tracked)

    def entrywise(rows: Tensor, chosen: Tensor) -> Tensor:
        chosen = chosen.view(*chosen.shape, *[1] * (rows.dim() - chosen.dim()))
        other = number.to(rows.dtype)
        return torch.where(chosen, rows + other if reduce == "sum" else other, rows)

    walk.set(Tracked(walk.rows(entrywise, own.value, mask.value), own.layout))


def into(
    walk: Walk,
    step: Step,
    own: Known,
    dim: int,
    index: Known,
    source: Any,
    reduce: Reduce,
    keep: bool,
) -> None:
    """Rows of `source` reduced into `own` along `dim` by `index`."""
    for part in (own, source):
        if isinstance(part, Tracked) and part.ids:
            walk.refuse("takes the numbers of nodes or edges for quantities")
    if isinstance(index, Tensor):
        on_everything(walk, step)
        return
    if isinstance(index, Uniform):
        space = source.space if isinstance(source, Tracked) else walk.space_of_size(index.sizes)
        number = index.single
        if space is None or number is None:
            walk.refuse("reduces by an index that depends on the graph")
        assert space is not None and number is not None
        index = Tracked(walk.fixed(number.long().expand(space.size), space), Layout(0))
    if index.ids not in ("id", ""):
        walk.refuse("reduces by what is no numbers of rows")
    space = index.space
    if isinstance(source, Tensor):
        source = walk.own_rows(source, dim, space)
    if isinstance(source, Uniform):
        if source.layout.axis != dim or not source.layout.plain:
            walk.refuse("reduces along another axis than the rows'")
        source = Tracked(walk.repeated(source, space), source.layout)
    source = walk.as_rows_of(source, space) or source
    if source.space is not space or source.layout.axis != dim or not source.layout.plain:
        walk.refuse(f"reduces rows of {source.space.label} by an index of {space.label}")
    which = numbers(walk, index)
    start = _start(walk, own, dim, index, which, step)
    layout = Layout(dim)
    if start.space is walk.graph:  # one slot: what is known of the whole graph
        _into_one(walk, step, source, start, reduce, keep, dim)
        return
    walk.set(Tracked(walk.scattered(source.value, which, start, reduce, keep), layout))


def _into_one(
    walk: Walk, step: Step, source: Tracked, start: Value, reduce: Reduce, keep: bool, dim: int
) -> None:
    """Everything into a single row, which keeps its axis of size 1."""
    index = torch.zeros(source.space.size, dtype=torch.long)
    made = walk.scattered(source.value, index, start, reduce, keep)
    walk.set(Tracked(walk.rows(lambda rows: rows.unsqueeze(dim + 1), made), Layout(None)))


def _start(walk: Walk, own: Known, dim: int, index: Tracked, which: Tensor, step: Step) -> Value:
    """What the reduction starts from, as rows of the space it reduces to."""
    sizes = step.shapes[0][dim]
    if isinstance(own, Tracked):
        if own.layout.axis != dim or not own.layout.plain:
            if own.space is walk.graph and not index.ids:
                walk.refuse("adds to what is known of the whole graph")
            walk.refuse("reduces to rows along another axis")
        return own.value
    if not index.ids:  # groups that are the same on every graph
        if isinstance(own, Uniform):
            walk.refuse("takes quantities for the numbers of rows")
        assert isinstance(own, Tensor)
        space = _groups(walk, own.size(dim))
        return walk.fixed(own.movedim(dim, 0), space)
    space = _target(walk, index.space, which, sizes)
    if isinstance(own, Tensor):
        if own.size(dim) != space.size:
            walk.refuse("adds to a tensor of the model's own")
        return walk.fixed(own.movedim(dim, 0), space)
    if own.layout.axis != dim:
        walk.refuse("reduces along another axis than the rows'")
    return walk.repeated(own, space)


def _groups(walk: Walk, count: int) -> Space:
    if count not in walk.slots:
        space = whole_graph(walk.num_nodes, count)
        sizes = (count,) * walk.program.graphs
        walk.slots[count] = Space(space.label, sizes, space.ends, walk.num_nodes, global_=True)
    return walk.slots[count]


def _target(walk: Walk, source: Space, which: Tensor, sizes: tuple[int, ...]) -> Space:
    """The space whose rows an index numbers: it has so many, and none of them goes before its edges."""
    known = [s for s in [*walk.nodes, *walk.spaces] if s.sizes == sizes]
    for space in known:
        if source.covers(which, space):
            return space
    # The largest number that occurs, and one more: as many of a type's first nodes.
    for space in walk.nodes:
        if all(n <= m for n, m in zip(sizes, space.sizes, strict=True)) and sizes[0] <= space.size:
            first = torch.arange(sizes[0])
            if not which.numel() or int(which.max()) < sizes[0]:
                part = space.picked(first, space.label, sizes)
                if source.covers(which, part):
                    return walk.entered(part)
    walk.refuse("reduces to rows of nothing that is known")
    raise AssertionError
