"""Two reports of one recipe side by side: the clean and the published protocol."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd

from nora.experiments.citation import EVERYTHING, beside_paper
from nora.experiments.earlier import read_earlier
from nora.experiments.lab import Lab
from nora.experiments.parts import WHERE
from nora.experiments.protocol import CLEAN, PUBLISHED
from nora.experiments.recipe import Report

HEADING = "Both protocols: Pearson, the paper → published / clean"


def other_protocol(name: str, lab: Lab, path: Path) -> pd.DataFrame:
    """All figures of a report of the other protocol; other reports are rejected.

    Args:
        name: The recipe.
        lab: With the settings that are asked for.
        path: The JSON file of the report.
    """
    other = CLEAN if lab.protocol == PUBLISHED else PUBLISHED
    frames = read_earlier(name, replace(lab, protocol=other), path).frames
    if EVERYTHING not in frames:
        raise ValueError(f"{name} has no table of agreement: --beside is for citation and sketch")
    return frames[EVERYTHING]


def with_other(report: Report, lab: Lab, other: pd.DataFrame) -> Report:
    """The report with a table of both protocols in front."""
    mine = dict(report.raw)[EVERYTHING]
    pair = (mine, other) if lab.protocol == PUBLISHED else (other, mine)
    return replace(report, tables=[(HEADING, side_by_side(*pair)), *report.tables])


def side_by_side(published: pd.DataFrame, clean: pd.DataFrame) -> pd.DataFrame:
    """One row per cell, one column per method: the paper's Pearson → published / clean.

    Example:
        >>> where = {"dataset": "cora", "model": "gcn", "task": "node", "method": "nora"}
        >>> ours, theirs = (
        ...     pd.DataFrame([{**where, "metric": "pearson", "value": value}]) for value in (0.9, 0.88)
        ... )
        >>> side_by_side(ours, theirs)["nora"].tolist()
        ['0.903 → 0.900 / 0.880']
    """
    keys = [*WHERE, "method"]
    several = [beside_paper(one[one["metric"] == "pearson"]) for one in (published, clean)]
    figures = [one.set_index(keys)["value"] for one in several]
    paper = pd.concat([one.set_index(keys)["paper"] for one in several])
    paper = paper[~paper.index.duplicated()]
    methods = [str(name) for name in dict.fromkeys(paper.index.get_level_values("method"))]
    rows = []
    for cell in dict.fromkeys(key[:3] for key in paper.index):
        row = dict(zip(WHERE, cell, strict=True))
        for method in methods:
            here = " / ".join(_shown(one.get((*cell, method))) for one in figures)
            known = _shown(paper.get((*cell, method)))
            row[method] = here if known == "–" else f"{known} → {here}"
        rows.append(row)
    return pd.DataFrame(rows)


def _shown(value: float | None) -> str:
    return "–" if value is None or value != value else f"{value:.3f}"
