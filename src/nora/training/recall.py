"""How well each class is recognised: recall, balanced accuracy, and class weights for training.

The *recall* of a class is the share of its nodes that are predicted to be of it. *Balanced accuracy* is the
mean of the recalls: a class of ten nodes counts as much as one of ten thousand, and any answer that does not
depend on the node reaches `1 / number of classes`. Classes without a node to test on have no recall, and are
in no mean.
"""

from __future__ import annotations

from math import nan

import numpy as np
import torch
from torch import Tensor

DRAWS = 4000


def recalls(predicted: Tensor, labels: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    """The recall of every class `[C]`, NaN for a class without a label, and how many labels it has `[C]`.

    Args:
        predicted: Predicted classes `[n]`.
        labels: Their true classes `[n]`.
        num_classes: `C`.

    Example:
        >>> recalls(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]), 3)
        (tensor([1.0000, 0.5000,    nan], dtype=torch.float64), tensor([1, 2, 0]))
    """
    tested = labels.bincount(minlength=num_classes)
    right = labels[predicted == labels].bincount(minlength=num_classes)
    return right.double() / tested, tested


def balanced_accuracy(predicted: Tensor, labels: Tensor) -> float:
    """The mean recall of the classes that occur among the labels; NaN without labels.

    >>> balanced_accuracy(torch.tensor([0, 0, 0, 0]), torch.tensor([0, 0, 0, 1]))
    0.5
    """
    if not labels.numel():
        return nan
    found, tested = recalls(predicted, labels, int(labels.max()) + 1)
    return float(found[tested > 0].mean())


def chance_of(predicted: Tensor, labels: Tensor) -> float:
    """How likely answers that do not depend on the nodes reach this balanced accuracy.

    Each class `c` is answered as often as `predicted` does, `q_c`, so that `Binomial(n_c, q_c)` of its `n_c`
    labels are right: drawn `DRAWS` times, by a fixed seed.

    >>> right = torch.tensor([0, 1]).repeat(50)
    >>> chance_of(right, right) < 0.001, chance_of(torch.zeros(100, dtype=torch.long), right)
    (True, 1.0)
    """
    tested = labels.bincount()
    share = predicted.bincount(minlength=len(tested))[: len(tested)].double() / max(1, len(labels))
    there = tested > 0
    count = tested[there].numpy()
    right = np.random.default_rng(0).binomial(count, share[there].numpy(), (DRAWS, len(count)))
    reached = (right / count).mean(axis=1) >= balanced_accuracy(predicted, labels) - 1e-9
    return float(reached.mean())


def class_weights(labels: Tensor, num_classes: int) -> Tensor:
    """Weights `[C]` by which every class counts the same in a loss, however many labels it has.

    >>> class_weights(torch.tensor([0, 0, 0, 1]), 2)
    tensor([0.6667, 2.0000])
    """
    count = labels.bincount(minlength=num_classes)
    there = count > 0
    weights = len(labels) / (count.clamp(min=1) * int(there.sum()))
    return torch.where(there, weights, torch.zeros(())).float()
