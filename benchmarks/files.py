"""`nora run` on generated files, phase by phase: reading, training, ranking, writing.

    python benchmarks/files.py                            # 100,000 nodes, typed and untyped, end to end
    python benchmarks/files.py reading                    # the same files, reading alone, in both forms
    python benchmarks/files.py tables                     # one file of 48 MB as a table
    python benchmarks/files.py growth                     # 20 epochs, the edges once and ten times
    python benchmarks/files.py small                      # the example, Cora as files, 20,000 nodes
    python benchmarks/files.py accuracy                   # five seeds each of Cora, CiteSeer, PubMed, PureP
    python benchmarks/files.py choice                     # models for typed edges: a map each, or shared
    python benchmarks/files.py small --before PATH/TO/src # the same, another version of the code
    python benchmarks/files.py --before PATH/TO/src --stop-after 600

The files are made from a seed: classes that link among themselves, edge types that differ in how much
they do, and bags of words of which each class prefers some. Beside every run stand what a bare `pyarrow`
read of the same files takes, and the same epochs of PyG's own convolutions, transform first, on sparse
features. Each run is a process of its own, whose peak memory is the kernel's. Ratios are of computing
seconds, all cores together: on a machine that others use, those of the clock say little. A run that is
stopped, after so many seconds of computing, is kept with what it had taken until then.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results" / "files.json"
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
    """Computing seconds of `pyarrow.csv.read_csv` on the same files.

    In a process that has read nothing before, as `nora run` is one; the median of three.
    """
    found = [told_by(BARE, [str(path) for path in paths], None)["seconds"] for _ in range(3)]
    return statistics.median(found)


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


BARE = """
import json, sys, time, pyarrow.csv
start = time.process_time()
tables = [pyarrow.csv.read_csv(path) for path in sys.argv[1:]]
print(json.dumps({"seconds": time.process_time() - start}))
"""

READ = """
import json, resource, sys, time
from pathlib import Path
import pyarrow.csv, pyarrow.parquet, torch
from nora.ingest import read_graph
paths = [Path(path) for path in sys.argv[1:]]
start = time.process_time()
reading = read_graph(*paths)
took = time.process_time() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
print(json.dumps({"seconds": took, "peak_gb": peak}))
"""

TABLES = """
import json, sys, time
from pathlib import Path
import pyarrow.csv
from nora.ingest import read_graph
from nora.ingest.formats import format_of
from nora.ingest.table import Wanted
paths = [Path(path) for path in sys.argv[1:]]
start = time.process_time()
tables = [format_of(path).read(path, Wanted("edges")) for path in paths]
print(json.dumps({"seconds": time.process_time() - start}))
"""

TRAIN = """
import json, sys, time, nora
model, dataset, seed = sys.argv[1:]
start = time.process_time()
run = nora.train(model, dataset, seed=int(seed), progress=False)
metrics = run.metrics
print(json.dumps({"test": metrics["test_accuracy"], "epochs": metrics["epochs"],
                  "seconds": time.process_time() - start}))
"""


TYPED = """
import json, sys, nora
from nora.ingest import read_graph
model, bases, seeds, encoding, *files = sys.argv[1:]
files = [file or None for file in files]
dataset = read_graph(*files, encoding=encoding).dataset
sizes = {"num_bases": int(bases)} if int(bases) else {}
found = [nora.train(model, dataset, seed=seed, epochs=100, progress=False, **sizes).metrics
         for seed in range(int(seeds))]
print(json.dumps({"test": [one["test_accuracy"] for one in found],
                  "best_epoch": [one["best_epoch"] for one in found]}))
