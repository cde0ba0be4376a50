"""How many predictions flip."""

from __future__ import annotations

from torch import Tensor

from nora.model.measures import MEASURES, Items, Measure, flipped, takes_no_argument


@MEASURES.register("flips", "how many predictions flip to another class (a link: across 0.5)")
def flips(items: Items, argument: str) -> Measure:
    """1 where another class, other labels or another link is predicted."""
    takes_no_argument("flips", argument)
    if items.predicts == "values":
        items.reject("flips", "classes, labels or links")

    def value(before: Tensor, after: Tensor, _: Tensor) -> Tensor:
        return flipped(items.predicts, before, after).double()

    return Measure(value, largest=1.0, signed=False)
