"""Case study: who are the ten most influential nodes, and what would they change?"""

from __future__ import annotations

import pandas as pd
from torch import Tensor

from nora.experiments import RecipeFacts
from nora.experiments.cells import Cell
from nora.experiments.lab import TRUTH, Lab
from nora.experiments.recipe import Report, recipe
from nora.questions.what_if import what_if

TOP = 10


def ranks(scores: Tensor) -> Tensor:
    """The rank of every node, the highest score first."""
    return scores.argsort(descending=True, stable=True).argsort() + 1


def top_table(lab: Lab, cell: Cell) -> pd.DataFrame:
    """The first nodes of a cell with degree, class and what their removal flips."""
    dataset, run = lab.dataset(cell.dataset), lab.run(cell, 0)
    mean, degree = (lab.mean_scores(cell, method) for method in (TRUTH, "degree"))
    by_degree, classes = ranks(degree), dataset.class_names
    rows = []
    for rank, node in enumerate(mean.argsort(descending=True)[:TOP].tolist(), start=1):
        effect = what_if(run.model, run.data, remove=node, task=run.task)
        label = int(dataset.data.y[node]) if dataset.data.y is not None else -1
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
    return pd.DataFrame(rows)


@recipe(
    "case",
    "the ten most influential nodes, by name where the dataset has names",
    RecipeFacts(datasets=("polarised", "cora", "pubmed"), models=("gcn",), tasks=("node",)),
    methods=("degree",),
)
def case_study(lab: Lab) -> Report:
    """The top ten of every cell."""
    return Report(
        title="Who are the most influential nodes?",
        text=(
            "The ten nodes with the highest exact influence, averaged over the cycles, and what "
            "removing each alone would flip in the first cycle's model. " + lab.caption
        ),
        tables=[
            (f"{cell.dataset}, {cell.model}, {cell.task} task", top_table(lab, cell))
            for cell in lab.cells
        ],
    )
