"""Sizes that remember where they come from, so that what a model does with them can be checked again.

A trace is true for the sizes it saw. `if e.size(1) == 0: continue` leaves no operation behind, but another
graph may take the other branch. While a pass is recorded, sizes of tensors are handed out as `Size`, which
knows its expression (an axis of a tensor, or arithmetic on such). Three things can happen to it:

- It is compared: the comparison is noted with its line, and must come out the same after an edit.
- It is given to torch: the alignment of several traces follows it; where it is the same number on all
  of them, the number must be the same after an edit.
- It leaves: C code, `int`, `float`, a dictionary or text reads the number itself. What happens with it
  then is not known, so the number must be the same after an edit.

Nothing can read the number in another way: `Size` is no `int`, only says so to `isinstance`. It derives from
`torch.SymInt`, which torch accepts wherever it takes a number.
"""

from __future__ import annotations

import builtins
import math
import operator
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial, reduce
from pathlib import Path
from threading import Thread, local
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._functorch import vmap
from torch._ops import OpOverload, OpOverloadPacket

from nora.engine.trace.plain_ops import Rewritten
from nora.engine.trace.trace import Comparison, Ref, TooLongError
from nora.model.lines import current_line, is_own_file

# A number, ("size", Ref, axis), or (operation, *expressions).
Expression = Any
# A model that makes more comparisons than this loops over nodes or edges in Python.
MOST_COMPARISONS = 50_000
_PACKAGE = Path(__file__).parents[2]


class SizeLog:
    """Takes note of what is done with sizes during one pass.

    Args:
        number: The number of a tensor on the trace; None for what is not on it.
        position: How many operations are on the trace.
    """

    def __init__(self, number: Callable[[Tensor], int | None], position: Callable[[], int]) -> None:
        self._number, self._position = number, position
        self._found: dict[tuple[Any, ...], Comparison] = {}
        self.open = True

    @property
    def found(self) -> list[Comparison]:
        """Every distinct comparison, in order."""
        return list(self._found.values())

    def size(self, tensor: Tensor, axis: int, value: int) -> Any:
        """The size of an axis, as one that remembers."""
        number = self._number(tensor)
        if number is None:
            return value
        self.enter("read", Ref(number))
        return Size(value, ("size", Ref(number), axis % max(tensor.dim(), 1)), self)

    def values(self, tensor: Tensor) -> None:
        """The values of a tensor are read."""
        number = self._number(tensor)
        if number is not None:
            self.enter("values", Ref(number))

    def note(self, operation: str, *operands: Expression) -> None:
        """Note what the caller's caller does with a size, once for each place on the trace."""
        file = sys._getframe(2).f_code.co_filename
        if self.open and not _is_ours(file):
            self.enter(operation, *operands, own=is_own_file(file))

    def enter(self, operation: str, *operands: Expression, own: bool = True) -> None:
        """Note it, whatever code does it."""
        at, line = self._position(), current_line()
        key = (operation, operands, at, line)
        if len(self._found) >= MOST_COMPARISONS and key not in self._found:
            raise TooLongError(f"more than {MOST_COMPARISONS:,} comparisons of sizes at {line}")
        self._found.setdefault(key, Comparison(operation, operands, at, line, own))


@cache
def _is_ours(file: str) -> bool:
    """Whether a file is of this package and no model: what we compare ourselves is not the model's."""
    return file.startswith(str(_PACKAGE)) and not file.startswith(str(_PACKAGE / "models"))


