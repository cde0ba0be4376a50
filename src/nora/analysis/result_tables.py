"""The tables that are written: all nodes, and the effects of the first ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd
from torch import Tensor

from nora.results.effect import Effect
from nora.results.exactness import refinement

if TYPE_CHECKING:
    from nora.analysis.result import Analysis


def predictions(analysis: Analysis) -> Tensor | None:
    """Class probabilities `[N, C]`; None for a link task."""
    return analysis.effects[0].before if analysis.scores.task == "node" else None


def scores_table(analysis: Analysis, degree: Mapping[int, int]) -> pd.DataFrame:
    """One row per node, the most influential first: the user's `id`, then what was found.

    `node` and `name`, which `Influence.load` reads, come last.
    """
    dataset = analysis.run.dataset
    table = analysis.scores.to_frame()
    nodes = table["node"].tolist()
    known = refinement(analysis.scores)
    if known is not None:  # of an estimate: which influences are the definition's own
        table["exact"] = table["node"].isin(known["nodes"])
    table["degree"] = [degree[node] for node in nodes]
    found = predictions(analysis)
    classes = dataset.class_names or ()
    if found is not None:
        likeliest = found.max(dim=-1)
        table["predicted"] = [classes[k] for k in likeliest.indices[nodes].tolist()]
        table["probability"] = likeliest.values[nodes].double().numpy()
    if classes:
        labels = dataset.data.y[nodes].tolist()
        table["label"] = [classes[k] if k >= 0 else None for k in labels]
    for scores in analysis.others:
        frame = scores.to_frame().set_index("node").loc[table["node"]]
        table[f"influence_{scores.method}"] = frame["influence"].to_numpy()
        table[f"rank_{scores.method}"] = frame["rank"].to_numpy()
    if analysis.stability is not None:
        held = analysis.stability.to_frame().set_index("node").loc[table["node"]]
        for name in held.columns:
            table[name] = held[name].to_numpy()
    table.insert(0, "id", table["name"])
    return _at_the_end(table.sort_values("rank").reset_index(drop=True), "node", "name")


def changes_table(effect: Effect, classes: tuple[str, ...] | None) -> pd.DataFrame:
    """The changes, largest first, under the user's ids, with names of classes.

    Nodes have the probabilities of the class before and of the class after, each with and without
    the removed node (`from_before` and `from_after`, `to_before` and `to_after`). Positions in the
    graph (`node`; `source_node`, `target_node`) come last.
    """
    frame = effect.to_frame()
    frame = frame[frame["change"] > 0].sort_values("change", ascending=False, kind="stable")
    if effect.task != "node":
        ids = {"source_name": "source", "target_name": "target"}
        frame = frame.rename(columns={"source": "source_node", "target": "target_node"})
        return _at_the_end(frame.rename(columns=ids), "source_node", "target_node")
    nodes = frame["node"].tolist()
    for column in ("from_class", "to_class"):
        of = frame[column].tolist()
        for when, found in (("before", effect.before), ("after", effect.after)):
            frame[column.replace("class", when)] = found[nodes, of].double().cpu().numpy()
        if classes:
            frame[column] = [classes[k] for k in of]
    frame = frame.drop(columns=["from_class_name", "to_class_name"], errors="ignore")
    return _at_the_end(frame.rename(columns={"name": "id"}), "node")


def _at_the_end(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """The frame with these columns at its end."""
    return frame[[column for column in frame if column not in columns] + list(columns)]


def effect_file(rank: int, names: tuple[str, ...], node: int) -> str:
    """A file name that any system takes, whatever the node is called.

    >>> effect_file(3, ("../a b", "eve"), 0)
    '003-a_b.csv'
    """
    name = re.sub(r"[^\w@-]+", "_", names[node] if names else str(node)).strip("_")
    return f"{rank:03d}-{name[:40] or 'node'}.csv"
