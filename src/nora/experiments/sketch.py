"""Beyond the paper: the Cauchy sketch, which needs no labels, beside tuned NORA."""

from __future__ import annotations

import pandas as pd

from nora.experiments import RECIPES, RecipeFacts, Report
from nora.experiments.charts import dots
from nora.experiments.citation import evaluated, plan_for
from nora.experiments.lab import Lab, Step
from nora.experiments.single import SAYS, single_tables

COMPARED = ("cauchy", "nora")


@RECIPES.register(
    "sketch",
    "beyond the paper: the Cauchy sketch beside tuned NORA",
    RecipeFacts(cell_by_cell=True),
)
class Sketch:
    """`cauchy` with 64 samples, no labels, against `nora` tuned on the labelled nodes."""

    @staticmethod
    def plan(lab: Lab) -> list[Step]:
        """See `Recipe.plan`."""
        return plan_for(lab, COMPARED)

    @staticmethod
    def report(lab: Lab) -> Report:
        """See `Recipe.report`."""
        found = evaluated(lab, COMPARED)
        shown = found[found["metric"].isin(["pearson", "spearman", "top_3%"])]
        wide = shown.pivot_table(
            index=["dataset", "model", "task"],
            columns=["metric", "method"],
            values="value",
            sort=False,
        )
        wide.columns = pd.Index([" ".join(pair) for pair in wide.columns])
        for metric in ("pearson", "spearman"):
            wide[f"{metric} gain"] = wide[f"{metric} cauchy"] - wide[f"{metric} nora"]
        table = wide.reset_index()
        summary = (
            table.groupby("task", sort=False)
            .agg(
                cells=("model", "size"),
                pearson_won=("pearson gain", lambda gain: int((gain > 0).sum())),
                spearman_won=("spearman gain", lambda gain: int((gain > 0).sum())),
                mean_pearson_gain=("pearson gain", "mean"),
                mean_spearman_gain=("spearman gain", "mean"),
            )
            .reset_index()
        )
        expected, cells, every = single_tables(lab, COMPARED)
        return Report(
            title="The Cauchy sketch beside tuned NORA",
            text=(
                f"{SAYS}`cauchy` with its default of 64 samples sees no labels; `nora` is tuned on "
                f"{lab.share:.0%} of the nodes. Same models, same truth, measured on the other nodes; "
                f"in the averages, scores averaged over {lab.cycles} cycles. The method was chosen on "
                "Cora alone. " + lab.profile.caption
            ),
            tables=[
                expected,
                ("Cells won by cauchy", summary),
                cells,
                ("Every cell", table),
            ],
            raw=[every],
            figure=dots(found[found["metric"] == "pearson"], COMPARED),
        )
