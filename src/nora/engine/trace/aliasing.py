"""What operations do with memory: what they write to, and what is a view, a window on memory.

What is written through a view is put back into what it looks at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch

from nora.engine.trace.trace import Ref

aten = torch.ops.aten
# Writes an operation on the trace: function, arguments by place and by name, shape and dtype of its result.
Emit = Callable[..., int]
# Statements in place that write nothing: the tensor looks at its memory otherwise.
_TURNS: dict[str, Callable[[Any], Any]] = {
    "aten::transpose_": lambda _: aten.transpose.int,
    "aten::t_": lambda _: aten.t.default,
    "aten::unsqueeze_": lambda _: aten.unsqueeze.default,
    "aten::squeeze_": lambda func: getattr(aten.squeeze, func._overloadname),
}


class SchemaFacts(NamedTuple):
    """What an operation's schema says of it.

    Attributes:
        turn: What it is as a view, where it only looks at its memory otherwise.
        written: Places and names of the arguments that it writes to.
        is_view: Whether what it gives shares memory with its first argument.
    """

    turn: Any
    written: tuple[tuple[int, str], ...]
    is_view: bool


@cache
def schema_facts(func: Any) -> SchemaFacts:
    """Facts about an operation, from its schema."""
    schema = func._schema
    turn = _TURNS.get(schema.name)
    written = tuple(
        (place, argument.name)
        for place, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )
    is_view = any(
        r.alias_info is not None and not r.alias_info.is_write for r in schema.returns
    ) or schema.name.split("::")[1].startswith(("unsafe_", "_unsafe_view"))
    return SchemaFacts(None if turn is None else turn(func), written, is_view)


@dataclass(frozen=True)
class Link:
    """One view: `func(whole, *args, **kwargs)[place]`."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    place: int | None
    before: tuple[int, ...]
    after: tuple[int, ...]


def put_back(link: Link, whole: int, part: int, dtype: torch.dtype, emit: Emit) -> int:
    """The number of `whole` with the part that a view shows replaced by another."""
    name = link.func._schema.name.split("::")[1]
    args, shape = link.args, link.before
    size = len(shape)
    parts = (Ref(whole), Ref(part))
    if name in ("alias", "detach", "lift_fresh", "view_as"):
        return part
    if name == "select":
        return emit(aten.select_scatter.default, (*parts, *args), {}, shape, dtype)
    if name == "slice":
        return emit(aten.slice_scatter.default, (*parts, *args), {}, shape, dtype)
    if name in ("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "_reshape_alias"):
        return emit(aten.reshape.default, (Ref(part), list(shape)), {}, shape, dtype)
    if name == "t":
        return emit(aten.t.default, (Ref(part),), {}, shape, dtype)
    if name == "transpose":
        return emit(aten.transpose.int, (Ref(part), *args), {}, shape, dtype)
    if name == "permute":
        back = torch.tensor([d % size for d in args[0]]).argsort().tolist()
        return emit(aten.permute.default, (Ref(part), back), {}, shape, dtype)
    if name in ("split", "unsafe_split", "split_with_sizes", "chunk", "unsafe_chunk"):
        return _put_back_part(link, parts, dtype, emit)
    if name == "unbind" and link.place is not None:
        dim = args[0] if args else 0
        return emit(aten.select_scatter.default, (*parts, dim, link.place), {}, shape, dtype)
    return emit(
        link.func, (Ref(part),), {}, shape, dtype,
        problem=f"writes into a part of a tensor made by {name}",
    )  # fmt: skip


def _put_back_part(link: Link, parts: tuple[Ref, Ref], dtype: torch.dtype, emit: Emit) -> int:
    """`whole` with one of several equal parts along an axis replaced by another."""
    dim = int(link.args[1]) if len(link.args) > 1 else int(link.kwargs.get("dim", 0))
    dim %= len(link.before)
    place, how = link.place or 0, link.args[0]
    if isinstance(how, list | tuple):
        start = sum(how[:place])
    elif "chunk" in link.func._schema.name:
        start = place * -(-link.before[dim] // how)
    else:
        start = place * how
    end = start + link.after[dim]
    return emit(aten.slice_scatter.default, (*parts, dim, start, end, 1), {}, link.before, dtype)
