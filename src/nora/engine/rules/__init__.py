"""One file per convolution: how it is written in the plan's steps.

A rule is a function with the signature of the convolution's `forward`, preceded by the plan and the
module. It receives node-level arguments as `Value`s and returns one:

    @nora.rule(MyConv)
    def my_conv(plan, conv, x, edge_index, edge_weight=None):
        messages = plan.rows(conv.lin, x)
        edges = plan.edges(edge_index, edge_weight, normalise="mean")
        return plan.rows(lambda total, x: total + conv.root(x), plan.propagate(messages, edges), x)

A rule returns None where it does not apply. Convolutions without a rule, and subclasses of those that
have one, are followed operation by operation, which needs no rule and is slower.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

from torch import nn

Rule = Callable[..., Any]
_RULES: dict[type[nn.Module], Rule] = {}
_discovered = False


def rule(*convolutions: type[nn.Module], override: bool = False) -> Callable[[Rule], Rule]:
    """Decorator: the function tells the exact engine how these convolutions work.

    What it computes on the whole graph is compared with the module itself before it is used.

    Args:
        *convolutions: The classes it is for; not their subclasses.
        override: Use it in place of a rule that there is already, for instance one of NORA's own.
    """

    def enter(function: Rule) -> Rule:
        if not _is_built_in(function):
            _discover()
        for convolution in convolutions:
            there = _RULES.get(convolution)
            # A notebook's cell may run twice, and a module be loaded again.
            if there is not None and not override and _name(there) != _name(function):
                raise ValueError(
                    f"{convolution.__name__} has a rule already, {_name(there)}; to use another "
                    f"instead, write @nora.rule({convolution.__name__}, override=True)"
                )
        _RULES.update(dict.fromkeys(convolutions, function))
        return function

    return enter


def rule_for(conv: nn.Module) -> Rule | None:
    """The rule of this very class, if it has one."""
    _discover()
    if getattr(conv, "flow", "source_to_target") != "source_to_target":
        return None
    return _RULES.get(type(conv))


def _discover() -> None:
    """Enter the rules of this package, once: before they are asked for, and before anybody else's."""
    global _discovered
    if not _discovered:
        for module in pkgutil.iter_modules(__path__):
            importlib.import_module(f"{__name__}.{module.name}")
        _discovered = True


def _is_built_in(function: Rule) -> bool:
    return function.__module__.startswith(f"{__name__}.")


def _name(function: Rule) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', function)}"
