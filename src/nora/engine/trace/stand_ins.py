"""Other functions in the place of those of packages, while a pass is recorded.

A model may know a function under any name (`from torch_scatter import scatter_max as largest`), so its code
is exchanged, not the name. What is traced as one operation calls an operation of this package's own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import unwrap
from types import CodeType, FunctionType
from typing import Any

import torch

NAMESPACE = "nora"
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
own = getattr(torch.ops, NAMESPACE)
# What stands in for a function, by its module and name: `("torch_sparse.storage", "SparseStorage.rowptr")`.
STAND_INS: dict[tuple[str, str], Callable[..., Any]] = {}
# The functions as they were when they were exchanged first, by name.
PLAIN: dict[str, Callable[..., Any]] = {}


def operation(schema: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function is an operation of its own on a trace, with this schema."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = schema.partition("(")[0]
        if not hasattr(own, name):  # a module may be imported twice
            _LIBRARY.define(schema)
            _LIBRARY.impl(name, function, "CompositeExplicitAutograd")
        return function

    return register


def stands_in(module: str, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function stands in for one of a package's, which `original_function` gives."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        STAND_INS[module, name] = function
        return function

    return register


def original_function(name: str) -> Callable[..., Any]:
    """A package's function as it is while no pass is recorded."""
    if name not in PLAIN:
        where = next(key for key in STAND_INS if key[1] == name)
        PLAIN[name] = _copy(_found(*where))
    return PLAIN[name]


def _copy(function: Any) -> Callable[..., Any]:
    """The function as it is now, whatever becomes of its code later."""
    made = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _found(module: str, name: str) -> Any:
    """A function of a package, if that is imported."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = unwrap(getattr(found, part, None))  # type: ignore[arg-type]
    return found if isinstance(found, FunctionType) else None


def _call(*args: Any, **kwargs: Any) -> Any:
    from nora.engine.trace.stand_ins import STAND_INS

    return STAND_INS["module", "name"](*args, **kwargs)


def _code(module: str, name: str) -> CodeType:
    """Code that calls what stands in."""
    given = {("module", "name"): (module, name), "module": module, "name": name}
    consts = _call.__code__.co_consts
    return _call.__code__.replace(
        co_consts=tuple(given.get(c, c) if isinstance(c, str | tuple) else c for c in consts)
    )


def _arguments(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


@contextmanager
def stand_ins_installed() -> Iterator[None]:
    """Call the stand-ins, under whatever name a model knows a function.

    It has the defaults of what it stands in for. A version of a package whose function takes other arguments
    keeps its own code: it is then followed as it runs. One thread at a time may be in here; see `record`.
    """
    before: list[tuple[Any, CodeType, Any, Any]] = []
    try:
        for (module, name), stand_in in STAND_INS.items():
            function = _found(module, name)
            if function is None or function.__code__.co_freevars:
                continue
            if _arguments(function.__code__) == _arguments(stand_in.__code__):
                original_function(name)
                stand_in.__defaults__ = function.__defaults__
                before.append(
                    (function, function.__code__, function.__defaults__, function.__kwdefaults__)
                )
                function.__defaults__ = function.__kwdefaults__ = None
                function.__code__ = _code(module, name)
        yield
    finally:
        for function, code, defaults, kwdefaults in before:
            function.__code__ = code
            function.__defaults__, function.__kwdefaults__ = defaults, kwdefaults
