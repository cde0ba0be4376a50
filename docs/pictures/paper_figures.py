"""Figures of the results and of the paper side by side, and how they are written in a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nora.experiments import lookup, published

ROOT = Path(__file__).parents[2]
# Differences that count as none, and as small: of correlations, and of percentages.
CORRELATION, PERCENT = (0.015, 0.05), (1.0, 5.0)
MARKS = {"reproduced": "=", "close": "≈", "differs": "≠"}


def results(name: str) -> dict[str, Any] | None:
    """A result's document; None where it has not been made."""
    path = ROOT / "results" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def verdict(here: float, paper: float, bounds: tuple[float, float] = CORRELATION) -> str:
    """One word.

    >>> verdict(0.9, 0.91), verdict(0.9, 0.94), verdict(0.9, 0.7)
    ('reproduced', 'close', 'differs')
    """
    off = abs(here - paper) + 0.0  # NaN is neither
    return "reproduced" if off <= bounds[0] else "close" if off <= bounds[1] else "differs"


def pearsons(document: dict[str, Any] | None) -> dict[tuple[str, ...], float]:
    """Pearson by task, dataset, model and method."""
    rows = [] if document is None else document["tables"]["Everything"]
    return {
        (row["task"], row["dataset"], row["model"], row["method"]): row["value"]
        for row in rows
        if row["metric"] == "pearson"
    }


def row(*cells: str) -> str:
    """A row of a table."""
    return "| " + " | ".join(cells) + " |"


def table(*columns: str) -> list[str]:
    """The head of a table."""
    return [row(*columns), "|" + "---|" * len(columns)]


def paired(found: dict[tuple[str, ...], float], method: str) -> tuple[list[float], list[float]]:
    """Pearsons here and in the paper, of the cells that both have."""
    figures = published()["pearson"]
    pairs = [
        (value, lookup(figures, *key))
        for key, value in found.items()
        if key[3] == method and lookup(figures, *key) == lookup(figures, *key)
    ]
    return [here for here, _ in pairs], [paper for _, paper in pairs]
