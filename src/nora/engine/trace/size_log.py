"""Sizes that remember where they come from, so that a comparison in a model's Python can be checked again.

A trace is true for the sizes it saw. `if e.size(1) == 0: continue` leaves no operation behind, but another
graph may take the other branch. While a pass is recorded, sizes of tensors are handed out as `Size`, an `int`
that knows its expression (an axis of a tensor, or arithmetic on such); comparing one is noted with its line.
`engine/guards.py` checks after every edit that each comparison still comes out as it did.

Making a plain number of a size is noted as such: `int(n * 0.5)`, `math.log(n)`, `tensor.tolist()`, and what
the source shows where C reads a size as it is (`plain_uses.py`).
"""

from __future__ import annotations

import builtins
import math
import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, reduce
from pathlib import Path
from threading import local
from typing import Any

import torch
from torch import Tensor

from nora.engine.trace.plain_ops import Rewritten
from nora.engine.trace.plain_uses import read_as_plain
from nora.engine.trace.trace import Comparison, Ref, TooLongError
from nora.model.lines import current_line, is_own_file, own_frame

# A number, ("size", Ref, axis), or (operation, *expressions).
Expression = Any
# A model that makes more comparisons than this loops over nodes or edges in Python.
MOST_COMPARISONS = 50_000
_PACKAGE = Path(__file__).parents[2]
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "bool")


class SizeLog:
    """Takes note of comparisons during one pass.

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

    def size(self, tensor: Tensor, axis: int, value: int) -> int:
        """The size of an axis, as one that remembers."""
        number = self._number(tensor)
        if number is None:
            return value
        self._enter("read", Ref(number))
        expression = ("size", Ref(number), axis % max(tensor.dim(), 1))
        if read_as_plain(own_frame()):
            self._enter("plain", expression)
        return Size(value, expression, self)

    def values(self, tensor: Tensor) -> None:
        """The values of a tensor are read."""
        number = self._number(tensor)
        if number is not None:
            self._enter("values", Ref(number))

    def note(self, operation: str, *operands: Expression) -> None:
        """Note a comparison, once for each place on the trace."""
        if self.open and not _is_ours(sys._getframe(2).f_code.co_filename):
            own = is_own_file(sys._getframe(2).f_code.co_filename)
            self._enter(operation, *operands, own=own)

    def compared(self, operation: str, *operands: Expression) -> None:
        """Note a comparison that torch itself makes below Python."""
        if self.open:
            self._enter(operation, *operands)

    def _enter(self, operation: str, *operands: Expression, own: bool = True) -> None:
        at, line = self._position(), current_line()
        key = (operation, operands, at, line)
        if len(self._found) >= MOST_COMPARISONS and key not in self._found:
            raise TooLongError(f"more than {MOST_COMPARISONS:,} comparisons of sizes at {line}")
        self._found.setdefault(key, Comparison(operation, operands, at, line, own))


@cache
def _is_ours(file: str) -> bool:
    """Whether a file is of this package and no model: what we compare ourselves is not the model's."""
    return file.startswith(str(_PACKAGE)) and not file.startswith(str(_PACKAGE / "models"))


def _plain(number: Any) -> int | float:
    """A number without its expression."""
    if isinstance(number, float):
        return float.__float__(number)
    return int.__int__(number)


def _expression(number: Any) -> Expression:
    return getattr(number, "expression", None) or _plain(number)


class Size(int):
    """A size, or whole-number arithmetic on sizes, with its expression."""

    expression: Expression
    log: SizeLog

    def __new__(cls, value: int, expression: Expression, log: SizeLog) -> Size:
        """See the class."""
        found = super().__new__(cls, value)
        found.expression, found.log = expression, log
        return found


class Fraction(float):
    """Other arithmetic on sizes, with its expression."""

    expression: Expression
    log: SizeLog

    def __new__(cls, value: float, expression: Expression, log: SizeLog) -> Fraction:
        """See the class."""
        found = super().__new__(cls, value)
        found.expression, found.log = expression, log
        return found


def _made(value: Any, expression: Expression, log: SizeLog) -> Any:
    if isinstance(value, int):
        return Size(value, expression, log)
    return Fraction(value, expression, log) if isinstance(value, float) else value


def _binary(operation: str, reflected: bool) -> Any:
    function = getattr(operator, operation)

    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, int | float):
            if isinstance(other, list | tuple | str | bytes):  # repeated in C
                self.log.note("plain", self.expression)
            return NotImplemented
        pair = (other, self) if reflected else (self, other)
        value = function(*map(_plain, pair))
        return _made(value, (operation, *map(_expression, pair)), self.log)

    return method


def _unary(operation: str, function: Callable[[Any], Any]) -> Any:
    def method(self: Any, *digits: Any) -> Any:
        if any(digit is not None for digit in digits):
            return _as_plain(lambda one: round(one, *digits))(self)
        return _made(function(_plain(self)), (operation, self.expression), self.log)

    return method


def _compared(operation: str) -> Any:
    function = getattr(operator, operation)

    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, int | float):
            return NotImplemented
        self.log.note(operation, self.expression, _expression(other))
        return function(_plain(self), _plain(other))

    return method


def _as_plain(function: Callable[..., Any], operation: str = "plain") -> Any:
    def method(self: Any, *others: Any) -> Any:
        self.log.note(operation, self.expression)
        return function(_plain(self), *(o if isinstance(o, str) else _plain(o) for o in others))

    return method


