"""A real Ray cluster, of a head without CPUs and two machines with one each: every node once, and right."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

import nora
from nora.questions.spread import IncompleteError
from nora.results.checkpoint import read_parts
from shell import refused

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow
MEMORY = 400 * 2**20


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # Workers import what the tests import.
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    store = {"object_store_memory": 100 * 2**20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **store})
    made.machines = [machine(made) for _ in range(2)]
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()
    os.environ.pop("PYTHONPATH")
    if before is not None:
        os.environ["PYTHONPATH"] = before


def machine(cluster: Any) -> Any:
    return cluster.add_node(num_cpus=1, memory=2**30, object_store_memory=100 * 2**20)


@pytest.fixture(scope="module")
def run() -> nora.Run:
    made = nora.train("gcn", "karate", epochs=3, progress=False)
    made.model.double()
    made.data.x = made.data.x.double()
    return made


@pytest.fixture(scope="module")
def engine(run: nora.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("engines") / "engine"
    return nora.prepare(run.model, run.data, folder, run.task, progress=False)


def joined(cluster: Any, **how: Any) -> nora.RayCluster:
    return nora.RayCluster(cluster.address, memory=MEMORY, **how)


def once_each(parts: Path) -> bool:
    """Whether every node is in one part, and in one only."""
    frames = [pd.read_parquet(file) for file in parts.glob("part-*.parquet")]
    return sorted(pd.concat(frames)["node"]) == list(range(34))


def test_scores_are_those_of_one_process_and_engines_can_be_sent(
    cluster, run, engine, tmp_path
) -> None:
    asked: dict[str, Any] = {"progress": False, "checkpoint": tmp_path / "parts"}
    session = run.session(engine=engine)
    found = session.influence("exact", executor=joined(cluster, engines="store"), **asked)
    truth = nora.influence(run.model, run.data, "exact", run.task, progress=False)
    assert torch.allclose(found.scores, truth.scores, rtol=1e-6, atol=0)
    assert found.details["executor"] == "RayCluster"
    assert once_each(tmp_path / "parts")
    assert ray.is_initialized()  # whoever has connected leaves


def test_edges_are_shared_too(cluster, run, engine) -> None:
    session = run.session(engine=engine)
    found = session.edge_influence(executor=joined(cluster), progress=False)
    truth = run.session().edge_influence(progress=False)
    assert torch.allclose(found.scores, truth.scores, rtol=1e-6, atol=0)


class Deadly:
    """The change of predictions; the first process that computes it dies over it."""

    def __init__(self, mark: Path, always: bool = False) -> None:
        self.mark, self.always = mark, always

    def __call__(self, before: Tensor, after: Tensor, items: Tensor) -> Tensor:
        if self.always or not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return (after - before).abs().sum(dim=1)


def test_a_worker_that_dies_is_made_up_for(cluster, run, engine, tmp_path) -> None:
    session, mark = run.session(engine=engine), tmp_path / "died"
    asked: dict[str, Any] = {"progress": False, "key": "deadly"}
    found = session.influence(
        "exact",
        measure={"moved": Deadly(mark)},
        executor=joined(cluster),
        checkpoint=tmp_path / "parts",
        **asked,
    )
    assert mark.exists()
    truth = nora.influence(run.model, run.data, "exact", run.task, progress=False)
    assert torch.allclose(found.scores, truth.scores, rtol=1e-6, atol=1e-12)
    assert once_each(tmp_path / "parts")


def test_what_always_ends_its_worker_is_left_out_and_told(cluster, run, engine, tmp_path) -> None:
    session = run.session(engine=engine)
    deadly = {"moved": Deadly(tmp_path / "died", always=True)}
    with pytest.raises(IncompleteError, match="1 of the nodes are missing") as told:
        session.influence(
            "exact",
            nodes=[5],
            measure=deadly,
            executor=joined(cluster, retries=0),
            progress=False,
            key="deadly",
        )
    assert told.value.missing.tolist() == [5]


class Slow:
    """The change of predictions, and a while for every look at it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, before: Tensor, after: Tensor, items: Tensor) -> Tensor:
        time.sleep(self.seconds)
        return (after - before).abs().sum(dim=1)


