"""Edges made out of edges: what a mask picks, another order, the largest number there is."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import HypergraphConv

from nora.engine.lower.anything import on_everything
from nora.engine.lower.builder import Builder
from nora.engine.lower.gathers import masked
from nora.engine.lower.known import Layout, Tracked
from nora.engine.lower.registry import lower
from nora.engine.trace.align import AlignedOp


@lower("nonzero")
def nonzero(builder: Builder, op: AlignedOp) -> None:
    """The numbers of the rows that a mask picks."""
    found = builder[op.args["self"]]
    if not isinstance(found, Tracked) or found.ids or builder.ndim_of(found) != 1:
        builder.unsupported("picks by values")
    mask = builder.static_index(found, "a mask")
    if mask.value.at(torch.zeros(0, dtype=torch.long)).dtype != torch.bool:
        whole = builder.rows(lambda rows: rows != 0, mask.value)
        mask = Tracked(whole, mask.layout)
    space, rows = masked(builder, mask, op.shapes[0][0])
    builder.set(Tracked(builder.fixed(rows.unsqueeze(1), space), Layout(0), "id"))


def sorted_rows(builder: Builder, op: AlignedOp) -> None:
    """The rows in the order of what they say, which no removal changes."""
    found = builder[op.args["self"]]
    static = isinstance(found, Tracked) and found.value.static and builder.ndim_of(found) == 1
    if not static:
        on_everything(builder, op)
        if len(op.outs) > 1 and op.outs[1] is not None:
            builder.known.pop(op.outs[1], None)
            builder.cannot(op.outs[1], "orders rows by values")
        return
    assert isinstance(found, Tracked)
    builder.structure.append(found.value)
    key = ("order", found.value, bool(op.args.get("descending")))
    if key not in builder.named:
        rows = found.value.base_rows()
        found_order = rows.sort(stable=True, descending=bool(op.args.get("descending")))
        builder.named[key] = (found_order.indices, found.value)
    order: Tensor = builder.named[key][0]
    space = builder.subspace(found.space, order, ("sorted", *key), found.space.sizes)
    builder.set(Tracked(builder.gathered(found.value, order, space), found.layout, found.ids))
    if len(op.outs) > 1 and op.outs[1] is not None:
        builder.set(Tracked(builder.fixed(order, space), Layout(0), "id"), 1)


@lower("distinct_edges")
def distinct_edges(builder: Builder, op: AlignedOp) -> None:
    """Every edge once: it goes with its nodes, as all that are equal to it do."""
    found = builder[op.args["edges"]]
    if not isinstance(found, Tracked) or found.layout != Layout(1) or found.ids != "id":
        builder.unsupported("puts together what are no edges")
    found = builder.static_index(found)
    key = ("distinct", found.value, bool(op.args["sort_by_row"]))
    if key not in builder.named:
        ends = found.value.base_rows().t().contiguous()
        edges, group = op.func(ends, bool(op.args["sort_by_row"]))
        some = torch.empty(edges.size(1), dtype=torch.long)
        some[group] = torch.arange(len(group))
        builder.named[key] = (edges.t().contiguous(), group, some, found.value)
    edges, group, some, _ = builder.named[key]
    space = builder.subspace(found.space, some, ("one of", *key), op.shapes[0][1])
    if not (found.space.covers(group, space) and found.space.covered(group, space)):
        builder.unsupported("puts edges together that go with different nodes")
    builder.unsure("puts equal edges together")
    builder.set(Tracked(builder.fixed(edges, space), Layout(1), "id"))
    builder.set(Tracked(builder.fixed(group, found.space), Layout(0), "id"), 1)


# Layers that make a row for every number up to the largest, and read only those that edges lead to.
SIZED_BY_LARGEST = (HypergraphConv,)


def _makes_rows_nobody_reads(builder: Builder, op: AlignedOp) -> bool:
    at = next(k for k, other in enumerate(builder.traced.ops) if other is op)
    return any(
        type(call.module) in SIZED_BY_LARGEST and call.start <= at < call.end
        for call in builder.traced.calls
    )


@lower("_local_scalar_dense", "is_nonzero", "equal")
def as_number(builder: Builder, op: AlignedOp) -> None:
    """A value of the graph handed to Python: nobody can know what it does with it."""
    for found in builder.operands(op.args):
        if isinstance(found, Tracked) and found.ids == "id":
            if _makes_rows_nobody_reads(builder, op):
                continue
            # It is the number of nodes only as long as the last of them has an edge.
            builder.unsupported(
                "takes the largest number in edge_index for the number of nodes, which it is not where "
                "the last node has no edge left (pass num_nodes=x.size(0))"
            )
        if not isinstance(found, Tensor):
            builder.unsupported(
                "makes a Python number of a value that depends on the graph (keep it a tensor: no .item(), "
                "no branch or loop on it)"
            )


@lower("_unique2", "unique_dim", "unique_consecutive", "_unique", "bincount", "repeat_interleave")
def sized_by_values(builder: Builder, op: AlignedOp) -> None:
    """As long as values say: a length that Python may read, and that any removal may change."""
    builder.unsupported("makes a tensor whose length depends on values of the graph")


@lower("searchsorted", "bucketize", "histc", "as_strided", "unfold", "isin")
def not_followed(builder: Builder, op: AlignedOp) -> None:
    """What makes something new of values or of the graph."""
    found = [o for o in builder.operands(op.args) if isinstance(o, Tracked) and o.ids]
    if found or any(len(set(n)) > 1 for shape in op.shapes for n in shape):
        builder.unsupported("makes something of the graph that is not followed")
    on_everything(builder, op)
