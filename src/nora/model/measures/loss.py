"""Whether predictions get worse: the loss they are trained with, against `data.y`."""

from __future__ import annotations

import torch
from torch import Tensor

from nora.model.measures import MEASURES, Items, Measure, in_full


@MEASURES.register("loss", "loss:MASK, how much the mean loss against data.y grows")
def loss(items: Items, argument: str) -> Measure:
    """Each prediction's part in the growth of the mean loss.

    Cross-entropy of classes, binary cross-entropy summed over labels, squared error of values. The mean is
    over all labelled predictions that count (and are in the mask), so that parts add up.
    """
    if items.predicts == "classes":
        classes, known = items.class_labels("loss", argument)

        def of_each(predicted: Tensor, at: Tensor) -> Tensor:
            truth = classes[at].clamp(min=0).unsqueeze(1)
            return -_log(predicted.gather(1, truth.to(predicted.device))).squeeze(1)
    else:
        known = items.labelled("loss", argument)
        labels = items.labels
        assert labels is not None
        wanted = labels.reshape(len(labels), -1)
        if wanted.size(1) != items.columns:
            raise ValueError(
                f"measure 'loss' needs data.y of shape [{items.count}, {items.columns}], got "
                f"{list(labels.shape)}"
            )

        def of_each(predicted: Tensor, at: Tensor) -> Tensor:
            truth = wanted[at].to(predicted)
            if items.predicts == "values":
                return (predicted - truth).square().mean(dim=1)
            return -(truth * _log(predicted) + (1 - truth) * _log(1 - predicted)).sum(dim=1)

    share = 1 / int(known.sum())

    def value(before: Tensor, after: Tensor, at: Tensor) -> Tensor:
        grown = of_each(in_full(after), at) - of_each(in_full(before), at)
        return torch.where(known.to(at.device)[at], grown * share, torch.zeros_like(grown))

    return Measure(value)


def _log(probability: Tensor) -> Tensor:
    return probability.clamp(min=torch.finfo(probability.dtype).tiny).log()
