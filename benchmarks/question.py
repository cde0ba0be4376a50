"""One question of a large graph: what checks and preparation take beside a forward pass.

    python benchmarks/question.py                          # 1,000,000 nodes, 10,000,000 edges
    python benchmarks/question.py --nodes 100000 --edges 1000000
    python benchmarks/question.py --before PATH/TO/OTHER/src

A two-layer GraphSAGE of width 64 on a power-law graph, and 300 removals. `fixed` is all that is done until
the first removal is computed: the checks of the model, the recordings, the verification. A thread looks
every few hundredths of a second at the stack and at the memory held, and so tells what takes it. The fixed
part is told in forward passes of the same process (median of three), by the seconds of all cores together.
A small graph is asked first: imports and compiled loops are no part of it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import FrameType
from typing import Any

RESULTS = Path(__file__).parent / "results" / "question.json"
EVERY_SECONDS = 0.03
LEVELS = 6


def held() -> float:
    """Gigabytes held now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e9


class Watch:
    """What the main thread does and holds, looked at now and then."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.peak: dict[str, float] = defaultdict(float)
        self._done = threading.Event()
        self._main = threading.get_ident()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        last = time.perf_counter()
        while not self._done.wait(EVERY_SECONDS):
            where, now = self._where(), time.perf_counter()
            self.seconds[where] += now - last
            self.peak[where] = max(self.peak[where], held())
            last = now

    def _where(self) -> str:
        """The outermost functions of the library on the stack, below the question itself."""
        frame: FrameType | None = sys._current_frames()[self._main]
        names: list[str] = []
        while frame is not None:
            if f"{os.sep}nora{os.sep}" in frame.f_code.co_filename:
                names.append(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}")
            frame = frame.f_back
        inner = [
            name for name in reversed(names) if not name.startswith(("influence.", "session."))
        ]
        return " > ".join(inner[:LEVELS]) or "before and after"


def graph(nodes: int, edges: int, features: int, seed: int = 0) -> Any:
    """A power-law graph: ends drawn in proportion to rank^-0.5, each edge both ways."""
    import torch
    from torch_geometric.data import Data

    random = torch.Generator().manual_seed(seed)
    # Inverse of the cumulated weights rank^-0.5, which are about 2 sqrt(rank).
    ends = (torch.rand(2, edges // 2, generator=random).square() * nodes).long()
    order = torch.randperm(nodes, generator=random)
    ends = order[ends.clamp(max=nodes - 1)]
    x = torch.randn(nodes, features, generator=random)
    return Data(x=x, edge_index=torch.cat([ends, ends.flip(0)], dim=1))


def measure(nodes: int, edges: int, features: int, removals: int) -> dict[str, Any]:
    """The question in this process, with the fixed part's seconds and memory."""
    import torch
    from torch_geometric.nn import SAGEConv

    import nora

    try:
        from nora.engine import engine
    except ModuleNotFoundError:  # where earlier versions have it
        engine = importlib.import_module("nora.incremental.engine")

    class Sage(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = SAGEConv(features, 64), SAGEConv(64, 20)

        def forward(self, x: Any, edge_index: Any) -> Any:
            return self.second(self.first(x, edge_index).relu(), edge_index)

    torch.manual_seed(0)
    model = Sage().eval()
    # Imports and compiled loops are the process's, whatever the graph.
    nora.influence(model, graph(2000, 20_000, features), "exact", progress=False, verify=2)
    data = graph(nodes, edges, features)
    before = held()
    with torch.no_grad(), Watch() as passing:
        passes = []
        for _ in range(4):
            start, clock = time.process_time(), time.perf_counter()
            model(data.x, data.edge_index)
            passes.append((time.process_time() - start, time.perf_counter() - clock))
    a_pass = statistics.median(one for one, _ in passes[1:])
    begun: list[tuple[float, float]] = []
    scores = engine.Engine.scores

    def noted(self: Any, *given: Any, **named: Any) -> Any:
        begun.append((time.process_time(), time.perf_counter()))
        return scores(self, *given, **named)

    engine.Engine.scores = noted
    asked = torch.randperm(nodes, generator=torch.Generator().manual_seed(1))[:removals]
    start, clock = time.process_time(), time.perf_counter()
    with Watch() as watch:
        found = nora.influence(model, data, "exact", nodes=asked, progress=False)
    end, end_clock = time.process_time(), time.perf_counter()
    if not begun:
        raise SystemExit(f"the engine did not answer: {found.details}")
    parts = sorted(watch.seconds, key=lambda name: -watch.seconds[name])
    return {
        "pass_computing_seconds": a_pass,
        "pass_seconds": statistics.median(one for _, one in passes[1:]),
        "pass_peak_gb": max(passing.peak.values()),
        "graph_and_libraries_gb": before,
        "fixed_computing_seconds": begun[0][0] - start,
        "fixed_seconds": begun[0][1] - clock,
        "fixed_passes": (begun[0][0] - start) / a_pass,
        "removals_computing_seconds": end - begun[0][0],
        "removals_seconds": end_clock - begun[0][1],
        "peak_gb": max(watch.peak.values()),
        "details": found.details,
        "parts": {
            name: {"seconds": round(watch.seconds[name], 2), "peak_gb": round(watch.peak[name], 2)}
            for name in parts
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--removals", type=int, default=300)
    parser.add_argument("--before", type=Path, help="the src folder of another version")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    size = {key: getattr(asked, key) for key in ("nodes", "edges", "features", "removals")}
    if asked.here:
        print(json.dumps(measure(**size)))
        return
    environment = dict(os.environ)
    if asked.before is not None:
        environment["PYTHONPATH"] = str(asked.before)
    command = [sys.executable, __file__, "--here"]
    command += [part for key, value in size.items() for part in (f"--{key}", str(value))]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    report = json.loads(asked.results.read_text()) if asked.results.exists() else {}
    report |= {"command": "python benchmarks/question.py", "cores": os.cpu_count()}
    case = f"{size['nodes']:,} nodes, {size['edges']:,} edges"
    when = "before" if asked.before else "now"
    report.setdefault(case, {})[when] = size | json.loads(done.stdout.splitlines()[-1])
    asked.results.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report[case][when], indent=1))


if __name__ == "__main__":
    main()
