"""How well does NORA agree with models that were trained for shorter and for longer?

The published settings do not state when training stopped. Here the same models (sizes, settings, first
weights) are taken after so many epochs, whatever their validation nodes show, and NORA is tuned and measured
on each by the main table's protocol: with the labelled nodes of that table, and with other samples of that
size. How unevenly influence is spread stands beside it, of which the paper has figures too.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

import pandas as pd

from nora.experiments import RecipeFacts, lookup, published
from nora.experiments.cache import Step
from nora.experiments.cells import Cell
from nora.experiments.charts import panels
from nora.experiments.lab import TRUTH, Lab
from nora.experiments.other_options import METHOD, OtherOptions
from nora.experiments.recipe import Report, recipe
from nora.experiments.skew import top_share
from nora.model.preserve import seeded
from nora.models import build_model
from nora.questions.influence import influence
from nora.results.agreement import pearson
from nora.training.fits import Settings, fit_for
from nora.training.runs import Run

EPOCHS = (3, 5, 10, 20, 40)
SAMPLES = 3
STOPPED = "by validation"
DRAWN = ("nora", "nora, other samples", "degree", "paper")


def trained_for(lab: Lab, cell: Cell, cycle: int, epochs: int) -> Run:
    """The run of a cell and cycle, with a model trained for exactly this many epochs."""
    run = lab.run(cell, cycle)
    settings = lab.training(cell)
    made = run.architecture
    # Without validation nodes, training goes on to the end and keeps the last weights.
    blind: Any = replace(run.split, val=run.split.val[:0])
    rates = settings["lr"], settings["weight_decay"]
    with seeded(lab.seed * 5 + cycle):
        network = build_model(
            made["name"], made["in_channels"], made["out_channels"], **made["sizes"]
        )
        how = Settings(epochs, epochs, *rates, progress=False)
        metrics = fit_for(network)(network, run.data, blind, how)
    return replace(run, model=network.eval(), metrics=metrics)


def length_step(lab: Lab, cell: Cell, epochs: int | None) -> Step[Any]:
    """Measure agreement and skew in one cell after this many epochs; None: the models of the main table."""
    facts = lab.cell_facts(cell, METHOD, samples=SAMPLES, epochs=epochs, seed=lab.seed)
    label = f"{_trained(epochs)} on {cell}"
    make = partial(_measured, lab, cell, epochs)
    return lab.numbers_step(label, "length", f"{cell}-{epochs}", facts, make)


def _trained(epochs: int | None) -> str:
    return STOPPED if epochs is None else f"{epochs} epochs"


def _measured(lab: Lab, cell: Cell, epochs: int | None) -> dict[str, Any]:
    cycles = range(lab.cycles)
    if epochs is None:
        runs = [lab.run(cell, cycle) for cycle in cycles]
        truths = [one.scores for one in lab.all_scores(cell, TRUTH)]
    else:
        runs = [trained_for(lab, cell, cycle, epochs) for cycle in cycles]
        truths = [influence(r.model, r.data, TRUTH, r.task, progress=False).scores for r in runs]
    models = OtherOptions(runs, truths, lab.seed)
    seen = lab.labelled(cell)
    by_sample = models.by_samples(lab.share, [lab.seed + 1 + k for k in range(SAMPLES)])
    mean, first = models.truth, runs[0]
    degree = influence(first.model, first.data, "degree", first.task, progress=False).scores
    return {
        "cell": str(cell),
        "trained": _trained(epochs),
        "epochs": fmean(run.metrics["best_epoch"] for run in runs),
        "test accuracy": fmean(run.metrics["test_accuracy"] for run in runs),
        "nora": models.agreement(models.scores(models.options(seen)), seen),
        "nora, other samples": fmean(value for _, value in by_sample),
        "degree": pearson(degree, mean),
        **{f"top {p} % have": top_share(mean.double().numpy(), p) for p in (1, 10)},
    }


def _plan(lab: Lab) -> list[Step[Any]]:
    if any(cell.task != "node" for cell in lab.cells):
        raise ValueError("experiment 'length' supports node classification only: use --tasks node")
    steps: list[Step[Any]] = []
    for cell in lab.cells:
        steps += replace(lab, only=(cell,)).plan(())
        steps += [length_step(lab, cell, epochs) for epochs in (*EPOCHS, None)]
    return steps


@recipe(
    "length",
    "does NORA agree better with models that were trained for shorter?",
    RecipeFacts(datasets=("cora", "citeseer"), tasks=("node",), cell_by_cell=True),
    plan=_plan,
)
def training_length(lab: Lab) -> Report:
    """NORA's agreement over the length of training, beside the paper's figure."""
    figures = published()["pearson"]
    rows = [
        {
            **length_step(lab, cell, epochs).get(),
            "paper": lookup(figures, cell.task, cell.dataset, cell.model, METHOD),
        }
        for cell in lab.cells
        for epochs in (*EPOCHS, None)
    ]
    table = pd.DataFrame(rows)
    means = table.drop(columns="cell").groupby("trained", sort=False).mean().reset_index()
    fixed = table[table["trained"] != STOPPED]
    pictures = {
        str(cell): (mine.assign(band=mine["epochs"])[["band", *DRAWN]], DRAWN)
        for cell, mine in fixed.groupby("cell", sort=False)
    }
    # Charts begin at the tenth below all that they show.
    lowest = max(0.0, math.floor(10 * float(fixed[list(DRAWN)].min().min())) / 10)
    return Report(
        title="How long models are trained, and how well NORA agrees with them",
        text=(
            f"Pearson of `nora`, averaged over {lab.cycles} models, after so many epochs and with the "
            f"weights that validation chooses (the main table; `epochs` is then the mean of the chosen "
            f"ones), tuned on the labelled {lab.share:.0%} and measured on the other nodes; with "
            f"{SAMPLES} other samples of labelled nodes, the mean; degree, on all nodes, which sees no "
            "model; and the percentage of all influence that the first nodes have. " + lab.caption
        ),
        tables=[("Means over the cells", means), ("Every cell", table)],
        figure=panels(pictures, "epochs", "Pearson with the exact influence", lowest),
    )
