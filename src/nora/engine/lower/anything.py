"""Operations without a lowering of their own: executed on all remaining rows, for every removal."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from nora.engine.ir.op import EVERYWHERE, Value
from nora.engine.ir.space import Space
from nora.engine.lower.builder import Builder
from nora.engine.lower.known import Layout, Tracked, Uniform
from nora.engine.lower.row_call import bound
from nora.engine.ops.whole import WholeGraphOp
from nora.engine.trace.align import AlignedOp, Sized
from nora.engine.trace.trace import Ref, leaves, mapped

EXTREMA: dict[str, Literal["max", "min"]] = {
    "max": "max", "amax": "max", "min": "min", "amin": "min",
}  # fmt: skip


def on_everything(builder: Builder, op: AlignedOp) -> None:
    """Give the operation what it gets on the reduced graph."""
    inputs: list[Value] = []
    places: dict[Any, tuple[int, Layout]] = {}
    for leaf in leaves(op.args):
        if isinstance(leaf, Sized):
            space = builder.space_of_size(leaf.values)
            if space is None:
                builder.unsupported("uses a number that depends on the graph")
            found: Any = builder.count(space)
        elif isinstance(leaf, Ref):
            found = builder[leaf]
        else:
            continue
        key = leaf.id if isinstance(leaf, Ref) else leaf
        if key in places or isinstance(found, Tensor):
            continue
        if isinstance(found, Uniform):
            space = builder.space_of_size(found.sizes)
            if space is None or not found.layout.plain:
                builder.unsupported("uses rows that belong to no known space")
            found = Tracked(builder.repeated(found, space), found.layout)
        if found.ids:
            builder.unsupported("uses node or edge ids as quantities")
        places[key] = (len(inputs), found.layout)
        inputs.append(found.value)
    if not inputs:
        builder.unsupported("is an operation that the engine does not know")

    def run(rows: tuple[Tensor, ...], place: int) -> Tensor:
        def put(leaf: Any) -> Any:
            if isinstance(leaf, Sized):
                return int(rows[places[leaf][0]])
            if not isinstance(leaf, Ref):
                return leaf
            known = builder.known[leaf.id]
            if isinstance(known, Tensor):
                return known
            at, layout = places[leaf.id]
            return rows[at][0] if layout.axis is None else layout.tensor(rows[at])

        args, kwargs = bound(op, lambda ref: ref)
        out = op.func(*mapped(put, args), **mapped(put, kwargs))
        return (list(out) if isinstance(out, tuple | list) else [out])[place]

    for place, number in enumerate(op.outs):
        if number is None:
            continue
        where = _where(builder, op.shapes[place], inputs)
        if where is None:
            builder.unsupported_result(number, "relates every row to every other row")
            continue
        space, layout = where

        def function(*rows: Tensor, place: int = place, layout: Layout = layout) -> Tensor:
            out = run(rows, place)
            return out.unsqueeze(0) if layout.axis is None else layout.rows(out)

        extremum: Literal["", "max", "min"] = EXTREMA.get(op.name, "")
        if (
            space is not builder.graph
            or len(inputs) != 1
            or place
            or inputs[0].space is builder.graph
        ):
            extremum = ""
        value = builder.add(WholeGraphOp(function, inputs, Value(space, EVERYWHERE), extremum))
        builder.notes.all_rows[value] = f"{op.name} at {op.line}"
        builder.known[number] = Tracked(value, layout)


def _where(
    builder: Builder, shape: tuple[tuple[int, ...], ...], inputs: list[Value]
) -> tuple[Space, Layout] | None:
    """The space a result's rows are of, and along which axis; None if unknown."""
    sized = [axis for axis, sizes in enumerate(shape) if len(set(sizes)) > 1]
    if not sized:
        constant = [v.space for v in inputs if len(set(v.space.sizes)) == 1 and v.space.size > 1]
        known = [axis for axis, sizes in enumerate(shape) for s in constant if s.sizes == sizes]
        if known:  # the number of rows is the same on all graphs: they may be these
            return constant[0], Layout(known[0])
        return builder.graph, Layout(None)
    if len(sized) > 1:
        return None
    for space in [*(value.space for value in inputs), *builder.nodes, *builder.spaces]:
        if space.sizes == shape[sized[0]]:
            return space, Layout(sized[0])
    return None


def each_by_itself(builder: Builder, op: AlignedOp) -> None:
    """Execute an operation on values of the whole graph only, removal by removal."""
    refs = [leaf for leaf in leaves(op.args) if isinstance(leaf, Ref)]
    known = {ref: builder[ref] for ref in refs}
    tracked = {ref: one.value for ref, one in known.items() if isinstance(one, Tracked)}
    values = list(tracked.values())
    args, kwargs = bound(op, lambda ref: ref if ref in tracked else builder[ref])

    def run(rows: tuple[Tensor, ...], place: int) -> Tensor:
        made = []
        for at in range(len(rows[0])):
            here = {ref: row[at] for ref, row in zip(tracked, rows, strict=True)}
            put = lambda a, here=here: here[a] if isinstance(a, Ref) else a  # noqa: E731
            out = op.func(*mapped(put, args), **mapped(put, kwargs))
            made.append((list(out) if isinstance(out, tuple | list) else [out])[place])
        return torch.stack(made)

    for place, number in enumerate(op.outs):
        if number is not None:

            def function(*rows: Tensor, place: int = place) -> Tensor:
                return run(rows, place)

            made = builder.rows(function, *values)
            builder.known[number] = Tracked(made, Layout(None))
            _note_comparison(builder, op, values[0], made)


def _note_comparison(builder: Builder, op: AlignedOp, count: Value, made: Value) -> None:
    """Remember what a count of rows is compared with; see `Bindings.counted`."""
    operation, operands = builder.counted.get(count, ("", ()))
    other = op.args.get("other")
    compares = op.name in ("eq", "ne", "lt", "le", "gt", "ge") and isinstance(other, int | float)
    if operation == "bool" and compares:
        builder.counted[made] = (op.name, (*operands, other))
