"""Is `exact` as fast as it was? Another commit and this tree, in turns, on the same models.

    python benchmarks/commits.py --before 6931cc4             # every setting of `make bench`, and others
    python benchmarks/commits.py --before HEAD~1 --only cora  # settings whose name starts so
    python benchmarks/commits.py --before 0bed810 --only arxiv --out benchmarks/results/commits_arxiv.json

Each version runs in a process of its own (the other commit from a temporary work tree); within a setting
they take turns, five times each, and the quickest run of each counts. A ratio above 1 says that
this tree is the faster; that of CPU seconds depends less on what else the machine does. Weights are
random and the same for both. On the ogbn-arxiv topology preparing takes minutes: each version prepares
once, and 150 removals are timed by themselves, one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "commits.json"
TURNS = 5
GRAPH = "NORA_BENCHMARK_GRAPH"


def settings() -> dict[str, dict[str, Any]]:
    """What is timed, by name."""
    found: dict[str, dict[str, Any]] = {}
    for dataset, hidden in (("cora", 256), ("citeseer", 256), ("pubmed", 512)):
        for model in ("gcn", "sage", "gat", "gcnii"):
            found[f"{dataset}-{model}-{hidden}"] = {
                "dataset": dataset,
                "model": model,
                "hidden": hidden,
            }
    for dataset in ("cora", "pubmed"):
        found[f"{dataset}-gcn-256-link"] = {
            "dataset": dataset, "model": "gcn", "hidden": 256, "task": "link"
        }  # fmt: skip
    for layer in ("gatv2", "transformer", "arma", "cheb", "gated", "lightgcn"):
        found[f"cora-{layer}"] = {"dataset": "cora", "layer": layer}
    for model in ("heteroconv", "rgcn"):
        found[f"relational-{model}"] = {"relational": model}
    for model in ("gcn", "sage", "gat"):
        found[f"arxiv-{model}"] = {"arxiv": model}
    return found


def work() -> None:
    """Answer `setting` lines from standard input with seconds, in this process's version of NORA."""
    import torch

    import nora

    sys.path.insert(0, str(HERE))
    warnings.simplefilter("ignore")
    made: dict[str, Any] = {}

    def prepared(name: str, what: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
        torch.manual_seed(0)
        if "arxiv" in what:
            from torch_geometric.data import Data

            # Read by this tree's code for both: the other commit may not know the dataset.
            data = Data(**torch.load(os.environ[GRAPH]))
            sizes = {"hidden_channels": 64, "heads": 2} if what["arxiv"] == "gat" else {
                "hidden_channels": 256
            }  # fmt: skip
            model = nora.build_model(
                what["arxiv"], data.num_features, 40, num_layers=3, norm=True, **sizes
            )
            return model, data, None, torch.randperm(data.num_nodes)[:150]
        if "relational" in what:
            import relational

            if what["relational"] == "rgcn":
                data = relational.typed()
                model = nora.build_model("rgcn", 64, 4, num_relations=5)
                return model, data, None, None
            data = relational.bibliography()
            return relational.Authors(data), data, nora.NodeClassification(node_type="paper"), None
        data = nora.load_dataset(what["dataset"]).data
        if "layer" in what:
            from layers import MODELS

            return MODELS[what["layer"]](data.num_features, int(data.y.max()) + 1), data, None, None
        sizes = {"hidden_channels": what["hidden"]}
        model = nora.build_model(what["model"], data.num_features, 7, **sizes)
        task = None
        if what.get("task") == "link":
            pairs = torch.randint(data.num_nodes, (2, data.num_edges // 5))
            task = nora.LinkPrediction(pairs)
        return model, data, task, None

    def in_parts(engine: Any, nodes: Any) -> Any:
        if hasattr(engine, "scores"):  # earlier versions
            return engine.scores(nodes, 2**31, workers=1)
        return engine.by_chunks(engine.influences, nodes, 2**31, workers=1)

    def removals_alone(model: Any, data: Any, nodes: Any) -> dict[str, Any]:
        from nora.engine.engine import Engine
        from nora.engine.exec.kernels import compiled
        from nora.model import build_problem

        if "engine" not in made:
            made["engine"] = Engine.prepare(build_problem(model.eval(), data), compiled)
            list(in_parts(made["engine"], nodes[:5]))
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        start, computing = time.perf_counter(), time.process_time()
        found = [scores for _, scores in in_parts(made["engine"], nodes)]
        seconds = time.perf_counter() - start
        torch.set_num_threads(threads)
        return {
            "seconds": seconds, "cpu": time.process_time() - computing, "removals": seconds,
            "sum": float(torch.cat(found).double().sum()), "fallback": None,
        }  # fmt: skip

    for line in sys.stdin:
        name = line.strip()
        if "arxiv" in settings()[name]:
            if name not in made:
                made.clear()
                made[name] = prepared(name, settings()[name])
            model, data, _, nodes = made[name]
            print(json.dumps(removals_alone(model, data, nodes)), flush=True)
            continue
        if name not in made:
            made.clear()
            made[name] = prepared(name, settings()[name])
            model, data, task, nodes = made[name]
            model.eval()
            few = torch.zeros(int(data.num_nodes), dtype=torch.bool)
            few[:6] = True
            nora.influence(
                model, data, "exact", task, nodes=few, backend="compiled", progress=False
            )
        model, data, task, nodes = made[name]
        start, computing = time.perf_counter(), time.process_time()
        found = nora.influence(model, data, "exact", task, nodes=nodes, progress=False)
        seconds = time.perf_counter() - start
        print(json.dumps({
            "seconds": seconds, "cpu": time.process_time() - computing,
            "removals": found.details.get("removal_seconds", seconds),
            "sum": float(found.scores.nan_to_num().sum()), "fallback": found.details.get("fallback"),
        }), flush=True)  # fmt: skip


def main() -> None:
    """Time both versions in turns and write each setting as it is done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", default="HEAD~1", help="the commit to compare with")
    parser.add_argument("--only", nargs="*", default=[""], help="settings whose name starts so")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the figures are written")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work()
        return
    commit = _git("rev-parse", "--short", arguments.before)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "before"
        _git("worktree", "add", "--quiet", "--detach", str(tree), commit)
        try:
            if any(name.startswith("arxiv") for name in _wanted(arguments.only)):
                os.environ[GRAPH] = _saved_graph(Path(folder))
            _compare(tree, commit, arguments.only, arguments.out)
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _compare(tree: Path, commit: str, only: list[str], out: Path) -> None:
    results = json.loads(out.read_text())["settings"] if out.exists() else {}
    for name in _wanted(only):
        workers = [_worker(source) for source in (tree / "src", HERE.parent / "src")]
        runs: list[list[dict[str, Any]]] = [[], []]
        for _ in range(TURNS):
            for worker, own in zip(workers, runs, strict=True):
                worker.stdin.write(name + "\n")
                worker.stdin.flush()
                own.append(json.loads(worker.stdout.readline()))
        for worker in workers:
            worker.stdin.close()
            worker.wait()
        before, now = (
            {k: min(r[k] for r in own) for k in ("seconds", "removals", "cpu")} for own in runs
        )
        results[name] = {
            "before": before, "now": now, "ratio": before["seconds"] / now["seconds"],
            "ratio_of_removals": before["removals"] / now["removals"],
            "ratio_of_cpu": before["cpu"] / now["cpu"],
            "sums": [own[0]["sum"] for own in runs], "fallback": [own[0]["fallback"] for own in runs],
        }  # fmt: skip
        row = results[name]
        print(
            f"{name:22} before {before['seconds']:7.2f} s   now {now['seconds']:7.2f} s   ratio "
            f"{row['ratio']:5.2f}   CPU {row['ratio_of_cpu']:5.2f}   removals alone "
            f"{row['ratio_of_removals']:5.2f}",
            flush=True,
        )
        about = {
            "command": f"python benchmarks/commits.py --before {commit}",
            "settings": dict(sorted(results.items())),
        }
        out.write_text(json.dumps(about, indent=1) + "\n")


def _wanted(only: list[str]) -> list[str]:
    return [name for name in settings() if name.startswith(tuple(only))]


def _saved_graph(folder: Path) -> str:
    """The ogbn-arxiv topology as plain tensors, for processes of either commit."""
    import torch

    from arxiv import load

    data = load()[0]
    path = folder / "arxiv.pt"
    torch.save({"x": data.x, "edge_index": data.edge_index, "y": data.y}, path)
    return str(path)


def _worker(source: Path) -> Any:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", __file__, "--work"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(source)},
    )  # fmt: skip


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=HERE, check=True, capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
