"""Operations of no other kind: done on everything that is left, for every removal by itself."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from nora.engine.spaces import Space
from nora.engine.steps.step import EVERYWHERE, Value
from nora.engine.steps.whole import WholeOp
from nora.engine.tape.builder import bound
from nora.engine.tape.follow import Walk, kind
from nora.engine.tape.program import Sized, Step
from nora.engine.tape.tape import Ref
from nora.engine.tape.tracked import Layout, Tracked, Uniform
from nora.engine.tape.trees import leaves, mapped

EXTREMA: dict[str, Literal["max", "min"]] = {
    "max": "max", "amax": "max", "min": "min", "amin": "min",
}  # fmt: skip


@kind("*")
def on_everything(walk: Walk, step: Step) -> None:
    """Give the operation what it gets on the reduced graph."""
    inputs: list[Value] = []
    places: dict[Any, tuple[int, Layout]] = {}
    for leaf in leaves(step.args):
        if isinstance(leaf, Sized):
            space = walk.space_of_size(leaf.values)
            if space is None:
                walk.refuse("takes a number that depends on the graph")
            assert space is not None
            found: Any = walk.count(space)
        elif isinstance(leaf, Ref):
            found = walk[leaf]
        else:
            continue
        key = leaf.id if isinstance(leaf, Ref) else leaf
        if key in places or isinstance(found, Tensor):
            continue
        if isinstance(found, Uniform):
            space = walk.space_of_size(found.sizes)
            if space is None or not found.layout.plain:
                walk.refuse("takes rows of nothing that is known")
            assert space is not None
            found = Tracked(walk.repeated(found, space), found.layout)
        if found.ids:
            walk.refuse("takes the numbers of nodes or edges for quantities")
        places[key] = (len(inputs), found.layout)
        inputs.append(found.value)
    if not inputs:
        walk.refuse("is of no known kind")

    def run(rows: tuple[Tensor, ...], place: int) -> Tensor:
        def put(leaf: Any) -> Any:
            if isinstance(leaf, Sized):
                return int(rows[places[leaf][0]])
            if not isinstance(leaf, Ref):
                return leaf
            known = walk.known[leaf.id]
            if isinstance(known, Tensor):
                return known
            at, layout = places[leaf.id]
            return rows[at][0] if layout.axis is None else layout.tensor(rows[at])

        args, kwargs = bound(step, lambda ref: ref)
        out = step.op.func(*mapped(put, args), **mapped(put, kwargs))
        return (list(out) if isinstance(out, tuple | list) else [out])[place]

    for place, number in enumerate(step.op.outs):
        if number is None:
            continue
        where = _where(walk, step.shapes[place], inputs)
        if where is None:
            walk.cannot(number, "relates all rows with all rows")
            continue
        space, layout = where

        def function(*rows: Tensor, place: int = place, layout: Layout = layout) -> Tensor:
            out = run(rows, place)
            return out.unsqueeze(0) if layout.axis is None else layout.rows(out)

        extremum: Literal["", "max", "min"] = EXTREMA.get(step.name, "")
        if space is not walk.graph or len(inputs) != 1 or place or inputs[0].space is walk.graph:
            extremum = ""
        value = walk.add(WholeOp(function, inputs, Value(space, EVERYWHERE), extremum))
        walk.known[number] = Tracked(value, layout)


def _where(
    walk: Walk, shape: tuple[tuple[int, ...], ...], inputs: list[Value]
) -> tuple[Space, Layout] | None:
    """The space a result's rows are of, and along which axis; None where it cannot be told."""
    sized = [axis for axis, sizes in enumerate(shape) if len(set(sizes)) > 1]
    if not sized:
        constant = [v.space for v in inputs if len(set(v.space.sizes)) == 1 and v.space.size > 1]
        known = [axis for axis, sizes in enumerate(shape) for s in constant if s.sizes == sizes]
        if known:  # the number of rows is the same on all graphs: they may be these
            return constant[0], Layout(known[0])
        return walk.graph, Layout(None)
    if len(sized) > 1:
        return None
    for space in [*(value.space for value in inputs), *walk.nodes, *walk.spaces]:
        if space.sizes == shape[sized[0]]:
            return space, Layout(sized[0])
    return None


@kind("each")
def each_by_itself(walk: Walk, step: Step) -> None:
    """An operation on what is known of the whole graph alone: removal by removal."""
    refs = [leaf for leaf in leaves(step.args) if isinstance(leaf, Ref)]
    tracked = [ref for ref in dict.fromkeys(refs) if isinstance(walk[ref], Tracked)]
    values = [walk[ref].value for ref in tracked]
    args, kwargs = bound(step, lambda ref: ref if ref in tracked else walk[ref])

    def run(rows: tuple[Tensor, ...], place: int) -> Tensor:
        made = []
        for at in range(len(rows[0])):
            here = {ref: row[at] for ref, row in zip(tracked, rows, strict=True)}
            put = lambda a, here=here: here[a] if isinstance(a, Ref) else a  # noqa: E731
            out = step.op.func(*mapped(put, args), **mapped(put, kwargs))
            made.append((list(out) if isinstance(out, tuple | list) else [out])[place])
        return torch.stack(made)

    for place, number in enumerate(step.op.outs):
        if number is not None:

            def function(*rows: Tensor, place: int = place) -> Tensor:
                return run(rows, place)

            walk.known[number] = Tracked(walk.rows(function, *values), Layout(None))
