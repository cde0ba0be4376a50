"""The definition: how far a prediction moves."""

from __future__ import annotations

from torch import Tensor

from nora.model.measures import MEASURES, Items, Measure, takes_no_argument
from nora.model.task import item_change


@MEASURES.register("change", "how far predictions move, in L1 norm (the definition)")
def change(items: Items, argument: str) -> Measure:
    """L1 change of each prediction, on the classes that count."""
    takes_no_argument("change", argument)
    classes = None if items.classes is None else list(items.classes)

    def value(before: Tensor, after: Tensor, _: Tensor) -> Tensor:
        if classes is not None:
            before, after = before[:, classes], after[:, classes]
        return item_change(before, after)

    return Measure(value, signed=False)
