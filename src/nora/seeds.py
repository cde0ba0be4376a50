"""Randomness that depends on a seed alone."""

from __future__ import annotations

import torch
from torch import Tensor


def shuffled(count: int, seed: int) -> Tensor:
    """Positions `0 … count−1` in a seeded random order, whatever the state of other generators."""
    if not -(2**63) <= seed < 2**63:
        raise ValueError(f"seed must fit into 64 bits, e.g. 0 or 42; got {seed}")
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))
