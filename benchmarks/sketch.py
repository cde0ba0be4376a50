"""Is the Cauchy sketch still worth its price? Beside estimates of `exact`, one model at a time.

    python benchmarks/sketch.py                  # every setting, some minutes; a quiet machine
    python benchmarks/sketch.py --only dense     # settings whose name starts so

PubMed and CiteSeer with each of the paper's architectures, and what the sketch is made for: graphs on which a
removal reaches everybody within few hops (`dense`: 1,000 nodes with 100 neighbours each, 3 layers; `deep`: 4
neighbours each, 8 layers; random weights). All methods score all nodes of the same model in one process.
`wins` names the sketches that are quicker, or agree better, than each estimate and `exact`.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.utils import erdos_renyi_graph

import nora
from nora.results.agreement import agreement

RESULTS = Path(__file__).parent / "results" / "sketch.json"
SKETCHES = {f"cauchy {k}": ("cauchy", {"samples": k}) for k in (16, 64, 256)}
ESTIMATES = {f"estimate {t:g}": ("exact", {"tolerance": t}) for t in (0.01, 0.03, 0.1)}
MODELS = ("gcn", "sage", "gat", "gcnii")


def settings() -> Iterator[tuple[str, Callable[[], tuple[nn.Module, Data]]]]:
    """What is compared, by name."""
    for dataset in ("pubmed", "citeseer"):
        for model in MODELS:
            yield f"{dataset}-{model}", lambda d=dataset, m=model: trained(m, d)
    for model in MODELS:
        yield f"dense-{model}", lambda m=model: untrained(m, 1000, 100, num_layers=3)
    for model in MODELS:
        yield f"deep-{model}", lambda m=model: untrained(m, 1000, 4, num_layers=8)


def trained(model: str, dataset: str) -> tuple[nn.Module, Data]:
    run = nora.train(model, dataset, hidden_channels=128, epochs=100, patience=20, progress=False)
    return run.model, run.data


def untrained(model: str, nodes: int, degree: int, **sizes: Any) -> tuple[nn.Module, Data]:
    torch.manual_seed(0)
    data = Data(x=torch.randn(nodes, 64), edge_index=erdos_renyi_graph(nodes, degree / (nodes - 1)))
    return nora.build_model(model, 64, 6, hidden_channels=64, **sizes).eval(), data


def compared(model: nn.Module, data: Data) -> list[dict[str, Any]]:
    """Every method's seconds and agreement, best of two."""
    methods = {"exact": ("exact", {}), **ESTIMATES, **SKETCHES, "nora": ("nora", {})}
    rows, truth = [], None
    nora.influence(model, data, "exact", nodes=[0], progress=False)  # compiles what is compiled
    for name, (method, options) in methods.items():
        spent = []
        for _ in range(2):
            start = time.perf_counter()
            found = nora.influence(model, data, method, progress=False, **options)
            spent.append(time.perf_counter() - start)
        truth = found if truth is None else truth
        agrees = agreement(found.scores, truth.scores)
        counted = truth.scores > 0
        error = (found.scores[counted] / truth.scores[counted] - 1).abs().median()
        row = {"name": name, "seconds": min(spent)}
        row |= {key: agrees[key] for key in ("pearson", "spearman", "top_10%")}
        row["median error"] = None if method == "nora" else float(error)
        rows.append(row)
        print(
            f"  {name:<14} {row['seconds']:7.2f} s  Pearson {row['pearson']:.4f}  "
            f"Spearman {row['spearman']:.4f}",
            flush=True,
        )
    return rows


def winners(rows: list[dict[str, Any]]) -> list[str]:
    """The sketches that are quicker, or agree better, than everything of `exact`'s."""
    others = [row for row in rows if row["name"] == "exact" or row["name"] in ESTIMATES]
    return [
        row["name"]
        for row in rows
        if row["name"] in SKETCHES
        and not any(
            other["seconds"] <= row["seconds"] and other["pearson"] >= row["pearson"]
            for other in others
        )
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[""], help="settings whose name starts so")
    wanted = tuple(parser.parse_args().only)
    warnings.simplefilter("ignore", UserWarning)
    found = json.loads(RESULTS.read_text())["settings"] if RESULTS.exists() else {}
    for name, make in settings():
        if not name.startswith(wanted):
            continue
        print(name, flush=True)
        rows = compared(*make())
        found[name] = {"methods": rows, "wins": winners(rows)}
        print(f"  no estimate beats: {', '.join(found[name]['wins']) or 'none'}", flush=True)
        about = {
            "command": "python benchmarks/sketch.py",
            "python": platform.python_version(),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
        }
        RESULTS.write_text(json.dumps({"about": about, "settings": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
