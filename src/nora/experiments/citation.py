"""The main table: how well does every method agree with the truth, on every model and task?"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pandas as pd

from nora.experiments import RecipeFacts, lookup, published
from nora.experiments.cache import Step
from nora.experiments.cells import Cell
from nora.experiments.charts import dots
from nora.experiments.lab import TRUTH, Lab, in_file
from nora.experiments.parts import WHERE, Frames, Part
from nora.experiments.recipe import Report, recipe
from nora.experiments.single import EVERY, ONE_MODEL_FIRST, models_part, tables_of_models
from nora.results.agreement import evaluate

COMPARED = ("nora", "nora-t1", "nora-t2", "mask", "predict-n", "predict-e")
YARDSTICKS = ("degree", "pagerank", "random")
RESAMPLES = 200
# What `evaluate` measures.
METRICS = ("pearson", "spearman", "kendall", "top_1%", "top_3%", "top_10%")
EVERYTHING = "Everything"
QUALITY = "How good are the models?"
TUNED = "Tuned options"


def methods_of(lab: Lab) -> tuple[str, ...]:
    """All methods of the main table; those that were asked for stand first."""
    return tuple(dict.fromkeys((*lab.methods, *COMPARED, *YARDSTICKS)))


def evaluation_step(lab: Lab, cell: Cell, method: str) -> Step[Any]:
    """Compute all metrics of a method in a cell, with intervals, on the nodes that it has not seen."""
    agreement = lab.code("nora.results.agreement")
    facts = lab.cell_facts(cell, method, resamples=RESAMPLES, agreement=agreement)
    label, title = f"evaluate {method} on {cell}", f"{cell}-{in_file(method)}"

    def make() -> list[dict[Any, Any]]:
        several = (lab.all_scores(cell, name) for name in (method, TRUTH))
        found = evaluate(*several, seen=lab.labelled(cell), resamples=RESAMPLES)
        rows = found.reset_index().to_dict("records")
        return [{**asdict(cell), "method": method, **dict(row)} for row in rows]

    return lab.numbers_step(label, "evaluated", title, facts, make)


def evaluated(lab: Lab, methods: tuple[str, ...]) -> pd.DataFrame:
    """One row per cell, method and metric: `value`, `low`, `high`, and the paper's `paper`."""
    steps = [evaluation_step(lab, cell, method) for cell in lab.cells for method in methods]
    rows = [row for step in steps for row in step.get()]
    return beside_paper(pd.DataFrame(rows))


def beside_paper(found: pd.DataFrame) -> pd.DataFrame:
    """The same rows with the paper's Pearson as a column `paper`, NaN where it has none."""
    figures = published()["pearson"]
    names = zip(*(found[key] for key in ("task", "dataset", "model", "method")), strict=True)
    paper = [
        lookup(figures, *keys) if metric == "pearson" else float("nan")
        for keys, metric in zip(names, found["metric"], strict=True)
    ]
    return found.assign(paper=paper)


def evaluated_part(methods: tuple[str, ...], metrics: tuple[str, ...]) -> Part:
    """The result of `evaluated` as a part of a report, with the paper's figures.

    Args:
        methods: The methods.
        metrics: Those that the report needs.
    """
    return Part(
        EVERYTHING,
        lambda lab: evaluated(lab, methods),
        {
            **dict.fromkeys((*WHERE, "method", "metric"), str),
            **dict.fromkeys(("value", "low", "high"), float),
        },
        each={"method": methods, "metric": metrics},
    )


def evaluated_plan(lab: Lab, methods: tuple[str, ...]) -> list[Step[Any]]:
    """Score and evaluate every method, cell by cell: an interrupted grid has its first cells finished."""
    steps: list[Step[Any]] = []
    for cell in lab.cells:
        steps += replace(lab, only=(cell,)).plan(methods)
        steps += [evaluation_step(lab, cell, method) for method in methods]
    return steps


def pearson_table(found: pd.DataFrame, methods: tuple[str, ...]) -> pd.DataFrame:
    """Pearson per cell and method, each with the difference to the paper's figure in brackets."""
    pearson = found[found["metric"] == "pearson"]
    table = []
    for (dataset, model, task), cell in pearson.groupby(list(WHERE), sort=False):
        row: dict[str, Any] = {"dataset": dataset, "model": model, "task": task}
        for method, value, paper in cell[["method", "value", "paper"]].itertuples(index=False):
            row[method] = f"{value:.3f}" + (f" ({value - paper:+.3f})" if paper == paper else "")
        table.append(row)
    return pd.DataFrame(table)[["dataset", "model", "task", *methods]]


