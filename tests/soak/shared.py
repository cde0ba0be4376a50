"""`python -m soak.shared pool`, `ray`: kill -9 of drivers and workers of a run that is shared, counted.

A run with a checkpoint is killed at random moments and started again, up to nine times, until it is left to
end. Of five kills four hit the driver and one a worker. Status 1 when a finished part is lost or has changed,
a number is not that of a serial run (1e-6 relative), a node is there twice or not at all, or a worker with a
shard goes on without its driver.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

import nora
from nora.artefact import sha256_of
from nora.questions import ray_cluster
from nora.results import checkpoint
from soak.child import HANGS_AFTER, Child, End, ended, forked
from soak.counts import Counts

VICTIMS = ("driver", "worker")
NODES, EDGES = 2_500, 30_000
# A run is left to end after so many kills at most; of so many kills one hits a worker.
MOST_KILLS, WORKERS_TURN = 9, 5
# Of so many kills one may come before the first shard is done.
BEGINNINGS_TURN = 4
# How long workers may outlive their driver.
ORPHANED_SECONDS = 10.0
ENDED_WORKER = "a worker process was killed"
CLUSTER = """
import os, sys
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
from ray.cluster_utils import Cluster
store = {"object_store_memory": 100 * 2**20, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **store})
for _ in range(2):
    cluster.add_node(num_cpus=1, memory=2**30, object_store_memory=100 * 2**20)
