"""Twitter: how well does every method agree with the truth on TIMME, trained on parties and links?"""

from __future__ import annotations

from typing import Any

import pandas as pd

from nora.experiments import RecipeFacts, lookup, published
from nora.experiments.cells import Cell
from nora.experiments.charts import dots
from nora.experiments.citation import (
    COMPARED,
    YARDSTICKS,
    evaluated,
    evaluated_plan,
    means_table,
    tuned_table,
)
from nora.experiments.lab import TRUTH, Lab
from nora.experiments.recipe import Report, recipe
from nora.experiments.single import ONE_MODEL_FIRST, single_tables
from nora.experiments.skew import SHARES, top_share

# Where every node changes with every removal, the sketch costs as much as `exact` per node, and more.
SKETCHED = 5000
METHODS = ("cauchy", *COMPARED, *YARDSTICKS)
# The paper's Twitter graphs. They are published; the copy that could be had here lacks the large files.
PAPERS = {"p50": "P50", "p_20_50": "P_20_50"}
PARTIAL = "p-20-50-partial"
FACTS = RecipeFacts(datasets=("pure-p",), models=("timme",))


def caption(lab: Lab) -> str:
    """How the models of a table were trained."""
    settings = lab.profile.training(Cell(lab.datasets[0], lab.models[0], "node"))
    return (
        f"Hidden size {settings['hidden_channels']}, as published; at most {settings['epochs']} epochs, "
        f"early stopping after {settings['patience']}."
    )


def beside_what(lab: Lab) -> str:
    """How these figures differ from the paper's."""
    if list(lab.datasets) == [PARTIAL]:
        return (
            "The paper's figures are on P50 and on the whole of P_20_50; these are on what is left of "
            "P_20_50, its users with two of five relations (friend and reply), and no figure here is one "
            "on P_20_50. "
        )
    return (
        "The paper's figures are on its larger graphs P50 and P_20_50, not on this one: other users, of "
        "whom most are not politicians. "
    )


def methods_to_compare(lab: Lab) -> tuple[str, ...]:
    """The methods to compare: the sketch only on graphs where it takes minutes, not hours."""
    largest = max(int(lab.dataset(name).data.num_nodes or 0) for name in lab.datasets)
    return METHODS if largest <= SKETCHED else METHODS[1:]


def beside_the_paper(found: pd.DataFrame) -> pd.DataFrame:
    """Pearson, Spearman and top-k overlap per method here, and the paper's Pearson on its graphs."""
    wide = found.pivot_table(
        index=["dataset", "task", "method"], columns="metric", values="value", sort=False
    )
    figures = published()["pearson"]
    for key, name in PAPERS.items():
        wide[f"paper's {name}"] = [
            lookup(figures, task, key, "timme", method) for _, task, method in wide.index
        ]
    return wide.reset_index()


def model_quality(lab: Lab) -> pd.DataFrame:
    """How good the trained models are, cycle by cycle."""
    rows: list[dict[str, Any]] = []
    for dataset in lab.datasets:
        for cycle in range(lab.cycles):
            metrics = lab.run(Cell(dataset, lab.models[0], "node"), cycle).metrics
            tests = {k: v for k, v in metrics.items() if k.startswith("test_")}
            rows.append({"dataset": dataset, "cycle": str(cycle), **tests})
        mean = pd.DataFrame(rows[-lab.cycles :]).mean(numeric_only=True)
        means = {str(key): float(value) for key, value in mean.items()}
        rows.append({"dataset": dataset, "cycle": "mean", **means})
    return pd.DataFrame(rows)


def top_shares(lab: Lab) -> pd.DataFrame:
    """Percent of all influence that the top nodes have, beside the paper's."""
    figures = published()["top_share_percent"]
    rows = []
    for cell in lab.cells:
        scores = lab.mean_scores(cell, TRUTH).double().numpy()
        for percent in SHARES:
            row: dict[str, Any] = {"dataset": cell.dataset, "task": cell.task}
            row |= {"top": f"{percent} %", "here (%)": top_share(scores, percent)}
            for key, name in PAPERS.items():
                row[f"paper's {name} (%)"] = lookup(figures, cell.task, f"{percent}%", key)
            rows.append(row)
    return pd.DataFrame(rows)


@recipe(
    "twitter",
    "TIMME on Twitter: all methods, both tasks, and the skew",
    FACTS,
    plan=lambda lab: evaluated_plan(lab, methods_to_compare(lab)),
)
def twitter(lab: Lab) -> Report:
    """Agreement with the truth on PureP, beside the paper's figures on its larger graphs."""
    methods = methods_to_compare(lab)
    found = evaluated(lab, methods)
    expected, cells, every = single_tables(lab, methods)
    return Report(
        title="Twitter: how well does each method agree with the truth?",
        text=(
            f"{ONE_MODEL_FIRST}TIMME trained on parties and links together. Correlation with the exact "
            f"influence on the {1 - lab.share:.0%} of the users a method has not seen, in the averages over "
            f"{lab.cycles} models, one per cyclic split. " + beside_what(lab) + caption(lab)
        ),
        tables=[
            expected,
            ("Agreement, beside the paper's Pearson", beside_the_paper(found)),
            ("Means over the tasks", means_table(found, methods)),
            cells,
            ("How good are the models?", model_quality(lab)),
            ("Share of the most influential users", top_shares(lab)),
            ("Tuned options", tuned_table(lab, COMPARED)),
        ],
        raw=[("Everything", found), every],
        figure=dots(found[found["metric"] == "pearson"], methods[:-1]),
    )
