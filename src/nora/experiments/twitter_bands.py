"""Twitter: what do influential users look like? Degrees in bands of influence.

Users are ordered by their exact influence (the mean over the cycles' models) and cut into bands of
equal size; each band shows its users' mean degree. Edges are those of the whole graph, an edge to
oneself not counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch

from nora.experiments import RECIPES, Report
from nora.experiments.charts import panels
from nora.experiments.citation import plan_for
from nora.experiments.lab import TRUTH, Lab, Step
from nora.experiments.plan import Cell

FACTS: dict[str, Any] = {"datasets": ("pure-p",), "models": ("timme",)}
DEGREE_BANDS, EDGE_BANDS = 100, 20


def banded(scores: np.ndarray, columns: dict[str, np.ndarray], count: int) -> pd.DataFrame:
    """Means of `columns` in `count` bands of influence, the least influential first.

    >>> frame = banded(np.array([3.0, 1.0, 2.0, 4.0]), {"x": np.array([1.0, 2.0, 4.0, 3.0])}, 2)
    >>> frame["x"].tolist()
    [3.0, 2.0]
    """
    count = min(count, len(scores))
    order = np.argsort(scores, kind="stable")
    bands = np.array_split(order, count)
    return pd.DataFrame(
        [
            {
                "band": number,
                "users": len(band),
                "influence": float(scores[band].mean()),
                **{name: float(np.nanmean(values[band])) for name, values in columns.items()},
            }
            for number, band in enumerate(bands, start=1)
        ]
    )


def degrees(lab: Lab, dataset: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """In- and out-degree of every user in every relation, self-loops left out."""
    data = lab.dataset(dataset).data
    found = {}
    for kind in data.edge_types:
        edges = data[kind].edge_index
        edges = edges[:, edges[0] != edges[1]]
        out, into = (torch.bincount(end, minlength=data.num_nodes) for end in edges)
        found[kind[1]] = into.double().numpy(), out.double().numpy()
    return found


def _cells(lab: Lab) -> list[Cell]:
    return [cell for cell in lab.cells if cell.model == lab.models[0]]


@RECIPES.register("twitter-degree", "influence against in- and out-degree, in 100 bands", **FACTS)
class TwitterDegree:
    """Do influential users listen or speak?"""

    @staticmethod
    def plan(lab: Lab) -> list[Step]:
        """See `Recipe.plan`."""
        return plan_for(lab, ())

    @staticmethod
    def report(lab: Lab) -> Report:
        """See `Recipe.report`."""
        tables, pictures, rows = [], {}, []
        for cell in _cells(lab):
            ways = degrees(lab, cell.dataset)
            into, out = (np.sum([one[way] for one in ways.values()], axis=0) for way in (0, 1))
            # One added to both, so that a user without edges has a ratio too.
            ratio = (into + 1) / (out + 1)
            columns = {"in-degree": into, "out-degree": out, "in / out": ratio}
            scores = lab.mean_scores(cell, TRUTH).double().numpy()
            found = banded(scores, columns, DEGREE_BANDS)
            tables.append((f"{cell.dataset}, {cell.task}: {len(found)} bands", found))
            pictures[f"{cell.dataset} · {cell.task}: degree"] = (found, ["in-degree", "out-degree"])
            pictures[f"{cell.dataset} · {cell.task}: ratio"] = (found, ["in / out"])
            for name, values in columns.items():
                rank = pd.Series(values).corr(pd.Series(scores), method="spearman")
                rows.append((cell.dataset, cell.task, name, float(rank)))
        summary = pd.DataFrame(rows, columns=["dataset", "task", "degree", "spearman"])
        return Report(
            title="Twitter: influence against in- and out-degree",
            text=(
                "In-degree counts who acts on a user (follows, replies to, retweets, likes, mentions), "
                "out-degree whom the user acts on, summed over all relations; the ratio is "
                "(in + 1) / (out + 1). Means over the users of each band of influence, the least "
                "influential first. " + lab.profile.caption
            ),
            tables=[("Rank correlation with influence", summary), *tables],
            figure=panels(pictures, "band of influence", "mean over the band"),
        )


@RECIPES.register("twitter-edges", "influence against each relation's degree, 20 bands", **FACTS)
class TwitterEdges:
    """Which relation tells influential users?"""

    @staticmethod
    def plan(lab: Lab) -> list[Step]:
        """See `Recipe.plan`."""
        return plan_for(lab, ())

    @staticmethod
    def report(lab: Lab) -> Report:
        """See `Recipe.report`."""
        tables, pictures, rows = [], {}, []
        for cell in _cells(lab):
            ways = degrees(lab, cell.dataset)
            total = {name: into + out for name, (into, out) in ways.items()}
            scores = lab.mean_scores(cell, TRUTH).double().numpy()
            found = banded(scores, total, EDGE_BANDS)
            tables.append((f"{cell.dataset}, {cell.task}: {len(found)} bands", found))
            relative = found.assign(**{name: found[name] / total[name].mean() for name in total})
            pictures[f"{cell.dataset} · {cell.task}"] = (relative, list(total))
            for name, values in total.items():
                rank = pd.Series(values).corr(pd.Series(scores), method="spearman")
                rows.append((cell.dataset, cell.task, name, float(rank)))
        summary = pd.DataFrame(rows, columns=["dataset", "task", "relation", "spearman"])
        return Report(
            title="Twitter: influence against the degree in each relation",
            text=(
                "In- and out-degree together, relation by relation. The chart shows each band's mean "
                "relative to the mean over all users, so that frequent and rare relations compare. "
                + lab.profile.caption
            ),
            tables=[("Rank correlation with influence", summary), *tables],
            figure=panels(pictures, "band of influence", "degree, relative to all users"),
        )
