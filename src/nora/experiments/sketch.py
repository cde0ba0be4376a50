"""Beyond the paper: the Cauchy sketch, which needs no labels, beside tuned NORA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from nora.experiments import RecipeFacts
from nora.experiments.charts import dots
from nora.experiments.citation import EVERYTHING, beside_paper, evaluated_part
from nora.experiments.lab import Lab
from nora.experiments.parts import WHERE, Frames, Part, table_of
from nora.experiments.recipe import Report, recipe
from nora.experiments.single import EVERY, ONE_MODEL_FIRST, models_part, tables_of_models

COMPARED = ("cauchy", "nora")
METRICS = ("pearson", "spearman", "top_3%")
CELLS = "Every cell"


def _read(_: Path, document: Mapping[str, Any]) -> pd.DataFrame:
    """The table of everything from a report's file; the first ones have no intervals."""
    if EVERYTHING in document["tables"]:
        return table_of(document, EVERYTHING)
    wide = table_of(document, CELLS)
    columns = {(metric, method): f"{metric} {method}" for method in COMPARED for metric in METRICS}
    if missing := {*WHERE, *columns.values()} - {*wide.columns}:
        raise ValueError(f"its table {CELLS!r} has no column {min(missing)!r}")
    parts = [
        wide[list(WHERE)].assign(method=method, metric=metric, value=wide[column])
        for (metric, method), column in columns.items()
    ]
    return pd.concat(parts, ignore_index=True).assign(low=float("nan"), high=float("nan"))


def _parts(lab: Lab) -> list[Part]:
    return [replace(evaluated_part(COMPARED, METRICS), read=_read), models_part(lab, COMPARED)]


def _won(gain: pd.Series) -> int:
    return int((gain > 0).sum())


@recipe(
    "sketch",
    "beyond the paper: the Cauchy sketch beside tuned NORA",
    RecipeFacts(cell_by_cell=True, takes_cells=True),
    methods=COMPARED,
    parts=_parts,
)
def sketch(lab: Lab, frames: Frames) -> Report:
    """`cauchy` with 64 samples, no labels, against `nora` tuned on the labelled nodes."""
    found = beside_paper(frames[EVERYTHING])
    shown = found[found["metric"].isin(METRICS)]
    columns = ["metric", "method"]
    wide = shown.pivot_table(index=list(WHERE), columns=columns, values="value", sort=False)
    wide.columns = pd.Index([" ".join(pair) for pair in wide.columns])
    for metric in ("pearson", "spearman"):
        wide[f"{metric} gain"] = wide[f"{metric} cauchy"] - wide[f"{metric} nora"]
    table = wide.reset_index()
    summary = table.groupby("task", sort=False).agg(
        cells=("model", "size"),
        pearson_won=("pearson gain", _won),
        spearman_won=("spearman gain", _won),
        mean_pearson_gain=("pearson gain", "mean"),
        mean_spearman_gain=("spearman gain", "mean"),
    )
    expected, cells, every = tables_of_models(frames[EVERY])
    return Report(
        title="The Cauchy sketch beside tuned NORA",
        text=(
            f"{ONE_MODEL_FIRST}`cauchy` with its default of 64 samples sees no labels; `nora` is tuned on "
            f"{lab.share:.0%} of the nodes. Same models, same truth, measured on the other nodes; "
            f"in the averages, scores averaged over {lab.cycles} cycles. The method was chosen on "
            "Cora alone. " + lab.caption
        ),
        tables=[
            expected,
            ("Cells won by cauchy", summary.reset_index()),
            cells,
            (CELLS, table),
        ],
        raw=[(EVERYTHING, found), every],
        figure=dots(found[found["metric"] == "pearson"], COMPARED),
    )
