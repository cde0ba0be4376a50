"""Yardstick: random scores, which use no information."""

from __future__ import annotations

import torch
from torch import Tensor

from nora.methods import METHODS, MethodFacts
from nora.model import Problem


@METHODS.register(
    "random", "yardstick: seeded random scores", MethodFacts(uses_model=False, uses_targets=False)
)
def random(problem: Problem, *, seed: int = 0) -> Tensor:
    """Uniform scores `[N]`."""
    return torch.rand(problem.num_nodes, generator=torch.Generator().manual_seed(seed))
