"""Prefetch rows that will be read soon.

Original rows are read in random order, each once, so most of that time is waiting for memory. With a
prefetch, the processor loads the next rows while it works on the current ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

jit: Callable[..., Any] = njit(nogil=True, cache=True)
LINE = 64
# How far ahead of the row at hand rows are asked for: this many bytes of them, and no fewer than two rows.
AHEAD_BYTES = 4096


@intrinsic
def _fetch(_: Any, array: Any, row: Any, offset: Any) -> Any:
    """Ask for the line at `offset` bytes of a row: a hint, which reads and changes nothing."""

    def made(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = signature.args[0]
        found = context.make_array(kind)(context, builder, values[0])
        stride = cgutils.unpack_tuple(builder, found.strides, kind.ndim)[0]
        start = builder.ptrtoint(found.data, stride.type)
        place = builder.add(builder.add(start, builder.mul(values[1], stride)), values[2])
        pointer = builder.inttoptr(place, ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        asked = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], asked)
        # To be read, kept in all caches, data.
        builder.call(function, [pointer, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.none(array, types.intp, types.intp), made


@jit
def prefetch(array, row):
    """Ask for one row of an array."""
    for offset in range(0, array.strides[0], LINE):
        _fetch(array, row, offset)


@jit
def prefetch_number(array, at):
    """Ask for one number of an array, and those beside it; `at` may be beyond its end."""
    _fetch(array, at, 0)


@jit
def rows_ahead(array):
    """How many rows ahead of the current one are prefetched."""
    return max(2, AHEAD_BYTES // max(1, array.strides[0]))
