"""Writes the figures of methods into the tables of README.md, docs/methods.md and docs/which-method.md.

    python docs/pictures/tables.py

Figures come from `results/`; what stands around them is written by hand. Rows go by their first figure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).parents[2]
Figure = Callable[[str], str]


@cache
def tables(name: str) -> dict[str, list[dict[str, Any]]]:
    """The tables of a result."""
    return json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))["tables"]


def _source(method: str) -> str:
    return "sketch" if method == "cauchy" else "citation"


def one_model(metric: str, task: str | None = None) -> Figure:
    """Mean and range over all models, each by itself: `0.90 (0.72 to 0.97)`."""

    def of(method: str) -> str:
        found = [
            row[metric]
            for row in tables(_source(method))["One model: every model"]
            if row["method"] == method and task in (None, row["task"])
        ]
        if None in found:
            return "–"
        return f"{fmean(found):.2f} ({min(found):.2f} to {max(found):.2f})"

    return of


def average(metric: str) -> Figure:
    """Mean over the cells, of scores averaged over five models."""

    def of(method: str) -> str:
        found = [
            row["value"]
            for row in tables(_source(method))["Everything"]
            if (row["method"], row["metric"]) == (method, metric)
        ]
        return f"{fmean(found):.3f}" if found else "–"

    return of


def papers(method: str) -> str:
    """The paper's mean Pearson over the same cells."""
    if method == "cauchy":
        return "–"
    (row,) = (one for one in tables("citation")["Means over all cells"] if one["method"] == method)
    found = row["paper's pearson"]
    return "–" if found is None else f"{found:.3f}"


TASKS = [one_model(metric, task) for task in ("node", "link") for metric in ("pearson", "spearman")]
# Page, a text before the table, and what stands in which of its columns.
PLACES: list[tuple[str, str, dict[int, Figure]]] = [
    (
        "README.md",
        "\n## Accuracy and cost",
        {2: one_model("pearson"), 3: one_model("spearman")},
    ),
    (
        "docs/methods.md",
        "\n## One model",
        {
            k + 1: one_model(metric)
            for k, metric in enumerate(("pearson", "spearman", "top_1%", "top_10%", "median error"))
        },
    ),
    ("docs/methods.md", "\nNodes and links apart", dict(enumerate(TASKS, start=1))),
    (
        "docs/methods.md",
        "\n## Averages over five models",
        {
            2: average("pearson"),
            3: papers,
            4: average("spearman"),
            5: average("top_1%"),
            6: average("top_10%"),
        },
    ),
    (
        "docs/which-method.md",
        "\n## How well",
        {
            1: one_model("pearson"),
            2: one_model("spearman"),
            3: one_model("top_10%"),
        },
    ),
]


def written(text: str, after: str, columns: dict[int, Figure]) -> str:
    """The text of a page with the figures of one table replaced."""
    head, mark, rest = text.partition(after)
    table = re.search(r"(?<=\n\n)(\|.*\n\|[-:|]+\n)((?:\|.*\n)+)", rest)
    if not mark or table is None:
        raise ValueError(f"no table after {after!r}")
    first, fixed = min(columns), []
    filled: list[tuple[float, str]] = []
    for line in table[2].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        method = cells[0].strip("` †")
        if method.startswith(("exact", "brute")):  # measured elsewhere
            fixed.append(line)
            continue
        for place, figure in columns.items():
            cells[place] = figure(method)
        filled.append((-float(cells[first].split()[0]), "| " + " | ".join(cells) + " |"))
    lines = [*fixed, *(line for _, line in sorted(filled, key=lambda one: one[0]))]
    return head + mark + rest[: table.start(2)] + "\n".join(lines) + "\n" + rest[table.end() :]


def page(name: str) -> str:
    """A page with all its figures."""
    text = (ROOT / name).read_text(encoding="utf-8")
    for where, after, columns in PLACES:
        if where == name:
            text = written(text, after, columns)
    return text


PAGES = tuple(dict.fromkeys(name for name, _, _ in PLACES))

if __name__ == "__main__":
    for name in PAGES:
        new = page(name)
        (ROOT / name).write_text(new, encoding="utf-8")
