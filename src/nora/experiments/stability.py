"""Stability: is influence a property of the graph, or of one model's size and kind?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import fmean
from typing import Any

import pandas as pd
from torch import Tensor

from nora.experiments import RecipeFacts, lookup, published
from nora.experiments.cache import Step
from nora.experiments.cells import Cell
from nora.experiments.charts import bars
from nora.experiments.lab import TRUTH, Lab
from nora.experiments.recipe import Report, recipe
from nora.results.agreement import pearson

# The largest is the profile's own size, so that its models are shared with the main table.
SHRINK = (4, 2, 1)


def sizes(lab: Lab, cell: Cell) -> list[int]:
    """The hidden sizes compared."""
    full = lab.training(cell)["hidden_channels"]
    return [max(8, full // shrink) for shrink in SHRINK]


def mean_pearson(several: Sequence[Tensor]) -> float:
    """Mean Pearson over all pairs; NaN for a single vector."""
    pairs = list(combinations(several, 2))
    return fmean(pearson(a, b) for a, b in pairs) if pairs else float("nan")


def _plan(lab: Lab) -> list[Step[Any]]:
    return [
        step
        for cell in lab.cells
        for hidden in (*sizes(lab, cell), None)
        for step in (
            *lab.training_steps([cell], hidden),
            *lab.scoring_steps([cell], (TRUTH,), hidden),
        )
    ]


@recipe(
    "stability",
    "does influence depend on the model's hidden size, or on its kind?",
    RecipeFacts(tasks=("node",), models=("gcn", "sage", "gat")),
    plan=_plan,
)
def stability(lab: Lab) -> Report:
    """Correlation of the truth between hidden sizes and between architectures."""
    figures = published()["stability"]
    rows = []
    for dataset in lab.datasets:
        for task in lab.tasks:
            # The paper gives figures for node classification.
            papers = figures if task == "node" else {}
            cells = [Cell(dataset, model, task) for model in lab.models]
            for cell in cells:
                several = [lab.mean_scores(cell, TRUTH, hidden) for hidden in sizes(lab, cell)]
                paper = lookup(papers, dataset, cell.model)
                compared = f"{cell.model}, hidden sizes"
                rows.append((dataset, task, compared, mean_pearson(several), paper))
            several = [lab.mean_scores(cell, TRUTH) for cell in cells]
            paper = lookup(papers, dataset, "inter_model")
            rows.append((dataset, task, "between architectures", mean_pearson(several), paper))
    table = pd.DataFrame(rows, columns=["dataset", "task", "compared", "here", "paper"])
    table["difference"] = table["here"] - table["paper"]
    labels = table["dataset"] + " · " + table["task"] + " · " + table["compared"]
    columns = {"here": "here", "paper": "paper"}
    return Report(
        title="How stable is influence?",
        text=(
            "Mean Pearson correlation between the exact influences (averaged over the cycles) of "
            "models that differ in hidden size, and between architectures. Hidden sizes compared: "
            f"{', '.join(map(str, sizes(lab, lab.cells[0])))}. {lab.caption}"
        ),
        tables=[("Pearson between models", table)],
        figure=bars(table.assign(label=labels), "label", columns, "Pearson correlation"),
    )
