"""The registry of lowerings, of traced operations and of calls of modules.

    @lower("relu", "tanh")              operations, by their names in ATen
    @lower("mm", sparse=True)           the same, where an argument is a sparse matrix
    @lower(MedianAggregation, raw=True) calls of modules of exactly these classes, not of subclasses
    @lower(GCNConv)                     convolutions: the public name for users is `nora.rule`

The lowering of an operation is a function of the builder and the aligned operation. It looks up the bindings
of the arguments, adds operations to the program, and sets the bindings of the results.

The lowering of a module is a function with the signature of the module's `forward`, preceded by the builder
and the module. That of a convolution gets node-level arguments as `Value`s of all nodes, and edges as
tensors, and returns a `Value`; a `raw` one gets and returns bindings (`Dense`). It returns None if it does
not apply; the call is then lowered operation by operation.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from torch import nn

from nora.arguments import shown

Function = Callable[..., Any]
# Operations by name, on sparse matrices by ("sparse", name), modules by class.
Key = str | tuple[str, str] | type[nn.Module]


@dataclass(frozen=True)
class Lowering:
    """A lowering, and whether it takes the bindings of a module's arguments unchanged."""

    function: Function
    raw: bool = False


LOWERINGS: dict[Key, Lowering] = {}


def lower(
    *what: str | type[nn.Module], sparse: bool = False, raw: bool = False
) -> Callable[[Function], Function]:
    """Register a function as the lowering of these operations or modules (a decorator).

    Args:
        *what: Names of operations in ATen, or classes of modules.
        sparse: For operations on sparse matrices.
        raw: For modules: the lowering gets the bindings of the arguments unchanged.
    """

    def register(function: Function) -> Function:
        for one in what:
            key: Key = ("sparse", one) if sparse and isinstance(one, str) else one
            _check_free(key, function)
            LOWERINGS[key] = Lowering(function, raw)
        return function

    return register


def rule(*convolutions: type[nn.Module], override: bool = False) -> Callable[[Function], Function]:
    """Register a function as the rule of convolution classes, for the exact engine.

    NORA compares its output on the whole graph with the module's before using it.

    Args:
        *convolutions: The classes; not their subclasses.
        override: Replace an existing rule, for instance one of NORA's own.

    Returns:
        The decorator, which returns the function unchanged.

    Example:
        >>> import nora, torch
        >>> from torch_geometric.nn import MessagePassing
        >>> class Mean(MessagePassing):
        ...     def __init__(self):
        ...         super().__init__(aggr="mean")
        ...         self.lin = torch.nn.Linear(34, 2)
        ...
        ...     def forward(self, x, edge_index):
        ...         return self.propagate(edge_index, x=self.lin(x))
        >>> @nora.rule(Mean)
        ... def mean(builder, conv, x, edge_index):
        ...     messages = builder.rows(conv.lin, x)
        ...     return builder.propagate(messages, builder.edges(edge_index, normalise="mean"))
        >>> data = nora.load_dataset("karate").data
        >>> fast = nora.influence(Mean(), data, "exact", backend="vectorised", progress=False)
        >>> fast.details["backend"]
        'vectorised'
    """
    for one in convolutions:
        if not isinstance(one, type):
            raise TypeError(
                f"a rule is for classes of convolutions, e.g. GCNConv; got {shown(one)}"
            )

    def register(function: Function) -> Function:
        load()
        for one in () if override else convolutions:  # all or none
            _check_free(one, function)
        for one in convolutions:
            LOWERINGS[one] = Lowering(function)
        return function

    return register


def _check_free(key: Key, function: Function) -> None:
    """Raise if another lowering is registered; a notebook's cell may run again."""
    there = LOWERINGS.get(key)
    if there is None:
        return
    old, new = ((f.__module__, f.__qualname__) for f in (there.function, function))
    if old != new:
        name = f"{key.__module__}.{key.__qualname__}" if isinstance(key, type) else str(key)
        raise ValueError(
            f"there is a rule {name!r} already; choose another name, or register it with "
            "override=True to replace it"
        )


@cache
def load() -> None:
    """Import every lowering that comes with NORA."""
    for name in ("nora.engine.lower", "nora.engine.lower.conv"):
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{name}.{module.name}")


def lowering_of(module: nn.Module) -> Lowering | None:
    """The lowering of a module of this very class; None without one."""
    load()
    if getattr(module, "flow", "source_to_target") != "source_to_target":
        return None
    return LOWERINGS.get(type(module))


def is_ours(function: Function) -> bool:
    """Whether a lowering comes with NORA."""
    return function.__module__.startswith("nora.")
