"""Pointer arrays: the rows of many edits in one tensor, where those of each edit begin, and duplicates."""

from __future__ import annotations

import torch
from torch import Tensor


def owner_of(ptr: Tensor) -> Tensor:
    """The part of a `ptr` that each position belongs to."""
    counts = ptr[1:] - ptr[:-1]
    if len(counts) == 1:  # which takes a tenth of the time of the general case
        return torch.zeros(int(counts), dtype=torch.long, device=ptr.device)
    return torch.arange(len(counts), device=ptr.device).repeat_interleave(counts)


def ptr_of(owner: Tensor, count: int) -> Tensor:
    """The starts of the rows of each of `count` owners, `[count + 1]`, for rows sorted by `owner`."""
    ptr = torch.zeros(count + 1, dtype=torch.long, device=owner.device)
    ptr[1:] = torch.bincount(owner, minlength=count).cumsum(0)
    return ptr


def find(keys: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """The position of each of `wanted` in sorted `keys`, and whether it is there."""
    if keys.numel() == 0:
        return torch.zeros_like(wanted), torch.zeros_like(wanted, dtype=torch.bool)
    at = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
    return at, keys[at] == wanted


def find_unsorted(keys: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """The same for keys in any order."""
    keys, order = keys.sort()
    at, there = find(keys, wanted)
    return (order[at] if len(order) else at), there
