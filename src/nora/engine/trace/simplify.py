"""A trace without what depends on how memory lies."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import torch

from nora.engine.trace.trace import Ref, Trace, TracedOp, mapped, name_of

aten = torch.ops.aten


# The same under other names, depending on how memory happens to lie.
_SYNONYMS = {
    "_unsafe_view": aten.reshape.default,
    "view": aten.reshape.default,
    "_reshape_alias": aten.reshape.default,
    "unsafe_split": aten.split.Tensor,
}


@cache
def _synonym(func: Any) -> Any:
    """The equivalent of an operation, if it is in that list."""
    if any(argument.name == "dtype" for argument in func._schema.arguments):
        return None
    return _SYNONYMS.get(name_of(func))


_COPIES = ("clone", "alias", "detach", "contiguous", "lift_fresh_copy")


def _before_writing(op: TracedOp, after: TracedOp | None) -> bool:
    """Whether an operation only takes axes of size 1 off what is written next.

    torch does so where a single row is written, and not where there are several.
    """
    if (
        op.name not in ("view", "reshape")
        or after is None
        or after.name not in ("index_put", "copy")
    ):
        return False
    written = after.args[2 if after.name == "index_put" else 1] if len(after.args) > 1 else None
    return isinstance(written, Ref) and written.id == op.outs[0]


def simplified(trace: Trace) -> Trace:
    """The trace without copies, which depend on how memory lies and give nothing new."""
    number: dict[int, int] = {}
    for old in [*trace.inputs.values(), *trace.consts]:
        number.setdefault(old, len(number))
    ops: list[TracedOp] = []
    starts = [0]
    count = len(number)

    def other(leaf: Any) -> Any:
        return Ref(number[leaf.id]) if isinstance(leaf, Ref) else leaf

    def renamed(argument: Any) -> Any:
        return mapped(other, argument)

    for at, op in enumerate(trace.ops):
        given = op.args[0] if op.args else None
        after = trace.ops[at + 1] if at + 1 < len(trace.ops) else None
        copied = op.name in _COPIES or _before_writing(op, after)
        if copied and isinstance(given, Ref) and op.outs[0] is not None:
            number[op.outs[0]] = number[given.id]
            starts.append(len(ops))
            continue
        outs: list[int | None] = []
        for out in op.outs:
            if out is not None and out not in number:
                number[out] = count
                count += 1
            outs.append(None if out is None else number[out])
        func, args, kwargs = op.func, renamed(op.args), renamed(op.kwargs)
        synonym = _synonym(func)
        if synonym is not None:
            func = synonym
            if synonym is aten.reshape.default:
                args, kwargs = (args[0], list(op.shapes[0])), {}
        ops.append(replace(op, func=func, args=args, kwargs=kwargs, outs=tuple(outs)))
        starts.append(len(ops))
    calls = [
        replace(
            call,
            start=starts[call.start],
            end=starts[call.end],
            args=renamed(call.args),
            kwargs=renamed(call.kwargs),
            out=renamed(call.out),
        )
        for call in trace.calls
    ]
    return Trace(
        {name: number[old] for name, old in trace.inputs.items()},
        {number[old]: tensor for old, tensor in trace.consts.items()},
        ops,
        calls,
        renamed(trace.output),
        count,
        [
            one._replace(at=starts[one.at], operands=renamed(one.operands))
            for one in trace.comparisons
        ],
        trace.caught,
    )
