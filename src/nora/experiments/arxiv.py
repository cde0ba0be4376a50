"""ogbn-arxiv's graph with stand-in features: the recipe from end to end at the paper's sizes.

The official features are not available (`nora.datasets.ogbn_arxiv_stand_in`), so the figures are not results
on ogbn-arxiv, and do not reproduce or contradict the paper's. With 169,343 papers the truth is that of a
random sample (`nora.experiments.sampled`). A cell whose work does not fit into memory
(`nora.experiments.memory_estimate`, before any work) has its hidden size halved until it does, which the
report states; one that fits in none is left out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from nora.experiments import RecipeFacts, lookup, published
from nora.experiments.cells import STANDS_FOR, Cell
from nora.experiments.charts import dots
from nora.experiments.lab import Lab
from nora.experiments.memory_estimate import Needs, needs
from nora.experiments.recipe import Report, recipe
from nora.experiments.sampled import ESTIMATE, TOLERANCE, Sampled, forget
from nora.experiments.single import median_error
from nora.experiments.table_provenance import machine
from nora.results.agreement import evaluate

TUNED = ("nora", "nora-t1", "nora-t2")
METHODS = (*TUNED, "degree", "pagerank", "random")
METRICS = ("pearson", "spearman", "top_10%")
RESAMPLES = 200
SAMPLE = 500
# Most epochs, where the profile's would take days on a CPU: each goes over all citations.
EPOCHS = {"quick": 3, "compact": 30}
# The share of the memory that one cell may take: other processes run too, and needs are estimates.
MEMORY_SHARE = 0.55
# The smallest hidden size that is tried.
SMALLEST = 16
NOT_POSSIBLE = "Not possible here at the paper's size: what would not fit into memory (GB, about)"
PAPER = "paper's pearson, on other features"
WARNING = (
    "**Stand-in features: no figure here is one on ogbn-arxiv.** Papers, citations, labels and the sizes of "
    "the split are ogbn-arxiv's; in place of its 128 features stand a language model's guesses of a paper's "
    "area, and its year. The paper's figures stand beside ours for orientation alone: none of them is met or "
    "missed."
)


def sized(lab: Lab) -> Lab:
    """A cell at the paper's sizes, with the epochs of this recipe."""
    profile = lab.profile
    epochs = EPOCHS.get(profile.name, profile.epochs)
    return replace(lab, profile=replace(profile, hidden=None, epochs=epochs))


def cell_needs(lab: Lab, cell: Cell) -> Needs:
    """The memory that a cell's work takes, in bytes."""
    dataset = lab.dataset(cell.dataset)
    settings = lab.training(cell)
    training = ("epochs", "patience", "lr", "weight_decay")
    sizes = {key: value for key, value in settings.items() if key not in training}
    outputs = dataset.num_classes if cell.task == "node" else sizes["hidden_channels"]
    channels = (dataset.data.x.size(1), outputs)
    return needs(
        cell.model, sizes, channels, int(dataset.data.num_nodes or 0), dataset.data.num_edges
    )


def memory_for_a_cell() -> float:
    """Memory limit of a cell in bytes; infinite if the memory of the machine is unknown."""
    memory = machine()["memory_gb"]
    return MEMORY_SHARE * 1e9 * memory if memory else float("inf")


def hidden(lab: Lab, cell: Cell) -> int:
    """The hidden size of a cell's models."""
    return int(lab.training(cell)["hidden_channels"])


def fitting(lab: Lab) -> dict[Cell, Lab]:
    """The cells that fit into memory, each with a lab that has the largest hidden size that does."""
    limit, found = memory_for_a_cell(), dict[Cell, Lab]()
    for cell in lab.cells:
        size = hidden(lab, cell)
        here = lab
        while cell_needs(here, cell).most > limit and size > SMALLEST:
            size //= 2
            here = replace(lab, profile=replace(lab.profile, hidden=size))
        if cell_needs(here, cell).most <= limit:
            found[cell] = here
    return found


