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


def rule(*convolutions: type[nn.Module]) -> Callable[[Rule], Rule]:
    """Decorator: the function tells the exact engine how these convolutions work.

    What it computes on the whole graph is compared with the module itself before it is used.
    """

    def enter(function: Rule) -> Rule:
        for convolution in convolutions:
            _RULES[convolution] = function
        return function

    return enter


def rule_for(conv: nn.Module) -> Rule | None:
    """The rule of this very class, if it has one."""
    global _discovered
    if not _discovered:
        _discovered = True
        for module in pkgutil.iter_modules(__path__):
            importlib.import_module(f"{__name__}.{module.name}")
    if getattr(conv, "flow", "source_to_target") != "source_to_target":
        return None
    return _RULES.get(type(conv))
