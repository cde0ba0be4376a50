"""The numbers on a trace: what is left of a pass over a large graph when the pass is not made again.

A model does the same operations on a small graph as on a large one; only sizes differ. So its trace on the
large graph is its trace on a small one with other numbers in it. Only these are kept: which operations there
are always comes from the model itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nora.engine.trace.trace import Comparison, Ref, Trace, leaves, mapped
from nora.model.lines import Line

RecordedSizes = dict[str, Any]


class OtherTraceError(ValueError):
    """The numbers are those of another model's trace."""


def sizes_of(trace: Trace) -> RecordedSizes:
    """Every number on a trace, in order, as JSON can hold it."""
    return {
        "operations": [
            [
                op.name,
                _numbers((op.args, op.kwargs)),
                [list(s) for s in op.shapes],
                _number(op.result),
            ]
            for op in trace.ops
        ],
        "calls": [[call.name, _numbers((call.args, call.kwargs))] for call in trace.calls],
        "comparisons": [
            [one.operation, [_written(p) for p in one.operands], one.at, list(one.line), one.own]
            for one in trace.comparisons
        ],
    }


def with_sizes(trace: Trace, sizes: RecordedSizes) -> Trace:
    """The trace with other numbers.

    Raises:
        OtherTraceError: When they were read off a trace of other operations.
    """
    operations, calls = sizes["operations"], sizes["calls"]
    if len(operations) != len(trace.ops) or len(calls) != len(trace.calls):
        raise OtherTraceError(
            f"expected {len(operations)} operations and {len(calls)} calls, got {len(trace.ops)} and "
            f"{len(trace.calls)}"
        )
    new = []
    for op, (name, numbers, shapes, result) in zip(trace.ops, operations, strict=True):
        if name != op.name or [len(s) for s in shapes] != [len(s) for s in op.shapes]:
            raise OtherTraceError(f"expected {name}, got {op.name} at {op.line}")
        args, kwargs = _with_numbers((op.args, op.kwargs), numbers, op.name)
        new.append(
            replace(
                op,
                args=args,
                kwargs=kwargs,
                shapes=tuple(tuple(shape) for shape in shapes),
                result=op.result if result is None else result,
            )
        )
    called = []
    for call, (name, numbers) in zip(trace.calls, calls, strict=True):
        if name != call.name:
            raise OtherTraceError(f"expected a call of {name}, got {call.name}")
        args, kwargs = _with_numbers((call.args, call.kwargs), numbers, name)
        called.append(replace(call, args=args, kwargs=kwargs))
    if "comparisons" not in sizes:
        raise OtherTraceError(
            "it was saved by an earlier version, without comparisons of sizes: prepare it again"
        )
    comparisons = [
        Comparison(operation, tuple(_read(part) for part in operands), at, Line(*line), own)
        for operation, operands, at, line, own in sizes["comparisons"]
    ]
    return replace(trace, ops=new, calls=called, comparisons=comparisons)


def _written(expression: Any) -> Any:
    """An expression as JSON can hold it."""
    if isinstance(expression, Ref):
        return {"tensor": expression.id}
    return [_written(part) for part in expression] if isinstance(expression, tuple) else expression


def _read(written: Any) -> Any:
    """The inverse of `_written`."""
    if isinstance(written, dict):
        return Ref(int(written["tensor"]))
    return tuple(_read(part) for part in written) if isinstance(written, list) else written


def _number(leaf: Any) -> int | float | None:
    plain = isinstance(leaf, int | float) and not isinstance(leaf, bool)
    return leaf if plain else None


def _numbers(tree: Any) -> list[int | float]:
    return [leaf for leaf in leaves(tree) if _number(leaf) is not None]


def _with_numbers(tree: Any, numbers: list[int | float], where: str) -> Any:
    if len(_numbers(tree)) != len(numbers):
        raise OtherTraceError(f"{where} takes another number of sizes than the saved one")
    left = iter(numbers)
    return mapped(lambda leaf: leaf if _number(leaf) is None else next(left), tree)
