"""Five runs by another commit and by this tree: tables, `--json` documents and report pages, compared.

    python benchmarks/answers.py --before 46b1f9c
    python benchmarks/answers.py --before 46b1f9c --only example repeats --keep /tmp/answers

The runs are `nora run` on the example's files, on Cora written as files, on a typed graph of 20,000 nodes, on
the co-appearances of Les Misérables (a link task) and with repeats; single questions of the example's run
follow. A number, a name, a row or a key that differs is a difference. Texts (notes, titles, reasons) are
listed apart: they may be reworded. Times, memory and versions are left out. What a page holds as far as time
allowed (how many effects and edges, fragile nodes, the part that is drawn) and what `auto` chose by its
forecast differ between two runs of one version, too: compare on a quiet machine.

Exit status 1 when numbers or structure differ. `results/answers.json` lists what was compared.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd

HERE = Path(__file__).parent
OUT = HERE / "results" / "answers.json"
# Relative, of single precision sums in another order.
TOLERANCE = 2e-5
TIMES = re.compile(r"seconds|bytes|memory|versions|created|^peak|^out$|computing|^verified$")
RUNS = ("example", "cora", "typed", "miserables", "repeats")
QUESTIONS = (
    "rank RUN --top 30 --json",
    "rank RUN --edges --top 20 --json",
    "rank RUN --measure flips --measure loss --by y --top 10 --json",
    "rank RUN --method nora --top 10 --json",
    "top RUN --top 10 --json",
    "fragile RUN --top 10 --json",
    "what-if RUN --remove NODE --json",
    "who RUN --node NODE --json",
    "flip RUN NODE --json",
    "group RUN --size 3 --json",
)


def write_inputs(folder: Path) -> dict[str, list[str]]:
    """Input files in `folder`, and the arguments of `nora run` for each run."""
    import nora

    shutil.rmtree(folder / "example", ignore_errors=True)
    subprocess.run([sys.executable, "-m", "nora", "example", f"{folder}/example"], check=True)
    example = [f"--{kind}={folder}/example/{kind}.csv" for kind in ("edges", "features", "labels")]
    cora = nora.load_dataset("cora")
    _write_edges(folder / "cora.csv", cora.data.edge_index.numpy())
    node, feature = cora.data.x.nonzero().t().numpy()
    pd.DataFrame({"id": node, "feature": feature}).to_csv(folder / "cora-x.csv", index=False)
    _write_labels(folder / "cora-y.csv", cora.data.y.numpy())
    random = np.random.default_rng(0)
    side = random.integers(0, 3, 20_000)
    source = random.integers(0, 20_000, 80_000)
    # Two of three edges stay on their side.
    target = random.permutation(np.argsort(side, kind="stable"))[random.integers(0, 20_000, 80_000)]
    near = random.random(80_000) < 0.67
    order = np.argsort(side, kind="stable")
    start = np.searchsorted(side[order], np.arange(4))
    own = start[side[source]] + (random.random(80_000) * np.diff(start)[side[source]]).astype(int)
    target[near] = order[own][near]
    kinds = np.array(["follows", "likes", "knows"])[random.integers(0, 3, 80_000)]
    _write_edges(folder / "typed.csv", np.stack([source, target]), type=kinds)
    _write_labels(folder / "typed-y.csv", side)
    graph = nx.les_miserables_graph()
    pd.DataFrame(
        [(a, b, data["weight"]) for a, b, data in graph.edges(data=True)],
        columns=["source", "target", "weight"],
    ).to_csv(folder / "miserables.csv", index=False)
    return {
        "example": example,
        "cora": [
            f"--edges={folder}/cora.csv",
            f"--features={folder}/cora-x.csv",
            f"--labels={folder}/cora-y.csv",
            "--also=degree",
            "--epochs=60",
        ],
        "typed": [f"--edges={folder}/typed.csv", f"--labels={folder}/typed-y.csv", "--epochs=15"],
        "miserables": [f"--edges={folder}/miserables.csv", "--epochs=60"],
        "repeats": [*example, "--models=gcn,sage", "--repeats=2", "--epochs=40"],
    }


def _write_edges(path: Path, edges: np.ndarray, **columns: Any) -> None:
    frame = pd.DataFrame({"source": edges[0], "target": edges[1], **columns})
    frame.to_csv(path, index=False)


def _write_labels(path: Path, labels: np.ndarray) -> None:
    pd.DataFrame({"id": np.arange(len(labels)), "label": [f"c{k}" for k in labels]}).to_csv(
        path, index=False
    )


def answer(source: Path, name: str, arguments: list[str], folder: Path) -> dict[str, Any]:
    """Everything that this version answers, by the file or command that it stands in."""
    given = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}

    def nora(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "nora", *words], env=given, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"nora {' '.join(words)}: {done.stderr[-500:]}")
        return done.stdout

    out = folder / name
    found: dict[str, Any] = {
        "nora run --json": json.loads(nora("run", *arguments, f"--out={out}", "--json", "--force"))
    }
    for path in sorted(out.rglob("*")):
        key = str(path.relative_to(out))
        if path.suffix == ".csv":
            found[key] = pd.read_csv(path).to_dict(orient="list")
        elif path.suffix == ".json":
            found[key] = json.loads(path.read_text())
        elif path.suffix == ".graphml":
            graph = nx.read_graphml(path)
            found[key] = {"node": dict(graph.nodes(data=True)), "edges": graph.number_of_edges()}
        elif path.suffix == ".html":
            found[key] = page(path.read_text(encoding="utf-8"))
    if name == "example":
        first = found["scores.csv"]["name"][0].lstrip("'")
        for question in QUESTIONS:
            words = question.replace("RUN", str(out)).replace("NODE", first).split()
            found[f"nora {question}"] = json.loads(nora(*words))
    return found


def page(text: str) -> Any:
    """The data of a report page, with its packed parts unpacked."""
    scripts = re.findall(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', text, re.S)
    words = re.sub(r"<(script|style)[^>]*>.*?</\1>|<svg.*?</svg>|<[^>]+>", "\n", text, flags=re.S)
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return {"data": [_unpacked(json.loads(one)) for one in scripts], "words": lines}


def _unpacked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unpacked(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_unpacked(one) for one in value]
    if isinstance(value, str) and len(value) > 40 and value.startswith("eJ"):
        return json.loads(zlib.decompress(base64.b64decode(value)))
    return value


def differences(before: Any, now: Any, at: str = "") -> Iterator[tuple[str, str, Any, Any]]:
    """Where two answers differ: `text` or `value`, the place, both sides."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in [*before, *(key for key in now if key not in before)]:
            if TIMES.search(str(key)):
                continue
            if key not in before or key not in now:
                yield "value", f"{at}/{key}", before.get(key), now.get(key)
            else:
                yield from differences(before[key], now[key], f"{at}/{key}")
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for k, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from differences(one, other, f"{at}[{k}]")
    elif isinstance(before, str) and isinstance(now, str):
        if _timeless(before) != _timeless(now):
            yield "text", at, before, now
    elif not _equal(before, now):
        yield "value", at, before, now


