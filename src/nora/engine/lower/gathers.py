"""Gathers: edges read rows of their nodes, masks select rows, tables are looked up."""

from __future__ import annotations

import torch
from torch import Tensor

from nora.engine.ir.space import Space
from nora.engine.lower.anything import on_everything
from nora.engine.lower.builder import Builder
from nora.engine.lower.known import Dense, Layout, Tracked, Uniform, filled
from nora.engine.lower.lowerings import lower
from nora.engine.lower.masks import pick_rows
from nora.engine.lower.views import relocate, sizes_for
from nora.engine.trace.align import AlignedOp
from nora.engine.trace.trace import Ref


@lower("index_select")
def index_select(builder: Builder, op: AlignedOp) -> None:
    """`self` along one axis by an index."""
    dim = int(op.args["dim"]) % max(builder.ndim(op.args["self"]), 1)
    picked(builder, op, op.args["self"], dim, op.args["index"])


@lower("index")
def index(builder: Builder, op: AlignedOp) -> None:
    """`self[…, index, …]` with one index; or several, along other axes than the rows'."""
    given = [(axis, ref) for axis, ref in enumerate(op.args["indices"]) if ref is not None]
    for _, ref in given:
        mask = builder[ref]
        if isinstance(mask, Tracked) and mask.space is builder.graph and builder.is_mask(mask):
            builder.static_index(mask, "a mask")
    if len(given) == 1:
        picked(builder, op, op.args["self"], *given[0])
        return
    found = builder[op.args["self"]]
    axes = [axis for axis, _ in given]
    plain = all(isinstance(builder[ref], Tensor) for _, ref in given)
    if isinstance(found, Tracked | Uniform) and plain and found.layout.axis not in axes:
        axis = found.layout.axis or 0
        if axis < axes[0] and axes == list(range(axes[0], axes[0] + len(axes))):
            builder.apply(op, found.layout)
            return
    on_everything(builder, op)


@lower("embedding")
def embedding(builder: Builder, op: AlignedOp) -> None:
    """Look up rows of a table."""
    picked(builder, op, op.args["weight"], 0, op.args["indices"])


@lower("masked_select")
def masked_select(builder: Builder, op: AlignedOp) -> None:
    """Select entries by a mask."""
    if builder.ndim(op.args["self"]) == builder.ndim(op.args["mask"]) == 1:
        picked(builder, op, op.args["self"], 0, op.args["mask"])
        return
    builder.unsupported("selects entries by a mask over several axes")


def picked(builder: Builder, op: AlignedOp, of: Ref, dim: int, by: Ref) -> None:
    """Entries of `of` along `dim`, by numbers or by a mask."""
    found, index = builder[of], builder[by]
    if isinstance(index, Uniform) and _is_everything(builder, op, by, index):
        layout = relocate(builder, op, builder.layout(of))
        shape = {"self": of, "shape": sizes_for(op, layout)}
        builder.apply(op, layout, shape, func=torch.ops.aten.reshape.default)
        return
    if isinstance(index, Uniform):
        _by_one_number(builder, op, found, dim, index)
        return
    if isinstance(index, Tensor):
        _by_fixed(builder, op, of, dim, found)
        return
    if index.space is builder.graph:
        on_everything(builder, op)
        return
    if op.dtypes and builder.is_mask(index):
        _by_mask(builder, op, found, dim, index)
        return
    if isinstance(found, Tensor):
        # A table: what rows say of themselves is looked up. Numbers of nodes have tables only where
        # they stay what they are.
        if index.ids and len(set(index.space.sizes)) > 1:
            builder.unsupported("looks nodes up by id in a constant tensor")
        builder.apply(op, index.layout.at((index.layout.axis or 0) + dim))
        return
    if isinstance(found, Uniform):
        _of_uniform(builder, op, found, dim, index)
        return
    if found.layout.axis != dim:
        builder.unsupported("selects columns by an index that depends on the graph")
    if not found.layout.plain:
        builder.unsupported("reads rows that are merged with other axes")
    index = builder.static_index(index)
    if index.ids != ("" if found.space.global_ else "id"):
        builder.unsupported("uses quantities as row ids")
    builder.set(_read(builder, found, dim, index))