class _Number:
    """The base of `Size` and `Fraction`."""

    def __init__(self, value: Any, expression: Expression, log: SizeLog) -> None:
        self.value, self.expression, self.log = value, expression, log

    @property
    def node(self) -> Any:
        """The node that torch asks if it needs the number itself."""
        return self

    def guard_int(self, *_: Any) -> int:
        """The number itself, for code below Python."""
        self.log.note("plain", self.expression)
        return int(self.value)

    def guard_float(self, *_: Any) -> float:
        """The number itself, for code below Python."""
        self.log.note("plain", self.expression)
        return float(self.value)

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        self.log.note("plain", self.expression)
        return getattr(function, method)(*map(plain_number, inputs), **options)

    def __getattr__(self, name: str) -> Any:
        """The other attributes of a number (`bit_length`, `numerator`)."""
        found = getattr(self.value, name)
        self.log.note("plain", self.expression)
        return found

    def is_nested_int(self) -> bool:
        """Torch asks this of its own symbols."""
        return False

    def __reduce__(self) -> Any:
        self.log.note("plain", self.expression)
        return type(self.value), (self.value,)

    def __deepcopy__(self, _: Any) -> Any:
        return self

    def __copy__(self) -> Any:
        return self

    def __bool__(self) -> bool:
        self.log.note("bool", self.expression)
        return self.value != 0

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self


class Size(_Number, torch.SymInt):
    """A size, or whole-number arithmetic on sizes, with its expression."""

    __class__ = property(lambda _: int)


class Fraction(_Number, torch.SymFloat):
    """Other arithmetic on sizes, with its expression."""

    __class__ = property(lambda _: float)


_NUMBERS = (Size, Fraction)


def plain_number(number: Any) -> Any:
    """A number without its expression."""
    return number.value if type(number) in _NUMBERS else number


def _expression(number: Any) -> Expression:
    return number.expression if type(number) in _NUMBERS else number


def _made(value: Any, expression: Expression, log: SizeLog) -> Any:
    if isinstance(value, bool | complex):
        return value
    return (Size if isinstance(value, int) else Fraction)(value, expression, log)


def _is_number(other: Any) -> bool:
    return type(other) in _NUMBERS or isinstance(other, int | float)


def _binary(operation: str, reflected: bool) -> Any:
    function = getattr(operator, operation)

    def method(self: Any, other: Any) -> Any:
        if not _is_number(other):
            return NotImplemented  # a tensor, a list, an array
        pair = (other, self) if reflected else (self, other)
        if operation in ("truediv", "floordiv", "mod") and type(pair[1]) in _NUMBERS:
            self.log.note("bool", pair[1].expression)  # by zero it would raise
        value = function(*map(plain_number, pair))
        return _made(value, (operation, *map(_expression, pair)), self.log)

    return method


def _unary(operation: str, function: Callable[[Any], Any]) -> Any:
    def method(self: Any, *digits: Any) -> Any:
        if any(digit is not None for digit in digits):
            self.log.note("plain", self.expression)
            return function(self.value, *digits)
        return _made(function(self.value), (operation, self.expression), self.log)

    return method


def _compared(operation: str) -> Any:
    function = getattr(operator, operation)

    def method(self: Any, other: Any) -> Any:
        if not _is_number(other):
            return NotImplemented
        self.log.note(operation, self.expression, _expression(other))
        return function(self.value, plain_number(other))

    return method


def _leaving(function: Callable[..., Any], operation: str = "plain", rounded: bool = False) -> Any:
    """The methods that read the number itself."""

    def method(self: Any, *others: Any) -> Any:
        whole = ("trunc", self.expression) if rounded else self.expression
        self.log.note(operation, whole)
        return function(self.value, *map(plain_number, others))

    return method


for _class in _NUMBERS:
    for _name in ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow"):
        setattr(_class, f"__{_name}__", _binary(_name, False))
        setattr(_class, f"__r{_name}__", _binary(_name, True))
    for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(_class, f"__{_name}__", _compared(_name))
    for _name in ("neg", "pos", "abs", "floor", "ceil", "round", "trunc"):
        _function: Any = getattr(operator, _name, None) or getattr(math, _name, None) or round
        setattr(_class, f"__{_name}__", _unary(_name, _function))
    setattr(_class, "__int__", _leaving(int, rounded=_class is Fraction))  # noqa: B010
    setattr(_class, "__float__", _leaving(float))  # noqa: B010
    setattr(_class, "__complex__", _leaving(complex))  # noqa: B010
    setattr(_class, "__array__", _leaving(lambda value, *_, **__: np.asarray(value)))  # noqa: B010
    # Text and keys: noted where the user's own code asks for it.
    for _name in ("hash", "str", "repr", "format"):
        setattr(_class, f"__{_name}__", _leaving(getattr(builtins, _name), "hash"))
