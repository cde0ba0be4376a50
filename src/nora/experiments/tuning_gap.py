"""Why is NORA below the paper in some cells: its options, the sample they are found on, or the formula?

The same models and truth, with options found in other ways: on other samples of labelled nodes, taken as the
paper published them, and by looking at the truth of all nodes, which no method may: that is how far the
search could get, and no result. These are measured on the nodes that are not labelled in the main table;
those of other samples also on the nodes that their own sample does not label, which is the main table's
protocol with another seed.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from statistics import fmean
from typing import Any

import pandas as pd
import torch

from nora.experiments import RecipeFacts, lookup, published
from nora.experiments.cache import Step
from nora.experiments.cells import Cell
from nora.experiments.charts import bars
from nora.experiments.lab import TRUTH, Lab
from nora.experiments.other_options import METHOD, OtherOptions
from nora.experiments.recipe import Report, recipe
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
DRAWN = ("paper", "here", "published options", "all nodes seen")


def variation_step(lab: Lab, cell: Cell) -> Step[Any]:
    """Compute the Pearson of the averaged scores in one cell, with options found in each way."""
    facts = lab.cell_facts(cell, METHOD, samples=SAMPLES, columns=COLUMNS)
    label = f"vary tuning on {cell}"
    return lab.numbers_step(label, "tuning", str(cell), facts, partial(_measured, lab, cell))


def _measured(lab: Lab, cell: Cell) -> dict[str, float]:
    truths = [one.scores for one in lab.all_scores(cell, TRUTH)]
    models = OtherOptions([lab.run(cell, cycle) for cycle in range(lab.cycles)], truths, lab.seed)
    seen = lab.labelled(cell)

    def value(options: dict[str, Any]) -> float:
        return models.agreement(models.scores(options), seen)

    samples = models.by_samples(lab.share, [lab.seed + 1 + k for k in range(SAMPLES)])
    own = [one for _, one in samples]
    row = {
        "here": value(lab.tuned(cell, METHOD).options),
        "other samples": fmean(models.agreement(scores, seen) for scores, _ in samples),
        "other samples, their own nodes": fmean(own),
        "lowest": min(own),
        "highest": max(own),
        "all nodes seen": value(models.options(torch.arange(len(models.truth)))),
    }
    with suppress(ValueError):  # where none are published
        options = published_options(METHOD, cell.model, cell.dataset, cell.task)
        row["published options"] = value(options)
    return row


@recipe(
    "tuning",
    "why is NORA below the paper: its options, their sample, or the formula?",
    RecipeFacts(cell_by_cell=True),
    plan=lambda lab: [*lab.plan((METHOD,)), *(variation_step(lab, cell) for cell in lab.cells)],
)
def tuning_gap(lab: Lab) -> Report:
    """NORA with options found in other ways, beside the paper's figure."""
    figures = published()["pearson"]
    rows = [
        {
            "cell": str(cell),
            "paper": lookup(figures, cell.task, cell.dataset, cell.model, METHOD),
            **variation_step(lab, cell).get(),
        }
        for cell in lab.cells
    ]
    table = pd.DataFrame(rows, columns=["cell", "paper", *COLUMNS])
    means = table.drop(columns=["cell", "lowest", "highest"]).mean()
    by_options = means.rename("pearson").rename_axis("options").reset_index()
    return Report(
        title="Why is NORA below the paper?",
        text=(
            f"Pearson of `nora`, averaged over {lab.cycles} models, on the same nodes, with options "
            f"found on the labelled {lab.share:.0%} (here), on {SAMPLES} other samples of that size, "
            "as the paper published them, and on the truth of all nodes: how far the search can get, "
            "which looks at what is reported and is not a result. Other samples are measured on the "
            "same nodes, of which they label some, and on those that they do not label themselves: the "
            "protocol with another seed (lowest and highest are of these). " + lab.caption
        ),
        tables=[("Means over the cells", by_options), ("Every cell", table)],
        figure=bars(table, "cell", {k: k for k in DRAWN}, "Pearson with the exact influence"),
    )
