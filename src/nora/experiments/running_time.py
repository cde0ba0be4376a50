"""Running time: what does every method cost, side by side on this machine?"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
import torch

from nora.experiments import RecipeFacts, lookup, published
from nora.experiments.cache import Step, read_numbers
from nora.experiments.cells import Cell
from nora.experiments.charts import marks
from nora.experiments.lab import TRUTH, Lab
from nora.experiments.recipe import Report, recipe
from nora.questions.influence import influence
from nora.seeds import shuffled

METHODS_TIMED = (TRUTH, "nora", "mask", "predict-n", "predict-e")
# Columns of the table that are drawn, and their names there.
DRAWN = {"brute (extrapolated)": "brute", TRUTH: "exact", "nora": "nora", "mask": "mask"}
# Brute force is timed on a few removals and scaled up: all of PubMed would take hours.
SAMPLE = 5


def timing_step(lab: Lab, cell: Cell) -> Step[Any]:
    """Time every method on the first cycle's model; each way to measure is cached separately."""
    code = {method: lab.method_code(method) for method in ("brute", *METHODS_TIMED)}
    facts = lab.cell_facts(cell, TRUTH, timed=code, measured=lab.code(__name__, within=()))
    step = lab.numbers_step(
        f"time {cell}", "times", str(cell), facts, partial(_measured, lab, cell)
    )
    return replace(step, seconds=lambda path: (read_numbers(path) or {}).get("measuring"))


def _measured(lab: Lab, cell: Cell) -> dict[str, float]:
    """Seconds of every method on the first cycle's model, and of brute force for all nodes."""
    run = lab.run(cell, 0)
    begun = time.perf_counter()
    num_nodes = int(run.data.num_nodes or 0)
    sample = shuffled(num_nodes, lab.seed)[:SAMPLE]
    ask = partial(influence, run.model, run.data, task=run.task, progress=False)
    ask("brute", nodes=sample[:1])  # warm up
    start = time.perf_counter()
    ask("brute", nodes=sample)
    row = {"brute": (time.perf_counter() - start) / len(sample) * num_nodes}
    ask(TRUTH)  # compiles what all nodes need: a few take another way
    labels = torch.full((num_nodes,), float("nan"))
    for method in METHODS_TIMED:
        start = time.perf_counter()
        found = ask(method, labels=labels if method.startswith("predict") else None)
        row[method] = time.perf_counter() - start
        if method == TRUTH:
            labels[lab.labelled(cell)] = found.scores[lab.labelled(cell)].float()
    row["measuring"] = time.perf_counter() - begun
    return row


def _plan(lab: Lab) -> list[Step[Any]]:
    timings = [timing_step(lab, cell) for cell in lab.cells]
    return [*replace(lab, cycles=1).training_steps(lab.cells), *timings]


@recipe(
    "time",
    "what every method costs, side by side; needs a quiet machine",
    RecipeFacts(cell_by_cell=True),
    plan=_plan,
)
def running_time(lab: Lab) -> Report:
    """Seconds per method and cell, and how many times faster than brute force."""
    figures = published()["brute_seconds_gpu"]
    rows = []
    for cell in lab.cells:
        row = timing_step(lab, cell).get()
        rows.append(
            {
                "cell": str(cell),
                "brute (extrapolated)": row["brute"],
                **{method: row[method] for method in METHODS_TIMED},
                "brute / exact": row["brute"] / row[TRUTH],
                "brute / nora": row["brute"] / row["nora"],
                "paper's brute, GPU": lookup(figures, cell.task, cell.dataset, cell.model),
            }
        )
    table = pd.DataFrame(rows)
    return Report(
        title="What does each method cost?",
        text=(
            "Seconds to score all nodes of one model, all measured in one go on one machine; "
            f"brute force from {SAMPLE} removals, the others with their default options. Tuning comes "
            "on top: a fraction of a second for NORA, whole runs for each setting of the others. Take "
            "the ratios, not the seconds. " + lab.caption
        ),
        tables=[("Seconds to score all nodes", table)],
        figure=marks(table, "cell", DRAWN, "seconds to score all nodes"),
    )
