"""Leave things as found: the caller's model and random state, whatever happens in between."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Restore Python's, NumPy's and torch's random state on leaving."""
    python, numpy = random.getstate(), np.random.get_state()
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run with every random generator seeded, and restore them on leaving."""
    with random_state_kept():
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed)
        yield


@contextmanager
def evaluating(model: nn.Module) -> Iterator[nn.Module]:
    """The model in eval mode without cached normalisations; all of it is restored on leaving.

    `GCNConv(cached=True)` and its kin keep the normalisation of the first graph they saw, which
    would be stale on `G−r`: their caches are emptied and switched off meanwhile.
    """
    training = {module: module.training for module in model.modules()}
    needs_grad = {parameter: parameter.requires_grad for parameter in model.parameters()}
    caches: list[tuple[nn.Module, dict[str, Any]]] = []
    for module in model.modules():
        found = {key: value for key, value in vars(module).items() if key.startswith("_cached_")}
        if isinstance(vars(module).get("cached"), bool):
            found["cached"] = module.cached
        if found:
            caches.append((module, found))
    with random_state_kept():
        try:
            model.eval()
            for module, found in caches:
                for key in found:
                    setattr(module, key, False if key == "cached" else None)
            yield model
        finally:
            for module, mode in training.items():
                module.training = mode
            for parameter, flag in needs_grad.items():
                parameter.requires_grad_(flag)
            for module, found in caches:
                for key, value in found.items():
                    setattr(module, key, value)
