"""Randomness that depends on a seed alone."""

from __future__ import annotations

import torch
from torch import Tensor

from nora.arguments import check_seed


def shuffled(count: int, seed: int) -> Tensor:
    """Positions `0 … count−1` in a seeded random order, whatever the state of other generators."""
    check_seed(seed)
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))
