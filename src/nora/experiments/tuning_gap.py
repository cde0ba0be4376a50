"""Why is NORA below the paper in some cells: its options, the sample they are found on, or the formula?

The same models and truth, with options found in other ways: on other samples of labelled nodes, taken as the
paper published them, and by looking at the truth of all nodes, which no method may: that tells how far the
search could get, and is no result. These are measured on the nodes that are not labelled in the main table;
those of other samples also on the nodes that their own sample does not label, which is the main table's
protocol with another seed.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd
import torch

from nora.experiments import RECIPES, RecipeFacts, Report, lookup, published
from nora.experiments.cells import Cell
from nora.experiments.charts import bars
from nora.experiments.citation import plan_for
from nora.experiments.kept import keep, kept
from nora.experiments.lab import TRUTH, Lab, Step
from nora.experiments.other_options import METHOD, OtherOptions
from nora.tuning.published import published_options

SAMPLES = 3
COLUMNS = (
    "here",
    "other samples",
    "other samples, their own nodes",
    "lowest",
    "highest",
    "published options",
    "all nodes seen",
)


def _path(lab: Lab, cell: Cell) -> Path:
    facts = lab.cell_facts(cell, METHOD, samples=SAMPLES, columns=COLUMNS)
    return lab.path("tuning", str(cell), facts, ".json")


def measure(lab: Lab, cell: Cell) -> dict[str, Any]:
    """Pearson of the averaged scores in one cell, with options found in each way."""
    path = _path(lab, cell)
    if (found := kept(path)) is not None:
        return dict(found)
    truths = [one.scores for one in lab.all_scores(cell, TRUTH)]
    models = OtherOptions([lab.run(cell, cycle) for cycle in range(lab.cycles)], truths, lab.seed)
    seen = lab.labelled(cell)

    def worth(options: dict[str, Any]) -> float:
        return models.agreement(models.scores(options), seen)

    samples = models.by_samples(lab.share, [lab.seed + 1 + k for k in range(SAMPLES)])
    own = [value for _, value in samples]
    row = {
        "here": worth(lab.tuned(cell, METHOD).options),
        "other samples": fmean(models.agreement(scores, seen) for scores, _ in samples),
        "other samples, their own nodes": fmean(own),
        "lowest": min(own),
        "highest": max(own),
        "all nodes seen": worth(models.options(torch.arange(len(models.truth)))),
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
                "as the paper published them, and on the truth of all nodes: how far the search can get, "
                "which looks at what is reported and is no result. Other samples are told on the "
                "same nodes, of which they label some, and on those that they do not label themselves: the "
                "protocol with another seed (lowest and highest are of these). " + lab.caption
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
                {
                    "paper": "paper",
                    "here": "here",
                    "published options": "published options",
                    "all nodes seen": "all nodes seen",
                },
                "Pearson with the exact influence",
            ),
        )
