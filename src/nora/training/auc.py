"""The area under the ROC curve: how well scores separate positives from negatives."""

from __future__ import annotations

import numpy as np
from torch import Tensor


def roc_auc(score: Tensor, label: Tensor) -> float:
    """Probability that a random positive scores above a random negative (ties count half).

    >>> import torch
    >>> roc_auc(torch.tensor([0.9, 0.8, 0.1]), torch.tensor([1.0, 0.0, 0.0]))
    1.0
    """
    from scipy.stats import rankdata  # slow to load

    positive = label.cpu().numpy() > 0.5
    ranks = rankdata(score.detach().cpu().numpy())
    count, rest = int(positive.sum()), int((~positive).sum())
    if count == 0 or rest == 0:
        return float("nan")
    return float((np.sum(ranks[positive]) - count * (count + 1) / 2) / (count * rest))