def _is_everything(builder: Builder, op: AlignedOp, by: Ref, index: Uniform) -> bool:
    """Whether a mask is true everywhere, so that it only merges the axes that it covers."""
    mask = index.rows.dtype == torch.bool and index.single is not None and bool(index.single)
    found = builder[op.args["self"]]
    return mask and op.name == "index" and isinstance(found, Tracked) and builder.ndim(by) > 1


def index_rows(builder: Builder, index: Tracked) -> Tensor:
    """The row ids in an index, `[rows]` or `[rows, …]`; always the same tensor."""
    key = ("numbers", index.value)
    if key not in builder.named:
        builder.named[key] = index.value.base_rows().long()
    return builder.named[key]


def _read(builder: Builder, found: Tracked, dim: int, index: Tracked) -> Tracked:
    """The rows of `found` that the rows of the index's space read."""
    which = index_rows(builder, index)
    low = which + found.space.size
    which = torch.where(which < 0, low, which) if bool((which < 0).any()) else which
    layout = index.layout.at((index.layout.axis or 0) + dim)
    if which.dim() == 1:
        return Tracked(builder.gathered(found.value, which, index.space), layout, found.ids)
    columns = which.flatten(1)
    parts = []
    for k in range(columns.size(1)):
        key = ("column", which, k)
        if key not in builder.named:
            builder.named[key] = columns[:, k].contiguous()
        parts.append(builder.gathered(found.value, builder.named[key], index.space))
    shape = which.shape[1:]
    # Rows of the index come first; its other axes stand where the read axis stood.
    own = found.value.none.shape[1:]

    def side_by_side(*rows: Tensor) -> Tensor:
        stacked = torch.stack(rows, dim=1 + dim)
        return stacked.reshape(len(rows[0]), *own[:dim], *shape, *own[dim:])

    made = builder.rows(side_by_side, *parts, numel=8)
    if not index.layout.plain:
        builder.unsupported("reads rows by an index with merged axes")
    return Tracked(made, layout, found.ids)


def _by_fixed(builder: Builder, op: AlignedOp, of: Ref, dim: int, found: Dense) -> None:
    """An index that is the same on every graph."""
    layout = builder.layout(of)
    if layout.axis == dim or layout.axis is None:
        on_everything(builder, op)
        return
    axis = layout.axis
    added = len(op.shapes[0]) - builder.ndim(of)
    if dim < axis:
        axis += added
    builder.apply(op, layout.at(axis), ids=getattr(found, "ids", ""))


def _by_mask(builder: Builder, op: AlignedOp, found: Dense, dim: int, mask: Tracked) -> None:
    """The rows that a mask selects, as a space of their own."""
    by_values = not mask.value.static and dim == 0 and isinstance(found, Tracked | Uniform)
    if by_values and mask.space is not builder.graph:
        rowed = builder.rowed_known(found, mask.space)
        if rowed is not None and not rowed.ids and pick_rows(builder, mask, rowed):
            return
    mask = builder.static_index(mask, "a mask")
    if builder.ndim_of(mask) != 1 or not mask.layout.plain:
        builder.unsupported("selects by a mask over several axes")
    space, rows = masked(builder, mask, op.shapes[0][dim])
    if isinstance(found, Uniform):
        builder.set(Uniform(found.rows, found.layout, op.shapes[0][dim]))
        return
    if isinstance(found, Tracked):
        found = builder.as_rows_of(found, mask.space) or found
    if isinstance(found, Tensor) or found.space is not mask.space or found.layout.axis != dim:
        builder.unsupported("selects rows by a mask of other rows")
    builder.set(Tracked(builder.gathered(found.value, rows, space), found.layout, found.ids))


