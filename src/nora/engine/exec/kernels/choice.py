"""Choose a backend: the compiled loops if `numba` is there and they are faster, else plain torch."""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from nora.engine.exec.kernels import vectorised
from nora.engine.exec.kernels.backend import Backend
from nora.machine import collector_paused
from nora.model import Problem
from nora.stacklevel import warn

BackendName = Literal["auto", "compiled", "vectorised"]
# Below this many (nodes × edges), loading the compiled loops costs more than they save.
COMPILE_ABOVE = 10_000_000
# Preparing a graph of so many nodes and edges takes far longer than loading the loops.
LARGE_GRAPH = 1_000_000
# What the compiled loops are compiled for.
FLOATS = (torch.float32, torch.float64)


def pick_backend(name: BackendName, problem: Problem, edits: int) -> Backend:
    """The compiled loops if there is enough work, else plain torch.

    Raises:
        ImportError: When the compiled loops are asked for by name, and `numba` cannot be imported.
    """
    if name not in ("auto", "compiled", "vectorised"):
        raise ValueError(f"backend is {name!r}; it must be 'auto', 'compiled' or 'vectorised'")
    features = [store.get("x") for store in problem.data.node_stores]
    plain = all(
        x.dtype in FLOATS for x in features if isinstance(x, Tensor) and x.is_floating_point()
    )
    size = problem.edge_index.size(1) + problem.num_nodes
    large = plain and (edits * size > COMPILE_ABOVE or size > LARGE_GRAPH)
    if name == "vectorised" or (name == "auto" and not large):
        return vectorised
    missing = _why_no_numba()
    if missing is None:
        return _compiled()
    if name == "compiled":
        raise ImportError(
            f"backend='compiled' needs numba, which cannot be imported ({missing}): "
            "pip install numba, or backend='vectorised', which gives the same numbers in more time"
        )
    warn(
        f"numba cannot be imported ({missing}): the same numbers are computed without its compiled "
        "loops, which takes two to five times as long on large graphs. To have them: pip install numba",
        RuntimeWarning,
    )
    return vectorised


def _why_no_numba() -> str | None:
    """The error of importing `numba`, which also fails if NumPy is too new; None if it works."""
    if sys.modules.get("numba") is not None:
        return None
    try:
        with collector_paused():
            import numba  # noqa: F401
    except ImportError as error:
        return str(error).splitlines()[0] if str(error) else type(error).__name__
    return None


@cache
def _compiled() -> Backend:
    """The compiled loops, imported once."""
    with collector_paused():
        from nora.engine.exec.kernels import compiled

        _fill_registries()
        return compiled


def _fill_registries() -> None:
    """Load what the first call of a compiled loop would load, in half of the time."""
    from numba.core.registry import cpu_target

    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


def compiles_first(name: BackendName, problem: Problem, edits: int) -> bool:
    """Whether a question will compile the loops first: up to a minute, once per installation."""
    size = problem.edge_index.size(1) + problem.num_nodes
    small = edits * size <= COMPILE_ABOVE and size <= LARGE_GRAPH
    if name == "vectorised" or (name == "auto" and small):
        return False
    if os.environ.get("NUMBA_CACHE_DIR") or find_spec("numba") is None:
        return False  # they are kept elsewhere, or not used
    return not any(Path(__file__).with_name("__pycache__").glob("loops*.nbc"))