setattr(Size, "__index__", _leaving(operator.index))  # noqa: B010
setattr(Size, "__invert__", _leaving(operator.invert))  # noqa: B010
for _name in ("and", "or", "xor", "lshift", "rshift"):
    _bits = getattr(operator, f"__{_name}__")
    setattr(Size, f"__{_name}__", _leaving(_bits))
    setattr(Size, f"__r{_name}__", _leaving(lambda a, b, bits=_bits: bits(b, a)))

_SHAPE = torch.Tensor.shape.__get__  # type: ignore[attr-defined]
_VALUES = (
    torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.__dlpack__,
)  # fmt: skip
_CROSS = (torch.cross, torch.Tensor.cross)
# Sizes in another guise, and text.
_OWN_VALUES = (
    torch.Tensor.stride, torch.Tensor.nbytes.__get__, torch.Tensor.untyped_storage, torch.Tensor.storage,  # type: ignore[attr-defined]
    torch.Tensor.storage_offset, torch._shape_as_tensor, torch.Tensor.__repr__, torch.Tensor.__format__,
)  # fmt: skip
# Functions of torch that return or use a size.
_WATCHED = {
    _SHAPE, torch.Tensor.size, torch.Tensor.numel, torch.numel, torch.Tensor.nelement, torch.Tensor.__len__,
    *_CROSS, *_VALUES, *_OWN_VALUES,
}  # fmt: skip
# Arguments that contain no size.
_PLAIN = frozenset({Tensor, torch.nn.Parameter, int, float, bool, type(None), str})
# Where torch's methods of tensors that are written in Python are.
_METHODS = (torch._tensor.__file__, torch.overrides.__file__, torch._ops.__file__)
# What torch raises where a size does not fit.
_MISFITS = (RuntimeError, IndexError, ValueError)


