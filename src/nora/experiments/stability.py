"""Stability: is influence a property of the graph, or of one model's size and kind?"""

from __future__ import annotations

from itertools import combinations
from statistics import fmean

import pandas as pd

from nora.experiments import RECIPES, RecipeFacts, Report, lookup, published
from nora.experiments.cells import Cell
from nora.experiments.charts import bars
from nora.experiments.lab import TRUTH, Lab, Step
from nora.results.agreement import pearson

# The largest is the profile's own size, so that its models are shared with the main table.
SHRINK = (4, 2, 1)


def sizes(lab: Lab, cell: Cell) -> list[int]:
    """The hidden sizes compared."""
    full = lab.training(cell)["hidden_channels"]
    return [max(8, full // shrink) for shrink in SHRINK]


def between_sizes(lab: Lab, cell: Cell) -> float:
    """Mean Pearson between the true influences of models of different hidden sizes."""
    found = [lab.mean_scores(cell, TRUTH, hidden) for hidden in sizes(lab, cell)]
    return fmean(pearson(a, b) for a, b in combinations(found, 2))


def between_models(lab: Lab, dataset: str, task: str) -> float:
    """Mean Pearson between the true influences of different architectures."""
    found = [lab.mean_scores(Cell(dataset, model, task), TRUTH) for model in lab.models]
    pairs = list(combinations(found, 2))
    return fmean(pearson(a, b) for a, b in pairs) if pairs else float("nan")


@RECIPES.register(
    "stability",
    "does influence depend on the model's hidden size, or on its kind?",
    RecipeFacts(
        tasks=("node",),
        models=("gcn", "sage", "gat"),
    ),
)
class Stability:
    """Correlation of the truth between hidden sizes and between architectures."""

    @staticmethod
    def plan(lab: Lab) -> list[Step]:
        """See `Recipe.plan`."""
        steps = []
        for cell in lab.cells:
            for hidden in sizes(lab, cell):
                steps += lab.training_steps([cell], hidden)
                steps += lab.scoring_steps([cell], (TRUTH,), hidden)
            steps += lab.training_steps([cell]) + lab.scoring_steps([cell], (TRUTH,))
        return steps

    @staticmethod
    def report(lab: Lab) -> Report:
        """See `Recipe.report`."""
        figures = published()["stability"]
        rows = []
        for dataset in lab.datasets:
            for task in lab.tasks:
                for model in lab.models:
                    here = between_sizes(lab, Cell(dataset, model, task))
                    # The paper gives these for node classification.
                    paper = lookup(figures, dataset, model) if task == "node" else float("nan")
                    rows.append((dataset, task, f"{model}, hidden sizes", here, paper))
                here = between_models(lab, dataset, task)
                paper = lookup(figures, dataset, "inter_model") if task == "node" else float("nan")
                rows.append((dataset, task, "between architectures", here, paper))
        table = pd.DataFrame(rows, columns=["dataset", "task", "compared", "here", "paper"])
        table["difference"] = table["here"] - table["paper"]
        labelled = table.assign(
            label=table["dataset"] + " · " + table["task"] + " · " + table["compared"]
        )
        return Report(
            title="How stable is influence?",
            text=(
                "Mean Pearson correlation between the exact influences (averaged over the cycles) of "
                "models that differ in hidden size, and between architectures. Hidden sizes compared: "
                + ", ".join(str(size) for size in sizes(lab, lab.cells[0]))
                + ". "
                + lab.caption
            ),
            tables=[("Pearson between models", table)],
            figure=bars(
                labelled, "label", {"here": "here", "paper": "paper"}, "Pearson correlation"
            ),
        )
