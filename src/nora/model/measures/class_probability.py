"""The change of one class's probability: towards it or away from it."""

from __future__ import annotations

from torch import Tensor

from nora.model.measures import MEASURES, Items, Measure, in_full


@MEASURES.register("class", "class:NAME, the change of one class's probability, with its sign")
def class_probability(items: Items, argument: str) -> Measure:
    """Probability after less probability before."""
    if items.predicts not in ("classes", "labels"):
        items.reject("class", "classes or labels")
    if not argument:
        raise ValueError("measure 'class' needs a class: give e.g. 'class:2' or its name")
    column = items.class_id(argument)

    def value(before: Tensor, after: Tensor, _: Tensor) -> Tensor:
        return in_full(after[:, column]) - in_full(before[:, column])

    return Measure(value, largest=1.0)
