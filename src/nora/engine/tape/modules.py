"""Modules known by their definition, whose operations depend on values in a way that a tape cannot tell.

Medians sort all values by group, typed linear maps sort rows by type: what they do with each row or group
is plain, how they do it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch_geometric.nn import HeteroLinear
from torch_geometric.nn.aggr import MedianAggregation, QuantileAggregation

from nora.engine.steps.reduce import GroupBy
from nora.engine.tape.follow import Walk
from nora.engine.tape.program import Step
from nora.engine.tape.tape import Call, Ref
from nora.engine.tape.tracked import Known, Layout, Tracked, Uniform

# Follows a call as one piece and gives its result, or None where it is not used in a known way.
Definition = Callable[[Walk, Any, dict[str, Any], tuple[tuple[int, ...], ...]], Known | None]


def follow_call(walk: Walk, call: Call) -> int:
    """Follow a call of a known module; where to go on, which is its start where it cannot be."""
    names, definition = DEFINITIONS[type(call.module)]
    given = dict(zip(names, call.args, strict=False)) | call.kwargs
    if not isinstance(call.out, Ref):
        return call.start
    step, shape = result_of(walk, call)
    walk.at = step
    made = definition(walk, call.module, given, shape)
    if made is None:
        return call.start
    walk.known[call.out.id] = made
    walk.shapes[call.out.id] = shape
    return call.end


def result_of(walk: Walk, call: Call) -> tuple[Step, tuple[tuple[int, ...], ...]]:
    """The operation that makes what a call returns, and the shape of it."""
    assert isinstance(call.out, Ref)
    for step in walk.program.steps[call.start : call.end]:
        if call.out.id in step.op.outs:
            return step, step.shapes[step.op.outs.index(call.out.id)]
    raise AssertionError("a call that does not make what it returns")


def _known(walk: Walk, given: dict[str, Any], name: str) -> Known | None:
    ref = given.get(name)
    return walk.known.get(ref.id) if isinstance(ref, Ref) else None


def _by_group(
    walk: Walk, module: Any, given: dict[str, Any], shape: tuple[tuple[int, ...], ...]
) -> Known | None:
    """An aggregation that treats each group of rows by itself, done anew where one changes."""
    x, index = (_known(walk, given, name) for name in ("x", "index"))
    if not isinstance(x, Tracked) or not isinstance(index, Tracked):
        return None
    if given.get("ptr") is not None or given.get("dim", -2) not in (-2, 0):
        return None
    # Where in all values a group begins must not tip which of its own are taken.
    halves = bool(((2 * module.q) % 1 == 0).all()) and module.interpolation != "nearest"
    if not halves and module.interpolation != "linear":
        return None
    space = walk.space_of_size(shape[0])
    plain = x.layout == index.layout == Layout(0) and walk.ndim_of(x) == 2
    fits = index.value.static and index.ids == "id" and walk.ndim_of(index) == 1
    if space is None or not plain or not fits or x.space is not index.space:
        return None
    walk.frozen.append(index.value)
    which = index.value.whole()
    if not x.space.covers(which, space):
        return None

    def reduce(rows: Tensor, group: Tensor, count: int) -> Tensor:
        return module(rows, group, dim_size=count, dim=0)

    fill, width = float(module.fill_value), tuple(n[0] for n in shape[1:])
    made = walk.add(GroupBy(x.value, which, reduce, fill, width, space))
    return Tracked(made, Layout(0))


def _by_type(
    walk: Walk, module: Any, given: dict[str, Any], shape: tuple[tuple[int, ...], ...]
) -> Known | None:
    """A linear map with weights by the row's own type."""
    x, kind = (_known(walk, given, name) for name in ("x", "type_vec"))
    if not isinstance(x, Tracked) or not isinstance(kind, Tracked | Uniform):
        return None
    if x.layout.axis != 0 or kind.layout != x.layout or walk.ndim(given["x"]) != 2:
        return None
    types = walk.repeated(kind, x.space) if isinstance(kind, Uniform) else kind.value
    if types.space is not x.space or (isinstance(kind, Tracked) and kind.ids):
        return None
    weight, bias = module.weight.detach(), module.bias
    layout = x.layout

    def mapped(rows: Tensor, type_: Tensor) -> Tensor:
        flat, which = layout.tensor(rows), layout.tensor(type_)
        out = flat.new_zeros(len(flat), weight.size(2))
        for number in which.unique().tolist():
            chosen = which == number
            out[chosen] = flat[chosen] @ weight[number]
        return layout.rows(out if bias is None else out + bias.detach()[which])

    return Tracked(walk.rows(mapped, x.value, types, numel=weight.size(2) * layout.factor), layout)


DEFINITIONS: dict[type[nn.Module], tuple[tuple[str, ...], Definition]] = {
    MedianAggregation: (("x", "index", "ptr", "dim_size", "dim"), _by_group),
    QuantileAggregation: (("x", "index", "ptr", "dim_size", "dim"), _by_group),
    HeteroLinear: (("x", "type_vec"), _by_type),
}
