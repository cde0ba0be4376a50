"""The benchmark: the exact influence of every node of every model, for others to compare with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from nora.experiments import RecipeFacts
from nora.experiments.benchmark import Benchmark, model_fingerprint, write_benchmark
from nora.experiments.lab import TRUTH, Lab
from nora.experiments.parts import WHERE, Frames, Part
from nora.experiments.recipe import Report, recipe
from nora.model.fingerprint import graph_fingerprint

CARD = """The exact influence `F(r)` of every node `r` of every trained model: the summed change (L1) of all
other predictions when the node is removed. Computed by the method `exact`, which equals the definition, one
forward pass per removal, up to rounding.

- **For** comparing methods that estimate influence, without training models and removing nodes again.
- **Columns** of `truth.parquet`: `dataset`, `model`, `task` (`node`: class probabilities, `link`: link
  probabilities), `cycle` (which of the five cyclic splits the model was trained on), `node` (its id in the
  dataset as PyTorch Geometric loads it), `influence`, `labelled` (whether methods that learn may see it).
- **Protocol**: a method learns, fits and tunes on labelled nodes only, and is measured on the others: on
  each single model, and on the mean over cycles, as in the paper.
- **Limits**: influence is a property of a trained model, not of a dataset. On another machine, the same
  command may train to slightly different weights; compare the fingerprints below. The file does not contain
  the graphs.
- **Read it** with pandas, or with `nora.experiments.benchmark.Benchmark.load("truth.parquet")`.
"""

MODELS, ROWS = "Models", "Influences"


def models_table(lab: Lab) -> pd.DataFrame:
    """Every model with its fingerprint, how good it is, and its total influence."""
    rows = []
    for cell in lab.cells:
        graph = graph_fingerprint(lab.dataset(cell.dataset).data)
        for cycle, found in enumerate(lab.all_scores(cell, TRUTH)):
            run = lab.run(cell, cycle)
            metric = next(name for name in run.metrics if name.startswith("test_"))
            rows.append(
                {
                    **asdict(cell),
                    "cycle": cycle,
                    "graph": graph,
                    "fingerprint": model_fingerprint(run.model),
                    "metric": metric.removeprefix("test_"),
                    "value": float(run.metrics[metric]),
                    "nodes": len(found.scores),
                    "total influence": float(found.scores.double().sum()),
                }
            )
    return pd.DataFrame(rows)


def truth_table(lab: Lab) -> pd.DataFrame:
    """One row per model and node."""
    parts = []
    for cell in lab.cells:
        labelled = lab.labelled(cell).numpy()
        for cycle, found in enumerate(lab.all_scores(cell, TRUTH)):
            frame = pd.DataFrame({"node": range(len(found)), "influence": found.scores.numpy()})
            seen = frame["node"].isin(labelled)
            parts.append(frame.assign(**asdict(cell), cycle=cycle, labelled=seen))
    columns = [*WHERE, "cycle", "node", "influence", "labelled"]
    return pd.concat(parts, ignore_index=True)[columns]


def _beside(path: Path, document: Mapping[str, Any]) -> Benchmark:
    """The Parquet file beside a report's JSON: it has all digits, and the influences themselves."""
    file = path.with_suffix(".parquet")
    found = Benchmark.load(file)
    if found.about != document["about"]:
        raise ValueError(f"{file} beside it was not written with it")
    return found


def _parts(lab: Lab) -> list[Part]:
    where, cycles = dict.fromkeys(WHERE, str), {"cycle": range(lab.cycles)}
    texts = dict.fromkeys(("graph", "fingerprint", "metric"), str)
    numbers = dict.fromkeys(("value", "nodes", "total influence"), float)
    models = {**where, "cycle": float, **texts, **numbers}
    rows = {**where, **dict.fromkeys(("cycle", "node", "influence"), float), "labelled": bool}
    return [
        Part(
            MODELS,
            models_table,
            models,
            cycles,
            read=lambda path, document: _beside(path, document).models,
            rounded=False,
        ),
        Part(
            ROWS,
            truth_table,
            rows,
            cycles,
            ("node",),
            read=lambda path, document: _beside(path, document).frame,
            rounded=False,
        ),
    ]


@recipe(
    "truth",
    "the benchmark: exact influences of all cells as Parquet, with a data card",
    RecipeFacts(cell_by_cell=True, takes_cells=True),
    parts=_parts,
)
def truth(lab: Lab, frames: Frames) -> Report:
    """`truth.parquet` with `truth.md` as its data card."""
    models, rows = frames[MODELS], frames[ROWS]
    return Report(
        title="Exact influences: a benchmark",
        text=f"{CARD}\n{len(rows):,} rows. {lab.caption}",
        tables=[(MODELS, models)],
        files={".parquet": lambda path, about: write_benchmark(path, rows, models, about)},
    )
