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
def evaluating(*models: Any) -> Iterator[None]:
    """Every module in eval mode without cached normalisations; all of it is restored on leaving.

    `GCNConv(cached=True)` and its kin keep the normalisation of the first graph they saw, which
    would be stale on `G−r`: their caches are emptied and switched off meanwhile. Attributes that a
    forward pass sets on its module are taken back too. What is no module is passed over.
    """
    modules = [
        module for model in models if isinstance(model, nn.Module) for module in model.modules()
    ]
    found = [(module, dict(vars(module))) for module in modules]
    parameters = [p for module in modules for p in module.parameters(recurse=False)]
    needs_grad = [(parameter, parameter.requires_grad) for parameter in parameters]
    with random_state_kept():
        try:
            for module, attributes in found:
                module.training = False
                for key in attributes:
                    if key.startswith("_cached_"):
                        setattr(module, key, None)
                if isinstance(attributes.get("cached"), bool):
                    setattr(module, "cached", False)  # noqa: B010  (not every module has it)
            yield
        finally:
            for module, attributes in found:
                vars(module).clear()
                vars(module).update(attributes)
            for parameter, flag in needs_grad:
                if parameter.requires_grad != flag:
                    parameter.requires_grad_(flag)