def _timeless(text: str) -> str:
    """A text without folders, and without times, which differ from run to run."""
    text = re.sub(r"(/tmp)?/\S*/(before|now)/|\b[0-9a-f]{64}\b|\d{4}-\d\d-\d\d \d\d:\d\d", "", text)
    return re.sub(r"(about |under )?[\d.,]+ ?(ms|s|seconds?|minutes?|GB|MB)\b", "#", text)


def _equal(one: Any, other: Any) -> bool:
    numbers = all(isinstance(part, int | float) and type(part) is not bool for part in (one, other))
    if numbers:
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(type(one) is type(other) and one == other)


def count_values(found: Any) -> int:
    """How many numbers, texts and truths an answer holds."""
    if isinstance(found, dict | list):
        return sum(map(count_values, found.values() if isinstance(found, dict) else found))
    return 1


def main() -> int:
    """Answer with both versions, and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--before", required=True, help="the other commit")
    parser.add_argument("--only", nargs="*", default=RUNS, choices=RUNS)
    parser.add_argument(
        "--keep", type=Path, help="keep the other commit's answers here, and reuse them"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.keep or Path(temporary)).absolute()
        tree, inputs = folder / "tree", folder / "inputs"
        for one in (tree, inputs, folder / "before", folder / "now"):
            one.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(
            ["git", "-C", str(HERE.parent), "archive", arguments.before, "src"],
            capture_output=True,
            check=True,
        )
        subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)
        asked = write_inputs(inputs)
        compared: dict[str, Any] = {}
        worst = 0
        for name in arguments.only:
            kept = folder / "before" / f"{name}.json"
            if not kept.exists():
                found = answer(tree / "src", name, asked[name], folder / "before")
                kept.write_text(json.dumps(found))
            before = json.loads(kept.read_text())
            now = json.loads(
                json.dumps(answer(HERE.parent / "src", name, asked[name], folder / "now"))
            )
            found = list(differences(before, now))
            values = [one for one in found if one[0] == "value"]
            texts = sorted({(str(one[2]), str(one[3])) for one in found if one[0] == "text"})
            worst = max(worst, len(values))
            compared[name] = {
                "compared_values": count_values(now),
                "different_values": [[place, *both] for _, place, *both in values[:20]],
                "reworded_texts": [list(both) for both in texts],
            }
            print(name, json.dumps(compared[name], indent=1), flush=True)
    if set(arguments.only) == set(RUNS):
        OUT.write_text(
            json.dumps({"before": arguments.before, "runs": compared}, indent=1) + "\n",
            encoding="utf-8",
        )
    return int(worst > 0)


if __name__ == "__main__":
    sys.exit(main())
