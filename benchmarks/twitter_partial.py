"""TIMME on parts of P_20_50 and P50: methods against `exact` on a sample of users.

The available copy of P_20_50 has two of its five relations (friend and reply). That of P50 has a part of the
edges of four relations, in `P50/nora_partial_edges.npz`, in an order of its own in which the 756 users whose
party is known come first. So no figure here is one on P_20_50 or P50. An attention over relations changes
everybody, and the truth of all users takes hours; a random sample of them is scored exactly instead. A tenth
of the sample tunes the methods that are tuned, the rest judges.

    python benchmarks/twitter_partial.py [--graph p50-partial] [--users 1500] [--pairs-users 300]
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import HeteroData

import nora
from nora.datasets import Dataset
from nora.results.agreement import agreement
from nora.seeds import shuffled
from nora.training.runs import about_task
from nora.training.splits import few_shot

RESULTS = Path(__file__).parent / "results" / "twitter_partial.json"
CACHE = Path(__file__).parent / ".cache" / "twitter_partial"
GRAPHS = {
    "p-20-50-partial": "P_20_50's users with friend and reply only",
    "p50-partial": "P50's users with a part of the edges of four relations, none of them friend",
}
METHODS = ("nora", "nora-t1", "nora-t2", "mask", "degree", "pagerank", "random")
TUNED = ("nora", "nora-t1", "nora-t2")


def p50_partial() -> Dataset:
    """P50's users, numbered as in the file, with the edges it has."""
    folder = Path(os.environ.get("NORA_DATA", "../shared/data"))
    with np.load(folder / "TIMME" / "P50" / "nora_partial_edges.npz") as given:
        users, party = int(given["num_nodes"]), given["label_D0_R1"]
        edges = {
            name.removesuffix("_edge_index"): torch.from_numpy(given[name].astype(np.int64))
            for name in given.files
            if name.endswith("_edge_index")
        }
    data = HeteroData()
    data["user"].x, data["user"].num_nodes = torch.arange(users), users
    data["user"].y = torch.full((users,), -1)
    data["user"].y[: len(party)] = torch.from_numpy(party.astype(np.int64))
    for relation, ends in edges.items():
        data["user", relation, "user"].edge_index = ends
    ratios = (0.8, 0.1, 0.1)
    return Dataset("p50-partial", data, 2, None, ("Democrat", "Republican"), ratios, ratios, 3)


def trained(graph: str, epochs: int) -> nora.Run:
    """The first cycle's model, trained once."""
    dataset = p50_partial() if graph == "p50-partial" else nora.load_dataset(graph)
    return nora.train("timme", dataset, epochs=epochs, patience=20)


def compare(run: nora.Run, users: int, checkpoint: Path) -> dict[str, object]:
    """Every method against the truth on `users` random users."""
    count = int(run.data.num_nodes)
    sample = shuffled(count, 0)[:users]
    truth = nora.influence(
        run.model, run.data, "exact", run.task, nodes=sample, checkpoint=checkpoint
    )
    known = sample.sort().values[few_shot(len(sample))]
    rest = torch.ones(count, dtype=torch.bool)
    rest[known] = False
    rest &= ~truth.scores.isnan()
    labels = (known, truth.scores[known])
    found: dict[str, object] = {}
    for method in METHODS:
        options = {}
        if method in TUNED:
            options = nora.tune(run.model, run.data, labels, method, run.task).options
        scores = nora.influence(run.model, run.data, method, run.task, progress=False, **options)
        found[method] = {
            **agreement(scores.scores[rest], truth.scores[rest]),
            "options": dict(options),
            "seconds": scores.seconds,
        }
        print(run.task.name, method, found[method], flush=True)
    return {
        "users": int((~truth.scores.isnan()).sum()),
        "judged_on": int(rest.sum()),
        "exact_seconds_per_user": truth.details.get("removal_seconds", float("nan")) / len(sample),
        "methods": found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graph", choices=list(GRAPHS), default="p-20-50-partial")
    parser.add_argument("--users", type=int, default=1500)
    parser.add_argument("--pairs-users", type=int, default=300)
    parser.add_argument("--epochs", type=int, default=60)
    asked = parser.parse_args()
    warnings.filterwarnings("ignore", message="Sparse CSR")
    run = trained(asked.graph, asked.epochs)
    data = run.data
    results = RESULTS if asked.graph == "p-20-50-partial" else RESULTS.with_stem("p50_partial")
    report = {
        "command": f"python benchmarks/twitter_partial.py --graph {asked.graph} --users {asked.users} "
        f"--pairs-users {asked.pairs_users} --epochs {asked.epochs}",
        "dataset": f"{asked.graph}: {GRAPHS[asked.graph]}",
        "users": int(data.num_nodes),
        "edges": {kind[1]: data[kind].edge_index.size(1) for kind in data.edge_types},
        "metrics": run.metrics,
        "tasks": {},
    }
    for task, users in (("node", asked.users), ("link", asked.pairs_users)):
        checkpoint = CACHE / f"{asked.graph}-{asked.epochs}-{task}"
        report["tasks"][task] = compare(about_task(run, task), users, checkpoint)
        results.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"Written: {results}")


if __name__ == "__main__":
    main()