print("at", cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


def question() -> tuple[torch.nn.Module, Data]:
    """A graph whose removals reach most of it; in double precision, so that the last digits are the same."""
    torch.manual_seed(0)
    model = nora.build_model("sage", 32, 6, hidden_channels=64, num_layers=3).double().eval()
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(NODES, 32, generator=draw, dtype=torch.double)
    return model, Data(x=x, edge_index=torch.randint(NODES, (2, EDGES), generator=draw))


@contextmanager
def cluster() -> Iterator[tuple[str, int]]:
    """A Ray cluster in a process of its own, since this one forks; its address, and that process."""
    path = os.pathsep.join(path for path in sys.path if path)
    held = subprocess.Popen(
        [sys.executable, "-c", CLUSTER],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert held.stdin is not None
    assert held.stdout is not None
    reply = (line.split() for line in held.stdout)
    address = next(words[1] for words in reply if len(words) == 2 and words[0] == "at")
    try:
        yield address, held.pid
    finally:
        held.stdin.close()
        held.wait(60)


class Shared:
    """One question, asked again and again by drivers that are killed."""

    def __init__(self, folder: Path, found: Counts, name: str, address: str, cluster: int) -> None:
        self.folder, self.found, self.name = folder, found, name
        self.address, self.cluster = address, cluster
        self.model, self.data = question()
        self.engine = nora.prepare(self.model, self.data, folder / "engine", progress=False)
        asked: dict[str, Any] = {"workers": 1, "progress": False}
        self.truth = nora.influence(self.model, self.data, "exact", **asked).scores
        self.first, self.rest = self._usual()

    def _drive(self, parts: Path) -> None:
        """What a driver does."""
        warnings.simplefilter("ignore")
        session = nora.Session.open(self.engine, self.model)
        asked: dict[str, Any] = {"checkpoint": parts, "progress": False}
        if self.name == "ray":
            with nora.RayCluster(self.address, memory=400 * 2**20) as executor:
                session.influence("exact", executor=executor, **asked)
            return
        # Forked, since imports would take longer than the work.
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
            session.influence("exact", executor=pool, **asked)

    def _usual(self) -> tuple[float, float]:
        """How long an undisturbed run takes: until it has finished something, and from there on."""
        parts = self.folder / "right"
        child, begun = forked(lambda: self._drive(parts)), time.monotonic()
        while not finished(parts) and time.monotonic() - begun < HANGS_AFTER:
            time.sleep(0.01)
        first = time.monotonic() - begun
        end = ended(child)
        if end.status != 0:
            raise RuntimeError(f"{self.name} does not work at all: {end.reply}")
        self._check("the first run", parts, whole=True)
        return first, end.seconds

    def trial(self, draw: random.Random) -> None:
        """One run that is killed a few times, then left to end."""
        found, parts = self.found, self.folder / f"{self.found.trials}"
        label, kept = f"{found.trials} {self.name}", dict[str, str]()
        for _ in range(draw.randint(1, MOST_KILLS)):
            child = forked(lambda: self._drive(parts))
            self._wait(parts, child, draw)
            whom = "worker" if draw.randrange(WORKERS_TURN) == 0 else "driver"
            end = self._killed(whom, child, label)
            kept = self._compare(label, kept, finished(parts))
            self._check(label, parts)
            if end is not None and end.status == 0:
                break
        end = ended(forked(lambda: self._drive(parts)))
        if end.status != 0:
            found.problems.append(f"{label}: the last start failed: {end.reply[-500:]}")
        self._compare(label, kept, finished(parts))
        if self._check(label, parts, whole=True):
            found.counts["a last start ends well"] += 1
        found.trials += 1
        shutil.rmtree(parts)

    def _wait(self, parts: Path, child: Child, draw: random.Random) -> None:
        """Until a random moment: of what comes before the first shard is done, or of the work itself."""
        before, begun = len(finished(parts)), time.monotonic()
        if draw.randrange(BEGINNINGS_TURN) == 0:
            time.sleep(draw.uniform(0, self.first))
            return
        while len(finished(parts)) == before and time.monotonic() - begun < HANGS_AFTER:
            if not is_alive(child.pid):
                return
            time.sleep(0.01)
        left = 1 - len(self._values(parts)) / NODES
        time.sleep(draw.uniform(0, self.rest * left))

    def _killed(self, whom: str, child: Child, label: str) -> End | None:
        """Kill a driver or one of its workers; how the driver ended, unless it was killed itself."""
        name, counts = self.name, self.found.counts
        parts = self.folder / f"{self.found.trials}"
        before = len(self._values(parts))
        workers = workers_of(child) if name == "pool" else ray_workers(self.cluster)
        # Python's pools can leave workers behind that never received work: they do not know of the driver.
        begun = [one for one in workers if threads_of(one) > 1]
        if whom == "worker":
            hit = bool(workers) and killed(max(workers))
            self._count(whom, hit, before)
            end = ended(child)
            if end.status == 0:
                counts["a run did without the killed worker"] += hit
            elif name == "pool" and ENDED_WORKER in end.reply:
                counts["the driver says that a worker has ended"] += 1
            else:
                self.found.problems.append(f"{label}: after a worker's death: {end.reply[-500:]}")
            return end
        end = ended(child, 0.0)
        hit = end.status is None
        self._count(whom, hit, before)
        if not hit and end.status != 0:
            self.found.problems.append(f"{label}: failed by itself: {end.reply[-500:]}")
        deadline = time.monotonic() + ORPHANED_SECONDS
        while any(is_alive(one) for one in begun) and time.monotonic() < deadline:
            time.sleep(0.02)
        if any(is_alive(one) for one in begun):
            self.found.problems.append(f"{label}: workers outlive their driver")
        for one in workers:
            if is_alive(one):
                counts["left by the driver without a shard, and ended"] += one not in begun
                killed(one)
        return None if hit else end

    def _count(self, whom: str, hit: bool, done: int) -> None:
        counts = self.found.counts
        counts[f"kill -9 of a {whom}"] += hit
        counts["ended before the kill, or no worker yet"] += not hit
        counts["kills with some nodes finished and some not"] += hit and 0 < done < NODES

    def _values(self, parts: Path) -> pd.DataFrame:
        frames = [pd.read_parquet(file) for file in finished(parts)]
        return pd.concat(frames) if frames else pd.DataFrame({"node": [], "influence": []})

    def _check(self, label: str, parts: Path, whole: bool = False) -> bool:
        """Whether what is finished is right, and every node there once; all of them, if it is whole."""
        values = self._values(parts)
        nodes, problems = values["node"].astype(int).tolist(), []
        if len(set(nodes)) != len(nodes):
            problems.append("a node is there twice")
        if whole and len(nodes) != NODES:
            problems.append(f"{NODES - len(nodes)} nodes are missing")
        right: Tensor = self.truth[nodes]
        if not torch.allclose(torch.tensor(values["influence"].tolist()).double(), right, 1e-6, 0):
            problems.append("a number is wrong")
        self.found.problems += [f"{label}: {one}" for one in problems]
        return not problems

    def _compare(self, label: str, before: dict[str, str], now: list[Path]) -> dict[str, str]:
        """Note what was finished and is not there any more; what is there now."""
        there = {file.name: sha256_of(file) for file in now}
        if any(there.get(name) != digest for name, digest in before.items()):
            self.found.problems.append(f"{label}: finished work is gone")
        return there


def finished(parts: Path) -> list[Path]:
    return sorted(parts.glob("part-*.parquet"))


def killed(pid: int) -> bool:
    """Kill a process; whether it was there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def is_alive(pid: int) -> bool:
    try:
        reply = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return reply.rpartition(")")[2].split()[0] != "Z"


def threads_of(pid: int) -> int:
    """How many threads a process has; one that has begun a shard watches its driver in a second one."""
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir()))
    except OSError:
        return 0


def workers_of(child: Child) -> list[int]:
    """The processes that a driver has forked."""
    try:
        reply = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text()
    except OSError:
        return []
    return [int(one) for one in reply.split()]


def ray_workers(cluster: int) -> list[int]:
    """Processes of this cluster that are at work on a shard, by the name that Ray gives them."""
    named = f"ray::{ray_cluster._answered.__name__}".encode()
    parents, at_work = dict[int, int](), []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            stat = (place / "stat").read_text().rpartition(")")[2].split()
            parents[int(place.name)] = int(stat[1])
            if (place / "cmdline").read_bytes().startswith(named):
                at_work.append(int(place.name))
        except OSError:
            continue
    # The cluster starts machines, which start workers.
    return [one for one in at_work if parents.get(parents[one]) == cluster]


def main(arguments: list[str] | None = None) -> int:
    """Do all that, print the counts, and tell whether all is well."""
    # Finished nodes are otherwise on disk within ten seconds, which is longer than a run here.
    checkpoint.SECONDS_PER_SHARD = 0.0
    parser = argparse.ArgumentParser("soak.shared", description=__doc__.splitlines()[0])
    parser.add_argument("executor", choices=("pool", "ray"), help="who shares the work")
    parser.add_argument("--kills", type=int, default=100, help="how many have to hit")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a JSON file, which a later start goes on with")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    reply = f"python -m soak.shared {given.executor} --kills {given.kills} --seed {given.seed}"
    found = Counts(reply + (f" --out {given.out}" if given.out else ""), given.out)
    found.begin()
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as folder,
        cluster() if given.executor == "ray" else nullcontext(("", 0)) as where,
    ):
        shared = Shared(Path(folder), found, given.executor, *where)
        while sum(found.counts[f"kill -9 of a {whom}"] for whom in VICTIMS) < given.kills:
            shared.trial(random.Random(f"{given.seed} {found.trials}"))
            found.keep()
    print(found.keep())
    return bool(found.problems)


if __name__ == "__main__":
    raise SystemExit(main())
