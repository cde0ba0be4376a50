"""Case study: who are the ten most influential nodes, and what would they change?"""

from __future__ import annotations

import pandas as pd

from nora.experiments import RECIPES, RecipeFacts, Report
from nora.experiments.citation import plan_for
from nora.experiments.lab import TRUTH, Lab, Step
from nora.questions.what_if import what_if

TOP = 10


@RECIPES.register(
    "case",
    "the ten most influential nodes, by name where the dataset has names",
    RecipeFacts(
        datasets=("polarised", "cora", "pubmed"),
        models=("gcn",),
        tasks=("node",),
    ),
)
class CaseStudy:
    """The top ten of every cell, with degree, class and what their removal flips."""

    @staticmethod
    def plan(lab: Lab) -> list[Step]:
        """See `Recipe.plan`."""
        return plan_for(lab, ("degree",))

    @staticmethod
    def report(lab: Lab) -> Report:
        """See `Recipe.report`."""
        tables = []
        for cell in lab.cells:
            dataset = lab.dataset(cell.dataset)
            mean = lab.mean_scores(cell, TRUTH)
            degree = lab.mean_scores(cell, "degree")
            by_degree = degree.argsort(descending=True, stable=True).argsort() + 1
            run = lab.run(cell, 0)
            rows = []
            for rank, node in enumerate(mean.argsort(descending=True)[:TOP].tolist(), start=1):
                effect = what_if(run.model, run.data, remove=node, task=run.task)
                label = int(dataset.data.y[node]) if dataset.data.y is not None else -1
                classes = dataset.class_names
                rows.append(
                    {
                        "rank": rank,
                        "node": dataset.node_names[node] if dataset.node_names else str(node),
                        "class": classes[label] if classes and label >= 0 else str(label),
                        "influence": float(mean[node]),
                        "degree": round(float(degree[node])),
                        "rank by degree": int(by_degree[node]),
                        "predictions flipped (cycle 0)": len(effect.flips()),
                    }
                )
            tables.append((f"{cell.dataset}, {cell.model}, {cell.task} task", pd.DataFrame(rows)))
        return Report(
            title="Who are the most influential nodes?",
            text=(
                "The ten nodes with the highest exact influence, averaged over the cycles, and what "
                "removing each alone would flip in the first cycle's model. " + lab.caption
            ),
            tables=tables,
        )
