"""Structure: edges derived from edges by masks, sorting or merging, and the largest node id."""

from __future__ import annotations

import torch
from torch import Tensor

from nora.engine.guards import Guard
from nora.engine.lower.anything import on_everything
from nora.engine.lower.builder import Builder
from nora.engine.lower.gathers import index_rows, masked
from nora.engine.lower.known import Layout, Tracked
from nora.engine.lower.lowerings import lower
from nora.engine.lower.masks import pick_numbers
from nora.engine.trace.align import AlignedOp, Sized
from nora.engine.trace.trace import Ref


@lower("nonzero")
def nonzero(builder: Builder, op: AlignedOp) -> None:
    """The ids of the rows that a mask selects."""
    found = builder[op.args["self"]]
    if not isinstance(found, Tracked) or found.ids or builder.ndim_of(found) != 1:
        builder.unsupported("selects rows by values")
    if builder.is_mask(found) and not found.value.static and pick_numbers(builder, found):
        return
    mask = builder.static_index(found, "a mask")
    if mask.value.none.dtype != torch.bool:
        whole = builder.rows(lambda rows: rows != 0, mask.value)
        mask = Tracked(whole, mask.layout)
    space, rows = masked(builder, mask, op.shapes[0][0])
    builder.set(Tracked(builder.fixed(rows.unsqueeze(1), space), Layout(0), "id"))


def sorted_rows(builder: Builder, op: AlignedOp) -> None:
    """Sort rows by values that no removal changes."""
    found = builder[op.args["self"]]
    static = isinstance(found, Tracked) and found.value.static and builder.ndim_of(found) == 1
    if not static:
        on_everything(builder, op)
        if len(op.outs) > 1 and op.outs[1] is not None:
            builder.known.pop(op.outs[1], None)
            builder.unsupported_result(op.outs[1], "orders rows by values")
        return
    assert isinstance(found, Tracked)
    builder.structure.append(found.value)
    key = ("order", found.value, bool(op.args.get("descending")))
    if key not in builder.named:
        rows = found.value.base_rows()
        builder.named[key] = rows.sort(stable=True, descending=key[-1]).indices
    order: Tensor = builder.named[key]
    space = builder.subspace(found.space, order, ("sorted", *key), found.space.sizes)
    builder.set(Tracked(builder.gathered(found.value, order, space), found.layout, found.ids))
    if len(op.outs) > 1 and op.outs[1] is not None:
        builder.set(Tracked(builder.fixed(order, space), Layout(0), "id"), 1)


@lower("sorted_entries")
def sorted_entries(builder: Builder, op: AlignedOp) -> None:
    """A matrix's entries sorted by rows and columns, as a space of their own."""
    row, col = (builder[op.args[key]] for key in ("row", "col"))
    for found in (row, col):
        if not isinstance(found, Tracked) or found.layout != Layout(0) or found.ids != "id":
            builder.unsupported("sorts something other than row ids")
    row, col = builder.static_index(row), builder.static_index(col)
    same = builder.as_rows_of(col, row.space)
    if same is None:
        builder.unsupported("sorts rows and columns that belong to different edges")
    key = ("sorted", row.value, same.value)
    if key not in builder.named:
        builder.named[key] = op.func(row.value.base_rows(), same.value.base_rows())
    order: Tensor = builder.named[key][2]
    space = builder.subspace(row.space, order, ("entries", *key), op.shapes[0][0])
    for place, found in enumerate((row, same)):
        builder.set(Tracked(builder.gathered(found.value, order, space), Layout(0), "id"), place)
    builder.set(Tracked(builder.fixed(order, space), Layout(0), "id"), 2)


@lower("arg_of")
def positions(builder: Builder, op: AlignedOp) -> None:
    """Positions of the largest entries of groups, which every removal shifts."""
    builder.unsupported_later(op, "returns positions of edges, which a removal changes")


