"""Searches of their own that methods are tuned by, in place of trying settings one after the other.

A search is a function from labelled problems to what it found; it is registered under the method's name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nora.model import Problem
from nora.registry import NoFacts, Registry


@dataclass(frozen=True)
class Found:
    """The best options of a search, their correlation with the labels, and how many were tried."""

    options: dict[str, Any]
    pearson: float
    tried: int


Search = Callable[[Sequence[Problem]], Found]

SEARCHES: Registry[Search, NoFacts] = Registry("search", __name__, NoFacts())
