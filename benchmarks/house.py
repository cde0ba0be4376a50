"""The shape of the code, and what starting costs: another commit beside this tree.

    python benchmarks/house.py --before 5fda512

Files at the top of the package, lines, imports that go round in circles (between two of its folders or loose
files that each reach the other, lazy ones included, those for type checkers not: some of them go up); what a
report on 1,000 nodes asks of the model; and how long a first `nora.influence` on Cora takes in a new process.
Versions take turns, and the quickest of each counts, wall clock and processor time.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx as nx

HERE = Path(__file__).parent

FIRST = """
import json, sys, time
import nora
data = nora.load_dataset("cora").data
import torch
torch.manual_seed(0)
model = nora.build_model("gcn", data.num_features, 7, hidden_channels=256).eval()
start, computed = time.perf_counter(), time.process_time()
nora.influence(model, data, progress=False)
print(json.dumps({
    "seconds": time.perf_counter() - start,
    "computing_seconds": time.process_time() - computed,
    "scipy_statistics_loaded": "scipy.stats" in sys.modules,
}))
"""

REPORT = """
import importlib, json, tempfile
import nora
from nora.models.stack import Stack
names = ["nora.engine.engine", "nora.incremental.engine"]
here = [name for name in names if importlib.util.find_spec(name.rpartition(".")[0])]
Engine = importlib.import_module(here[0]).Engine
run = nora.train("gcn", "polarised", epochs=20, progress=False)
scores = nora.influence(run.model, run.data, "exact", progress=False)
count = {"preparations": 0, "passes": 0}
prepare, call = Engine.prepare, Stack.__call__
def prepared(*given, **more):
    count["preparations"] += 1
    return prepare(*given, **more)
def called(self, *given, **more):
    count["passes"] += 1
    return call(self, *given, **more)
Engine.prepare, Stack.__call__ = staticmethod(prepared), called
with tempfile.TemporaryDirectory() as folder:
    nora.write_report(f"{folder}/a.html", run.model, run.data, scores)
print(json.dumps(count))
"""


def imports(path: Path) -> Iterator[str]:
    """Modules that a file imports, those for type checkers left out."""

    def walk(node: ast.AST) -> Iterator[ast.AST]:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        yield node
        for child in ast.iter_child_nodes(node):
            yield from walk(child)

    for node in walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def shape(package: Path) -> dict[str, int]:
    """Files, lines and circular imports of a package."""
    files = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts): path
        for path in package.rglob("*.py")
    }
    # By station: the folders and loose files of the package; within a folder, files may know each other.
    graph, between = nx.DiGraph(), set()
    for name, path in files.items():
        here = name.split(".")[1]
        known = {other for other in imports(path) if other in files or f"{other}.__init__" in files}
        between |= {(name, other) for other in known if other.count(".") and here != "__init__"}
    between = {(a, b) for a, b in between if a.split(".")[1] != b.split(".")[1]}
    graph.add_edges_from((a.split(".")[1], b.split(".")[1]) for a, b in between)
    place = {
        module: at
        for at, part in enumerate(nx.strongly_connected_components(graph))
        for module in part
    }
    lines = {
        name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in files.items()
    }
    return {
        "files_at_the_top": sum(path.parent == package for path in files.values()),
        "files": len(files),
        "lines": sum(lines.values()),
        "longest_file": max(lines.values()),
        "circular_imports": sum(
            place[a.split(".")[1]] == place[b.split(".")[1]] for a, b in between
        ),
    }


def ran(source: Path, code: str) -> dict[str, Any]:
    """What a script prints, run with this version."""
    given = {**os.environ, "PYTHONPATH": str(source), "PYTHONWARNINGS": "ignore"}
    found = subprocess.run(
        [sys.executable, "-c", code], env=given, capture_output=True, text=True, check=True
    )
    return dict(json.loads(found.stdout.splitlines()[-1]))


def main() -> None:
    """Measure both versions, and write what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--before", required=True, help="the other commit")
    parser.add_argument("--turns", type=int, default=3, help="how often a first call is timed")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "house.json")
    arguments = parser.parse_args()
    git = ["git", "-C", str(HERE.parent)]
    with tempfile.TemporaryDirectory() as folder:
        tree = f"{folder}/before"
        subprocess.run(
            [*git, "worktree", "add", "-q", "--detach", tree, arguments.before], check=True
        )
        try:
            sources = {"before": Path(tree) / "src", "now": HERE.parent / "src"}
            found: dict[str, Any] = {
                name: {**shape(source / "nora"), "report": ran(source, REPORT)}
                for name, source in sources.items()
            }
            for source in sources.values():
                ran(source, FIRST)  # what is compiled once per installation
            firsts: dict[str, list[dict[str, Any]]] = {name: [] for name in sources}
            for _ in range(arguments.turns):
                for name, source in sources.items():
                    firsts[name].append(ran(source, FIRST))
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", tree], check=True)
    for name, runs in firsts.items():
        found[name]["first_influence_on_cora"] = {
            "seconds": min(one["seconds"] for one in runs),
            "computing_seconds": min(one["computing_seconds"] for one in runs),
            "scipy_statistics_loaded": runs[0]["scipy_statistics_loaded"],
        }
    about = {
        "command": f"python benchmarks/house.py --before {arguments.before} --turns {arguments.turns}",
        "load": os.getloadavg(),
        **found,
    }
    arguments.out.write_text(json.dumps(about, indent=1) + "\n")
    print(json.dumps(about, indent=1))


if __name__ == "__main__":
    main()
