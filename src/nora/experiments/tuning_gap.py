"""Why is NORA below the paper in some cells: its options, the sample they are found on, or the formula?

The same models and truth, with options found in other ways: on other samples of labelled nodes, taken as the
paper published them, and by looking at the truth of all nodes, which no method may: that is a bound for
what any choice of options can reach, not a result. These are measured on the nodes that are not labelled in
the main table; those of other samples also on the nodes that their own sample does not label, which is the
main table's protocol with another seed.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from nora.experiments import RECIPES, RecipeFacts, Report, lookup, published
from nora.experiments.cells import Cell
from nora.experiments.charts import bars
from nora.experiments.citation import plan_for
from nora.experiments.kept import keep, kept
from nora.experiments.lab import TRUTH, Lab, Step
from nora.questions.influence import influence
from nora.results.agreement import pearson
from nora.training.splits import few_shot
from nora.tuning.published import published_options
from nora.tuning.tune import tune_problems

METHOD, SAMPLES = "nora", 3
COLUMNS = (
    "here",
    "other samples",
    "other samples, their own nodes",
    "lowest",
    "highest",
    "published options",
    "bound",
)


def _path(lab: Lab, cell: Cell) -> Path:
    facts = lab.cell_facts(cell, METHOD, samples=SAMPLES, measured="both")
    return lab.path("tuning", str(cell), facts, ".json")


def measure(lab: Lab, cell: Cell) -> dict[str, Any]:
    """Pearson of the averaged scores in one cell, with options found in each way."""
    path = _path(lab, cell)
    if (found := kept(path)) is not None:
        return dict(found)
    truths = [one.scores for one in lab.all_scores(cell, TRUTH)]
    runs = [lab.run(cell, cycle) for cycle in range(lab.cycles)]
    total = len(truths[0])
    mean = torch.stack(truths).mean(dim=0)

    def without(nodes: Tensor) -> Tensor:
        counted = torch.ones(total, dtype=torch.bool)
        counted[nodes] = False
        return counted

    unseen = without(lab.labelled(cell))

    def scored(options: dict[str, Any]) -> Tensor:
        scores = [
            influence(run.model, run.data, METHOD, run.task, progress=False, **options).scores
            for run in runs
        ]
        return torch.stack(scores).mean(dim=0)

    def worth(options: dict[str, Any]) -> float:
        return pearson(scored(options)[unseen], mean[unseen])

    def tuned_on(nodes: Tensor) -> dict[str, Any]:
        problems = []
        for cycle, truth in enumerate(truths):
            labels = torch.full_like(truth, float("nan"))
            labels[nodes] = truth[nodes]
            problems.append(lab._problem(cell, cycle, labels))
        return tune_problems(problems, METHOD, seed=lab.seed, progress=False).options

    samples, own = [], []
    for k in range(SAMPLES):
        nodes = few_shot(total, lab.share, lab.seed + 1 + k)
        scores, counted = scored(tuned_on(nodes)), without(nodes)
        samples.append(pearson(scores[unseen], mean[unseen]))
        own.append(pearson(scores[counted], mean[counted]))
    row = {
        "here": worth(lab.tuned(cell, METHOD).options),
        "other samples": fmean(samples),
        "other samples, their own nodes": fmean(own),
        "lowest": min(own),
        "highest": max(own),
        "bound": worth(tuned_on(torch.arange(total))),
    }
    with suppress(ValueError):  # where none are published
        options = published_options(METHOD, cell.model, cell.dataset, cell.task)
        row["published options"] = worth(options)
    keep(path, row)
    return row


@RECIPES.register(
    "tuning",
    "why is NORA below the paper: its options, their sample, or the formula?",
    RecipeFacts(cell_by_cell=True),
)
class TuningGap:
    """NORA with options found in other ways, beside the paper's figure."""

    @staticmethod
    def plan(lab: Lab) -> list[Step]:
        """See `Recipe.plan`."""
        measured = [
            Step(f"vary tuning on {cell}", _path(lab, cell), partial(measure, lab, cell))
            for cell in lab.cells
        ]
        return [*plan_for(lab, (METHOD,)), *measured]

    @staticmethod
    def report(lab: Lab) -> Report:
        """See `Recipe.report`."""
        figures = published()["pearson"]
        rows = [
            {
                "cell": str(cell),
                "paper": lookup(figures, cell.task, cell.dataset, cell.model, METHOD),
                **measure(lab, cell),
            }
            for cell in lab.cells
        ]
        table = pd.DataFrame(rows, columns=["cell", "paper", *COLUMNS])
        means = table.drop(columns=["cell", "lowest", "highest"]).mean()
        return Report(
            title="Why is NORA below the paper?",
            text=(
                f"Pearson of `nora`, averaged over {lab.cycles} models, on the same nodes, with options "
                f"found on the labelled {lab.share:.0%} (here), on {SAMPLES} other samples of that size, "
                "as the paper published them, and on the truth of all nodes: a bound for any choice of "
                "options, which looks at what is reported and is no result. Other samples are told on the "
                "same nodes, of which they label some, and on those that they do not label themselves: the "
                "protocol with another seed (lowest and highest are of these). "
                + lab.profile.caption
            ),
            tables=[
                (
                    "Means over the cells",
                    means.rename("pearson").rename_axis("options").reset_index(),
                ),
                ("Every cell", table),
            ],
            figure=bars(
                table,
                "cell",
                {"here": "here", "published options": "published options", "bound": "bound"},
                "Pearson with the exact influence",
            ),
        )
