"""A real Ray cluster, of a head without CPUs and two machines with one each: every node once, and right."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import nora
from elsewhere import started
from nora.questions.executors import IncompleteError
from nora.results.checkpoint import read_parts
from sharing import Deadly, asked_slowly, engine_of, once_each, run_in_double, truth_of
from shell import refused

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow
MEMORY = 400 * 2**20
# Workers are nice to others by default, and wait for long where others are at work.
QUICK = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    before = {name: os.environ.get(name) for name in (*QUICK, "PYTHONPATH")}
    # Workers import what the tests import.
    os.environ |= {**QUICK, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    store = {"object_store_memory": 100 * 2**20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **store})
    made.machines = [machine(made) for _ in range(2)]
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


class TestWithoutACluster:
    """Before this process is connected to one."""

    def test_none_is_reported_in_a_line(self, tmp_path, monkeypatch) -> None:
        run = nora.train("gcn", "karate", epochs=2, progress=False).save(tmp_path / "run")
        begun = time.monotonic()
        reply = refused("rank", run, "--cluster", "127.0.0.1:9")
        assert reply.startswith("error: no cluster at 127.0.0.1:9: start one")
        # One that was running, and is gone.
        monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
        reply = refused("rank", run, "--cluster", "auto")
        assert reply.startswith("error: no Ray cluster is running here: start one")
        assert time.monotonic() - begun < 60  # Ray would try for longer

    def test_engines_are_for_a_cluster(self, tmp_path) -> None:
        run = nora.train("gcn", "karate", epochs=2, progress=False).save(tmp_path / "run")
        assert "--cluster" in refused("rank", run, "--engines", "path")

    def test_options_that_are_not_there(self) -> None:
        with pytest.raises(ValueError, match="engines is 'post'"):
            nora.RayCluster(engines="post")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="retries"):
            nora.RayCluster(retries=-1)


def machine(cluster: Any) -> Any:
    return cluster.add_node(num_cpus=1, memory=2**30, object_store_memory=100 * 2**20)


@pytest.fixture(scope="module")
def run() -> nora.Run:
    return run_in_double("gcn", "karate")


@pytest.fixture(scope="module")
def engine(run: nora.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return engine_of(run, tmp_path_factory.mktemp("engines") / "engine")


@pytest.fixture(scope="module")
def truth(run: nora.Run) -> Tensor:
    return truth_of(run)


def joined(cluster: Any, **how: Any) -> nora.RayCluster:
    return nora.RayCluster(cluster.address, memory=MEMORY, **how)


def test_scores_are_those_of_one_process_and_engines_can_be_sent(
    cluster, run, engine, truth, tmp_path
) -> None:
    asked: dict[str, Any] = {"progress": False, "checkpoint": tmp_path / "parts"}
    session = run.session(engine=engine)
    found = session.influence("exact", executor=joined(cluster, engines="store"), **asked)
    assert torch.allclose(found.scores, truth, rtol=1e-6, atol=0)
    assert found.details["executor"] == "RayCluster"
    assert once_each(tmp_path / "parts", 34)
    assert ray.is_initialized()  # the caller that has connected disconnects


def test_edges_are_shared_too(cluster, run, engine) -> None:
    session = run.session(engine=engine)
    found = session.edge_influence(executor=joined(cluster), progress=False)
    here = run.session().edge_influence(progress=False)
    assert torch.allclose(found.scores, here.scores, rtol=1e-6, atol=0)


def test_a_worker_that_dies_is_made_up_for(cluster, run, engine, truth, tmp_path) -> None:
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
    assert torch.allclose(found.scores, truth, rtol=1e-6, atol=1e-12)
    assert once_each(tmp_path / "parts", 34)


def test_what_always_ends_its_worker_is_left_out_and_reported(
    cluster, run, engine, tmp_path
) -> None:
    session = run.session(engine=engine)
    deadly = {"moved": Deadly(tmp_path / "died", always=True)}
    with pytest.raises(IncompleteError, match="1 of the nodes are missing") as reply:
        session.influence(
            "exact",
            nodes=[5],
            measure=deadly,
            executor=joined(cluster, retries=0),
            progress=False,
            key="deadly",
        )
    assert reply.value.missing.tolist() == [5]


def test_a_machine_that_goes_and_one_that_comes(
    cluster, run, engine, truth, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("nora.results.checkpoint.SECONDS_PER_SHARD", 0.0)
    parts, mark = tmp_path / "parts", tmp_path / "joined"
    executor = joined(cluster)

    def ask() -> nora.Influence:
        return asked_slowly(run.session(engine=engine), executor, parts, 0.1, mark)

    with ThreadPoolExecutor(1) as thread:  # a cluster wants the main thread for itself
        asked = thread.submit(ask)
        while len(list(parts.glob("part-*.parquet"))) < 2 and not asked.done():
            time.sleep(0.05)
        cluster.remove_node(cluster.machines.pop(), allow_graceful=False)
        cluster.machines.append(machine(cluster))
        assert not asked.done()
        mark.touch()
        found = asked.result(100)
    assert torch.allclose(found.scores, truth, rtol=1e-6, atol=1e-12)
    assert once_each(parts, 34)


DRIVER = """
import sys, nora
from pathlib import Path
import nora.results.checkpoint as checkpoint
from sharing import asked_slowly, run_in_double
checkpoint.SECONDS_PER_SHARD = 0.0
folder, address, parts = sys.argv[1:]
with nora.RayCluster(address, memory=400 * 2**20) as cluster:
    asked_slowly(run_in_double("gcn", "karate").session(engine=folder), cluster, Path(parts), 0.2)
