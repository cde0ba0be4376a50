"""Lower an aligned program, operation by operation; an unsupported one is rejected with its source line.

A lowering describes what an operation does with rows: it computes each row by itself, gathers rows of one
space for another, reduces rows to those of another space, or derives new edges from edges. An operation
without a lowering is executed on the whole graph for every edit (`anything.py`), if its result has rows of a
space or belongs to the whole graph. The call of a module that has a lowering is lowered as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor

from nora.engine.lower.anything import each_by_itself, on_everything
from nora.engine.lower.builder import Builder
from nora.engine.lower.known import Layout, Matrix, Picked, Tracked
from nora.engine.lower.lowerings import LOWERINGS
from nora.engine.lower.masks import on_picked
from nora.engine.lower.pointwise import COPIES
from nora.engine.lower.row_call import bound
from nora.engine.lower.size_guards import lowered_guards
from nora.engine.trace.align import AlignedOp, CoincidenceError, Sized
from nora.engine.trace.trace import Ref, leaves, name_of
from nora.engine.unsupported import UnsupportedError, described


@cache
def is_pointwise(func: Any) -> bool:
    """Whether torch tags an operation as pointwise; tags are per overload.

    `equal`, which compares all entries, and `rrelu`, which draws random numbers, have the tag, too.
    """
    return torch.Tag.pointwise in func.tags and not (
        reads_values(func) or torch.Tag.nondeterministic_seeded in func.tags
    )


@cache
def reads_values(func: Any) -> bool:
    """Whether an operation returns a value to Python, or makes a tensor whose length depends on values.

    `index` does so for masks alone; see `_reads_values`.
    """
    tags = func.tags
    if torch.Tag.data_dependent_output in tags or name_of(func) == "is_nonzero":
        return True
    return torch.Tag.dynamic_output_shape in tags and name_of(func) != "index"


def lower_program(builder: Builder, lower_call: Callable[[int], int] | None = None) -> None:
    """Lower every operation of the builder's traced program.

    Args:
        builder: What lowerings build with.
        lower_call: Lowers the call of a module that begins at an operation, and returns where to go on; the
            same place where there is none.
    """
    ops, at = builder.traced.ops, 0
    calls: list[tuple[int, int]] = []
    while at < len(ops):
        end = at if lower_call is None else lower_call(at)
        if end > at:
            calls.append((at, end))
            builder.notes.layers += [
                f"{call.name} ({type(call.module).__name__})"
                for call in builder.traced.calls
                if (call.start, call.end) == (at, end)
            ]
            at = end
            continue
        with _noted(builder, ops[at]):
            _lower_op(builder, ops[at])
        at += 1
    with _noted(builder, None):
        builder.guards += lowered_guards(builder, calls)


@contextmanager
def _noted(builder: Builder, op: AlignedOp | None) -> Iterator[None]:
    """Collect an unsupported operation and continue, if the builder collects them; its results are then
    unknown."""
    try:
        yield
    except UnsupportedError as reason:
        notes = builder.notes
        if not notes.collect or isinstance(reason, CoincidenceError):
            raise
        if str(reason) not in notes.blockers:
            notes.blockers.append(str(reason))
        for number in () if op is None else op.outs:
            if number is not None:
                builder.known.pop(number, None)
                builder.unknown[number] = str(reason)


def _lower_op(builder: Builder, op: AlignedOp) -> None:
    builder.at = op
    try:
        _dispatch(builder, op)
    except UnsupportedError:
        raise
    except Exception as error:  # a defect of the lowering must not end the user's run
        raise UnsupportedError(
            f"the lowering of {op.name} at {op.line} fails ({described(error)})"
        ) from error


def _dispatch(builder: Builder, op: AlignedOp) -> None:
    if op.problem:
        builder.unsupported(op.problem)
    for ref in op.refs():
        if ref.id in builder.traced.foreign:
            builder.unsupported("uses a tensor that was computed from the graph outside of torch")
        if ref.id in builder.unknown:
            raise UnsupportedError(builder.unknown[ref.id])
    for number, shape in zip(op.outs, op.shapes, strict=True):
        if number is not None:
            builder.shapes[number] = shape
    if torch.Tag.nondeterministic_seeded in op.func.tags:
        builder.unsupported_later(op, "draws random numbers")
        return
    if _deduplicated(builder, op):
        return
    operands = builder.operands(op.args)
    sized = any(isinstance(leaf, Sized) for leaf in leaves(op.args))
    if op.name == "arange" and _numbers_nodes(builder, op):
        return
    if all(isinstance(o, Tensor) for o in operands) and not sized:
        _constant(builder, op)
        return
    if any(isinstance(o, Matrix) for o in operands):
        found = LOWERINGS.get(("sparse", op.name))
        if found is None:
            builder.unsupported("uses a sparse matrix in a way that is not supported")
        found.function(builder, op)
        return
    row_wise = is_pointwise(op.func) or op.name in COPIES
    if any(isinstance(o, Picked) for o in operands):
        on_picked(builder, op, row_wise)
        return
    tracked = [o for o in operands if not isinstance(o, Tensor)]
    if (
        tracked
        and all(isinstance(o, Tracked) and o.space is builder.graph for o in tracked)
        and not sized
        and not any(len(set(n)) > 1 for shape in op.shapes for n in shape)
        and not _reads_values(builder, op)
    ):
        each_by_itself(builder, op)
        return
    lowering = LOWERINGS.get("pointwise" if is_pointwise(op.func) else op.name)
    (on_everything if lowering is None else lowering.function)(builder, op)


def _reads_values(builder: Builder, op: AlignedOp) -> bool:
    """Whether a result, or its length, depends on values."""
    if op.name == "index":
        return any(ref is not None and builder.is_mask(builder[ref]) for ref in op.args["indices"])
    return reads_values(op.func)


def _deduplicated(builder: Builder, op: AlignedOp) -> bool:
    """Whether the same was computed before, e.g. because layers normalise the same edges."""
    key = (
        op.func,
        *(
            ("ref", builder.first.get(a.id, a.id)) if isinstance(a, Ref) else repr(a)
            for a in leaves(op.args)
        ),
        op.shapes,
    )
    outs = builder.done.setdefault(key, op.outs)
    if outs is op.outs or len(outs) != len(op.outs):
        return False
    for before, number in zip(outs, op.outs, strict=True):
        if number is None or before is None:
            continue
        builder.first[number] = before
        builder.shapes[number] = builder.shapes[before]
        if before in builder.known:
            builder.known[number] = builder.known[before]
        if before in builder.unknown:
            builder.unknown[number] = builder.unknown[before]
    return True


def _numbers_nodes(builder: Builder, op: AlignedOp) -> bool:
    """Whether an operation makes ids of nodes whose number is the same on all graphs."""
    end = op.args["end"]
    if isinstance(end, Sized) or op.args.get("start", 0) != 0 or op.args.get("step", 1) != 1:
        return False
    sizes = (end,) * builder.traced.graphs
    space = next((space for space in builder.nodes if space.sizes == sizes), None)
    if space is None or op.dtypes[0] != torch.long:
        return False
    builder.set(Tracked(builder.fixed(torch.arange(space.size), space), Layout(0), "id"))
    return True


def _constant(builder: Builder, op: AlignedOp) -> None:
    """Execute an operation that does not depend on the graph."""
    args, kwargs = bound(op, lambda ref: builder.known[ref.id])
    out = op.func(*args, **kwargs)
    for number, leaf in zip(op.outs, leaves(out), strict=False):
        if number is not None:
            builder.known[number] = leaf
