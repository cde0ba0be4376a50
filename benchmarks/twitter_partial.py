"""TIMME on what is left of P_20_50 (friend and reply): methods against `exact` on a sample of users.

The other three relations of P_20_50 are not published any more, so no figure here is one on P_20_50. With
12,103 users and an attention that changes everybody, the truth of all users takes hours; a random sample
of them is scored exactly instead. A tenth of the sample tunes the methods that are tuned, the rest judges.

    python benchmarks/twitter_partial.py [--users 1500] [--pairs-users 300] [--epochs 60]
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import torch

import nora
from nora.results.agreement import agreement
from nora.seeds import shuffled
from nora.training.runs import about_task
from nora.training.splits import few_shot

RESULTS = Path(__file__).parent / "results" / "twitter_partial.json"
CACHE = Path(__file__).parent / ".cache" / "twitter_partial"
METHODS = ("nora", "nora-t1", "nora-t2", "mask", "degree", "pagerank", "random")
TUNED = ("nora", "nora-t1", "nora-t2")


def trained(epochs: int) -> nora.Run:
    """The first cycle's model, trained once."""
    folder = CACHE / f"run-{epochs}"
    if not folder.exists():
        nora.train("timme", "p-20-50-partial", epochs=epochs, patience=20).save(folder)
    return nora.load_run(folder)


def compare(run: nora.Run, users: int) -> dict[str, object]:
    """Every method against the truth on `users` random users."""
    count = int(run.data.num_nodes)
    sample = shuffled(count, 0)[:users]
    truth = nora.influence(
        run.model, run.data, "exact", run.task, nodes=sample, checkpoint=CACHE / run.task.name
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
    parser.add_argument("--users", type=int, default=1500)
    parser.add_argument("--pairs-users", type=int, default=300)
    parser.add_argument("--epochs", type=int, default=60)
    asked = parser.parse_args()
    warnings.filterwarnings("ignore", message="Sparse CSR")
    run = trained(asked.epochs)
    data = nora.load_dataset("p-20-50-partial").data
    report = {
        "command": f"python benchmarks/twitter_partial.py --users {asked.users} "
        f"--pairs-users {asked.pairs_users} --epochs {asked.epochs}",
        "dataset": "p-20-50-partial: P_20_50's users with friend and reply only",
        "users": int(data.num_nodes),
        "edges": {kind[1]: data[kind].edge_index.size(1) for kind in data.edge_types},
        "metrics": run.metrics,
        "tasks": {},
    }
    for task, users in (("node", asked.users), ("link", asked.pairs_users)):
        report["tasks"][task] = compare(about_task(run, task), users)
        RESULTS.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"Written: {RESULTS}")


if __name__ == "__main__":
    main()
