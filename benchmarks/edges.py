"""Every edge by `exact` against one forward pass per edge; how far structure alone guesses edges; fragility.

    python benchmarks/edges.py                    # all settings, and the figure of fragile predictions
    python benchmarks/edges.py --only cora        # settings whose name starts so

Models are trained (256 hidden, the first cyclic split). Passes are timed on a sample of edges, drawn at
random, in the same process, and extrapolated to all; CPU seconds of both, all threads together. The guesses
are the product of the ends' degrees and of their PageRanks, and the sum of their PageRanks.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

import nora
from by_setting import RESULTS, run_settings
from nora.engine.changed import Removals
from nora.engine.effects import Effects
from nora.problem.degree import degrees
from nora.results.agreement import agreement
from nora.results.plots.style import save_figure

PASSES = 30
SETTINGS = [
    f"{dataset}-{model}"
    for dataset in ("cora", "citeseer", "pubmed")
    for model in ("gcn", "sage", "gat")
]


def measured(name: str, epochs: int) -> dict[str, Any]:
    """Time, error and guesses of one setting."""
    dataset, model = name.split("-")
    run = nora.train(model, dataset, epochs=epochs, hidden_channels=256, progress=False)
    session = run.session()
    few = [tuple(pair) for pair in session.edges.every()[None][:, :4].t().tolist()]
    run.session().edge_influence(few, progress=False)  # loops are compiled once for all
    start, cpu = time.perf_counter(), time.process_time()
    scores = session.edge_influence(progress=False)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu

    removals = Removals.of_edges(*session.edges.units(session.edges.every()))
    chosen = torch.randperm(len(scores), generator=torch.Generator().manual_seed(0))[:PASSES]
    problem = session.problem()
    with problem.evaluating(), torch.no_grad():
        by_passes = Effects(problem, problem.predict())
        pass_start, pass_cpu = time.perf_counter(), time.process_time()
        moved = list(by_passes.moves(removals.picked(chosen)))
        pass_seconds, pass_cpu = time.perf_counter() - pass_start, time.process_time() - pass_cpu
        truth = torch.stack(
            [(by_passes.before[one.item] - one.after).abs().sum().double() for one in moved]
        )
    found = scores.scores[chosen].double()
    return {
        "edges": len(scores),
        "test": run.metrics.get("test"),
        "exact_seconds": seconds,
        "exact_cpu_seconds": cpu,
        "pass_seconds_per_edge": pass_seconds / len(chosen),
        "pass_cpu_seconds_per_edge": pass_cpu / len(chosen),
        "ratio": pass_seconds / len(chosen) * len(scores) / seconds,
        "cpu_ratio": pass_cpu / len(chosen) * len(scores) / cpu,
        "relative_error": float((found - truth).abs().max() / truth.max()),
        "guesses": guesses(run.data, scores),
        "fragile": fragility(session, name),
    }


def guesses(data: Any, scores: nora.EdgeInfluence) -> dict[str, dict[str, float]]:
    """Agreement of structure-only guesses with the influence of edges."""
    frame = scores.to_frame()
    degree = degrees(data).double().numpy()
    rank = nora.influence(torch.nn.Identity(), data, "pagerank", progress=False)
    pagerank = rank.scores.double().numpy()
    ends = frame["source"].to_numpy(), frame["target"].to_numpy()
    guessed = {
        "degree product": degree[ends[0]] * degree[ends[1]],
        "pagerank product": pagerank[ends[0]] * pagerank[ends[1]],
        "pagerank sum": pagerank[ends[0]] + pagerank[ends[1]],
        "inverse degree product": 1 / np.maximum(degree[ends[0]] * degree[ends[1]], 1),
    }
    truth = torch.from_numpy(frame["influence"].to_numpy(copy=True))
    return {
        name: {
            key: value
            for key, value in agreement(torch.from_numpy(guess.copy()), truth).items()
            if key in ("pearson", "spearman")
        }
        for name, guess in guessed.items()
    }


def fragility(session: nora.Session, name: str) -> dict[str, Any]:
    """How many predictions hang on a single node or edge; `flips` as a measure gives the same totals."""
    told: dict[str, Any] = {}
    for by in ("nodes", "edges"):
        found = session.fragile(by=by, progress=False)
        told[by] = {
            "flips": len(found.flips),
            "share": found.share,
            "distribution": {int(k): int(v) for k, v in found.distribution().items()},
            "seconds": found.seconds,
        }
        if name.endswith("gcn"):
            save_figure(found.plot(), RESULTS / f"fragile-{name}-{by}.png")
    flips = session.influence(measure="flips", progress=False).scores.sum()
    told["flips_by_measure"] = int(flips)
    return told


def measured_and_told(name: str, epochs: int) -> dict[str, Any]:
    """The setting's row, and a line about it."""
    row = measured(name, epochs)
    guess = row["guesses"]["degree product"]
    print(
        f"{name:14} {row['edges']:6,} edges  exact {row['exact_seconds']:7.2f} s  ratio "
        f"{row['ratio']:8,.0f} (CPU {row['cpu_ratio']:,.0f})  error {row['relative_error']:.0e}  degree "
        f"product: Pearson {guess['pearson']:.2f}, Spearman {guess['spearman']:.2f}  fragile "
        f"{row['fragile']['nodes']['share']:.1%}",
        flush=True,
    )
    return row


if __name__ == "__main__":
    run_settings("edges", __doc__, SETTINGS, measured_and_told, epochs=200)
