"""Rows of many edits one after the other: where each edit's begin."""

from __future__ import annotations

import torch
from torch import Tensor


def owner_of(ptr: Tensor) -> Tensor:
    """Which part of a `ptr` each position belongs to."""
    counts = ptr[1:] - ptr[:-1]
    return torch.arange(len(counts), device=ptr.device).repeat_interleave(counts)
