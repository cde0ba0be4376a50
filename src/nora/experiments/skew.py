"""Uneven distribution: which share of all influence do the most influential nodes have?"""

from __future__ import annotations

import numpy as np
import pandas as pd

from nora.experiments import lookup, published
from nora.experiments.cells import Cell
from nora.experiments.charts import lines
from nora.experiments.lab import TRUTH, Lab
from nora.experiments.recipe import Report, recipe

SHARES = (1, 3, 10)


def top_share(scores: np.ndarray, percent: float) -> float:
    """Percent of the summed influence that the top `percent` of the nodes have.

    >>> top_share(np.array([5.0, 3.0, 1.0, 1.0]), 25)
    50.0
    """
    ordered = np.sort(scores)[::-1]
    count = max(1, round(percent / 100 * len(ordered)))
    return float(100 * ordered[:count].sum() / ordered.sum())


def lorenz(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Percent of the nodes, the most influential first, and percent of influence they have."""
    ordered = np.sort(scores)[::-1]
    share = 100 * np.cumsum(ordered) / ordered.sum()
    return 100 * np.arange(1, len(ordered) + 1) / len(ordered), share


@recipe("skew", "how unevenly is influence spread: the top 1, 3 and 10 %")
def skew(lab: Lab) -> Report:
    """The top nodes' share of all influence, beside the paper's."""
    figures = published()["top_share_percent"]
    rows, curves = [], {}
    for dataset in lab.datasets:
        for task in lab.tasks:
            cells = [Cell(dataset, model, task) for model in lab.models]
            found = [lab.mean_scores(cell, TRUTH).double().numpy() for cell in cells]
            # Each model's scores have the same total, so that none outweighs another.
            scores = np.mean([one / one.sum() for one in found], axis=0)
            curves[f"{dataset} · {task}"] = tuple(axis[::20].tolist() for axis in lorenz(scores))
            for percent in SHARES:
                here = top_share(scores, percent)
                paper = lookup(figures, task, f"{percent}%", dataset)
                rows.append((dataset, task, f"{percent} %", here, paper, here - paper))
    columns = ["dataset", "task", "top", "here (%)", "paper (%)", "difference"]
    return Report(
        title="How unevenly is influence spread?",
        text=(
            "Percent of all influence that the most influential 1, 3 and 10 % of the nodes have; "
            "exact influence, averaged over cycles and models. " + lab.caption
        ),
        tables=[("Share of the top nodes", pd.DataFrame(rows, columns=columns))],
        figure=lines(
            curves,
            "nodes, most influential first (%)",
            "share of all influence (%)",
            "Influence is concentrated",
        ),
    )
