"""Call an operation on rows, whichever of its arguments holds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nora.engine.ir.op import Form
from nora.engine.lower.known import Layout, RowCount, Uniform
from nora.engine.trace.align import AlignedOp
from nora.engine.trace.trace import Ref, is_leaf, mapped

aten = torch.ops.aten
# From rows of the inputs and their number to the operation's results.
RowFunction = Callable[[Sequence[Tensor], int], list[Any]]


def form_of(name: str, args: Mapping[str, Any], slots: Mapping[int, Any]) -> Form:
    """The form of an operation as a row-wise function; see `RowOp`."""
    if name == "relu":
        return "relu"
    if name in ("mm", "addmm"):
        by = args.get("mat2")
        return "affine" if isinstance(by, Ref) and isinstance(slots[by.id], Tensor) else ""
    return "affine" if name in ("add", "sub") else ""


@dataclass(frozen=True)
class RowSlot:
    """An argument of an operation that holds rows: which input, and its layout."""

    place: int
    layout: Layout


def row_call(
    op: AlignedOp, func: Any, given: Mapping[str, Any], slots: Mapping[int, Any]
) -> RowFunction:
    """An operation as a function of rows.

    Args:
        op: The operation.
        func: What is called.
        given: Its arguments by name.
        slots: What stands in place of each `Ref`: a `RowSlot`, a `Uniform`, or a tensor.
    """
    args, kwargs = bound(op, lambda ref: slots[ref.id], given, func)
    func = _copied if func is aten.copy.default else func
    return _simply(func, args, kwargs) or _anyhow(func, args, kwargs)


def _simply(operation: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> RowFunction | None:
    """`operation` of rows, where they are arguments themselves and lie first; None else.

    Asked for every block of rows, of which there may be thousands in a second.
    """
    if not all(is_leaf(leaf) for leaf in kwargs.values()):
        return None
    if not all(is_leaf(a) or (isinstance(a, RowSlot) and a.layout == Layout(0)) for a in args):
        return None
    places = [(a.place, None) if isinstance(a, RowSlot) else (None, a) for a in args]

    def call(rows: Sequence[Tensor], count: int) -> list[Any]:
        out = operation(*[a if at is None else rows[at] for at, a in places], **kwargs)
        return list(out) if isinstance(out, tuple | list) else [out]

    return call


def _anyhow(operation: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> RowFunction:
    """`operation` of rows, wherever they are among its arguments and however they lie."""

    def call(rows: Sequence[Tensor], count: int) -> list[Any]:
        def put(a: Any) -> Any:
            if isinstance(a, RowSlot):
                return a.layout.tensor(rows[a.place])
            if isinstance(a, Uniform):
                return a.layout.tensor(a.rows.expand(count, *a.rows.shape[1:]))
            if isinstance(a, RowCount):
                return a.factor * count
            return a

        out = operation(*mapped(put, args), **mapped(put, kwargs))
        return list(out) if isinstance(out, tuple | list) else [out]

    return call


def bound(
    op: AlignedOp,
    put: Callable[[Ref], Any],
    given: Mapping[str, Any] | None = None,
    func: Any = None,
) -> tuple[list[Any], dict[str, Any]]:
    """An operation's arguments by position and by name, with `put` in place of every `Ref`."""
    given = op.args if given is None else given
    positional, named = [], {}
    for argument in (func or op.func)._schema.arguments:
        value = mapped(lambda a: put(a) if isinstance(a, Ref) else a, given[argument.name])
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            positional.append(value)
    return positional, named


def _copied(own: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """`aten.copy` with a derivative."""
    return source.to(own.dtype).expand_as(own)


def width_of(shape: tuple[tuple[int, ...], ...], layout: Layout) -> int:
    """Numbers per row."""
    numel = layout.factor
    for axis, sizes in enumerate(shape):
        if axis != layout.axis:
            numel *= sizes[0]
    return numel
