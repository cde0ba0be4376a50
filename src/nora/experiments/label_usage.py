"""Label usage: do methods get better when more nodes' true influence is known?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from nora.experiments import RecipeFacts, published
from nora.experiments.cache import Step
from nora.experiments.cells import Cell
from nora.experiments.charts import lines
from nora.experiments.lab import TRUTH, Lab
from nora.experiments.recipe import Report, recipe
from nora.experiments.single import ONE_MODEL_FIRST, per_model
from nora.results.agreement import evaluate

SHARES = (0.1, 0.2, 0.3, 0.4)
METHODS_SHOWN = ("nora", "predict-n", "predict-e")


def _plan(lab: Lab) -> list[Step[Any]]:
    return [step for share in SHARES for step in replace(lab, share=share).plan(METHODS_SHOWN)]


def _pearson(lab: Lab, cell: Cell, method: str) -> float:
    several = (lab.all_scores(cell, name) for name in (method, TRUTH))
    found = evaluate(*several, seen=lab.labelled(cell), resamples=0)
    return float(found["value"].to_dict()["pearson"])


@recipe(
    "labels",
    "do 20, 30 or 40 % labelled nodes help the methods that learn?",
    RecipeFacts(datasets=("cora", "citeseer"), models=("gcn", "sage"), cell_by_cell=True),
    plan=_plan,
)
def label_usage(lab: Lab) -> Report:
    """Pearson of the methods that learn from labels, for growing shares of labelled nodes."""
    labs = {f"{share:.0%}": replace(lab, share=share) for share in SHARES}
    columns = ["cell", "method", *labs]
    rows = [
        (str(cell), method, *(_pearson(here, cell, method) for here in labs.values()))
        for cell in lab.cells
        for method in METHODS_SHOWN
    ]
    table = pd.DataFrame(rows, columns=columns)
    figures = {k: v for k, v in published()["label_usage"].items() if isinstance(v, dict)}
    paper = [(cell, name, *v) for cell, methods in figures.items() for name, v in methods.items()]
    single = {
        name: per_model(here, METHODS_SHOWN).groupby("method", sort=False)["pearson"].mean()
        for name, here in labs.items()
    }
    means = table.groupby("method", sort=False)[list(labs)].mean()
    percent = [100 * share for share in SHARES]
    return Report(
        title="Do more labels help?",
        text=(
            f"{ONE_MODEL_FIRST}Pearson on the nodes that are not labelled, when 10 to 40 % are. The paper's "
            "figures are for ogbn-arxiv; these are for the cells named. " + lab.caption
        ),
        tables=[
            ("One model: mean Pearson over all models", pd.DataFrame(single).reset_index()),
            ("Pearson by share of labelled nodes", table),
            ("Mean over the cells", means.reset_index()),
            ("The paper, ogbn-arxiv", pd.DataFrame(paper, columns=columns)),
        ],
        figure=lines(
            {str(name): (percent, row.tolist()) for name, row in means.iterrows()},
            "labelled nodes (%)",
            "Pearson on the others",
            "Mean over the cells",
        ),
    )