"""


def version(source: Path | None) -> dict[str, str]:
    """The environment in which the code of a version is found."""
    return os.environ | ({} if source is None else {"PYTHONPATH": str(source)})


def told_by(script: str, arguments: list[str], source: Path | None) -> dict[str, Any]:
    """What a script prints last, run as a process of its own."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(
        command, env=version(source), stdout=subprocess.PIPE, text=True, check=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run(
    arguments: list[str], source: Path | None, out: Path, stop_after: float | None
) -> dict[str, Any]:
    """`nora run` as a process: what `run.json` tells, with the kernel's peak memory."""
    command = [sys.executable, "-m", "nora", "run", *arguments, "--out", str(out), "--json"]
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            command, env=version(source), stdout=subprocess.DEVNULL, stderr=said
        )
        stopped = stop_after is not None and _stopped(process.pid, stop_after)
        _, status, usage = os.wait4(process.pid, 0)
        said.seek(0)
        last = [line.strip() for line in said.read().replace("\r", "\n").splitlines()]
    found = {
        "wall_seconds": time.perf_counter() - start,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_gb": usage.ru_maxrss / 1e6,
    }
    if stopped:
        bars = [line for line in last if line.startswith(("reading", "training", "ranking"))]
        return found | {"stopped": True, "last_said": (bars or last)[-1:]}
    if status:
        raise SystemExit(f"nora run failed: {' '.join(command)}\n" + "\n".join(last[-20:]))
    told = json.loads((out / "run.json").read_text(encoding="utf-8"))
    return found | {
        "seconds": told["seconds"],
        "computing_seconds": told.get("computing_seconds"),
        "peak_gb_by_phase": {k: v / 1e9 for k, v in told.get("peak_bytes", {}).items()},
        "epochs": told["metrics"]["epochs"],
        "test_accuracy": told["metrics"].get("test_accuracy"),
        # An estimate is called one; versions before that had the name alone.
        "method": told["method"].get("called", told["method"]["name"]),
        "run_folder_mb": sum(f.stat().st_size for f in (out / "run").iterdir()) / 1e6,
    }


def _stopped(process: int, after: float) -> bool:
    """Wait until a process ends, or has computed for so many seconds and is stopped."""
    tick = os.sysconf("SC_CLK_TCK")
    while True:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        if fields[0] == "Z":
            return False
        if (int(fields[11]) + int(fields[12])) / tick > after:
            os.kill(process, signal.SIGKILL)
            return True
        time.sleep(0.5)


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


