"""Ways to score every node: one file per method.

A method is a function `(problem, *, options…)` that returns either the scores of all nodes `[num_nodes]`,
or an iterator of finished parts `(node ids, scores)`, for methods that work node by node; one that knows
how far its estimates may be off adds their standard errors, `(node ids, scores, errors)`. A generator may
return a dictionary of facts about the run, kept as `Influence.details`.

A method that uses the exact engine is a function `(problem, prepared, *, options…)`: `prepared` is what
has been prepared for this model and graph, shared by all that is asked of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from nora.registry import Entry, Registry

if TYPE_CHECKING:
    from torch import Tensor

    Part = tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor]
Method = Callable[..., Any]


@dataclass(frozen=True)
class MethodFacts:
    """Facts about a method.

    Attributes:
        chooses: It returns the choice of another method instead of scores.
        uses_model: It runs the model; False for structure-only yardsticks.
        uses_engine: It takes what is prepared for the exact engine.
        uses_targets: It can restrict itself to target predictions.
        exact: Its scores equal the definition.
        labels: Whether it learns from known influences.
        space: Values to try for its options when it is tuned, `{option: (values…)}`.
        own_search: It is tuned by a search of its own, in `nora.tuning.searches`.
        execution_options: Options that change how the work is done, not the scores.
        errors_unless: It yields standard errors, `(node ids, scores, errors)`, unless an option has one of
            these values; empty for a method that never does.
    """

    chooses: bool = False
    uses_model: bool = True
    uses_engine: bool = False
    uses_targets: bool = True
    exact: bool = False
    labels: Literal["required", "optional"] | None = None
    space: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    own_search: bool = False
    execution_options: tuple[str, ...] = ()
    errors_unless: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def estimates_errors(self, options: Mapping[str, Any]) -> bool:
        """Whether, with these options, parts have standard errors."""
        unless = self.errors_unless
        return bool(unless) and not any(options[name] in values for name, values in unless.items())

    @property
    def tunable(self) -> bool:
        """Whether `nora.tune` finds its options."""
        return self.own_search or bool(self.space)


METHODS: Registry[Method, MethodFacts] = Registry("method", __name__, MethodFacts())
MethodEntry = Entry[Method, MethodFacts]


def __getattr__(name: str) -> Any:
    # Made on first use, so that methods can be listed without torch.
    if name == "Part":
        from torch import Tensor

        return tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor]
    raise AttributeError(f"module 'nora.methods' has no attribute {name!r}")
