"""Why is NORA below the paper in some cells: its options, the sample they are found on, or the formula?

The same models and truth, with options found in other ways: on other samples of labelled nodes, taken as the
paper published them, and by looking at the truth of all nodes, which no method may: that is a bound for
what any choice of options can reach, not a result. All are measured on the nodes that are not labelled in
the main table.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
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

METHOD, SAMPLES = "nora", 10


def _path(lab: Lab, cell: Cell) -> Path:
    facts = lab.cell_facts(cell, METHOD, samples=SAMPLES)
    return lab.path("tuning", str(cell), facts, ".json")


def measure(lab: Lab, cell: Cell) -> dict[str, Any]:
    """Pearson of the averaged scores in one cell, with options found in each way."""
    path = _path(lab, cell)
    if (found := kept(path)) is not None:
        return dict(found)
    truths = [one.scores for one in lab.all_scores(cell, TRUTH)]
    runs = [lab.run(cell, cycle) for cycle in range(lab.cycles)]
    unseen = torch.ones(len(truths[0]), dtype=torch.bool)
    unseen[lab.labelled(cell)] = False
    mean = torch.stack(truths).mean(dim=0)[unseen]

    def worth(options: dict[str, Any]) -> float:
        scores = [
            influence(run.model, run.data, METHOD, run.task, progress=False, **options).scores
            for run in runs
        ]
        return pearson(torch.stack(scores).mean(dim=0)[unseen], mean)

    def tuned_on(nodes: Tensor) -> dict[str, Any]:
        problems = []
        for cycle, truth in enumerate(truths):
            labels = torch.full_like(truth, float("nan"))
            labels[nodes] = truth[nodes]
            problems.append(lab._problem(cell, cycle, labels))
        return tune_problems(problems, METHOD, seed=lab.seed, progress=False).options

    samples = [
        worth(tuned_on(few_shot(len(unseen), lab.share, lab.seed + 1 + k))) for k in range(SAMPLES)
    ]
    try:
        as_published = worth(published_options(METHOD, cell.model, cell.dataset, cell.task))
    except ValueError:  # none are published for this cell
        as_published = float("nan")
    row = {
        "here": worth(lab.tuned(cell, METHOD).options),
        "other samples": sum(samples) / len(samples),
        "lowest": min(samples),
        "highest": max(samples),
        "published options": as_published,
        "bound": worth(tuned_on(torch.arange(len(unseen)))),
    }
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
        table = pd.DataFrame(rows)
        means = table.drop(columns=["cell", "lowest", "highest"]).mean()
        return Report(
            title="Why is NORA below the paper?",
            text=(
                f"Pearson of `nora`, averaged over {lab.cycles} models, on the same nodes, with options "
                f"found on the labelled {lab.share:.0%} (here), on {SAMPLES} other samples of that size, "
                "as the paper published them, and on the truth of all nodes: a bound for any choice of "
                "options, which looks at what is reported and is no result. Of each other sample, about "
                f"{1 - lab.share:.0%} are among the nodes that are measured on. "
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
