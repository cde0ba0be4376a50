"""The benchmark: the exact influence of every node of every model, for others to compare with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from nora.experiments import RECIPES, RecipeFacts, Report
from nora.experiments.benchmark import Benchmark, model_fingerprint, write_benchmark
from nora.experiments.citation import plan_for
from nora.experiments.lab import TRUTH, Lab, Step
from nora.experiments.parts import WHERE, Frames, Part, frames_of
from nora.model.fingerprint import graph_fingerprint

CARD = """The exact influence `F(r)` of every node `r` of every trained model: what everybody else's
predictions change in all (L1) when the node is removed. Computed by the method `exact`, which equals the
definition, one forward pass per removal, up to rounding.

- **For** comparing methods that estimate influence, without training models and removing nodes again.
- **Columns** of `truth.parquet`: `dataset`, `model`, `task` (`node`: class probabilities, `link`: link
  probabilities), `cycle` (which of the five cyclic splits the model was trained on), `node` (its number in
  the dataset as PyTorch Geometric loads it), `influence`, `labelled` (whether methods that learn may see it).
- **Protocol**: whatever a method is told, fitted or tuned on comes from labelled nodes; it is measured on the
  others. A method is compared on each model by itself, and on the mean over cycles, as the paper does.
- **Limits**: influence is a property of a trained model, not of a dataset: other weights, other influence.
  Trained elsewhere, the same command may give other weights in the last digits, and with them other models;
  their fingerprints below tell. The graphs themselves are not in the file.
- **Read it** with pandas, or with `nora.experiments.benchmark.Benchmark.load("truth.parquet")`.
"""

MODELS, ROWS = "Models", "Influences"


def models_table(lab: Lab) -> pd.DataFrame:
    """Every model with its fingerprint, how good it is, and its total influence."""
    rows = []
    for cell in lab.cells:
        graph = graph_fingerprint(lab.dataset(cell.dataset).data)
        for cycle in range(lab.cycles):
            run = lab.run(cell, cycle)
            metric = next(name for name in run.metrics if name.startswith("test_"))
            scores = lab.scores(cell, cycle, TRUTH).scores
            rows.append(
                {
                    "dataset": cell.dataset,
                    "model": cell.model,
                    "task": cell.task,
                    "cycle": cycle,
                    "graph": graph,
                    "fingerprint": model_fingerprint(run.model),
                    "metric": metric.removeprefix("test_"),
                    "value": float(run.metrics[metric]),
                    "nodes": len(scores),
                    "total influence": float(scores.double().sum()),
                }
            )
    return pd.DataFrame(rows)


def truth_table(lab: Lab) -> pd.DataFrame:
    """One row per model and node."""
    parts = []
    for cell in lab.cells:
        labelled = set(lab.labelled(cell).tolist())
        for cycle, found in enumerate(lab.all_scores(cell, TRUTH)):
            nodes = range(len(found))
            parts.append(
                pd.DataFrame(
                    {
                        "dataset": cell.dataset,
                        "model": cell.model,
                        "task": cell.task,
                        "cycle": cycle,
                        "node": nodes,
                        "influence": found.scores.numpy(),
                        "labelled": [node in labelled for node in nodes],
                    }
                )
            )
    return pd.concat(parts, ignore_index=True)


def _kept_models(path: Path, document: Mapping[str, Any]) -> pd.DataFrame:
    return _beside(path, document).models


def _kept_truth(path: Path, document: Mapping[str, Any]) -> pd.DataFrame:
    return _beside(path, document).frame


def _beside(path: Path, document: Mapping[str, Any]) -> Benchmark:
    """The Parquet file beside a report's JSON: it has all digits, and the influences themselves."""
    file = path.with_suffix(".parquet")
    found = Benchmark.load(file)
    if found.about != document["about"]:
        raise ValueError(f"{file} beside it was not written with it")
    return found


@RECIPES.register(
    "truth",
    "the benchmark: exact influences of all cells as Parquet, with a data card",
    RecipeFacts(cell_by_cell=True, takes_cells=True),
)
class Truth:
    """`truth.parquet` with `truth.md` as its data card."""

    @staticmethod
    def plan(lab: Lab) -> list[Step]:
        """See `Recipe.plan`."""
        return plan_for(lab, ())

    @staticmethod
    def parts(lab: Lab) -> list[Part]:
        """See `FromParts.parts`."""
        cycles = {"cycle": range(lab.cycles)}
        models = {
            **dict.fromkeys(WHERE, str),
            "cycle": float,
            **dict.fromkeys(("graph", "fingerprint", "metric"), str),
            **dict.fromkeys(("value", "nodes", "total influence"), float),
        }
        rows = {
            **dict.fromkeys(WHERE, str),
            **dict.fromkeys(("cycle", "node", "influence"), float),
            "labelled": bool,
        }
        return [
            Part(MODELS, models_table, models, cycles, read=_kept_models, rounded=False),
            Part(ROWS, truth_table, rows, cycles, ("node",), _kept_truth, rounded=False),
        ]

    @staticmethod
    def report(lab: Lab) -> Report:
        """See `Recipe.report`."""
        return Truth.report_from(lab, frames_of(lab, Truth.parts(lab)))

    @staticmethod
    def report_from(lab: Lab, frames: Frames) -> Report:
        """See `FromParts.report_from`."""
        models, truth = frames[MODELS], frames[ROWS]
        return Report(
            title="Exact influences: a benchmark",
            text=f"{CARD}\n{len(truth):,} rows. {lab.caption}",
            tables=[(MODELS, models)],
            files={".parquet": lambda path, about: write_benchmark(path, truth, models, about)},
        )
