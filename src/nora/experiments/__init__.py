"""The paper's tables and figures: one small recipe each, run as `nora reproduce NAME`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from nora.registry import Registry

if TYPE_CHECKING:
    from nora.experiments.recipe import Recipe


@dataclass(frozen=True)
class RecipeFacts:
    """The defaults of a recipe, and the options it accepts.

    Attributes:
        datasets, models, tasks: Their names.
        cell_by_cell: No row of its tables needs two cells, so that a report can hold some of them.
        takes_methods: Custom methods can stand in its tables.
        takes_cells: Cells of earlier reports can stand in its tables.
        cycles: How many cycles; None leaves it to the profile.
        sample: Of how many random nodes it knows the truth; None for all nodes.
    """

    datasets: tuple[str, ...] = ("cora", "citeseer", "pubmed")
    models: tuple[str, ...] = ("gcn", "sage", "gat", "gcnii")
    tasks: tuple[str, ...] = ("node", "link")
    cell_by_cell: bool = False
    takes_methods: bool = False
    takes_cells: bool = False
    cycles: int | None = None
    sample: int | None = None


RECIPES: Registry[Recipe, RecipeFacts] = Registry("experiment", __name__, RecipeFacts())


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
