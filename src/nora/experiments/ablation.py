"""The ablation: NORA's two parts by themselves and together."""

from __future__ import annotations

from nora.experiments import RECIPES, RecipeFacts, Report
from nora.experiments.charts import dots
from nora.experiments.citation import evaluated, means_table, pearson_table, plan_for
from nora.experiments.lab import Lab, Step
from nora.experiments.single import SAYS, single_tables

PARTS = ("nora", "nora-t1", "nora-t2")


@RECIPES.register(
    "ablation",
    "NORA's gradient part (t1) and structural part (t2) by themselves",
    RecipeFacts(cell_by_cell=True),
)
class Ablation:
    """`nora` beside `nora-t1` and `nora-t2`, each tuned by itself."""

    @staticmethod
    def plan(lab: Lab) -> list[Step]:
        """See `Recipe.plan`."""
        return plan_for(lab, PARTS)

    @staticmethod
    def report(lab: Lab) -> Report:
        """See `Recipe.report`."""
        found = evaluated(lab, PARTS)
        pearson = found[found["metric"] == "pearson"]
        expected, cells, every = single_tables(lab, PARTS)
        return Report(
            title="What do NORA's two parts contribute?",
            text=(
                f"{SAYS}`nora-t1` keeps only the gradient part, `nora-t2` only the structural part; each is "
                "tuned by itself on the labelled nodes. Pearson on the others, difference to the "
                "paper in brackets. " + lab.caption
            ),
            tables=[
                expected,
                ("Means over all cells", means_table(found, PARTS)),
                cells,
                ("Pearson in every cell (difference to the paper)", pearson_table(found, PARTS)),
            ],
            raw=[every],
            figure=dots(pearson, PARTS),
        )
