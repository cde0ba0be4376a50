"""From comparisons of sizes in the trace to guards on the sizes of spaces."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from nora.engine.guards import Guard, spaces_in
from nora.engine.lower.bindings import Bindings
from nora.engine.lower.known import Matrix, Picked, Pointers, Uniform
from nora.engine.trace.align import Sized
from nora.engine.trace.trace import Comparison, Ref
from nora.engine.unsupported import UnsupportedError


class _UnknownSizeError(Exception):
    """It is not known whose rows a size counts."""


def lowered_guards(tensors: Bindings, as_one: list[tuple[int, int]]) -> list[Guard]:
    """The guards of a program.

    Args:
        tensors: The bindings of the program's tensors.
        as_one: Spans of operations that were lowered as one layer. Comparisons inside of them do not matter,
            unless the user's own code makes them.

    Raises:
        UnsupportedError: Where a size was used in a way that cannot be checked.
    """
    found = []
    for one in tensors.traced.comparisons:
        if not one.own and any(start < one.at < end for start, end in as_one):
            continue
        try:
            guard = _guard(tensors, one)
        except _UnknownSizeError:
            if not one.own and any(one.at == end for _, end in as_one):  # of a tensor inside of it
                continue
            raise UnsupportedError(
                f"the model's Python code uses a size at {one.line} that depends on the graph in an unknown "
                "way"
            ) from None
        if guard is not None:
            found.append(guard)
    return found


def _guard(tensors: Bindings, one: Comparison) -> Guard | None:
    if one.operation == "thread":
        raise UnsupportedError(
            f"the model works in another thread at {one.line}, which is not traced"
        )
    if one.operation == "read":
        if isinstance(tensors.known.get(one.operands[0].id), Picked):
            raise UnsupportedError(
                f"the model's Python code reads how many rows a mask selects, at {one.line}, which depends "
                "on values"
            )
        return None
    if one.operation == "values":
        known = tensors.known.get(one.operands[0].id)
        if known is None:
            raise _UnknownSizeError
        if not isinstance(known, Tensor):
            raise UnsupportedError(
                f"the model's Python code reads values of a tensor that depends on the graph, at {one.line} "
                "(tolist or numpy)"
            )
        return None
    if one.operation == "given":
        if isinstance(one.operands[1], Sized):
            return None  # lowerings find out which size it is
        one = one._replace(operands=one.operands[:1])
    operands = tuple(_expression(tensors, part) for part in one.operands)
    spaces = [space for part in operands for space in spaces_in(part)]
    if all(space.everlasting for space in spaces):
        return None
    if one.operation == "hash" and not one.own:
        return None
    return Guard(
        "plain" if one.operation in ("hash", "given") else one.operation, operands, one.line
    )


def _expression(tensors: Bindings, given: Any) -> Any:
    """An expression in sizes of spaces."""
    if isinstance(given, Sized):
        space = tensors.space_of_size(given.values)
        if len(given.values) != tensors.traced.graphs or space is None:
            raise _UnknownSizeError
        return ("rows", space, 1)
    if not isinstance(given, tuple):
        return given
    operation, *parts = given
    if operation == "size":
        return _size(tensors, *parts)
    return (operation, *(_expression(tensors, part) for part in parts))


def _size(tensors: Bindings, ref: Ref, axis: int) -> Any:
    """The size of a tensor's axis: a number, or the rows of a space."""
    known = tensors.known.get(ref.id)
    if known is None or ref.id in tensors.traced.foreign:
        raise _UnknownSizeError
    if isinstance(known, Picked | Pointers):
        raise _UnknownSizeError
    if isinstance(known, Tensor):
        return known.size(axis)
    if isinstance(known, Matrix):
        return ("rows", (known.rows, known.columns)[axis], 1)
    if axis != known.layout.axis:
        sizes = tensors.shapes[ref.id][axis]
        if len(set(sizes)) > 1:
            raise _UnknownSizeError
        return sizes[0]
    space = tensors.space_of_size(known.sizes) if isinstance(known, Uniform) else known.space
    if space is None:
        raise _UnknownSizeError
    return ("rows", space, known.layout.factor)
