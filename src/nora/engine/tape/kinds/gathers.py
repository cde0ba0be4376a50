"""Reading rows: edges read their nodes', masks pick some, tables are looked up."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nora.engine.spaces import Space
from nora.engine.tape.follow import Walk, kind
from nora.engine.tape.kinds.anything import on_everything
from nora.engine.tape.program import Step
from nora.engine.tape.tape import Ref
from nora.engine.tape.tracked import Known, Layout, Tracked, Uniform, filled


@kind("index_select")
def index_select(walk: Walk, step: Step) -> None:
    """`self` along one axis by an index."""
    dim = int(step.args["dim"]) % max(walk.ndim(step.args["self"]), 1)
    picked(walk, step, step.args["self"], dim, step.args["index"])


@kind("index")
def index(walk: Walk, step: Step) -> None:
    """`self[…, index, …]` with one index; or several, along other axes than the rows'."""
    given = [(axis, ref) for axis, ref in enumerate(step.args["indices"]) if ref is not None]
    for _, ref in given:
        if walk.is_mask(walk[ref]) and walk[ref].space is walk.graph:
            walk.static_index(walk[ref], "a mask")
    if len(given) == 1:
        picked(walk, step, step.args["self"], *given[0])
        return
    found = walk[step.args["self"]]
    axes = [axis for axis, _ in given]
    plain = all(isinstance(walk[ref], Tensor) for _, ref in given)
    if isinstance(found, Tracked | Uniform) and plain and found.layout.axis not in axes:
        axis = found.layout.axis or 0
        if axis < axes[0] and axes == list(range(axes[0], axes[0] + len(axes))):
            walk.apply(step, found.layout)
            return
    on_everything(walk, step)


@kind("embedding")
def embedding(walk: Walk, step: Step) -> None:
    """A table, looked up."""
    picked(walk, step, step.args["weight"], 0, step.args["indices"])


@kind("masked_select")
def masked_select(walk: Walk, step: Step) -> None:
    """A mask picks entries."""
    if walk.ndim(step.args["self"]) == walk.ndim(step.args["mask"]) == 1:
        picked(walk, step, step.args["self"], 0, step.args["mask"])
        return
    walk.refuse("picks entries by a mask over several axes")


def picked(walk: Walk, step: Step, of: Ref, dim: int, by: Ref) -> None:
    """Entries of `of` along `dim`, by numbers or by a mask."""
    found, index = walk[of], walk[by]
    if isinstance(index, Uniform):
        _by_one_number(walk, step, found, dim, index)
        return
    if isinstance(index, Tensor):
        _by_fixed(walk, step, of, dim, found)
        return
    if index.space is walk.graph:
        on_everything(walk, step)
        return
    if step.op.dtypes and walk.is_mask(index):
        _by_mask(walk, step, found, dim, index)
        return
    if isinstance(found, Tensor):
        # A table: what rows say of themselves is looked up. Numbers of nodes have tables only where
        # they stay what they are.
        if index.ids and len(set(index.space.sizes)) > 1:
            walk.refuse("looks nodes up by their number in a tensor of the model's own")
        walk.apply(step, _inserted(index.layout, dim), _bare(step))
        return
    if isinstance(found, Uniform):
        _of_uniform(walk, step, found, dim, index)
        return
    if found.layout.axis != dim:
        walk.refuse("reads columns by what depends on the graph")
    if not found.layout.plain:
        walk.refuse("reads rows that are merged with other axes")
    index = walk.static_index(index)
    if index.ids != ("" if found.space.global_ else "id"):
        walk.refuse("takes quantities for the numbers of rows")
    walk.set(_read(walk, found, dim, index))


def _bare(step: Step) -> dict[str, Any]:
    return dict(step.args)


def _inserted(index: Layout, dim: int) -> Layout:
    return Layout((index.axis or 0) + dim, index.outer, index.inner)


def numbers(walk: Walk, index: Tracked) -> Tensor:
    """The row numbers that an index holds, `[rows]` or `[rows, …]`, the same tensor every time."""
    key = ("numbers", id(index.value))
    if key not in walk.named:
        walk.named[key] = (index.value.whole().long(), index.value)
    return walk.named[key][0]


def _read(walk: Walk, found: Tracked, dim: int, index: Tracked) -> Tracked:
    """What the rows of the index's space read from those of `found`'s."""
    which = numbers(walk, index)
    low = which + found.space.size
    which = torch.where(which < 0, low, which) if bool((which < 0).any()) else which
    layout = Layout((index.layout.axis or 0) + dim, index.layout.outer, index.layout.inner)
    if which.dim() == 1:
        return Tracked(walk.gathered(found.value, which, index.space), layout, found.ids)
    columns = which.flatten(1)
    parts = []
    for k in range(columns.size(1)):
        key = ("column", id(which), k)
        if key not in walk.named:
            walk.named[key] = columns[:, k].contiguous()
        parts.append(walk.gathered(found.value, walk.named[key], index.space))
    shape = which.shape[1:]
    # Rows of the index come first; its other axes stand where the read axis stood.
    own = walk.shapes_behind(found, dim)

    def side_by_side(*rows: Tensor) -> Tensor:
        stacked = torch.stack(rows, dim=1 + dim)
        return stacked.reshape(len(rows[0]), *own[:dim], *shape, *own[dim:])

    made = walk.rows(side_by_side, *parts, numel=8)
    if not index.layout.plain:
        walk.refuse("reads rows by an index with merged axes")
    return Tracked(made, layout, found.ids)