def means_table(found: pd.DataFrame, methods: tuple[str, ...]) -> pd.DataFrame:
    """Every metric's mean over the cells, and the paper's mean Pearson over the same cells."""
    wide = found.pivot_table(index="method", columns="metric", values="value", sort=False)
    pearson = found[found["metric"] == "pearson"]
    paper = pearson.groupby("method")["paper"].apply(lambda column: column.mean(skipna=False))
    wide.insert(0, "paper's pearson", paper)
    wide.insert(0, "cells", pearson.groupby("method").size())
    return wide.reindex(list(methods)).rename_axis("method").reset_index()


def tuned_table(lab: Lab, methods: tuple[str, ...]) -> pd.DataFrame:
    """The options found on the labelled nodes, and their Pearson there."""
    rows = []
    for cell in lab.cells:
        for method in methods:
            found = lab.tuned(cell, method)
            options = ", ".join(f"{key}={value}" for key, value in found.options.items())
            rows.append((str(cell), method, options, found.pearson))
    return pd.DataFrame(rows, columns=["cell", "method", "options", "pearson on labels"])


def quality_table(lab: Lab) -> pd.DataFrame:
    """How good the trained models are: their metric on the test nodes or links, and epochs."""
    rows = []
    for cell in lab.cells:
        found = pd.DataFrame([lab.run(cell, cycle).metrics for cycle in range(lab.cycles)])
        metric = next(name for name in found.columns if name.startswith("test_"))
        rows.append(
            {
                **asdict(cell),
                "hidden": lab.training(cell)["hidden_channels"],
                "metric": metric.removeprefix("test_"),
                "mean": found[metric].mean(),
                "lowest": found[metric].min(),
                "highest": found[metric].max(),
                "epochs": found["epochs"].mean(),
            }
        )
    return pd.DataFrame(rows)


def _parts(lab: Lab) -> list[Part]:
    methods = methods_of(lab)
    measures = dict.fromkeys(("mean", "lowest", "highest", "epochs"), float)
    quality = {**dict.fromkeys(WHERE, str), "hidden": float, "metric": str, **measures}
    tuned = {"cell": str, "method": str, "options": str, "pearson on labels": float}
    return [
        evaluated_part(methods, METRICS),
        models_part(lab, methods),
        Part(QUALITY, quality_table, quality),
        Part(TUNED, lambda here: tuned_table(here, COMPARED), tuned, each={"method": COMPARED}),
    ]


@recipe(
    "citation",
    "the main table: all methods × datasets × models × tasks",
    RecipeFacts(cell_by_cell=True, takes_methods=True, takes_cells=True),
    plan=lambda lab: evaluated_plan(lab, methods_of(lab)),
    parts=_parts,
)
def citation(lab: Lab, frames: Frames) -> Report:
    """Pearson of every method in every cell, beside the paper's."""
    methods = methods_of(lab)
    found = beside_paper(frames[EVERYTHING])
    intervals = found[found["metric"] == "pearson"]
    width = (intervals["high"] - intervals["low"]).groupby(intervals["method"]).mean()
    expected, cells, every = tables_of_models(frames[EVERY])
    return Report(
        title="How well does each method agree with the truth?",
        text=(
            f"{ONE_MODEL_FIRST}Pearson correlation with the exact influence on the nodes a method has not "
            f"seen ({1 - lab.share:.0%} of them); in the averages, scores and truth are averaged "
            f"over {lab.cycles} models, one per cyclic split. In brackets: the difference to the "
            "paper's figure. " + lab.caption
        ),
        tables=[
            expected,
            ("Means over all cells", means_table(found, methods)),
            ("Pearson in every cell (difference to the paper)", pearson_table(found, methods)),
            (QUALITY, frames[QUALITY]),
        ],
        raw=[
            cells,
            (
                "Mean width of the 95 % bootstrap interval of Pearson",
                width.rename("width").loc[list(methods)].reset_index(),
            ),
            (TUNED, frames[TUNED]),
            (EVERYTHING, found),
            every,
        ],
        figure=dots(intervals, tuple(dict.fromkeys((*lab.methods, *COMPARED)))),
    )
