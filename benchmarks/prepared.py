"""Engines on disk: how quickly they open, how much memory they take, and how well processes share the work.

    python benchmarks/prepared.py                  # everything that is not measured yet
    python benchmarks/prepared.py --only opening   # one part again: opening, sharing, memory, large, growth

- opening: preparing an engine on the ogbn-arxiv topology (stand-in features, `arxiv.py`) against opening it,
  CPU seconds of one thread.
- sharing: the same removals by two threads, two processes of a pool, and a Ray cluster of two CPUs; CPU
  seconds of all processes together, since others use the machine too, and wall seconds.
- memory: the proportional set size of eight processes that have opened one engine and used it.
- large: a generated graph of 2,000,000 nodes and 20,000,000 edges, 64 features, 3-layer SAGE: prepared, and
  1,000 random removals, exact, with `memory="4GB"`; the most memory held.
- growth: generated graphs of 100,000 to 4,000,000 edges, for the arithmetic of `docs/prepared.md`.

Each part runs in processes of its own. Seeds are fixed; results are kept in `results/prepared.json` part by
part.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "prepared.json"
WORK = Path(os.environ.get("NORA_BENCHMARK_FOLDER", tempfile.gettempdir())) / "nora-prepared"
SIZES = {"hidden_channels": 256, "num_layers": 3, "norm": True}
NODES, EDGES, FEATURES, CLASSES = 2_000_000, 20_000_000, 64, 16


def child(part: str, *given: Any) -> dict[str, Any]:
    """A part of this file in a process of its own; what it printed last, as JSON."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--child", part, *map(str, given)],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{part} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def peak_bytes() -> int:
    """The most memory this process has held, shared pages of files included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def arxiv(model: str) -> tuple[Any, Any]:
    from arxiv import arxiv_topology

    return arxiv_topology(model, **SIZES)


def timed(work: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}, found


# Opening


def opening() -> dict[str, Any]:
    found = {}
    for model in ("gcn",):
        folder = WORK / f"arxiv-{model}"
        shutil.rmtree(folder, ignore_errors=True)
        preparing = child("prepare-arxiv", model, folder)
        opened = [child("open-arxiv", model, folder) for _ in range(3)]
        best = min(opened, key=lambda one: one["cpu"])
        found[model] = {
            "preparing_cpu_seconds": preparing["cpu"],
            "of_which_engine_alone": preparing["engine_cpu"],
            "opening_cpu_seconds": best["cpu"],
            "opening_wall_seconds": min(one["wall"] for one in opened),
            "times_quicker": preparing["engine_cpu"] / best["cpu"],
            "bytes": preparing["bytes"],
        }
        print(model, found[model])
    return found


def prepare_arxiv(model: str, folder: str) -> dict[str, Any]:
    import nora
    from nora.engine.engine import Engine

    network, data = arxiv(model)
    nora.influence(
        network, data, "exact", nodes=[0], verify=0, progress=False
    )  # loops are compiled
    engine_cpu = 0.0
    before = Engine.prepare

    def prepared(*given: Any) -> Engine:
        nonlocal engine_cpu
        seconds, engine = timed(lambda: before(*given))
        engine_cpu += seconds["cpu"]
        return engine

    Engine.prepare = staticmethod(prepared)  # type: ignore[method-assign,assignment]
    seconds, _ = timed(lambda: nora.prepare(network, data, folder, progress=False))
    size = sum(file.stat().st_size for file in Path(folder).iterdir())
    return {**seconds, "engine_cpu": engine_cpu, "bytes": size}


def open_arxiv(model: str, folder: str) -> dict[str, Any]:
    import nora

    network, _ = arxiv(model)
    seconds, _ = timed(lambda: nora.Session.open(folder, network))
    return seconds


# Sharing


def sharing() -> dict[str, Any]:
    folder = WORK / "arxiv-gcn"
    if not folder.exists():
        child("prepare-arxiv", "gcn", folder)
    found: dict[str, Any] = {"removals": len(_removals())}
    for who in ("threads", "pool", "ray"):
        found[who] = child(f"share-{who}", folder)
        print(who, found[who])
    for who in ("pool", "ray"):
        found[f"efficiency of {who}, CPU seconds"] = found["threads"]["cpu"] / found[who]["cpu"]
        found[f"efficiency of {who}, wall seconds"] = found["threads"]["wall"] / found[who]["wall"]
    return found


def _removals() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).permutation(169_343)[:300]).sort().values


def _cpu_of_all() -> float:
    """CPU seconds of this process and of all that it has started, and those have."""
    of: dict[int, tuple[int, float]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            rest = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        of[int(place.name)] = (
            int(rest[1]),
            (int(rest[11]) + int(rest[12])) / os.sysconf("SC_CLK_TCK"),
        )
    mine, total = {os.getpid()}, 0.0
    for _ in range(6):
        mine |= {one for one, (parent, _) in of.items() if parent in mine}
    for one in mine:
        total += of.get(one, (0, 0.0))[1]
    return total


def share(who: str, folder: str) -> dict[str, Any]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    import nora

    torch.set_num_threads(2)
    network, _ = arxiv("gcn")
    session = nora.Session.open(folder, network)
    asked: dict[str, Any] = {"progress": False, "nodes": _removals()}

    def ask(**how: Any) -> dict[str, float]:
        # Processes are there, all of them, and loops are compiled.
        session.influence("exact", **{**asked, "nodes": asked["nodes"][::5]}, **how)
        before = _cpu_of_all()
        wall = timed(lambda: session.influence("exact", **asked, **how))[0]["wall"]
        return {"cpu": _cpu_of_all() - before, "wall": wall}

    if who == "threads":
        return ask(workers=2, verify=0)
    if who == "pool":
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            return ask(executor=pool)
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    with nora.RayCluster() as cluster:
        seconds = ask(executor=cluster)
    ray.shutdown()
    return seconds


# Memory


def memory() -> dict[str, Any]:
    folder = WORK / "arxiv-gcn"
    if not folder.exists():
        child("prepare-arxiv", "gcn", folder)
    return child("eight", folder)


HOLD = """
import sys
sys.path[:0] = {path!r}
import torch
torch.set_num_threads(1)
from prepared import arxiv, _removals
import nora
network, data = arxiv("gcn")
del data
session = nora.Session.open({folder!r}, network)
session.influence("exact", nodes=_removals()[{at}::100], workers=1, progress=False)
print("ready", flush=True)
sys.stdin.read()
"""


def eight(folder: str) -> dict[str, Any]:
    """Proportional set size: pages that several processes share count for each in part."""
    sizes: dict[int, dict[str, float]] = {}
    running: list[subprocess.Popen[bytes]] = []
    for at in range(8):
        code = HOLD.format(path=sys.path, folder=folder, at=at)
        one = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert one.stdout is not None
        assert one.stdout.readline() == b"ready\n"
        running.append(one)
        if at + 1 in (1, 2, 4, 8):
            sizes[at + 1] = _set_sizes(running)
    for one in running:
        one.kill()
        one.wait()
    files = sum(file.stat().st_size for file in Path(folder).iterdir())
    return {"processes": sizes, "engine_bytes": files}


def _set_sizes(running: list[subprocess.Popen[bytes]]) -> dict[str, float]:
    total = {"Pss": 0.0, "Pss_File": 0.0, "Pss_Anon": 0.0, "Rss": 0.0}
    for one in running:
        for line in Path(f"/proc/{one.pid}/smaps_rollup").read_text().splitlines():
            name = line.split(":")[0]
            if name in total:
                total[name] += int(line.split()[1]) * 1024
    return total


# A large graph


def large() -> dict[str, Any]:
    folder = WORK / "large"
    shutil.rmtree(folder, ignore_errors=True)
    made = child("make-large", folder)
    prepared = child("prepare-large", folder)
    print(prepared)
    asked = child("ask-large", folder)
    print(asked)
    return {"nodes": NODES, "edges": EDGES, "made": made, "prepared": prepared, "asked": asked}


def make_large(folder: str) -> dict[str, Any]:
    """Sources are drawn evenly, targets rather among the first nodes: in-degrees are skewed."""
    random = np.random.default_rng(0)
    place = Path(folder)
    place.mkdir(parents=True)
    x = np.lib.format.open_memmap(
        place / "x.npy", mode="w+", dtype=np.float32, shape=(NODES, FEATURES)
    )
    for start in range(0, NODES, 100_000):
        x[start : start + 100_000] = random.standard_normal((100_000, FEATURES), dtype=np.float32)
    source = random.integers(NODES, size=EDGES)
    target = (NODES * random.random(EDGES) ** 1.5).astype(np.int64)
    np.save(place / "edge_index.npy", np.stack([source, target]))
    return {"peak_bytes": peak_bytes()}


def _large(folder: str) -> tuple[Any, Any]:
    from torch_geometric.data import Data

    import nora

    torch.manual_seed(0)
    # A pass of the model itself holds a message per edge: 20,000,000 × 32 × 4 bytes.
    model = nora.build_model("sage", FEATURES, CLASSES, hidden_channels=32, num_layers=3)
    x = torch.from_numpy(np.load(Path(folder) / "x.npy", mmap_mode="c"))
    edges = torch.from_numpy(np.load(Path(folder) / "edge_index.npy", mmap_mode="c"))
    return model.eval(), Data(x=x, edge_index=edges)


def prepare_large(folder: str) -> dict[str, Any]:
    import nora
    from nora.engine.cost import preparation_cost

    model, data = _large(folder)
    engine = Path(folder) / "engine"
    problem = nora.Session(model, data, once=True).unchecked
    with problem.evaluating(), torch.no_grad():
        told = preparation_cost(problem)
    seconds, _ = timed(lambda: nora.prepare(model, data, engine, memory="8GB", progress=False))
    size = sum(file.stat().st_size for file in engine.iterdir())
    return {
        **seconds,
        "peak_bytes": peak_bytes(),
        "engine_bytes": size,
        "forecast": {"memory": told.memory, "disk": told.disk},
    }


def ask_large(folder: str) -> dict[str, Any]:
    import nora

    model, data = _large(folder)
    opening_, session = timed(lambda: nora.Session.open(Path(folder) / "engine", model))
    nodes = np.random.default_rng(1).permutation(NODES)[:1000]
    nodes.sort()
    seconds, found = timed(
        lambda: session.influence("exact", nodes=nodes, memory="4GB", progress=False)
    )
    peak = peak_bytes()
    scores = found.scores[torch.from_numpy(nodes)]
    some = nodes[::250]
    truth = nora.influence(model, data, "brute", nodes=some, progress=False)
    apart = (found.scores[some].double() - truth.scores[some].double()).abs()
    return {
        "opening": opening_,
        **seconds,
        "peak_bytes": peak,
        "finite": int(scores.isfinite().sum()),
        "mean": float(scores.mean()),
        "compared_with_brute": len(some),
        "largest_difference": float(apart.max()),
        "their_influence": truth.scores[some].tolist(),
    }


# Graphs of growing size: does the cost model of docs/prepared.md hold?


def growth() -> dict[str, Any]:
    found = {}
    for edges in (100_000, 400_000, 1_000_000, 4_000_000):
        folder = WORK / f"growth-{edges}"
        shutil.rmtree(folder, ignore_errors=True)
        found[edges] = child("grow", folder, edges)
        print(edges, found[edges])
        shutil.rmtree(folder, ignore_errors=True)
    last = found[4_000_000]
    largest = max(found)
    told = {}
    for edges, one in found.items():
        share = edges / largest
        told[edges] = {
            "bytes, of what the largest says": one["bytes"] / (last["bytes"] * share),
            "preparing, of what the largest says": one["prepare_cpu"]
            / (last["prepare_cpu"] * share),
            "seconds per changed row, of the largest's": (
                one["seconds_per_row"] / last["seconds_per_row"]
            ),
        }
    return {"measured": found, "against_the_largest": told}


def grow(folder: str, edges: str) -> dict[str, Any]:
    from torch_geometric.data import Data

    import nora

    count, nodes = int(edges), int(edges) // 10
    random = np.random.default_rng(0)
    ends = np.stack(
        [random.integers(nodes, size=count), (nodes * random.random(count) ** 1.5).astype(int)]
    )
    x = torch.from_numpy(random.standard_normal((nodes, FEATURES), dtype=np.float32))
    data = Data(x=x, edge_index=torch.from_numpy(ends))
    torch.manual_seed(0)
    model = nora.build_model("sage", FEATURES, CLASSES, hidden_channels=32, num_layers=3).eval()
    nora.influence(model, data, "exact", nodes=[0], verify=0, progress=False)  # loops are compiled
    preparing, _ = timed(lambda: nora.prepare(model, data, folder, progress=False))
    opening_, session = timed(lambda: nora.Session.open(folder, model))
    some = np.sort(random.permutation(nodes)[:300])
    removing, _ = timed(lambda: session.influence("exact", nodes=some, workers=1, progress=False))
    from nora.graph.edit_batch import EditBatch

    engine = session.prepared.engine(session.problem(), removals=300)
    with torch.no_grad():
        rows = len(engine.changed_output(EditBatch.remove_nodes(torch.from_numpy(some))))
    return {
        "nodes": nodes,
        "prepare_cpu": preparing["cpu"],
        "open_cpu": opening_["cpu"],
        "bytes": sum(file.stat().st_size for file in Path(folder).iterdir()),
        "removal_cpu": removing["cpu"] / len(some),
        "predictions_changed": rows / len(some),
        "seconds_per_row": removing["cpu"] / max(rows, 1),
    }


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "opening": opening,
    "sharing": sharing,
    "memory": memory,
    "large": large,
    "growth": growth,
}
CHILDREN: dict[str, Callable[..., dict[str, Any]]] = {
    "prepare-arxiv": prepare_arxiv,
    "open-arxiv": open_arxiv,
    "share-threads": lambda folder: share("threads", folder),
    "share-pool": lambda folder: share("pool", folder),
    "share-ray": lambda folder: share("ray", folder),
    "eight": eight,
    "make-large": make_large,
    "prepare-large": prepare_large,
    "ask-large": ask_large,
    "grow": grow,
}


def kept() -> dict[str, Any]:
    """What is measured already."""
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--child", nargs="+")
    given = parser.parse_args()
    if given.child:
        part, *rest = given.child
        print(json.dumps(CHILDREN[part](*rest)))
        return
    WORK.mkdir(exist_ok=True)
    for name in given.only or [part for part in PARTS if part not in kept()]:
        print(name, flush=True)
        found = PARTS[name]()
        known = {**kept(), name: found}  # another part may have been measured meanwhile
        known["machine"] = {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "cores": os.cpu_count(),
        }
        RESULTS.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