def masked(builder: Builder, mask: Tracked, sizes: tuple[int, ...]) -> tuple[Space, Tensor]:
    """The space of the rows that a mask selects, and their ids."""
    key = ("mask", mask.value)
    if key not in builder.named:
        builder.named[key] = mask.value.base_rows().nonzero().flatten()
    rows = builder.named[key]
    return builder.subspace(mask.space, rows, ("masked", mask.value), sizes), rows


def _by_one_number(builder: Builder, op: AlignedOp, found: Dense, dim: int, index: Uniform) -> None:
    """Every row reads the same entry."""
    number = index.single
    if number is None or index.layout.axis != 0 or len(index.rows.shape) != 1:
        builder.unsupported("reads rows by an index that depends on the graph")
    if isinstance(found, Tensor):
        one = found.select(dim, int(number)).unsqueeze(0)
        builder.set(Uniform(one, Layout(dim), index.sizes))
        return
    space = builder.space_of_size(index.sizes)
    if isinstance(found, Uniform) or space is None or found.space is not builder.graph:
        on_everything(builder, op)
        return

    def one_entry(rows: Tensor) -> Tensor:
        return rows.select(dim + 1, int(number))

    picked_ = builder.rows(one_entry, found.value)
    every = builder.broadcast(Tracked(picked_, Layout(None)), space)
    builder.set(Tracked(every, Layout(dim)))


def _of_uniform(builder: Builder, op: AlignedOp, found: Uniform, dim: int, index: Tracked) -> None:
    """Read rows that are all equal."""
    if found.layout.axis != dim or not index.layout.plain:
        builder.unsupported("selects columns by an index that depends on the graph")
    single = found.single
    shape = op.shapes[0]
    if single is not None:
        again = filled(shape, single)
        if again is not None:
            builder.set(again)
            return
    if builder.ndim_of(index) != 1:
        builder.unsupported("reads equal rows by an index of several axes")
    builder.set(
        Tracked(builder.repeated(Uniform(found.rows, Layout(dim), ()), index.space), Layout(dim))
    )


def narrowed(builder: Builder, index: Tracked, dim: int) -> Tracked:
    """An index that is constant within each row, as one number per row."""
    index = builder.static_index(index)
    if index.layout.axis != dim or not index.layout.plain:
        builder.unsupported("uses an index with merged axes")
    spread = index.value.base_rows()
    if spread.dim() == 1:
        return index
    key = ("narrowed", index.value)
    if key not in builder.named:
        own = spread.flatten(1)
        if own.size(1) and not bool((own == own[:, :1]).all()):
            builder.unsupported("uses a different index for every column")
        first = own[:, 0].long().contiguous() if own.size(1) else own.new_zeros(len(own))
        builder.named[key] = builder.fixed(first, index.space)
    return Tracked(builder.named[key], Layout(0), index.ids)


def gathered_along(builder: Builder, op: AlignedOp, dim: int) -> None:
    """`gather` along the rows' axis by an index that is constant within each row."""
    found, index = builder[op.args["self"]], builder[op.args["index"]]
    if not isinstance(index, Tracked) or isinstance(found, Tensor):
        on_everything(builder, op)
        return
    which = narrowed(builder, index, dim)
    if index.ids != "id" or isinstance(found, Uniform) or found.layout != index.layout:
        builder.unsupported("reads rows by an index that does not hold row ids")
    value = builder.gathered(found.value, index_rows(builder, which), index.space)
    width = [s[0] for k, s in enumerate(op.shapes[0]) if k != dim]

    def cut(rows: Tensor) -> Tensor:
        for axis, n in enumerate(width):
            rows = rows.narrow(axis + 1, 0, n)
        return rows

    builder.set(Tracked(builder.rows(cut, value), index.layout, found.ids))