"""


def test_a_driver_that_is_killed_goes_on_where_it_was(
    cluster, run, engine, truth, tmp_path
) -> None:
    parts = tmp_path / "parts"
    driver = started(DRIVER, engine, cluster.address, parts, out=tmp_path)
    deadline = time.monotonic() + 100
    while len(list(parts.glob("part-*.parquet"))) < 2 and time.monotonic() < deadline:
        assert driver.is_alive()
        time.sleep(0.05)
    driver.kill()
    driver.join()
    done = read_parts(parts, ["influence"]).set_index("node")["influence"]
    assert 0 < len(done) < 34
    found = asked_slowly(run.session(engine=engine), joined(cluster), parts, 0.2)
    assert torch.allclose(found.scores, truth, rtol=1e-6, atol=1e-12)
    assert once_each(parts, 34)
    assert (found.scores[list(done.index)].numpy() == done.to_numpy()).all()


class TestWhatIsRefused:
    def test_more_memory_than_any_machine_has(self, cluster, run, engine) -> None:
        with pytest.raises(ValueError, match=r"machine of the cluster has 64\.0 GB"):
            run.session(engine=engine).influence(
                "exact", executor=nora.RayCluster(memory="64GB"), progress=False
            )

    def test_another_cluster_than_this_process_is_connected_to(self, cluster) -> None:
        with pytest.raises(ValueError, match="connected to another cluster"):
            nora.RayCluster("10.1.2.3:6379")


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder for Ray's sockets, whose names may not be long."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as place:
        yield Path(place)


# What a process of Python imports first: a worker of Ray dies as soon as it has to compute anything.
DEADLY = """
import os, signal, sys

class Dies:
    def find_spec(self, name, path=None, target=None):
        if name == "nora" and os.path.exists(MARK):
            os.kill(os.getpid(), signal.SIGKILL)

if any("default_worker.py" in word for word in sys.orig_argv):
    sys.meta_path.insert(0, Dies())
"""


def test_a_cluster_of_its_own_says_what_is_missing_and_how_to_go_on(tmp_path, short_path) -> None:
    """Five deaths, then it is left out; the printed command does it, and nothing of Ray is left."""
    run = nora.train("gcn", "karate", epochs=2, progress=False).save(tmp_path / "run")
    mark, parts, places = tmp_path / "mark", tmp_path / "parts", tmp_path / "first"
    places.mkdir()
    (places / "sitecustomize.py").write_text(DEADLY.replace("MARK", repr(str(mark))))
    mark.touch()
    path = os.pathsep.join([str(places), *(path for path in sys.path if path)])
    code = "from nora.cli import app; app()"
    asked = ["rank", run, "--nodes", "5", "--cluster", "local", "--checkpoint", parts]

    # A worker that coverage looks into would look for nora, and die, before Ray knows of it, again and again.
    around = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}

    def typed(*words: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, *map(str, words)],
            env={**around, **QUICK, "PYTHONPATH": path, "RAY_TMPDIR": str(short_path)},
            capture_output=True,
            text=True,
        )

    reply = typed(*asked)
    assert reply.returncode == 3, reply.stderr
    assert "incomplete: 1 of the nodes are missing" in reply.stderr
    again = reply.stderr.rpartition("only these: ")[2].strip()
    assert again == f"nora rank {run} --nodes 5 --cluster local --checkpoint {parts}"
    mark.unlink()
    done = typed(*shlex.split(again)[1:], "--json")
    assert done.returncode == 0, done.stderr
    truth = nora.load_run(run).influence("brute", nodes=[5], progress=False).scores[5]
    assert json.loads(done.stdout)["top"][0]["influence"] == pytest.approx(float(truth), rel=1e-4)
    assert read_parts(parts)["node"].tolist() == [5]
    left = [place for place in Path("/proc").glob("[0-9]*") if _speaks_of(place, str(short_path))]
    assert not left  # no process of either cluster


def _speaks_of(place: Path, text: str) -> bool:
    try:
        return text.encode() in (place / "cmdline").read_bytes()
    except OSError:
        return False


def test_a_local_cluster_listens_to_this_machine_only_and_asks_for_a_token(tmp_path: Path) -> None:
    program = tmp_path / "listen.py"
    program.write_text(
        "import os, psutil, nora\n"
        "with nora.RayCluster('local'):\n"
        "    me = psutil.Process()\n"
        "    for one in [me, *me.children(recursive=True)]:\n"
        "        for c in one.net_connections('inet'):\n"
        "            if c.status == psutil.CONN_LISTEN:\n"
        "                print(c.laddr.ip)\n"
        "    print(os.environ['RAY_AUTH_MODE'], len(os.environ['RAY_AUTH_TOKEN']))\n"
    )
    env = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, program], env=env, capture_output=True, text=True, timeout=90
    )
    assert done.returncode == 0, done.stderr
    *received, token = done.stdout.split("\n")[:-1]
    assert len(received) >= 3 and {one.removeprefix("::ffff:") for one in received} == {"127.0.0.1"}
    assert token == "token 64"
