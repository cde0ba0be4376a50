"""DrGAT's student beside its teacher: Cora on five cycles, and the oldest papers of the arxiv graph.

    python benchmarks/drgat.py

The arxiv graph comes with stand-in features, so its figures are no results on ogbn-arxiv.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from statistics import fmean

import arxiv
import nora
from nora.datasets import Dataset

RESULTS = Path(__file__).parent / "results" / "drgat.json"
OLDEST = 20_000


def main() -> None:
    warnings.filterwarnings("ignore", message="Sparse CSR")
    found: dict[str, object] = {"command": "python benchmarks/drgat.py"}
    rows = []
    for cycle in range(5):
        metrics = nora.train("drgat", "cora", cycle=cycle, progress=False).metrics
        rows.append(
            {"student": metrics["test_accuracy"], "teacher": metrics["teacher_test_accuracy"]}
        )
        print("cora", cycle, rows[-1], flush=True)
    means = {who: fmean(row[who] for row in rows) for who in ("student", "teacher")}
    found["cora"] = {"test_accuracy": rows, "mean": means}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    data, _, _ = arxiv.load()
    oldest = data.x[:, -1].argsort(stable=True)[:OLDEST].sort().values
    papers = Dataset("oldest papers", data.subgraph(oldest), arxiv.CATEGORIES)
    metrics = nora.train("drgat", papers, epochs=60, hidden_channels=16, progress=False).metrics
    found[f"arxiv graph, oldest {OLDEST:,} papers, stand-in features, 60 epochs, hidden 16"] = {
        "student": metrics["test_accuracy"],
        "teacher": metrics["teacher_test_accuracy"],
    }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
