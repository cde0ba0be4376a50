"""A recipe: the steps that one table or figure needs, and the report made of what they have cached.

    @recipe("ablation", "NORA's two parts by themselves", methods=("nora", "nora-t1", "nora-t2"))
    def ablation(lab: Lab) -> Report:
        return Report("What do the parts contribute?", lab.caption, [("Means", means_table(lab))])

Its steps are by default those of `lab.plan`: train, compute the truth, score by `methods`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nora.experiments import RECIPES, RecipeFacts
from nora.experiments.parts import Frames, Part, frames_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from nora.experiments.cache import Step
    from nora.experiments.lab import Lab


@dataclass(frozen=True)
class Report:
    """The results of a recipe.

    Attributes:
        title: The question.
        text: What a reader must know.
        tables: Tables to read, with headings.
        figure: A chart.
        facts: What else the record states about how it was made.
        raw: Tables for programs, which only the JSON file has.
        files: Further files by the endings of their names: functions that write them, from a path and from
            the record.
    """

    title: str
    text: str
    tables: Sequence[tuple[str, pd.DataFrame]]
    figure: Figure | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    raw: Sequence[tuple[str, pd.DataFrame]] = ()
    files: Mapping[str, Callable[[Path, dict[str, Any]], None]] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """One of the paper's tables or figures.

    Attributes:
        plan: The steps that it needs, in order.
        make: Its report once all steps are done: from the lab, and from its parts where it has any.
        parts: The tables with rows of single cells that its report is made of, wherever they come from.
    """

    plan: Callable[[Lab], list[Step[Any]]]
    make: Callable[..., Report]
    parts: Callable[[Lab], list[Part]] | None = None

    def report(self, lab: Lab, frames: Frames | None = None) -> Report:
        """Its tables and chart.

        Args:
            lab: Where the work was done; with `frames`, only its settings are used.
            frames: The tables of its parts, by heading; by default those of the lab's cells.
        """
        if self.parts is None:
            return self.make(lab)
        return self.make(lab, frames_of(lab, self.parts(lab)) if frames is None else frames)


def recipe(
    name: str,
    summary: str,
    facts: RecipeFacts | None = None,
    *,
    methods: Sequence[str] = (),
    plan: Callable[[Lab], list[Step[Any]]] | None = None,
    parts: Callable[[Lab], list[Part]] | None = None,
) -> Callable[[Callable[..., Report]], Callable[..., Report]]:
    """Decorator that registers a function from a lab to a report as a recipe.

    Args:
        name: Its name on the command line.
        summary: One line about it.
        facts: What it runs over.
        methods: The methods that are scored, where there is no `plan`.
        plan: Its steps.
        parts: The tables that its report is made of; the function gets them as its second argument.
    """

    def enter(make: Callable[..., Report]) -> Callable[..., Report]:
        steps = plan or (lambda lab: lab.plan(methods))
        RECIPES.register(name, summary, facts)(Recipe(steps, make, parts))
        return make

    return enter
