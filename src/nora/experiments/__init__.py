"""The paper's tables and figures: one small recipe each, run as `nora reproduce NAME`.

A recipe is a class with two functions: `plan(lab)` lists the steps it needs, `report(lab)` makes its
tables and chart from what the steps have left in the lab's cache.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any, Protocol

from nora.registry import Registry

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from matplotlib.figure import Figure

    from nora.experiments.lab import Lab, Step
    from nora.experiments.parts import Frames, Part


@dataclass(frozen=True)
class Report:
    """What a recipe found.

    Attributes:
        title: What is asked.
        text: What a reader must know.
        tables: Tables to read, with headings.
        figure: A chart.
        facts: What else the record says of how it was made.
        raw: Tables for programs, which only the JSON file has.
        files: Further files by their names' endings: functions that write them, from a path and from what
            the record says.
    """

    title: str
    text: str
    tables: Sequence[tuple[str, pd.DataFrame]]
    figure: Figure | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    raw: Sequence[tuple[str, pd.DataFrame]] = ()
    files: Mapping[str, Callable[[Path, dict[str, Any]], None]] = field(default_factory=dict)


class Recipe(Protocol):
    """One of the paper's tables or figures."""

    @staticmethod
    def plan(lab: Lab) -> list[Step]:
        """The steps it needs, in order."""

    @staticmethod
    def report(lab: Lab) -> Report:
        """Its tables and chart, once all steps are done."""


class FromParts(Recipe, Protocol):
    """A recipe whose report is made from tables with rows of single cells, wherever they were made."""

    @staticmethod
    def parts(lab: Lab) -> list[Part]:
        """The tables that its report is made from."""

    @staticmethod
    def report_from(lab: Lab, frames: Frames) -> Report:
        """Its tables and chart from these tables, by their headings; of the lab only settings are used."""


@dataclass(frozen=True)
class RecipeFacts:
    """What a recipe runs over when nobody says.

    Attributes:
        datasets, models, tasks: Their names.
        cell_by_cell: No row of its tables needs two cells, so that it can tell of some of them.
        takes_methods: Methods of somebody else's can stand in its tables.
        takes_cells: Cells of earlier reports can stand in its tables: it is a `FromParts`.
        cycles: How many cycles; None leaves it to the profile.
        sample: Of how many random nodes it knows the truth; None knows it of all.
    """

    datasets: tuple[str, ...] = ("cora", "citeseer", "pubmed")
    models: tuple[str, ...] = ("gcn", "sage", "gat", "gcnii")
    tasks: tuple[str, ...] = ("node", "link")
    cell_by_cell: bool = False
    takes_methods: bool = False
    takes_cells: bool = False
    cycles: int | None = None
    sample: int | None = None


RECIPES: Registry[type[Recipe], RecipeFacts] = Registry("experiment", __name__, RecipeFacts())


def published() -> dict[str, Any]:
    """The paper's figures, by what they show."""
    text = resources.files(__name__).joinpath("paper.json").read_text(encoding="utf-8")
    return json.loads(text)


def lookup(table: Any, *keys: str) -> float:
    """A published figure, NaN where the paper has none.

    >>> lookup(published()["pearson"], "node", "cora", "gcn", "nora")
    0.903
    """
    for key in keys:
        if not isinstance(table, dict) or key not in table:
            return float("nan")
        table = table[key]
    return float(table)
