"""Recipes run by tests, without a progress bar."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nora.experiments.grid import Working
from nora.experiments.lab import Lab
from nora.experiments.recipe import Report
from nora.experiments.runner import run_recipe


def reproduce(
    name: str,
    lab: Lab,
    out: Path,
    command: str = "a command",
    log: Callable[[str], None] = lambda _: None,
    **working: Any,
) -> Report:
    """The report of a recipe, written to `out`."""
    return run_recipe(name, lab, out, Working(log=log, **working), command)
