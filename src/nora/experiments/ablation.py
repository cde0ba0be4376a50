"""The ablation: NORA's two parts by themselves and together."""

from __future__ import annotations

from nora.experiments import RecipeFacts
from nora.experiments.charts import dots
from nora.experiments.citation import evaluated, means_table, pearson_table
from nora.experiments.lab import Lab
from nora.experiments.recipe import Report, recipe
from nora.experiments.single import ONE_MODEL_FIRST, single_tables

PARTS = ("nora", "nora-t1", "nora-t2")


@recipe(
    "ablation",
    "NORA's gradient part (t1) and structural part (t2) by themselves",
    RecipeFacts(cell_by_cell=True),
    methods=PARTS,
)
def ablation(lab: Lab) -> Report:
    """`nora` beside `nora-t1` and `nora-t2`, each tuned by itself."""
    found = evaluated(lab, PARTS)
    expected, cells, every = single_tables(lab, PARTS)
    return Report(
        title="What do NORA's two parts contribute?",
        text=(
            f"{ONE_MODEL_FIRST}`nora-t1` keeps only the gradient part, `nora-t2` only the structural part; "
            "each is tuned by itself on the labelled nodes. Pearson on the others, difference to the "
            "paper in brackets. " + lab.caption
        ),
        tables=[
            expected,
            ("Means over all cells", means_table(found, PARTS)),
            cells,
            ("Pearson in every cell (difference to the paper)", pearson_table(found, PARTS)),
        ],
        raw=[every],
        figure=dots(found[found["metric"] == "pearson"], PARTS),
    )
