"""The un-summed effect of one removal, by the engine or by the definition."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from nora.incremental import vectorised
from nora.incremental.engine import Engine
from nora.incremental.plan import UnsupportedError
from nora.problem import Problem
from nora.removal import kept


def effect_of(problem: Problem, removed: Tensor, method: str) -> tuple[Tensor, Tensor, Tensor]:
    """Predictions before and after (NaN where the item is gone), and the surviving items.

    Args:
        problem: The question, with its model in eval mode.
        removed: The nodes removed together.
        method: `exact` or `brute`.
    """
    if method not in ("exact", "brute"):
        raise ValueError(f"what_if knows the methods 'exact' and 'brute', got {method!r}")
    device = problem.data.edge_index.device
    if method == "exact":
        try:
            engine = Engine.prepare(problem, vectorised)
        except UnsupportedError as reason:
            warnings.warn(
                f"exact falls back to brute force: {reason}", RuntimeWarning, stacklevel=3
            )
        else:
            after = engine.effect(removed.to(device))
            _, survivors = problem.task.survivors(kept(removed.to(device), problem.num_nodes))
            after[~survivors] = float("nan")
            return engine.before, after, survivors
    before = problem.predict()
    part, survivors = problem.predict_without(removed)
    after = torch.full_like(before, float("nan"))
    after[survivors] = part
    return before, after, survivors
