"""Equality up to rounding."""

from __future__ import annotations

import torch
from torch import Tensor


def same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are equal up to rounding, relative to the largest entry of `b`."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not b.is_floating_point() or not b.numel():
        return bool(torch.equal(a, b))
    tolerance = {torch.double: 1e-9, torch.float: 1e-4}.get(b.dtype, 3e-2)
    if float((a - b).abs_().max()) <= tolerance * float(b.abs().max()) < torch.inf:
        return True
    different = (a != b) & ~(a.isnan() & b.isnan())  # equal infinities do not differ
    if not bool(different.any()):
        return True
    finite = b[b.isfinite()]
    largest = finite.abs().max() if finite.numel() else b.new_zeros(())
    return bool(((a - b)[different].abs() <= tolerance * largest).all())


def tolerated(dtype: torch.dtype) -> float:
    """Largest difference of two probabilities that rounding explains."""
    return {torch.double: 1e-9, torch.float: 1e-4}.get(dtype, 5e-2)