def chart(cases: dict[str, Any], path: Path) -> None:
    """Stacked bars, a bar per run; a run that was stopped is one grey bar."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(cases)
    figure, axes = plt.subplots(figsize=(8, 0.5 * len(names) + 1.6), layout="constrained")
    left = np.zeros(len(names))
    for phase, colour in zip(PHASES, COLOURS, strict=True):
        took = [
            0.0 if "stopped" in cases[name] else phases(_took(cases[name]))[phase] / 60
            for name in names
        ]
        axes.barh(names, took, left=left, color=colour, label=phase)
        left += took
    unfinished = [cases[name]["cpu_seconds"] / 60 * ("stopped" in cases[name]) for name in names]
    if any(unfinished):
        axes.barh(names, unfinished, color="#bbbbbb", hatch="//", label="stopped before its end")
    for at, name in enumerate(names):
        note = f" {cases[name]['peak_gb']:.1f} GB"
        axes.text(max(left[at], unfinished[at]), at, note, va="center", fontsize=8)
    axes.margins(x=0.12)
    axes.invert_yaxis()
    axes.set_xlabel("minutes of computing, all cores together")
    axes.legend(
        ncols=len(PHASES) + 1,
        loc="lower center",
        bbox_to_anchor=(0.4, 1),
        fontsize=8,
        frameon=False,
    )
    figure.savefig(path, dpi=120)


@dataclass
class Bench:
    """What is asked for, and where it goes: after each case, so that nothing is lost."""

    folder: Path
    size: Size
    epochs: int
    before: Path | None
    stop_after: float | None
    only: list[str]
    results: Path
    report: dict[str, Any]

    @property
    def when(self) -> str:
        """Which version runs."""
        return "before" if self.before else "now"

    def keep(self, section: str, case: str, measure: Callable[[], dict[str, Any]]) -> None:
        """Measure a case and write it down, unless others are wanted only."""
        if self.only and not any(case.startswith(start) for start in self.only):
            return
        found = measure()
        self.report.setdefault(section, {})[case] = found
        print(section, case, json.dumps(found), flush=True)
        text = json.dumps(self.report, indent=1, sort_keys=True) + "\n"
        self.results.write_text(text, encoding="utf-8")

    def files(self, size: Size) -> dict[str, Path]:
        """The files of a size, made where they are not there yet."""
        folder = self.folder / f"{size.nodes}-{size.edges}"
        folder.mkdir(parents=True, exist_ok=True)
        paths = {key: folder / f"{key}.csv" for key in ("edges", "features", "words", "labels")}
        if not (folder / "made").exists():
            make_files(folder, size)
            (folder / "made").touch()
        return paths

    def run(self, files: list[Path], *more: str) -> dict[str, Any]:
        """`nora run` on edges, features and labels."""
        arguments = [part for key, path in zip(GIVEN, files, strict=True) for part in (key, path)]
        with tempfile.TemporaryDirectory() as place:
            out = Path(place) / "out"
            return run([*map(str, arguments), *more], self.before, out, self.stop_after)


GIVEN = ("--edges", "--features", "--labels")
TURNS = range(5)


def large(bench: Bench) -> None:
    """Whole runs, typed and untyped, beside bare reading and bare training."""
    paths = bench.files(bench.size)
    # Earlier versions read no lists.
    given = "features" if bench.before else "words"
    files = [paths["edges"], paths[given], paths["labels"]]
    for typed in (False, True):
        more = ["--epochs", str(bench.epochs), *([] if typed else ["--ignore", "type"])]

        def measure(typed: bool = typed, more: list[str] = more) -> dict[str, Any]:
            found = bench.run(files, *more)
            if "stopped" in found:
                return found
            bare, reading = bare_epochs(paths, bench.size, typed), bare_read(files)
            return found | {
                "bare_read_seconds": reading,
                "reading_ratio": _took(found)["reading"] / reading,
                "bare_epoch_seconds": bare,
                "training_ratio": _took(found)["training"] / (bare * found["epochs"]),
            }

        bench.keep("large", f"{'typed' if typed else 'untyped'}, {bench.when}", measure)


def reading(bench: Bench) -> None:
    """Reading alone, features as a list and a column each."""
    paths = bench.files(bench.size)
    for given, form in (("words", "as a list"), ("features", "a column each")):
        files = [paths["edges"], paths[given], paths["labels"]]

        def measure(files: list[Path] = files) -> dict[str, Any]:
            given = [str(path) for path in files]
            # In turns: on a machine that others use, the same work takes half as long or twice.
            turns = [
                (told_by(READ, given, bench.before), told_by(BARE, given, None)) for _ in TURNS
            ]
            ratios = [one["seconds"] / bare["seconds"] for one, bare in turns]
            return {
                "seconds": statistics.median(one["seconds"] for one, _ in turns),
                "peak_gb": max(one["peak_gb"] for one, _ in turns),
                "bare_read_seconds": statistics.median(bare["seconds"] for _, bare in turns),
                "ratio": statistics.median(ratios),
                "ratios": ratios,
            }

        bench.keep("reading", f"{form}, {bench.when}", measure)


def tables(bench: Bench) -> None:
    """A file of 48 MB read as a table, before it becomes a graph: a list of words, and one of edges."""
    words = bench.files(bench.size)["words"]
    edges = bench.files(replace(bench.size, edges=2 * bench.size.edges, features=50, words=3))
    for what, path in (("words", words), ("edges", edges["edges"])):

        def measure(path: Path = path) -> dict[str, Any]:
            turns = [
                (told_by(TABLES, [str(path)], None), told_by(BARE, [str(path)], None))
                for _ in TURNS
            ]
            ratios = [one["seconds"] / bare["seconds"] for one, bare in turns]
            return {
                "megabytes": path.stat().st_size / 1e6,
                "seconds": statistics.median(one["seconds"] for one, _ in turns),
                "bare_read_seconds": statistics.median(bare["seconds"] for _, bare in turns),
                "ratio": statistics.median(ratios),
                "ratios": ratios,
            }

        bench.keep("tables", f"a list of {what}, {bench.when}", measure)


def growth(bench: Bench) -> None:
    """The same nodes and words with more edges, and few epochs."""
    for times in (1, 10):
        paths = bench.files(replace(bench.size, edges=times * bench.size.edges))
        files = [paths["edges"], paths["words"], paths["labels"]]
        for typed in (False, True):
            kind = "typed" if typed else "untyped"
            more = ["--epochs", "20", *([] if typed else ["--ignore", "type"])]
            case = f"{times} x the edges, {kind}, {bench.when}"
            about = {"nodes": bench.size.nodes, "edges": times * bench.size.edges}

            def measure(
                files: list[Path] = files, more: list[str] = more, about: dict[str, int] = about
            ) -> dict[str, Any]:
                return about | bench.run(files, *more)

            bench.keep("growth", case, measure)


def small(bench: Bench) -> None:
    """Graphs that people try first.

    A version's compiled loops are kept on disk by the first run that needs them, which takes a minute more
    or two: of each case a second run counts.
    """
    example, cora = bench.folder / "example", bench.folder / "cora"
    if not example.exists():
        subprocess.run([sys.executable, "-m", "nora", "example", str(example)], check=True)
    if not cora.exists():
        cora.mkdir(parents=True)
        _write_cora(cora)
    middling = bench.files(Size(nodes=20_000, edges=100_000, features=500))
    for name, folder in (("example", example), ("cora", cora), ("20,000 nodes", None)):
        files = [middling[key] for key in ("edges", "features", "labels")]
        if folder is not None:
            files = [folder / f"{key}.csv" for key in ("edges", "features", "labels")]

        def measure(files: list[Path] = files) -> dict[str, Any]:
            first = bench.run(files)
            return bench.run(files) | {"cpu_seconds_of_the_first_run": first["cpu_seconds"]}

        bench.keep("small", f"{name}, {bench.when}", measure)


def _write_cora(folder: Path) -> None:
    import nora

    data = nora.load_dataset("cora").data
    names = np.array([f"paper-{node}" for node in range(data.num_nodes)])
    source, target = data.edge_index[:, data.edge_index[0] < data.edge_index[1]].numpy()
    _write(folder / "edges.csv", "source,target", np.stack([names[source], names[target]]))
    _write(folder / "labels.csv", "id,label", np.stack([names, data.y.numpy().astype(str)]))
    words = ",".join(f"w{at}" for at in range(data.num_features))
    rows = (data.x != 0).int().numpy().astype(str)
    _write(folder / "features.csv", f"id,{words}", np.concatenate([names[None], rows.T]))


def accuracy(bench: Bench) -> None:
    """Test accuracy of five seeds."""
    for model, dataset in (
        ("gcn", "cora"),
        ("sage", "cora"),
        ("gcn", "citeseer"),
        ("gcn", "pubmed"),
        ("timme", "pure-p"),
    ):

        def measure(model: str = model, dataset: str = dataset) -> dict[str, Any]:
            found = [told_by(TRAIN, [model, dataset, str(seed)], bench.before) for seed in range(5)]
            return {key: [one[key] for one in found] for key in found[0]}

        bench.keep("accuracy", f"{dataset} {model}, {bench.when}", measure)


def choice(bench: Bench) -> None:
    """Test accuracy of what could be chosen for typed edges: on generated words, and on Twitter users."""
    middling = bench.files(Size(nodes=20_000, edges=100_000, features=500))
    users = bench.folder / "pure-p"
    if not users.exists():
        users.mkdir(parents=True)
        _write_users(users)
    cases = {
        "20,000 nodes, 8 types, words": (1, "auto", middling, "words"),
        "PureP, 5 types, numbers of users": (5, "onehot", users, ""),
        "PureP, 5 types, random features": (5, "random", users, ""),
    }
    for name, (seeds, encoding, where, features) in cases.items():
        files = [
            "" if not key else str(where[key] if isinstance(where, dict) else where / f"{key}.csv")
            for key in ("edges", features, "labels")
        ]
        for model, bases in (("gcn", 0), ("rgcn", 0), ("rgcn", 1), ("rgcn", 2), ("rgcn", 8)):
            given = [model, str(bases), str(seeds), encoding, *files]
            maps = f", {bases} shared maps" if bases else ", a map each" if model == "rgcn" else ""
            bench.keep(
                "choice",
                f"{name}: {model}{maps}",
                lambda given=given: told_by(TYPED, given, bench.before),  # type: ignore[misc]
            )


def _write_users(folder: Path) -> None:
    import nora

    data = nora.load_dataset("pure-p").data
    (kind,) = data.node_types
    rows = [
        (f"user-{a}", f"user-{b}", relation[1])
        for relation in data.edge_types
        for a, b in data[relation].edge_index.T.tolist()
    ]
    known = [(f"user-{at}", f"c{k}") for at, k in enumerate(data[kind].y.tolist()) if k >= 0]
    _write(folder / "edges.csv", "source,target,type", np.array(rows).T)
    _write(folder / "labels.csv", "id,label", np.array(known).T)


PARTS = {part.__name__: part for part in (large, reading, tables, growth, small, accuracy, choice)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; by default large"
    )
    for name, default in asdict(Size()).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--before", type=Path, help="the src folder of another version")
    parser.add_argument("--stop-after", type=float, help="seconds of computing of a run")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose name starts so")
    parser.add_argument("--folder", type=Path, help="where the files are made, and kept")
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    parts = asked.parts or ["large"]
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    size = Size(**{name: getattr(asked, name) for name in asdict(Size())})
    report: dict[str, Any] = {}
    if asked.results.exists():
        report = json.loads(asked.results.read_text(encoding="utf-8"))
    command = (
        "python benchmarks/files.py [large] [reading] [tables] [growth] [small] [accuracy] [choice]"
    )
    report |= {"command": command, "cores": os.cpu_count()}
    if "large" in parts or "reading" in parts:
        report["size"] = asdict(size)
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(
            asked.folder or Path(scratch),
            size,
            asked.epochs,
            asked.before,
            asked.stop_after,
            asked.only,
            asked.results,
            report,
        )
        for part in parts:
            PARTS[part](bench)
    if report.get("large"):
        chart(report["large"], asked.results.with_suffix(".png"))


if __name__ == "__main__":
    main()
