"""`nora run` on generated files, phase by phase: reading, training, ranking, writing.

    python benchmarks/files.py                            # 100,000 nodes, typed and untyped
    python benchmarks/files.py --nodes 10000 --edges 100000
    python benchmarks/files.py --before PATH/TO/OTHER/src # the same files, another version of the code

The files are made from a seed: classes that link among themselves, edge types that differ in how much
they do, and bags of words of which each class prefers some. Beside every run stand what a bare `pyarrow`
read of the same files takes, and the same epochs of PyG's own convolutions, transform first, on sparse
features. Each run is a process of its own, whose peak memory is the kernel's. Ratios are of computing
seconds, all cores together: on a machine that others use, those of the clock say little.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results" / "files.json"
CHART = RESULTS.with_suffix(".png")
PHASES = ("reading", "training", "ranking", "effects", "writing")
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee")


@dataclass(frozen=True)
class Size:
    """How large the generated graph is."""

    nodes: int = 100_000
    edges: int = 1_000_000
    types: int = 8
    features: int = 2_000
    words: int = 30
    classes: int = 20
    seed: int = 0


def make_files(folder: Path, size: Size) -> dict[str, Path]:
    """Edges with types, features one column each and as a list, and labels."""
    random = np.random.default_rng(size.seed)
    y = random.integers(size.classes, size=size.nodes)
    of_class = [np.flatnonzero(y == k) for k in range(size.classes)]
    kind = random.integers(size.types, size=size.edges)
    # A few nodes have many edges, as people and packages do.
    weight = (1 + np.arange(size.nodes)) ** -0.5
    source = random.choice(size.nodes, size.edges, p=weight / weight.sum())
    target = random.choice(size.nodes, size.edges, p=weight / weight.sum())
    # The first type tells nothing of the classes, the last most.
    alike = random.random(size.edges) < 0.8 * kind / max(1, size.types - 1)
    for k in range(size.classes):
        mine = np.flatnonzero(alike & (y[source] == k))
        target[mine] = random.choice(of_class[k], len(mine))
    name = np.array([f"node-{node}" for node in range(size.nodes)])
    files = {key: folder / f"{key}.csv" for key in ("edges", "features", "words", "labels")}
    table = np.stack(
        [name[source], name[target], np.array([f"t{k}" for k in range(size.types)])[kind]]
    )
    _write(files["edges"], "source,target,type", table)
    _write(files["labels"], "id,label", np.stack([name, np.array([f"c{k}" for k in y])]))
    # A fifth of a node's words are its class's own.
    owned = size.features // size.classes
    words = random.integers(size.features, size=(size.nodes, size.words))
    own = random.random(words.shape) < 0.2
    words[own] = (y[:, None] * owned + random.integers(owned, size=words.shape))[own]
    columns = [f"w{at}" for at in range(size.features)]
    with files["features"].open("w") as wide, files["words"].open("w") as long:
        wide.write("id," + ",".join(columns) + "\n")
        long.write("id,feature\n")
        for node in range(size.nodes):
            row = np.zeros(size.features, dtype=np.uint8)
            row[words[node]] = 1
            wide.write(name[node] + "," + ",".join(map(str, row.tolist())) + "\n")
            for word in np.unique(words[node]):
                long.write(f"{name[node]},w{word}\n")
    return files


def _write(path: Path, header: str, columns: np.ndarray) -> None:
    with path.open("w") as file:
        file.write(header + "\n")
        file.writelines(",".join(row) + "\n" for row in columns.T.tolist())


def bare_read(paths: list[Path]) -> float:
    """Seconds of `pyarrow.csv.read_csv` on the same files."""
    import pyarrow.csv

    start = time.process_time()
    for path in paths:
        pyarrow.csv.read_csv(path)
    return time.process_time() - start


def bare_epochs(files: dict[str, Path], size: Size, typed: bool, epochs: int = 10) -> float:
    """Seconds an epoch of plain PyG: features sparse, mapped before they are summed, scatter."""
    import pandas as pd
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch_geometric.nn import GCNConv
    from torch_geometric.utils import scatter

    edges, labels = pd.read_csv(files["edges"]), pd.read_csv(files["labels"])
    words = pd.read_csv(files["words"])
    node = {name: at for at, name in enumerate(labels["id"])}
    ends = torch.tensor(np.stack([edges["source"].map(node), edges["target"].map(node)]))
    edge_index = torch.cat([ends, ends.flip(0)], dim=1)
    kind = torch.tensor(edges["type"].astype("category").cat.codes.to_numpy()).long().repeat(2)
    y = torch.tensor(labels["label"].astype("category").cat.codes.to_numpy()).long()
    place = torch.tensor(np.stack([words["id"].map(node), words["feature"].str[1:].astype(int)]))
    x = torch.sparse_coo_tensor(
        place, torch.ones(place.size(1)), (size.nodes, size.features)
    ).to_sparse_csr()
    parts = [edge_index[:, kind == number] for number in range(size.types)]

    class Relational(nn.Module):
        """`W_0 x + Σ_t mean_t W_t x`, mapped first."""

        def __init__(self, inputs: int, out: int) -> None:
            super().__init__()
            self.maps = nn.ParameterList(
                nn.Parameter(torch.randn(inputs, out) / inputs**0.5) for _ in range(size.types + 1)
            )

        def forward(self, x: Any, _: Any) -> Any:
            out = x @ self.maps[-1]
            for part, weight in zip(parts, self.maps, strict=False):
                sent = (x @ weight)[part[0]]
                out = out + scatter(sent, part[1], dim_size=size.nodes, reduce="mean")
            return out

    layer = Relational if typed else GCNConv
    first, last = layer(size.features, 64), layer(64, size.classes)
    optimizer = torch.optim.Adam([*first.parameters(), *last.parameters()], lr=0.01)
    train, val = torch.arange(size.nodes) % 2 == 0, torch.arange(size.nodes) % 10 > 7

    def forward(training: bool) -> Any:
        hidden = F.dropout(first(x, edge_index).relu(), training=training)
        return last(hidden, edge_index)

    start = 0.0
    for epoch in range(epochs + 1):
        if epoch == 1:  # the first one allocates
            start = time.process_time()
        optimizer.zero_grad()
        F.cross_entropy(forward(True)[train], y[train]).backward()
        optimizer.step()
        with torch.no_grad():
            (forward(False)[val].argmax(dim=-1) == y[val]).float().mean().item()
    return (time.process_time() - start) / epochs


def run(arguments: list[str], source: Path | None, out: Path) -> dict[str, Any]:
    """`nora run` as a process: what `run.json` tells, with the kernel's peak memory."""
    environment = dict(os.environ)
    if source is not None:
        environment["PYTHONPATH"] = str(source)
    command = [sys.executable, "-m", "nora", "run", *arguments, "--out", str(out), "--json"]
    start = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"nora run failed: {' '.join(command)}")
    told = json.loads((out / "run.json").read_text(encoding="utf-8"))
    return {
        "wall_seconds": time.perf_counter() - start,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_gb": usage.ru_maxrss / 1e6,
        "seconds": told["seconds"],
        "computing_seconds": told.get("computing_seconds"),
        "peak_gb_by_phase": {k: v / 1e9 for k, v in told.get("peak_bytes", {}).items()},
        "epochs": told["metrics"]["epochs"],
        "test_accuracy": told["metrics"]["test_accuracy"],
        "method": told["method"]["name"],
        "run_folder_mb": sum(f.stat().st_size for f in (out / "run").iterdir()) / 1e6,
    }


