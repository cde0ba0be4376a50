"""Whether predictions become wrong: the share of right ones, against `data.y`."""

from __future__ import annotations

from torch import Tensor

from nora.model.measures import MEASURES, Items, Measure


@MEASURES.register("accuracy", "accuracy:MASK, the change of the share of right predictions")
def accuracy(items: Items, argument: str) -> Measure:
    """Each prediction's part in the change of the accuracy; negative where a right one becomes wrong.

    The share is of all labelled predictions that count (and are in the mask): of one class each, or of
    labels each by itself.
    """
    if items.predicts == "values":
        items.reject("accuracy", "classes or labels")
    if items.predicts == "classes":
        classes, known = items.class_labels("accuracy", argument)

        def right(predicted: Tensor, at: Tensor) -> Tensor:
            return (predicted.argmax(dim=1) == classes.to(at.device)[at]).double()
    else:
        known = items.labelled("accuracy", argument)
        assert items.labels is not None
        wanted = items.labels > 0.5

        def right(predicted: Tensor, at: Tensor) -> Tensor:
            return ((predicted > 0.5) == wanted.to(at.device)[at]).double().mean(dim=1)

    share = 1 / int(known.sum())

    def value(before: Tensor, after: Tensor, at: Tensor) -> Tensor:
        return (right(after, at) - right(before, at)) * known.to(at.device)[at] * share

    return Measure(value, largest=share)