@lower("distinct_edges")
def distinct_edges(builder: Builder, op: AlignedOp) -> None:
    """Distinct edges: each is removed with its nodes, like all edges equal to it."""
    found = builder[op.args["edges"]]
    if not isinstance(found, Tracked) or found.layout != Layout(1) or found.ids != "id":
        builder.unsupported("merges duplicates of something other than edges")
    found = builder.static_index(found)
    key = ("distinct", found.value, bool(op.args["sort_by_row"]))
    if key not in builder.named:
        ends = found.value.base_rows().t().contiguous()
        edges, group = op.func(ends, bool(op.args["sort_by_row"]))
        some = torch.empty(edges.size(1), dtype=torch.long)
        some[group] = torch.arange(len(group))
        builder.named[key] = edges.t().contiguous(), group, some
    edges, group, some = builder.named[key]
    space = builder.subspace(found.space, some, ("one of", *key), op.shapes[0][1])
    if not (found.space.covers(group, space) and found.space.covered(group, space)):
        builder.unsupported("merges edges that belong to different nodes")
    builder.unsure("merges equal edges")
    builder.set(Tracked(builder.fixed(edges, space), Layout(1), "id"))
    builder.set(Tracked(builder.fixed(group, found.space), Layout(0), "id"), 1)


@lower("_local_scalar_dense", "is_nonzero", "equal")
def as_number(builder: Builder, op: AlignedOp) -> None:
    """A value of the graph that Python code reads, which is unsupported."""
    for found in builder.operands(op.args):
        guard = None
        if isinstance(found, Tracked) and builder.is_mask(found):
            guard = builder.counted.get(found.value)
        if guard is not None:
            builder.guards.append(Guard(*guard, op.line))
            continue
        if isinstance(found, Tracked) and found.ids == "id":
            # It is the number of nodes only as long as the last of them has an edge.
            builder.unsupported(
                "infers the number of nodes from the largest id in edge_index, which is too few once the "
                "last node has no edge (pass num_nodes=x.size(0), for a scatter dim_size=x.size(0), for a "
                "SparseTensor sparse_sizes=(x.size(0), x.size(0)))"
            )
        if not isinstance(found, Tensor):
            builder.unsupported(
                "turns a value that depends on the graph into a Python number (keep it a tensor: no "
                ".item(), and no branch or loop that depends on it)"
            )


@lower("bincount")
def counted(builder: Builder, op: AlignedOp) -> None:
    """How often each row id occurs, with the `minlength` that the model passes."""
    found, least = builder[op.args["self"]], op.args.get("minlength", 0)
    space = builder.space_of_size(least.values) if isinstance(least, Sized) else None
    ids = isinstance(found, Tracked) and found.ids == "id" and found.layout == Layout(0)
    if (
        space is None
        or not ids
        or op.shapes[0][0] != space.sizes
        or op.args.get("weights") is not None
    ):
        sized_by_values(builder, op)
        return
    found = builder.static_index(found)
    ones = torch.ones(1, dtype=torch.long).expand(found.space.size)
    zeros = builder.fixed(torch.zeros(space.size, dtype=torch.long), space)
    index = index_rows(builder, found)
    made = builder.scattered(builder.fixed(ones, found.space), index, zeros, "sum", True)
    builder.set(Tracked(made, Layout(0)))


@lower("_unique2", "unique_dim", "unique_consecutive", "_unique", "repeat_interleave")
def sized_by_values(builder: Builder, op: AlignedOp) -> None:
    """A length that depends on values, which Python code may read and any removal may change."""
    builder.unsupported("makes a tensor whose length depends on values")


@lower("searchsorted", "bucketize")
def among_bounds(builder: Builder, op: AlignedOp) -> None:
    """The position of each entry among constant bounds."""
    given = op.args["self"]
    bounds = op.args["boundaries" if op.name == "bucketize" else "sorted_sequence"]
    found = builder[given] if isinstance(given, Ref) else None
    own = isinstance(builder.known[bounds.id], Tensor) and builder.ndim(bounds) == 1
    if not own or not isinstance(found, Tracked) or found.ids or op.args.get("sorter") is not None:
        not_followed(builder, op)
    elif found.layout.axis is None:
        on_everything(builder, op)
    else:
        builder.apply(op, found.layout)


@lower("histc", "as_strided", "unfold", "isin")
def not_followed(builder: Builder, op: AlignedOp) -> None:
    """Operations that are only supported on values of the whole graph."""
    found = [o for o in builder.operands(op.args) if isinstance(o, Tracked) and o.ids]
    if found or any(len(set(n)) > 1 for shape in op.shapes for n in shape):
        builder.unsupported("computes something from the graph in a way that is not supported")
    on_everything(builder, op)
