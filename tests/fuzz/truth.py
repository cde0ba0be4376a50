"""The definition's answers of a case, and how exactly they can be known."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor

from by_hand import Oracle
from fuzz.question import Posed


class Truth:
    """The definition's answers of one case, each computed once, with what rounding may add."""

    def __init__(self, posed: Posed, single: bool) -> None:
        self.posed, self.single = posed, single
        self.oracle: Oracle = posed.in_double() if single else posed.oracle
        self.known: dict[Any, Tensor | None] = {}
        self.error: Exception | None = None
        self.noise = 0.0
        self.excused = 0

    def changes(self, removed: list[Any]) -> Tensor | None:
        """The change of every item; None where the model fails."""
        key = tuple(removed)
        if key not in self.known:
            self.known[key] = self._changes(removed)
        return self.known[key]

    def _changes(self, removed: list[Any]) -> Tensor | None:
        try:
            found = self.oracle.changes(removed)
            if self.single:
                rough = self.posed.oracle.changes(removed)
                gap = (rough - found).abs().nan_to_num(1.0)
                self.noise = max(self.noise, float(gap.max()) if gap.numel() else 0.0)
            return found
        except Exception as error:  # a random model may fail in any way
            self.error = error
            return None

    def total(self, removed: list[Any]) -> float | None:
        """The influence; None where the model fails."""
        found = self.changes(removed)
        return None if found is None else float(found.sum())

    def allowed(self) -> float:
        """The error that counts as none: rounding in single precision, nearly none in double."""
        if self.single:
            return 10 * max(1, self.oracle.items()) * (self.noise + 1e-6)
        finite = [float(v.sum()) for v in self.known.values() if v is not None]
        return max([1e-9, *(1e-6 * v for v in finite if math.isfinite(v))])

    def steep(self, removed: list[Any], error: float) -> bool:
        """Whether the truth itself moves that much when features move in their last digits."""
        size = 1e-6 if self.single else 1e-12
        for seed in range(3):
            dice = torch.Generator().manual_seed(seed)
            moved = copy.deepcopy(self.oracle)
            moved._before = None
            for store in moved.data.node_stores:
                noise = torch.randn(store.x.shape, generator=dice, dtype=store.x.dtype)
                store.x = store.x * (1 + size * noise) + 1e-3 * size * noise
            try:
                still = abs(moved.total(removed) - self.total(removed)) <= 0.01 * error
            except Exception:  # without an answer it is not deterministic
                still = False
            if not still:
                self.excused += 1
                return True
        return False