def sampled_models(lab: Lab) -> list[Sampled]:
    """Every model of the cells that fit."""
    size = lab.sample or SAMPLE
    return [
        Sampled(here, cell, cycle, size)
        for cell, here in fitting(lab).items()
        for cycle in range(lab.cycles)
    ]


def agreement_row(one: Sampled, method: str) -> dict[str, Any]:
    """Every metric of a method on the part of the sample that did not tune."""
    truth, scores, seen = one.truth(), one.scores(method), one.seen(method)
    if len(seen) > int((~truth.scores.isnan()).sum()) - 2:
        seen = seen[:0]  # on a small graph every estimate is exact
    metrics = evaluate(scores, truth, seen=seen, resamples=RESAMPLES)
    value, pearson = metrics["value"].to_dict(), metrics.T["pearson"].to_dict()
    counted = ~truth.scores.isnan()
    counted[seen] = False
    error = float("nan")
    if method == ESTIMATE:  # the others rank nodes, in units of their own
        error = median_error(scores.scores[counted], truth.scores[counted])
    cell = one.cell
    original = STANDS_FOR.get(cell.dataset, cell.dataset)
    return {
        "dataset": cell.dataset,
        "model": cell.model,
        "hidden": hidden(one.lab, cell),
        "task": cell.task,
        "cycle": one.cycle,
        "method": method,
        "judged on": int(counted.sum()),
        **{metric: value[metric] for metric in METRICS},
        "low": pearson["low"],
        "high": pearson["high"],
        "median error": error,
        "seconds": float("nan") if method == ESTIMATE else scores.seconds,
        PAPER: lookup(published()["pearson"], cell.task, original, cell.model, method),
    }


def cost_table(found: list[Sampled]) -> pd.DataFrame:
    """The time of the sample's truth, beside NORA's own estimate."""
    rows = []
    for one in found:
        truth, estimate = one.truth(), one.scores(ESTIMATE)
        exact, estimated = (
            found.details.get("removal_seconds", float("nan")) for found in (truth, estimate)
        )
        rows.append(
            {
                "model": one.cell.model,
                "cycle": one.cycle,
                "nodes": len(one.sample),
                "preparing and verifying (s)": truth.seconds - exact,
                "exact (s)": exact,
                "estimate (s)": estimated,
                "of it exact nodes": estimate.details.get("estimated", {}).get("exact_nodes", 0),
                "exact / estimate": exact / estimated,
            }
        )
    return pd.DataFrame(rows)


def sampled_quality_table(found: list[Sampled]) -> pd.DataFrame:
    """How good the trained models are, and for how long they were trained."""
    rows = []
    for one in found:
        run = one.lab.run(one.cell, one.cycle)
        sizes, metrics = run.architecture["sizes"], run.metrics
        kind = "accuracy" if one.cell.task == "node" else "auc"
        rows.append(
            {
                "model": one.cell.model,
                "cycle": one.cycle,
                "layers": sizes.get("num_layers", run.model.num_layers),
                "hidden": sizes["hidden_channels"],
                "epochs": int(metrics["epochs"]),
                "epochs at most": one.lab.profile.epochs,
                "best epoch": int(metrics["best_epoch"]),
                "still improving": "yes" if metrics["still_improving"] else "no",
                "metric": kind,
                "validation": metrics[f"val_{kind}"],
                "test": metrics[f"test_{kind}"],
                "seconds": metrics["seconds"],
            }
        )
    return pd.DataFrame(rows)


def options_table(found: list[Sampled]) -> pd.DataFrame:
    """The options found on the labelled part of the sample, and their Pearson there."""
    rows = []
    for one in found:
        for method in TUNED:
            tuned = one.tuned(method)
            options = ", ".join(f"{key}={value}" for key, value in tuned.options.items())
            rows.append((str(one.cell), one.cycle, method, tuned.labelled, options, tuned.pearson))
    columns = ["cell", "cycle", "method", "labelled", "options", "pearson on labels"]
    return pd.DataFrame(rows, columns=columns)


