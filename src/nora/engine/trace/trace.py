"""Traces: operations in order, with numbers for tensors.

Arguments of operations are tensors and numbers in lists, tuples and dictionaries. `torch.utils._pytree` maps
any container; these occur thousands of times in a trace, and are plain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nora.model.lines import Line

# What is itself a leaf, and no subclass of a container: asked first, as most are.
_LEAVES = frozenset({int, float, bool, str, type(None), torch.dtype, Tensor})


def is_leaf(tree: Any) -> bool:
    """Whether it is a plain number, name or tensor: none of the containers, nor anything else."""
    return tree.__class__ in _LEAVES


def leaves(tree: Any) -> list[Any]:
    """Everything in it but lists, tuples and dictionaries, in order."""
    found: list[Any] = []
    _gather(tree, found)
    return found


def _gather(tree: Any, found: list[Any]) -> None:
    kind = tree.__class__
    if kind in _LEAVES:
        found.append(tree)
    elif isinstance(tree, list | tuple):
        for part in tree:
            _gather(part, found)
    elif isinstance(tree, dict):
        for part in tree.values():
            _gather(part, found)
    else:
        found.append(tree)


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same with `function` of every leaf."""
    kind = tree.__class__
    if kind in _LEAVES:
        return function(tree)
    if isinstance(tree, list | tuple):
        parts = [
            function(part) if part.__class__ in _LEAVES else mapped(function, part) for part in tree
        ]
        return tuple(parts) if isinstance(tree, tuple) else parts
    if isinstance(tree, dict):
        return {key: mapped(function, part) for key, part in tree.items()}
    return function(tree)


@cache
def name_of(func: Any) -> str:
    """An operation's name without namespace, e.g. `mm`."""
    return str(func._schema.name.split("::")[1])


class TooLongError(Exception):
    """The trace would have more operations than can be followed."""


# Frozen dataclasses take several times as long to make, and thousands of these are made.
@dataclass(slots=True, unsafe_hash=True)
class Ref:
    """A tensor on the trace."""

    id: int


@dataclass(slots=True, eq=False)
class TracedOp:
    """One operation.

    Attributes:
        func: The operation, in the form that writes to nothing.
        args, kwargs: Its arguments, with `Ref`s for tensors.
        outs: Numbers of the tensors it gives; None for other results.
        shapes, dtypes: Of each of these.
        line: Where it was asked for.
        result: What it gave, if that is a number.
        problem: Why it is not known to be a function of its arguments, if so.
    """

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outs: tuple[int | None, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[torch.dtype | None, ...]
    line: Line
    result: Any = None
    problem: str = ""

    @property
    def name(self) -> str:
        """Its name without namespace, e.g. `mm`."""
        return name_of(self.func)

    def refs(self) -> Iterator[Ref]:
        """The tensors it takes."""
        return (leaf for leaf in leaves((self.args, self.kwargs)) if isinstance(leaf, Ref))


@dataclass(frozen=True, eq=False)
class Call:
    """A module's call: operations `start … end − 1` compute `out` from the arguments."""

    module: nn.Module
    name: str
    start: int
    end: int
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    out: Any


class Comparison(NamedTuple):
    """Something that a model's Python asked of a size; see `size_log.py`.

    Attributes:
        operation: `eq`, `ne`, `lt`, `le`, `gt`, `ge` or `bool`; `plain` where something read the number,
            `hash` where it became text or a key, `given` where torch took it (the second operand is its
            value), `values` where the values of a tensor were read, `read` for its size.
        operands: Expressions: a number, `("size", Ref, axis)`, or `(operation, *expressions)`.
        at: How many operations were on the trace.
        line: Where.
        own: Whether the user's own code asked, not a library on its way.
    """

    operation: str
    operands: tuple[Any, ...]
    at: int
    line: Line
    own: bool = True


@dataclass(eq=False)
class Trace:
    """The operations of a forward pass.

    Attributes:
        inputs: The number of every tensor that was given, by name.
        consts: Bindings that were there before: weights, buffers.
        ops: The operations, in order.
        calls: Calls of the modules that were watched, inner ones first.
        output: What the pass returned, with `Ref`s for tensors.
        count: How many numbers are used.
        comparisons: What the model's Python asked of sizes, in order.
        caught: Where the user's code caught an error of torch.
    """

    inputs: dict[str, int] = field(default_factory=dict)
    consts: dict[int, Tensor] = field(default_factory=dict)
    ops: list[TracedOp] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    output: Any = None
    count: int = 0
    comparisons: list[Comparison] = field(default_factory=list)
    caught: list[Line] = field(default_factory=list)
