"""Every edge by `exact` against one forward pass per edge; how far structure alone guesses edges; fragility.

    python benchmarks/edges.py                    # all settings, and the figure of fragile predictions
    python benchmarks/edges.py --only cora        # settings whose name starts so
    python benchmarks/edges.py --only pubmed-gcn --parts time    # some parts: time, nodes, edges

Every part is written as it is done; models are trained once and kept in `benchmarks/.cache`.

Models are trained (256 hidden, the first cyclic split). Passes are timed on a sample of edges, drawn at
random, in the same process, and extrapolated to all; CPU seconds of both, all threads together. The guesses
are the product of the ends' degrees and of their PageRanks, and the sum of their PageRanks. `ratio` is of the
whole call, preparing and comparing with the definition included; `prepared_ratio` of a second one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

import nora
from nora.engine.effects import Effects
from nora.graph.degrees import degrees
from nora.graph.edit_batch import EditBatch
from nora.results.agreement import agreement
from nora.results.plots.style import save_figure

HERE = Path(__file__).parent
PASSES = 30
SETTINGS = [
    f"{dataset}-{model}"
    for dataset in ("cora", "citeseer", "pubmed")
    for model in ("gcn", "sage", "gat")
]


def trained(name: str, epochs: int) -> nora.Run:
    """The model of a setting."""
    path = HERE / ".cache" / f"edges-{name}-{epochs}"
    if path.exists():
        return nora.load_run(path)
    dataset, model = name.split("-")
    run = nora.train(model, dataset, epochs=epochs, hidden_channels=256, progress=False)
    run.save(path)
    return run


def timed(name: str, epochs: int) -> dict[str, Any]:
    """Time, error and guesses of one setting."""
    run = trained(name, epochs)
    session = run.session()
    # Loops are compiled once for all; for a handful of edges they would not be.
    some = [tuple(pair) for pair in session.edges.every()[None][:, :1000].t().tolist()]
    run.session().edge_influence(some, progress=False)
    start, cpu = time.perf_counter(), time.process_time()
    scores = session.edge_influence(progress=False)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    start, cpu_again = time.perf_counter(), time.process_time()
    session.edge_influence(progress=False)
    again, cpu_again = time.perf_counter() - start, time.process_time() - cpu_again

    removals = EditBatch.remove_edges(*session.edges.units(session.edges.every()))
    chosen = torch.randperm(len(scores), generator=torch.Generator().manual_seed(0))[:PASSES]
    problem = session.problem()
    with problem.evaluating(), torch.no_grad():
        by_passes = Effects(problem, problem.predict())
        pass_start, pass_cpu = time.perf_counter(), time.process_time()
        moved = list(by_passes.moves(removals.pick(chosen)))
        pass_seconds, pass_cpu = time.perf_counter() - pass_start, time.process_time() - pass_cpu
        truth = torch.stack(
            [(by_passes.before[one.item] - one.after).abs().sum().double() for one in moved]
        )
    found = scores.scores[chosen].double()
    return {
        "edges": len(scores),
        "test": run.metrics["test_accuracy"],
        "exact_seconds": seconds,
        "exact_cpu_seconds": cpu,
        "pass_seconds_per_edge": pass_seconds / len(chosen),
        "pass_cpu_seconds_per_edge": pass_cpu / len(chosen),
        "ratio": pass_seconds / len(chosen) * len(scores) / seconds,
        "cpu_ratio": pass_cpu / len(chosen) * len(scores) / cpu,
        "prepared_ratio": pass_seconds / len(chosen) * len(scores) / again,
        "prepared_cpu_ratio": pass_cpu / len(chosen) * len(scores) / cpu_again,
        "relative_error": float((found - truth).abs().max() / truth.max()),
        "guesses": guesses(run.data, scores),
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


def fragility(name: str, epochs: int, by: str) -> dict[str, Any]:
    """How many predictions hang on a single node or edge; `flips` as a measure gives the same total."""
    session = trained(name, epochs).session()
    found = session.fragile(by=by, progress=False)
    if name.endswith("gcn"):
        save_figure(found.plot(), HERE.parent / "results" / f"fragile-{name}-{by}.png")
    ask = session.influence if by == "nodes" else session.edge_influence
    return {
        "flips": len(found.flips),
        "flips_by_measure": int(ask(measure="flips", progress=False).scores.sum()),
        "share": found.share,
        "distribution": {int(k): int(v) for k, v in found.distribution().items()},
        "seconds": found.seconds,
    }


def main() -> None:
    """Run the settings asked for, and write each as it is done."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=[""], help="settings whose name starts so")
    parser.add_argument("--parts", nargs="*", default=["time", "nodes", "edges"])
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "edges.json")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    results = json.loads(arguments.out.read_text())["settings"] if arguments.out.exists() else {}
    chosen = [
        name for name in SETTINGS if any(name.startswith(prefix) for prefix in arguments.only)
    ]
    if not chosen:
        sys.exit(f"no such setting; there are: {', '.join(SETTINGS)}")
    for name in chosen:
        for part in arguments.parts:
            row = results.setdefault(name, {})
            if part == "time":
                row |= timed(name, arguments.epochs)
                print(
                    f"{name:14} {row['edges']:6,} edges  exact {row['exact_seconds']:7.2f} s  ratio "
                    f"{row['ratio']:8,.0f} (CPU {row['cpu_ratio']:,.0f}; prepared "
                    f"{row['prepared_cpu_ratio']:,.0f})  error {row['relative_error']:.0e}",
                    flush=True,
                )
            else:
                row.setdefault("fragile", {})[part] = fragility(name, arguments.epochs, part)
                told = row["fragile"][part]
                print(
                    f"{name:14} by {part}: {told['share']:.1%}, {told['flips']:,} flips", flush=True
                )
            about = {
                "command": "python benchmarks/edges.py",
                "python": platform.python_version(),
                "torch": torch.__version__,
                "cores": os.cpu_count(),
                "settings": dict(sorted(results.items())),
            }
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