def too_large_table(lab: Lab) -> pd.DataFrame:
    """The cells that do not fit into memory, what each kind of work would take, and the size that fits."""
    possible = fitting(lab)
    rows = []
    for cell in lab.cells:
        if (here := possible.get(cell)) is lab:
            continue
        need = cell_needs(lab, cell)
        rows.append(
            {
                "model": cell.model,
                "task": cell.task,
                "hidden": hidden(lab, cell),
                "training": round(need.training / 1e9),
                "one pass (exact)": round(need.passing / 1e9),
                "forth and back (nora)": round(need.explaining / 1e9),
                "at most": round(memory_for_a_cell() / 1e9),
                "hidden size used": "none" if here is None else str(hidden(here, cell)),
            }
        )
    return pd.DataFrame(rows)


def explanation(lab: Lab) -> str:
    """The text of the report."""
    return (
        f"{WARNING} The truth is the exact influence of {lab.sample or SAMPLE} random nodes (seed "
        f"{lab.seed}); {lab.share:.0%} of them tune `nora`, `nora-t1` and `nora-t2`, the others judge. Every "
        "model stands by itself; the paper's figures are of averages over five. "
        f"`{ESTIMATE}` is NORA's own estimate, `exact` at a relative error of {TOLERANCE}; nodes that it "
        "computes exactly to measure its error do not count, and weigh the more in what it took the smaller "
        "the sample is. Seconds of a method are for all nodes, and by "
        "the clock, whatever else the machine did. "
        f"{lab.caption} DrGAT has GAT's sizes, since the paper names none. A model that would not "
        "fit into memory has its hidden size halved until it does: the last table names those."
    )


@recipe(
    "arxiv",
    "ogbn-arxiv's graph with stand-in features, truth on a sample: no figure on ogbn-arxiv",
    RecipeFacts(
        datasets=("ogbn-arxiv-stand-in",),
        models=("gcn", "sage", "gat", "gcnii", "drgat"),
        tasks=("node",),
        cell_by_cell=True,
        cycles=1,
        sample=500,
    ),
    plan=lambda lab: [step for one in sampled_models(sized(lab)) for step in one.steps(METHODS)],
)
def arxiv(lab: Lab) -> Report:
    """Agreement with the truth of a sample, with stand-in features."""
    forget()
    lab = sized(lab)
    found, too_large = sampled_models(lab), too_large_table(lab)
    tables, raw, figure = list[tuple[str, pd.DataFrame]](), list[tuple[str, pd.DataFrame]](), None
    if found:
        rows = [agreement_row(one, method) for one in found for method in (*METHODS, ESTIMATE)]
        everything = pd.DataFrame(rows)
        shown = everything.drop(columns=["low", "high"])
        tables = [
            ("Agreement with the truth of the sample (stand-in features)", shown),
            ("What the truth and its estimate took", cost_table(found)),
            ("How good are the models? (stand-in features)", sampled_quality_table(found)),
            ("Tuned options", options_table(found)),
        ]
        raw = [("Everything", everything)]
        # The paper's figures are not drawn: they would look like the same thing.
        names = everything["model"] + ", hidden " + everything["hidden"].astype(str)
        drawn = everything.rename(columns={"pearson": "value"})
        drawn = drawn.assign(paper=float("nan"), model=names)
        figure = dots(drawn, (*METHODS[:-1], ESTIMATE))
    if len(too_large):
        tables.append((NOT_POSSIBLE, too_large))
    return Report(
        title="ogbn-arxiv's graph with stand-in features: how well does each method agree?",
        text=explanation(lab),
        tables=tables,
        figure=figure,
        facts={
            "features": "stand-in: no figure is one on ogbn-arxiv",
            "sample": lab.sample or SAMPLE,
            "epochs": lab.profile.epochs,
        },
        raw=raw,
    )