def _member(name: str) -> Callable[..., Any]:
    return lambda number, *others: getattr(number, name)(*others)


def _true(self: Any) -> bool:
    self.log.note("bool", self.expression)
    return _plain(self) != 0


for _class in (Size, Fraction):
    for _name in ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow"):
        setattr(_class, f"__{_name}__", _binary(_name, False))
        setattr(_class, f"__r{_name}__", _binary(_name, True))
    for _name in COMPARISONS[:-1]:
        setattr(_class, f"__{_name}__", _compared(_name))
    for _name in ("neg", "pos", "abs", "floor", "ceil", "round"):
        _function: Any = getattr(operator, _name, None) or getattr(math, _name, None) or round
        setattr(_class, f"__{_name}__", _unary(_name, _function))
    setattr(_class, "__trunc__", _as_plain(math.trunc))  # noqa: B010
    setattr(_class, "__int__", _as_plain(int))  # noqa: B010
    setattr(_class, "__float__", _as_plain(float))  # noqa: B010
    setattr(_class, "__hash__", _as_plain(hash, "hash"))  # noqa: B010
    # Text, and what else of a number has no expression: noted where the user's own code asks for it.
    for _name in ("str", "repr", "format"):
        setattr(_class, f"__{_name}__", _as_plain(getattr(builtins, _name), "hash"))
    for _name in ("real", "numerator", "denominator", "imag"):
        if hasattr(_class, _name):
            setattr(_class, _name, property(_as_plain(operator.attrgetter(_name))))
    for _name in ("as_integer_ratio", "bit_length", "bit_count", "to_bytes", "is_integer", "hex"):
        if hasattr(_class, _name):
            setattr(_class, _name, _as_plain(_member(_name)))
    setattr(_class, "__bool__", _true)  # noqa: B010
setattr(Size, "__invert__", _as_plain(operator.invert))  # noqa: B010
for _name in ("and", "or", "xor", "lshift", "rshift"):
    _bits = getattr(operator, f"__{_name}__")
    setattr(Size, f"__{_name}__", _as_plain(_bits))
    setattr(Size, f"__r{_name}__", _as_plain(lambda a, b, bits=_bits: bits(b, a)))
setattr(Size, "__divmod__", _as_plain(divmod))  # noqa: B010
setattr(Size, "__rdivmod__", _as_plain(lambda a, b: divmod(b, a)))  # noqa: B010

_SHAPE = torch.Tensor.shape.__get__  # type: ignore[attr-defined]
_VALUES = (
    torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.__dlpack__,
)  # fmt: skip
_CROSS = (torch.cross, torch.Tensor.cross)
# Sizes in another guise.
_STRIDES = (torch.Tensor.stride, torch.Tensor.nbytes.__get__, torch.Tensor.untyped_storage)  # type: ignore[attr-defined]


class Sized(Rewritten):
    """Hands out the sizes of tensors as `Size`."""

    def __init__(self, log: SizeLog) -> None:
        super().__init__()
        self.log = log

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = super().__torch_function__(func, types, args, kwargs)
        if func in _CROSS and _no_dim(args, kwargs or {}):
            self._first_of_three(args[0] if args else (kwargs or {})["input"])
        if func == _SHAPE or (func is torch.Tensor.size and isinstance(out, torch.Size)):
            log, tensor = self.log, args[0]
            return torch.Size(log.size(tensor, axis, n) for axis, n in enumerate(out))
        if func is torch.Tensor.size and isinstance(out, int):
            axis = args[1] if len(args) > 1 else (kwargs or {})["dim"]
            return self.log.size(args[0], int(axis), out)
        if func in (torch.Tensor.numel, torch.numel):
            return self._numel(args[0] if args else (kwargs or {})["input"], out)
        if func in _VALUES:
            self.log.values(args[0])
        if func is torch.Tensor.__len__ and is_own_file(sys._getframe(1).f_code.co_filename):
            self.log.values(args[0])  # `len` by another name
        if any(func == one for one in _STRIDES) and is_own_file(
            sys._getframe(1).f_code.co_filename
        ):
            self.log.values(args[0])
        return out

    def _first_of_three(self, tensor: Tensor) -> None:
        """Note what a cross product without `dim` compares: it takes the first axis of size 3."""
        for axis, n in enumerate(tensor.shape):
            size = self.log.size(tensor, axis, n)
            self.log.compared("eq", _expression(size), 3)
            if n == 3:
                return

    def _numel(self, tensor: Tensor, out: int) -> int:
        sizes = [self.log.size(tensor, axis, n) for axis, n in enumerate(tensor.shape)]
        return reduce(operator.mul, sizes) if sizes else out


def _no_dim(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether `torch.cross` is called without `dim`."""
    return kwargs.get("dim", args[2] if _len(args) > 2 else None) is None


_len = builtins.len
_here = local()


def _measured(sized: Any, /) -> int:
    """`len`, which Python would make a plain number of."""
    log = getattr(_here, "log", None)
    if log is None or not isinstance(sized, Tensor):
        return _len(sized)
    return log.size(sized, 0, _len(sized))


@contextmanager
def sizes_noted(log: SizeLog) -> Iterator[None]:
    """Comparisons of sizes that this thread makes are noted in `log`; one thread at a time (see `record`)."""
    outer, before = getattr(_here, "log", None), builtins.len
    _here.log, builtins.len = log, _measured
    try:
        with Sized(log):
            yield
    finally:
        log.open = False
        _here.log, builtins.len = outer, before
