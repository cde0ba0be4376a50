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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from nora.arguments import shown
from nora.registry import Registry

Rule = Callable[..., Any]


@dataclass(frozen=True)
class RuleFacts:
    """The very class that a rule is for."""

    convolution: type[nn.Module] = nn.Module


# By the full names of the convolutions.
RULES: Registry[Rule, RuleFacts] = Registry("rule", __name__, RuleFacts())


def rule(*convolutions: type[nn.Module], override: bool = False) -> Callable[[Rule], Rule]:
    """Decorator: the function tells the exact engine how these convolutions work.

    What it computes on the whole graph is compared with the module itself before it is used.

    Args:
        *convolutions: The classes it is for; not their subclasses.
        override: Use it in place of a rule that there is already, for instance one of NORA's own.

    Returns:
        The decorator; the function itself stays as it is.

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
        ... def mean(plan, conv, x, edge_index):
        ...     messages = plan.rows(conv.lin, x)
        ...     return plan.propagate(messages, plan.edges(edge_index, normalise="mean"))
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

    def enter(function: Rule) -> Rule:
        for one in () if override else convolutions:  # all or none
            RULES.check_free(_name(one), function)
        for one in convolutions:
            told = f"how {one.__name__} is followed"
            RULES.register(_name(one), told, RuleFacts(one), override=override)(function)
        return function

    return enter


def rule_for(conv: nn.Module) -> Rule | None:
    """The rule of this very class, if it has one."""
    if getattr(conv, "flow", "source_to_target") != "source_to_target":
        return None
    found = RULES.get(_name(type(conv)))
    return found.value if found is not None and found.facts.convolution is type(conv) else None


def _name(convolution: type[nn.Module]) -> str:
    return f"{convolution.__module__}.{convolution.__qualname__}"
