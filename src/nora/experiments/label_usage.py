"""Label usage: do methods get better when more nodes' true influence is known?"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from nora.experiments import RECIPES, RecipeFacts, Report, published
from nora.experiments.charts import lines
from nora.experiments.citation import plan_for
from nora.experiments.lab import TRUTH, Lab, Step
from nora.experiments.single import SAYS, one_by_one
from nora.results.agreement import evaluate

SHARES = (0.1, 0.2, 0.3, 0.4)
METHODS_SHOWN = ("nora", "predict-n", "predict-e")


@RECIPES.register(
    "labels",
    "do 20, 30 or 40 % labelled nodes help the methods that learn?",
    RecipeFacts(
        datasets=("cora", "citeseer"),
        models=("gcn", "sage"),
        cell_by_cell=True,
    ),
)
class LabelUsage:
    """Pearson of the methods that learn from labels, for growing shares of labelled nodes."""

    @staticmethod
    def plan(lab: Lab) -> list[Step]:
        """See `Recipe.plan`."""
        return [
            step for share in SHARES for step in plan_for(replace(lab, share=share), METHODS_SHOWN)
        ]

    @staticmethod
    def report(lab: Lab) -> Report:
        """See `Recipe.report`."""
        rows = []
        for cell in lab.cells:
            for method in METHODS_SHOWN:
                values = []
                for share in SHARES:
                    here = replace(lab, share=share)
                    found = evaluate(
                        here.all_scores(cell, method),
                        here.all_scores(cell, TRUTH),
                        seen=here.labelled(cell),
                        resamples=0,
                    )
                    values.append(found["value"].to_dict()["pearson"])
                rows.append((str(cell), method, *values))
        shown = [f"{share:.0%}" for share in SHARES]
        table = pd.DataFrame(rows, columns=["cell", "method", *shown])
        figures = published()["label_usage"]
        paper = pd.DataFrame(
            [
                (cell, method, *values)
                for cell, methods in figures.items()
                if isinstance(methods, dict)
                for method, values in methods.items()
            ],
            columns=["cell", "method", *shown],
        )
        single = pd.DataFrame(
            {
                name: one_by_one(replace(lab, share=share), METHODS_SHOWN)
                .groupby("method", sort=False)["pearson"]
                .mean()
                for name, share in zip(shown, SHARES, strict=True)
            }
        )
        means = table.groupby("method", sort=False)[shown].mean()
        percent = [100 * share for share in SHARES]
        return Report(
            title="Do more labels help?",
            text=(
                f"{SAYS}Pearson on the nodes that are not labelled, when 10 to 40 % are. The paper's figures "
                "are for ogbn-arxiv; these are for the cells named. " + lab.caption
            ),
            tables=[
                ("One model: mean Pearson over all models", single.reset_index()),
                ("Pearson by share of labelled nodes", table),
                ("Mean over the cells", means.reset_index()),
                ("The paper, ogbn-arxiv", paper),
            ],
            figure=lines(
                {str(name): (percent, row.tolist()) for name, row in means.iterrows()},
                "labelled nodes (%)",
                "Pearson on the others",
                "Mean over the cells",
            ),
        )
