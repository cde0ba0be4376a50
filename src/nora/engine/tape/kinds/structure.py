"""Edges made out of edges: what a mask picks, another order, the largest number there is."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import HypergraphConv

from nora.engine.tape.follow import Walk, kind
from nora.engine.tape.kinds.anything import on_everything
from nora.engine.tape.kinds.gathers import masked
from nora.engine.tape.program import Step
from nora.engine.tape.tracked import Layout, Tracked


@kind("nonzero")
def nonzero(walk: Walk, step: Step) -> None:
    """The numbers of the rows that a mask picks."""
    found = walk[step.args["self"]]
    if not isinstance(found, Tracked) or found.ids or walk.ndim_of(found) != 1:
        walk.refuse("picks by values")
    assert isinstance(found, Tracked)
    mask = walk.static_index(found, "a mask")
    if mask.value.at(torch.zeros(0, dtype=torch.long)).dtype != torch.bool:
        whole = walk.rows(lambda rows: rows != 0, mask.value)
        mask = Tracked(whole, mask.layout)
    space, rows = masked(walk, mask, step.shapes[0][0])
    walk.set(Tracked(walk.fixed(rows.unsqueeze(1), space), Layout(0), "id"))


def sorted_rows(walk: Walk, step: Step) -> None:
    """The rows in the order of what they say, which no removal changes."""
    found = walk[step.args["self"]]
    static = isinstance(found, Tracked) and found.value.static and walk.ndim_of(found) == 1
    if not static:
        on_everything(walk, step)
        if len(step.op.outs) > 1 and step.op.outs[1] is not None:
            walk.known.pop(step.op.outs[1], None)
            walk.cannot(step.op.outs[1], "orders rows by values")
        return
    assert isinstance(found, Tracked)
    walk.frozen.append(found.value)
    key = ("order", id(found.value), bool(step.args.get("descending")))
    if key not in walk.named:
        rows = found.value.whole()
        found_order = rows.sort(stable=True, descending=bool(step.args.get("descending")))
        walk.named[key] = (found_order.indices, found.value)
    order: Tensor = walk.named[key][0]
    space = walk.subspace(found.space, order, ("sorted", *key), found.space.sizes)
    walk.set(Tracked(walk.gathered(found.value, order, space), found.layout, found.ids))
    if len(step.op.outs) > 1 and step.op.outs[1] is not None:
        walk.set(Tracked(walk.fixed(order, space), Layout(0), "id"), 1)


@kind("distinct_edges")
def distinct_edges(walk: Walk, step: Step) -> None:
    """Every edge once: it goes with its nodes, as all that are equal to it do."""
    found = walk[step.args["edges"]]
    if not isinstance(found, Tracked) or found.layout != Layout(1) or found.ids != "id":
        walk.refuse("puts together what are no edges")
    assert isinstance(found, Tracked)
    found = walk.static_index(found)
    key = ("distinct", id(found.value), bool(step.args["sort_by_row"]))
    if key not in walk.named:
        ends = found.value.whole().t().contiguous()
        edges, group = step.op.func(ends, bool(step.args["sort_by_row"]))
        some = torch.empty(edges.size(1), dtype=torch.long)
        some[group] = torch.arange(len(group))
        walk.named[key] = (edges.t().contiguous(), group, some, found.value)
    edges, group, some, _ = walk.named[key]
    space = walk.subspace(found.space, some, ("one of", *key), step.shapes[0][1])
    if not (found.space.covers(group, space) and found.space.covered(group, space)):
        walk.refuse("puts edges together that go with different nodes")
    walk.unsure("puts equal edges together")
    walk.set(Tracked(walk.fixed(edges, space), Layout(1), "id"))
    walk.set(Tracked(walk.fixed(group, found.space), Layout(0), "id"), 1)


# Layers that make a row for every number up to the largest, and read only those that edges lead to.
SIZED_BY_LARGEST = (HypergraphConv,)


def _makes_rows_nobody_reads(walk: Walk, step: Step) -> bool:
    at = next(k for k, other in enumerate(walk.program.steps) if other is step)
    return any(
        type(call.module) in SIZED_BY_LARGEST and call.start <= at < call.end
        for call in walk.program.calls
    )


@kind("_local_scalar_dense", "is_nonzero", "equal")
def as_number(walk: Walk, step: Step) -> None:
    """A value of the graph handed to Python: nobody can know what it does with it."""
    for found in walk.operands(step.args):
        if isinstance(found, Tracked) and found.ids == "id":
            if _makes_rows_nobody_reads(walk, step):
                continue
            # It is the number of nodes only as long as the last of them has an edge.
            walk.refuse(
                "takes the largest number in edge_index for the number of nodes, which it is not where "
                "the last node has no edge left (pass num_nodes=x.size(0))"
            )
        if not isinstance(found, Tensor):
            walk.refuse(
                "makes a Python number of a value that depends on the graph (keep it a tensor: no .item(), "
                "no branch or loop on it)"
            )


@kind("_unique2", "unique_dim", "unique_consecutive", "_unique", "bincount", "repeat_interleave")
def sized_by_values(walk: Walk, step: Step) -> None:
    """As long as values say: a length that Python may read, and that any removal may change."""
    walk.refuse("makes a tensor whose length depends on values of the graph")


@kind("searchsorted", "bucketize", "histc", "as_strided", "unfold", "isin")
def not_followed(walk: Walk, step: Step) -> None:
    """What makes something new of values or of the graph."""
    found = [o for o in walk.operands(step.args) if isinstance(o, Tracked) and o.ids]
    if found or any(len(set(n)) > 1 for shape in step.shapes for n in shape):
        walk.refuse("makes something of the graph that is not followed")
    on_everything(walk, step)
