"""Facts from an operation's schema: the arguments it writes to, and whether its result is a view."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch

aten = torch.ops.aten

# Statements in place that write nothing: the tensor looks at its memory otherwise.
_TURNS: dict[str, Callable[[Any], Any]] = {
    "aten::transpose_": lambda _: aten.transpose.int,
    "aten::t_": lambda _: aten.t.default,
    "aten::unsqueeze_": lambda _: aten.unsqueeze.default,
    "aten::squeeze_": lambda func: getattr(aten.squeeze, func._overloadname),
}


class SchemaFacts(NamedTuple):
    """Facts from an operation's schema.

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