def test_a_machine_that_goes_and_one_that_comes(
    cluster, run, engine, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("nora.results.checkpoint.SECONDS_PER_SHARD", 0.0)
    parts = tmp_path / "parts"
    executor = joined(cluster)

    def ask() -> nora.Influence:
        return run.session(engine=engine).influence(
            "exact",
            measure={"moved": Slow(0.5)},
            executor=executor,
            checkpoint=parts,
            progress=False,
            key="slow",
        )

    with ThreadPoolExecutor(1) as thread:  # a cluster wants the main thread for itself
        asked = thread.submit(ask)
        while len(list(parts.glob("part-*.parquet"))) < 2 and not asked.done():
            time.sleep(0.05)
        cluster.remove_node(cluster.machines.pop(), allow_graceful=False)
        cluster.machines.append(machine(cluster))
        assert not asked.done()
        found = asked.result(100)
    truth = nora.influence(run.model, run.data, "exact", run.task, progress=False)
    assert torch.allclose(found.scores, truth.scores, rtol=1e-6, atol=1e-12)
    assert once_each(parts)


DRIVER = """
import sys, nora, torch
import nora.results.checkpoint as checkpoint
from questions.test_ray import Slow
checkpoint.SECONDS_PER_SHARD = 0.0
run = nora.train("gcn", "karate", epochs=3, progress=False)
run.model.double()
run.data.x = run.data.x.double()
folder, address, parts, seconds = sys.argv[1:]
with nora.RayCluster(address, memory=400 * 2**20) as cluster:
    run.session(engine=folder).influence(
        "exact", measure={"moved": Slow(float(seconds))}, executor=cluster, checkpoint=parts,
        progress=False, key="slow",
    )
"""


def test_a_driver_that_is_killed_goes_on_where_it_was(cluster, run, engine, tmp_path) -> None:
    parts = tmp_path / "parts"
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, engine, cluster.address, parts, "0.4"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 100
    while len(list(parts.glob("part-*.parquet"))) < 2 and time.monotonic() < deadline:
        assert driver.poll() is None
        time.sleep(0.05)
    driver.kill()
    driver.wait()
    done = read_parts(parts, ["influence"]).set_index("node")["influence"]
    assert 0 < len(done) < 34
    found = run.session(engine=engine).influence(
        "exact",
        measure={"moved": Slow(0.4)},
        executor=joined(cluster),
        checkpoint=parts,
        progress=False,
        key="slow",
    )
    truth = nora.influence(run.model, run.data, "exact", run.task, progress=False)
    assert torch.allclose(found.scores, truth.scores, rtol=1e-6, atol=1e-12)
    assert once_each(parts)
    assert (found.scores[list(done.index)].numpy() == done.to_numpy()).all()


class TestWhatIsRefused:
    def test_more_memory_than_any_machine_has(self, cluster, run, engine) -> None:
        with pytest.raises(ValueError, match=r"no machine of the cluster has 64\.0 GB"):
            run.session(engine=engine).influence(
                "exact", executor=nora.RayCluster(memory="64GB"), progress=False
            )

    def test_another_cluster_than_this_process_is_connected_to(self, cluster) -> None:
        with pytest.raises(ValueError, match="connected to another cluster"):
            nora.RayCluster("10.1.2.3:6379")

    def test_options_that_are_not_there(self) -> None:
        with pytest.raises(ValueError, match="engines is 'post'"):
            nora.RayCluster(engines="post")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="retries"):
            nora.RayCluster(retries=-1)

    def test_no_cluster_is_told_in_a_line(self, tmp_path) -> None:
        run = nora.train("gcn", "karate", epochs=2, progress=False).save(tmp_path / "run")
        told = subprocess.run(
            [sys.executable, "-m", "nora", "rank", run, "--cluster", "127.0.0.1:9"],
            capture_output=True,
            text=True,
        )
        assert told.returncode == 2
        assert told.stderr.startswith("error: no cluster at 127.0.0.1:9: start one")
        assert told.stderr.count("\n") == 1

    def test_engines_without_a_cluster(self, tmp_path) -> None:
        run = nora.train("gcn", "karate", epochs=2, progress=False).save(tmp_path / "run")
        assert "--cluster" in refused("rank", run, "--engines", "path")


def test_what_is_missing_ends_a_command_with_status_3(tmp_path) -> None:
    code = """
import sys, torch, nora.cli
from nora.questions import session
from nora.questions.spread import IncompleteError

def incomplete(*given, executor, **asked):
    assert type(executor).__name__ == "RayCluster"
    raise IncompleteError("1 of the nodes are missing", torch.tensor([5]))

session.Session.influence = incomplete
nora.cli.app()
"""
    run = nora.train("gcn", "karate", epochs=2, progress=False).save(tmp_path / "run")
    asked = ["rank", run, "--cluster", "local", "--checkpoint", tmp_path / "parts"]
    told = subprocess.run([sys.executable, "-c", code, *asked], capture_output=True, text=True)
    assert told.returncode == 3, told.stderr
    assert "incomplete: 1 of the nodes are missing" in told.stderr
    assert f"nora rank {run} --cluster local --checkpoint {tmp_path / 'parts'}" in told.stderr