def _by_fixed(walk: Walk, step: Step, of: Ref, dim: int, found: Known) -> None:
    """An index that is the same on every graph."""
    assert isinstance(found, Tracked | Uniform)
    layout = found.layout
    if layout.axis == dim or layout.axis is None:
        on_everything(walk, step)
        return
    axis = layout.axis
    added = len(step.shapes[0]) - walk.ndim(of)
    if dim < axis:
        axis += added
    walk.apply(step, Layout(axis, layout.outer, layout.inner), ids=getattr(found, "ids", ""))


def _by_mask(walk: Walk, step: Step, found: Known, dim: int, mask: Tracked) -> None:
    """The rows that a mask picks are a space of their own."""
    mask = walk.static_index(mask, "a mask")
    if walk.ndim_of(mask) != 1 or not mask.layout.plain:
        walk.refuse("picks by a mask over several axes")
    space, rows = masked(walk, mask, step.shapes[0][dim])
    if isinstance(found, Uniform):
        walk.set(Uniform(found.rows, found.layout, step.shapes[0][dim]))
        return
    if isinstance(found, Tracked):
        found = walk.as_rows_of(found, mask.space) or found
    if isinstance(found, Tensor) or found.space is not mask.space or found.layout.axis != dim:
        walk.refuse("picks rows by a mask of other rows")
    assert isinstance(found, Tracked)
    walk.set(Tracked(walk.gathered(found.value, rows, space), found.layout, found.ids))


def masked(walk: Walk, mask: Tracked, sizes: tuple[int, ...]) -> tuple[Space, Tensor]:
    """The space of the rows that a mask picks, and their numbers."""
    key = ("mask", id(mask.value))
    if key not in walk.named:
        walk.named[key] = (mask.value.whole().nonzero().flatten(), mask.value)
    rows = walk.named[key][0]
    return walk.subspace(mask.space, rows, ("masked", id(mask.value)), sizes), rows


def _by_one_number(walk: Walk, step: Step, found: Known, dim: int, index: Uniform) -> None:
    """Every row reads the same entry."""
    number = index.single
    if number is None or index.layout.axis != 0 or len(index.rows.shape) != 1:
        walk.refuse("reads by an index that depends on the graph")
    assert number is not None
    if isinstance(found, Tensor):
        one = found.select(dim, int(number)).unsqueeze(0)
        walk.set(Uniform(one, Layout(dim), index.sizes))
        return
    space = walk.space_of_size(index.sizes)
    if isinstance(found, Uniform) or space is None or found.space is not walk.graph:
        on_everything(walk, step)
        return

    def one_entry(rows: Tensor) -> Tensor:
        return rows.select(dim + 1, int(number))

    picked_ = walk.rows(one_entry, found.value)
    every = walk.broadcast(Tracked(picked_, Layout(None)), space)
    walk.set(Tracked(every, Layout(dim)))


def _of_uniform(walk: Walk, step: Step, found: Uniform, dim: int, index: Tracked) -> None:
    """Whichever row is read, it is the same."""
    if found.layout.axis != dim or not index.layout.plain:
        walk.refuse("reads columns by what depends on the graph")
    single = found.single
    shape = step.shapes[0]
    if single is not None:
        again = filled(shape, single)
        if again is not None:
            walk.set(again)
            return
    if walk.ndim_of(index) != 1:
        walk.refuse("reads equal rows by an index of several axes")
    walk.set(Tracked(walk.repeated(Uniform(found.rows, Layout(dim), ()), index.space), Layout(dim)))


def gathered_along(walk: Walk, step: Step, dim: int) -> None:
    """`gather` along the rows' axis by an index that is the same for a row's whole width."""
    found, index = walk[step.args["self"]], walk[step.args["index"]]
    if not isinstance(index, Tracked) or isinstance(found, Tensor):
        on_everything(walk, step)
        return
    index = walk.static_index(index)
    if index.layout.axis != dim or not index.layout.plain or index.ids != "id":
        walk.refuse("reads rows by an index that is no numbers of rows")
    spread = index.value.whole()
    own = spread.flatten(1) if spread.dim() > 1 else spread.unsqueeze(1)
    same = not own.size(1) or bool((own == own[:, :1]).all())
    if not same or isinstance(found, Uniform) or found.layout != index.layout:
        walk.refuse("reads every column by an index of its own")
    assert isinstance(found, Tracked)
    key = ("narrowed", id(index.value))
    if key not in walk.named:
        walk.named[key] = (walk.fixed(own[:, 0].long().contiguous(), index.space), index.value)
    value = walk.gathered(
        found.value, numbers(walk, Tracked(walk.named[key][0], Layout(0))), index.space
    )
    width = [s[0] for k, s in enumerate(step.shapes[0]) if k != dim]

    def cut(rows: Tensor) -> Tensor:
        for axis, n in enumerate(width):
            rows = rows.narrow(axis + 1, 0, n)
        return rows

    walk.set(Tracked(walk.rows(cut, value), index.layout, found.ids))
