"""Combinations of choices, half of all."""

from __future__ import annotations

from collections.abc import Collection
from itertools import product
from typing import Any


def half(*choices: Collection[Any]) -> list[tuple[Any, ...]]:
    """Those whose places add up to an even number.

    Whatever is chosen of all but one choice still occurs, if that one has two values or more; so what goes
    wrong with some values of fewer choices than there are is still found, in half of the tests.
    """
    places = product(*(range(len(each)) for each in choices))
    every = product(*choices)
    return [some for at, some in zip(places, every, strict=True) if sum(at) % 2 == 0]
