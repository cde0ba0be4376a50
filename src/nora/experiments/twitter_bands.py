"""Twitter: what do influential users look like? Degrees in bands of influence.

Users are ordered by their exact influence (the mean over the cycles' models) and cut into bands of
equal size; each band shows its users' mean degree. Edges are those of the whole graph, an edge to
oneself not counted. `both` tasks together: the mean of the two influences, each per prediction, as the
paper's figures have it, divided by the mean over the users.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import torch

from nora.experiments.charts import panels
from nora.experiments.lab import TRUTH, Lab
from nora.experiments.recipe import Report, recipe
from nora.experiments.twitter import FACTS, caption
from nora.model.tasks.link_prediction import LinkPrediction
from nora.results.agreement import spearman

DEGREE_BANDS, EDGE_BANDS = 100, 20
# What acting and being acted upon are called: the paper's ten directed types.
NAMES = {
    "friend": ("followed", "follow"),
    "reply": ("replied", "reply"),
    "retweet": ("retweeted", "retweet"),
    "favorite": ("liked", "like"),
    "mention": ("mentioned", "mention"),
}
# In- and out-degrees by relation.
Ways = dict[str, tuple[np.ndarray, np.ndarray]]
Pictures = dict[str, tuple[pd.DataFrame, list[str]]]
Bands = tuple[pd.DataFrame, dict[str, pd.DataFrame]]


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


def degrees_by_relation(lab: Lab, dataset: str) -> Ways:
    """In- and out-degree of every user in every relation, self-loops left out."""
    data = lab.dataset(dataset).data
    found = {}
    for kind in data.edge_types:
        edges = data[kind].edge_index
        edges = edges[:, edges[0] != edges[1]]
        out, into = (torch.bincount(end, minlength=data.num_nodes) for end in edges)
        found[kind[1]] = into.double().numpy(), out.double().numpy()
    return found


def influences(lab: Lab) -> list[tuple[str, str, np.ndarray]]:
    """Dataset, task and influence `[N]`; with two tasks, first that of `both` together."""
    found = []
    for dataset in lab.datasets:
        several, per_prediction = [], []
        for cell in (cell for cell in lab.cells if cell.dataset == dataset):
            task = lab.run(cell, 0).task
            nodes = lab.dataset(dataset)
            count = (
                task.pairs.size(1)
                if isinstance(task, LinkPrediction)
                else nodes.num_classes * nodes.data.num_nodes
            )
            several.append((cell.task, lab.mean_scores(cell, TRUTH).double().numpy()))
            per_prediction.append(several[-1][1] / count)
        if len(several) > 1:
            both = np.mean(per_prediction, axis=0)
            several.insert(0, ("both", both / both.mean()))
        found += [(dataset, task, scores) for task, scores in several]
    return found


def in_bands(lab: Lab, count: int, columns: Callable[[Ways], dict[str, np.ndarray]]) -> Bands:
    """How each column goes with influence; and the columns' means in bands of influence, by cell."""
    frames, rows = {}, []
    for dataset, task, scores in influences(lab):
        found = columns(degrees_by_relation(lab, dataset))
        frames[f"{dataset} · {task}"] = banded(scores, found, count)
        for name, values in found.items():
            rows.append((dataset, task, name, spearman(values, scores)))
    table = pd.DataFrame(rows, columns=["dataset", "task", "degree", "spearman"])
    wide = table.pivot(index=["dataset", "degree"], columns="task", values="spearman")
    order = list(dict.fromkeys(zip(table["dataset"], table["degree"], strict=True)))
    wide = wide.loc[order, list(dict.fromkeys(table["task"]))]
    return wide.rename_axis(columns=None).reset_index(), frames


def _report(
    lab: Lab, title: str, text: str, ylabel: str, pictures: Pictures, found: Bands
) -> Report:
    summary, frames = found
    return Report(
        title=title,
        text=text + caption(lab),
        tables=[("Rank correlation (Spearman) with influence, by task", summary)],
        raw=[(f"{name}: {len(frame)} bands", frame) for name, frame in frames.items()],
        figure=panels(pictures, "band of influence", ylabel),
    )


def _in_and_out(ways: Ways) -> dict[str, np.ndarray]:
    into, out = (np.sum([one[way] for one in ways.values()], axis=0) for way in (0, 1))
    # One added to both, so that a user without edges has a ratio too.
    return {"in-degree": into, "out-degree": out, "in / out": (into + 1) / (out + 1)}


def _by_relation(ways: Ways) -> dict[str, np.ndarray]:
    """The degree in each of the ten directed types: being acted upon first, then acting."""
    passive = {NAMES[name][0]: into for name, (into, _) in ways.items()}
    return passive | {NAMES[name][1]: out for name, (_, out) in ways.items()}


@recipe("twitter-degree", "influence against in- and out-degree, in 100 bands", FACTS)
def twitter_degree(lab: Lab) -> Report:
    """Do influential users listen or speak?"""
    found = in_bands(lab, DEGREE_BANDS, _in_and_out)
    pictures: Pictures = {}
    for name, frame in found[1].items():
        pictures[f"{name}: degree"] = (frame, ["in-degree", "out-degree"])
        pictures[f"{name}: ratio"] = (frame, ["in / out"])
    text = (
        "In-degree counts who acts on a user (follows, replies to, retweets, likes, mentions), "
        "out-degree whom the user acts on, summed over all relations; the ratio is "
        "(in + 1) / (out + 1). Means over the users of each band of influence, the least "
        "influential first. "
    )
    title = "Twitter: influence against in- and out-degree"
    return _report(lab, title, text, "mean over the band", pictures, found)


@recipe("twitter-edges", "influence against the ten directed types of edges, 20 bands", FACTS)
def twitter_edges(lab: Lab) -> Report:
    """Which type of edges goes with influence?"""
    found = in_bands(lab, EDGE_BANDS, _by_relation)
    pictures: Pictures = {}
    for name, frame in found[1].items():
        relations = list(frame.columns[3:])
        mean = {one: np.average(frame[one], weights=frame["users"]) for one in relations}
        relative = frame.assign(**{one: frame[one] / mean[one] for one in relations})
        half = len(relations) // 2
        pictures[f"{name}: acted upon"] = (relative, relations[:half])
        pictures[f"{name}: acting"] = (relative, relations[half:])
    text = (
        "The degree in each of ten directed types: `followed` counts who follows a user, `follow` "
        "whom the user follows, and so on. The chart shows each band's mean relative to the mean "
        "over all users, so that frequent and rare types compare. "
    )
    title = "Twitter: influence against the degree in each relation"
    return _report(lab, title, text, "degree, relative to all users", pictures, found)
