"""Large pages of memory, where the system has them.

Random reads and new allocations are faster there. NumPy asks Linux for large pages if an array is large;
torch does not.
"""

from __future__ import annotations

import ctypes
import mmap
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

PAGE = 2 * 2**20
# Moving costs about as much as it gives below this; above, edits by the thousand gain a few per cent.
LARGE = 64 * 2**20
# "Put what is there into large pages now", since Linux 6.1.
MADV_COLLAPSE = 25


def room(*shape: int, dtype: torch.dtype) -> Tensor:
    """A tensor on the CPU, not filled."""
    return torch.from_numpy(np.empty(shape, dtype=torch.empty(0, dtype=dtype).numpy().dtype))


def copied(rows: Tensor) -> Tensor:
    """A copy of rows."""
    if rows.dtype == torch.bfloat16:
        return rows.clone()
    return room(*rows.shape, dtype=rows.dtype).copy_(rows)


def use_large_pages(rows: Tensor | None) -> None:
    """Put many rows that are there to stay into large pages: a hint, which changes none of them."""
    advise = _advise()
    if advise is None or rows is None or rows.nbytes < LARGE:
        return
    if not rows.is_contiguous():
        return
    first = -(-rows.data_ptr() // PAGE) * PAGE
    size = (rows.data_ptr() + rows.nbytes - first) // PAGE * PAGE
    if size > 0:
        for advice in (mmap.MADV_HUGEPAGE, MADV_COLLAPSE):
            advise(ctypes.c_void_p(first), ctypes.c_size_t(size), advice)


@cache
def _advise() -> Any:
    """The system's `madvise`; None where it knows no large pages."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    return getattr(ctypes.CDLL(None), "madvise", None)