def phases(seconds: dict[str, float]) -> dict[str, float]:
    """The stages of a run in the chart's five parts."""
    found = dict.fromkeys(PHASES, 0.0)
    for name, took in seconds.items():
        part = next((phase for phase in PHASES if name.startswith(phase)), "ranking")
        found[part] += took
    return found


def _took(found: dict[str, Any]) -> dict[str, float]:
    """Seconds of computing, or of the clock where a version does not tell them."""
    return found["computing_seconds"] or found["seconds"]


def chart(report: dict[str, Any], path: Path) -> None:
    """Stacked bars, a bar per run."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    cases = list(report["cases"])
    figure, axes = plt.subplots(figsize=(8, 0.5 * len(cases) + 1.6), layout="constrained")
    left = np.zeros(len(cases))
    for phase, colour in zip(PHASES, COLOURS, strict=True):
        took = np.array([phases(_took(report["cases"][case]))[phase] for case in cases]) / 60
        axes.barh(cases, took, left=left, color=colour, label=phase)
        left += took
    for at, case in enumerate(cases):
        found = report["cases"][case]
        note = f" {found['peak_gb']:.1f} GB"
        if "of_epochs" in found:
            note += f", {found['epochs']} of {found['of_epochs']} epochs"
        axes.text(left[at], at, note, va="center", fontsize=8)
    axes.margins(x=0.25)
    axes.invert_yaxis()
    axes.set_xlabel("minutes of computing, both cores together")
    axes.legend(
        ncols=len(PHASES), loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=8, frameon=False
    )
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in asdict(Size()).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--before", type=Path, help="the src folder of another version")
    parser.add_argument("--only", nargs="*", help="cases whose name starts so")
    parser.add_argument("--folder", type=Path, help="where the files are made, and kept")
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    size = Size(**{name: getattr(asked, name) for name in asdict(Size())})
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        paths = {key: folder / f"{key}.csv" for key in ("edges", "features", "words", "labels")}
        if not all(path.exists() for path in paths.values()):
            make_files(folder, size)
        report: dict[str, Any] = {"cases": {}}
        if asked.results.exists():
            report = json.loads(asked.results.read_text(encoding="utf-8"))
        report |= {
            "command": "python benchmarks/files.py",
            "cores": os.cpu_count(),
            "size": asdict(size),
        }
        report["megabytes"] = {key: path.stat().st_size / 1e6 for key, path in paths.items()}

        def keep(case: str, measure: Callable[[], dict[str, Any]]) -> None:
            if asked.only and not any(case.startswith(start) for start in asked.only):
                return
            report["cases"][case] = measure()
            print(case, json.dumps(report["cases"][case]), flush=True)
            asked.results.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")

        for typed in (False, True):
            for given in ("features", "words"):
                kind = "typed" if typed else "untyped"
                form = "a column each" if given == "features" else "as a list"
                files = [paths["edges"], paths[given], paths["labels"]]
                arguments = ["--edges", str(files[0]), "--features", str(files[1])]
                arguments += ["--labels", str(files[2]), "--epochs", str(asked.epochs)]
                arguments += [] if typed else ["--ignore", "type"]

                def measure(
                    arguments: Any = arguments, files: Any = files, typed: Any = typed
                ) -> Any:
                    with tempfile.TemporaryDirectory() as place:
                        found = run(arguments, asked.before, Path(place) / "out")
                    bare = bare_epochs(paths, size, typed)
                    took = found["computing_seconds"] or found["seconds"]
                    reading = bare_read(files)
                    return found | {
                        "bare_read_seconds": reading,
                        "reading_ratio": took["reading"] / reading,
                        "bare_epoch_seconds": bare,
                        "training_ratio": took["training"] / (bare * found["epochs"]),
                        **({"of_epochs": 200} if asked.epochs < 200 else {}),
                    }

                when = "before" if asked.before else "now"
                keep(f"{kind}, {form}, {when}", measure)
    if asked.results == RESULTS:
        chart(report, CHART)


if __name__ == "__main__":
    main()
