"""Metrics of single models, as a user with one model gets them, not of averages.

Averages over five models are smoother than any of them, and so are their scores: a method that is a little
off in other places on each model agrees better with the mean truth than with the truth of one.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from nora.experiments.lab import TRUTH, Lab
from nora.experiments.parts import WHERE, Part
from nora.results.agreement import agreement

# Their scores rank nodes in units of their own; other methods' are estimates of the influence itself.
RANK = ("nora", "nora-t1", "nora-t2", "mask", "degree", "pagerank", "random")
METRICS = ("pearson", "spearman", "top_1%", "top_3%", "top_10%", "median error")
EXPECTED = "One model: what to expect (mean, range over models)"
ONE_MODEL_FIRST = (
    "A user has one model: what to expect of it stands first, and the averages after it. "
)
EVERY = "One model: every model"


def median_error(scores: Tensor, truth: Tensor) -> float:
    """Median of `|score / truth − 1|` over nodes whose removal changes something.

    >>> import torch
    >>> round(median_error(torch.tensor([1.1, 2.0, 9.0]), torch.tensor([1.0, 4.0, 0.0])), 6)
    0.3
    """
    counted = truth > 0
    if not counted.any():
        return float("nan")
    ratio = scores[counted].double() / truth[counted].double()
    return float(np.median((ratio - 1).abs().numpy()))


def per_model(lab: Lab, methods: tuple[str, ...]) -> pd.DataFrame:
    """One row per cell, method and model, with every metric on the nodes that were not labelled."""
    rows: list[dict[str, Any]] = []
    for cell in lab.cells:
        unseen = np.ones(int(lab.dataset(cell.dataset).data.num_nodes or 0), dtype=bool)
        unseen[lab.labelled(cell).numpy()] = False
        truths = [found.scores[unseen] for found in lab.all_scores(cell, TRUTH)]
        for method in methods:
            for cycle, found in enumerate(lab.all_scores(cell, method)):
                scores, truth = found.scores[unseen], truths[cycle]
                error = float("nan") if method in RANK else median_error(scores, truth)
                where = {**asdict(cell), "method": method, "cycle": cycle}
                rows.append({**where, **agreement(scores, truth), "median error": error})
    return pd.DataFrame(rows)


def expected_table(found: pd.DataFrame) -> pd.DataFrame:
    """Per method, the mean of each metric over all models, and its range."""
    rows = []
    for method, models in found.groupby("method", sort=False):
        row: dict[str, Any] = {"method": method, "models": len(models)}
        rows.append(row | {metric: spread_in_words(models[metric]) for metric in METRICS})
    return pd.DataFrame(rows)


def cells_table(found: pd.DataFrame) -> pd.DataFrame:
    """Per cell and method, the mean Pearson over the cell's models, and its range."""
    rows = []
    for cell, models in found.groupby(list(WHERE), sort=False):
        row: dict[str, Any] = dict(zip(WHERE, cell, strict=True))
        for method, mine in models.groupby("method", sort=False):
            row[str(method)] = spread_in_words(mine["pearson"])
        rows.append(row)
    return pd.DataFrame(rows)


def single_tables(lab: Lab, methods: tuple[str, ...]) -> list[tuple[str, pd.DataFrame]]:
    """Three tables: over all models, in every cell, and for every model."""
    return tables_of_models(per_model(lab, methods))


def tables_of_models(found: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The same tables from the rows of `per_model`."""
    return [
        (EXPECTED, expected_table(found)),
        ("One model: Pearson in every cell (mean, range)", cells_table(found)),
        (EVERY, found),
    ]


def models_part(lab: Lab, methods: tuple[str, ...]) -> Part:
    """The result of `per_model` as a part of a report."""
    return Part(
        EVERY,
        lambda here: per_model(here, methods),
        {
            **dict.fromkeys((*WHERE, "method"), str),
            **dict.fromkeys(("cycle", *METRICS), float),
        },
        each={"method": methods, "cycle": range(lab.cycles)},
    )


def spread_in_words(values: pd.Series) -> str:
    """Mean and range in words.

    >>> spread_in_words(pd.Series([0.8, 0.9])), spread_in_words(pd.Series([float("nan")]))
    ('0.850 (0.800 to 0.900)', '–')
    """
    known = values.dropna()
    if known.empty:
        return "–"
    return f"{known.mean():.3f} ({known.min():.3f} to {known.max():.3f})"