class SizeMode(Rewritten):
    """Hands out the sizes of tensors as `Size`, and gives torch the numbers.

    Attributes:
        raised: Where torch has raised an error because something did not fit.
    """

    def __init__(self, log: SizeLog) -> None:
        super().__init__()
        self.log = log
        self.raised: list[Any] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs, log = kwargs or {}, self.log
        sizes: list[Any] = []
        if not _PLAIN.issuperset(map(type, args)):
            args = self._given(args, sizes)
        if kwargs:
            kwargs = self._given(kwargs, sizes)
        for one in sizes:
            if one.expression[0] != "size":  # sizes as they are differ between the traces
                log.note("given", one.expression, one.value)
        try:
            out = super().__torch_function__(func, types, args, kwargs)
        except _MISFITS:
            if _is_called_by_user():
                self.raised.append(current_line())
            raise
        if sizes and isinstance(out, bool | int | float):
            for one in sizes:
                log.note("plain", one.expression)
        if isinstance(func, OpOverload | OpOverloadPacket) and isinstance(out, int | list):
            log.values(args[0])  # torch.ops.aten.size and its kin, below what is watched
        if func not in _WATCHED:
            return out
        if func == _SHAPE or (func is torch.Tensor.size and isinstance(out, torch.Size)):
            return torch.Size(log.size(args[0], axis, n) for axis, n in enumerate(out))
        if func is torch.Tensor.size:
            return log.size(args[0], int(args[1] if len(args) > 1 else kwargs["dim"]), out)
        if func in (torch.Tensor.numel, torch.numel, torch.Tensor.nelement):
            return self._numel(args[0] if args else kwargs["input"], out)
        if func is torch.Tensor.__len__:
            return log.size(args[0], 0, out)
        if func in _CROSS and kwargs.get("dim", args[2] if len(args) > 2 else None) is None:
            self._first_of_three(args[0] if args else kwargs["input"])
        if func in _VALUES or (func in _OWN_VALUES and _is_called_by_user()):
            log.values(args[0])
        return out

    def wrapper(self, made: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        """A tensor of a subclass (`EdgeIndex`), made by C++ with plain numbers for its sizes."""
        sizes: list[Any] = []
        args, kwargs = self._given(args, sizes), self._given(kwargs, sizes)
        for one in sizes:
            if one.expression[0] != "size":
                self.log.enter("given", one.expression, one.value)
        return made(*args, **kwargs)

    def _given(self, argument: Any, sizes: list[Any]) -> Any:
        """The arguments for torch, with plain numbers for sizes, which are collected."""
        kind = type(argument)
        if kind in _NUMBERS:
            sizes.append(argument)
            return argument.value
        if kind in (tuple, list, torch.Size):
            return kind([self._given(one, sizes) for one in argument])
        if kind is dict:
            return {name: self._given(one, sizes) for name, one in argument.items()}
        if kind is slice:
            parts = (argument.start, argument.stop, argument.step)
            return slice(*(self._given(one, sizes) for one in parts))
        return argument

    def _first_of_three(self, tensor: Tensor) -> None:
        """Note what a cross product without `dim` compares: it takes the first axis of size 3."""
        for axis, n in enumerate(tensor.shape):
            self.log.enter("eq", _expression(self.log.size(tensor, axis, n)), 3)
            if n == 3:
                return

    def _numel(self, tensor: Tensor, out: int) -> int:
        sizes = [self.log.size(tensor, axis, n) for axis, n in enumerate(tensor.shape)]
        return reduce(operator.mul, sizes) if sizes else out


def _is_called_by_user() -> bool:
    """Whether the user's own code calls the function of torch that has just been entered."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename in _METHODS:
        frame = frame.f_back
    return frame is not None and is_own_file(frame.f_code.co_filename)


def _noting_threads(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that starts work in another thread, which no mode of torch follows."""

    def started(*args: Any, **kwargs: Any) -> Any:
        log = getattr(_here, "log", None)
        if log is not None:
            log.enter("thread")
        return function(*args, **kwargs)

    return started


_len = builtins.len
_here = local()


def _measured(sized: Any, /) -> int:
    """`len`, which Python would make a plain number of."""
    log = getattr(_here, "log", None)
    if log is None or not isinstance(sized, Tensor):
        return _len(sized)
    return log.size(sized, 0, _len(sized))


@contextmanager
def sizes_noted(log: SizeLog) -> Iterator[SizeMode]:
    """Log in `log` how this thread uses sizes; one thread at a time (see `record`)."""
    outer, before = getattr(_here, "log", None), builtins.len
    start, submit = Thread.start, ThreadPoolExecutor.submit
    batch, made = vmap._validate_and_get_batch_size, torch.Tensor._make_wrapper_subclass
    with SizeMode(log) as mode:
        _here.log, builtins.len = log, _measured
        Thread.start = _noting_threads(start)  # type: ignore[method-assign]
        ThreadPoolExecutor.submit = _noting_threads(submit)  # type: ignore[method-assign]
        # These two are asked for by C++ alone.
        vmap._validate_and_get_batch_size = lambda *given: plain_number(batch(*given))
        torch.Tensor._make_wrapper_subclass = partial(mode.wrapper, made)  # type: ignore[method-assign]
        try:
            yield mode
        finally:
            log.open = False
            Thread.start, ThreadPoolExecutor.submit = start, submit  # type: ignore[method-assign]
            _here.log, builtins.len, vmap._validate_and_get_batch_size = outer, before, batch
            if outer is None:
                del torch.Tensor._make_wrapper_subclass  # the inherited one is back
            else:
                torch.Tensor._make_wrapper_subclass = made  # type: ignore[method-assign]
