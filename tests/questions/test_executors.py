"""Scores do not depend on who computes them: threads, processes, or a cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import nora
from elsewhere import CONTEXT, printed
from networks import Centred, network
from nora.engine.exec.shards import MissingError, Schedule, in_shards
from nora.questions.executors import IncompleteError, _pickled
from nora.results.checkpoint import read_parts
from sharing import engine_of, once_each, run_in_double, truth_of


@pytest.fixture(scope="module")
def run() -> nora.Run:
    return run_in_double("sage", "polarised")


@pytest.fixture(scope="module")
def engine(run: nora.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return engine_of(run, tmp_path_factory.mktemp("engines") / "engine")


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    """Two processes that share nothing with this one."""
    with ProcessPoolExecutor(2, mp_context=CONTEXT) as made:
        yield made


@pytest.fixture(scope="module")
def truth(run: nora.Run) -> Tensor:
    return truth_of(run)


def test_a_pool_of_processes_gives_the_same_scores(pool, run, engine, truth, tmp_path) -> None:
    session = run.session(engine=engine)
    found = session.influence(executor=pool, checkpoint=tmp_path / "parts", progress=False)
    assert torch.allclose(found.scores, truth, rtol=1e-6, atol=0)
    assert found.method == "exact"
    assert found.details["executor"] == "ProcessPoolExecutor"
    assert found.details["shards"] > 4
    assert once_each(tmp_path / "parts", 1000)


def test_a_session_without_a_folder_is_kept_for_as_long_as_it_takes(pool, run) -> None:
    asked: dict[str, Any] = {"task": run.task, "nodes": range(90), "progress": False}
    found = nora.influence(run.model, run.data, executor=pool, **asked)
    here = nora.influence(run.model, run.data, "exact", verify=0, **asked)
    assert torch.allclose(found.scores[:90], here.scores[:90], rtol=1e-6, atol=0)
    assert bool(found.scores[90:].isnan().all())


def test_a_process_opens_an_engine_once_whatever_it_is_asked(run, engine) -> None:
    session = run.session(engine=engine)
    with ProcessPoolExecutor(1, mp_context=CONTEXT) as pool:
        for asked in (
            {"nodes": range(20)},
            {"nodes": range(3)},
            {"measure": "flips", "nodes": [1]},
        ):
            session.influence("exact", executor=pool, progress=False, **asked)
        workers = "__import__('nora.questions.workers').questions.workers"
        assert pool.submit(eval, f"len({workers}._OPEN)").result() == 1


def test_a_checkpoint_is_finished_by_any_process(pool, run, engine, truth, tmp_path) -> None:
    asked: dict[str, Any] = {"checkpoint": tmp_path / "parts", "progress": False}
    nora.influence(run.model, run.data, "exact", run.task, nodes=range(400), **asked)
    found = run.session(engine=engine).influence("exact", executor=pool, **asked)
    assert torch.allclose(found.scores, truth, rtol=1e-6, atol=0)
    assert once_each(tmp_path / "parts", 1000)


def test_edges_measures_and_the_top_are_shared_too(pool, run, engine) -> None:
    opened, here = run.session(engine=engine), run.session()
    some = [tuple(pair) for pair in here.every_edge[None][:, :200].t().tolist()]
    kept = opened.edge_influence(some, executor=pool, progress=False)
    made = here.edge_influence(some, progress=False)
    assert torch.allclose(kept.scores, made.scores, rtol=1e-6, atol=0, equal_nan=True)
    asked: dict[str, Any] = {"measure": ["flips", "loss:test"], "by": "y", "progress": False}
    kept_ = opened.influence("exact", executor=pool, nodes=range(200), **asked)
    made_ = here.influence("exact", nodes=range(200), **asked)
    assert torch.allclose(kept_.scores, made_.scores, equal_nan=True)
    for name, column in made_.columns.items():
        assert torch.allclose(kept_.columns[name], column, rtol=1e-6, atol=1e-12, equal_nan=True)
    best, same = (s.top(5, progress=False, **more) for s, more in
                  ((opened, {"executor": pool}), (here, {})))  # fmt: skip
    assert best.nodes == same.nodes
    assert best.scores == pytest.approx(same.scores, rel=1e-6)
    assert best.certified == 5


def test_targets_and_links_travel(pool, tmp_path) -> None:
    links = nora.train("gcn", "karate", "link", epochs=3, progress=False)
    truth = nora.influence(
        links.model, links.data, "brute", links.task, targets=[0, 3], progress=False
    )
    found = links.session(targets=[0, 3]).influence("exact", executor=pool, progress=False)
    assert torch.allclose(found.scores, truth.scores, rtol=1e-4, atol=1e-7)


def test_a_killed_process_is_reported_and_loses_nothing_that_was_done(
    run, engine, truth, tmp_path
) -> None:
    asked: dict[str, Any] = {"checkpoint": tmp_path / "parts", "progress": False}
    session = run.session(engine=engine)
    with ProcessPoolExecutor(1, mp_context=CONTEXT) as pool:
        victim = pool.submit(os.getpid).result()
        session.influence("exact", nodes=range(50), executor=pool, **asked)
        os.kill(victim, signal.SIGKILL)
        time.sleep(0.2)
        with pytest.raises(RuntimeError, match="a worker process was killed"):
            session.influence("exact", executor=pool, **asked)
    found = session.influence("exact", **asked)
    assert torch.allclose(found.scores, truth, rtol=1e-6, atol=0)


class TestWhatIsRefused:
    def test_threads_are_not_an_executor(self, run) -> None:
        with ThreadPoolExecutor(1) as threads, pytest.raises(TypeError, match="leave it out"):
            run.influence("exact", executor=threads, progress=False)

    def test_what_is_no_executor(self, run, engine) -> None:
        with pytest.raises(TypeError, match="got int"):
            run.influence("exact", executor=3, progress=False)
        with pytest.raises(TypeError, match="got int"):
            run.session(engine=engine).top(3, executor=3, progress=False)

    @pytest.mark.parametrize(
        "options",
        [
            {"method": "nora"},
            {"method": "exact", "tolerance": 0.1},
            {"method": "exact", "tolerance": 0.1, "measure": "flips"},
            {"method": "brute", "measure": "flips"},
            {"workers": 2},
            {"workers": 2, "measure": "flips"},
        ],
    )
    def test_what_it_is_not_for(self, run, pool, tmp_path, options: dict[str, Any]) -> None:
        """Estimates are drawn chunk by chunk: another cut would give other draws."""
        asked: dict[str, Any] = {"checkpoint": tmp_path / "parts", "progress": False}
        with pytest.raises(ValueError, match=r"executor= is for exact|workers= is for threads"):
            run.influence(executor=pool, **asked, **options)
        assert not (tmp_path / "parts").exists()

    @pytest.mark.parametrize("options", [{"tolerance": 0.1}, {"method": "brute"}, {"workers": 2}])
    def test_what_it_is_not_for_with_edges(self, run, pool, tmp_path, options) -> None:
        asked: dict[str, Any] = {"checkpoint": tmp_path / "parts", "progress": False}
        with pytest.raises(ValueError, match=r"executor= is for exact|workers= is for threads"):
            run.session().edge_influence(executor=pool, **asked, **options)
        assert not (tmp_path / "parts").exists()

    def test_what_cannot_be_sent(self, run, pool, engine) -> None:
        model = run.model
        session = nora.Session(model, run.data, run.task, forward=lambda m, d: m(d.x, d.edge_index))
        with pytest.raises(TypeError, match=r"forward cannot be sent.*another process"):
            session.influence("exact", executor=pool, progress=False)

    def test_too_little_memory_is_not_called_a_fault_of_the_model(self) -> None:
        def full(_: Any) -> bytes:
            raise MemoryError

        with pytest.raises(MemoryError):
            _pickled(full, {"model": None})

    def test_a_model_that_has_no_engine(self, pool) -> None:
        data = nora.load_dataset("karate").data
        data.x = torch.randn(34, 3).double()
        with pytest.raises(ValueError, match="no engine to save"):
            nora.influence(Centred(), data, executor=pool, progress=False)

    def test_an_engine_that_is_gone(self, pool, run, engine, tmp_path) -> None:
        session = run.session(engine=engine)
        session.folder = tmp_path / "gone"
        with pytest.raises(FileNotFoundError):
            session.influence("exact", executor=pool, progress=False)


class TestWhatGoesWrong:
    def test_two_drivers_on_one_checkpoint(self, pool, run, engine, truth, tmp_path) -> None:
        asked: dict[str, Any] = {"checkpoint": tmp_path / "parts", "progress": False}
        first = run.session(engine=engine)
        first.influence("exact", nodes=[0], executor=pool, **asked)
        code = f"""
import fcntl, sys
handle = open({str(tmp_path / "parts" / ".driver")!r}, "a+")
fcntl.flock(handle, fcntl.LOCK_EX)
handle.truncate(0)
handle.write("process 17 on there")
handle.flush()
print("held", flush=True)
sys.stdin.read()
"""
        held = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert held.stdout.readline() == b"held\n"
        with pytest.raises(BlockingIOError, match="process 17 on there: wait"):
            first.influence("exact", executor=pool, **asked)
        held.kill()  # a killed process holds nothing
        held.wait()
        found = first.influence("exact", executor=pool, **asked)
        assert torch.allclose(found.scores, truth, rtol=1e-6, atol=0)

    def test_a_full_disk_under_a_checkpoint(self, pool, run, engine, tmp_path) -> None:
        """Files may hold 2 kB from now on: what the system says then is what a full disk says."""
        code = f"""
import resource, signal
import nora
from sharing import run_in_double
run = run_in_double("sage", "polarised")
session = run.session(engine={str(engine)!r})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    session.influence("exact", checkpoint={str(tmp_path / "parts")!r}, progress=False)
except OSError as error:
    print(error.filename, "|", error.strerror)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    nora.prepare(run.model, run.data, {str(tmp_path / "engine")!r}, progress=False)
except OSError as error:
    print(error.filename, "|", error.strerror)
"""
        reply = printed(code).splitlines()
        assert len(reply) == 2
        assert str(tmp_path / "parts") in reply[0]
        assert reply[1] == f"{tmp_path / 'engine'} | File too large"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["parts"]
        assert not list((tmp_path / "parts").glob("part-*"))

    def test_a_place_where_nothing_can_be_written(self, run) -> None:
        with pytest.raises(OSError, match="/proc"):
            nora.prepare(run.model, run.data, "/proc/engine", run.task, progress=False)


class TestSchedule:
    def test_every_removal_is_in_one_shard_and_the_costliest_come_first(self) -> None:
        cost = torch.rand(1000, generator=torch.Generator().manual_seed(0)) ** 4 + 1e-6
        schedule = Schedule(cost, 3)
        shards = []
        for shard in schedule:
            shards.append(shard)
            schedule.learn(float(cost[shard].sum()), 0.1)
        every = torch.cat(shards)
        assert torch.equal(every.sort().values, torch.arange(1000))
        assert bool((cost[every].diff() <= 0).all())

    def test_shards_grow_to_what_is_wanted_and_shrink_towards_the_end(self) -> None:
        cost = torch.ones(100_000)
        schedule = Schedule(cost, 2, seconds=10.0)
        lengths = []
        for shard in schedule:
            lengths.append(len(shard))
            schedule.learn(len(shard), len(shard) / 1000)  # a thousand a second
        assert max(lengths) == pytest.approx(10_000, rel=0.01)
        assert lengths[-1] <= 16

    def test_no_more_are_under_way_than_said(self) -> None:
        waiting: list[Future] = []
        most = 0

        def submit(which: Tensor, again: bool) -> Future[int]:
            nonlocal most
            future: Future[int] = Future()
            waiting.append(future)
            most = max(most, len(waiting))
            if len(waiting) == 3:
                for one in waiting:
                    one.set_result(1)
                waiting.clear()
            return future

        found = list(in_shards(submit, torch.arange(9).split(1), lambda: 3))
        assert len(found) == 9
        assert most == 3

    def test_a_shard_that_ends_its_worker_is_halved_and_the_culprit_left_out(self) -> None:
        seen: list[list[int]] = []

        def submit(which: Tensor, again: bool) -> Future[str]:
            future: Future[str] = Future()
            seen.append(which.tolist())
            if 5 in which:
                future.set_exception(OSError("killed"))
            else:
                future.set_result("done")
            return future

        found = []
        with pytest.raises(MissingError) as missing:
            for which, _ in in_shards(submit, torch.arange(16).split(8), lambda: 2, (OSError,)):
                found += which.tolist()
        assert missing.value.which.tolist() == [5]
        assert sorted(found) == [n for n in range(16) if n != 5]
        assert [len(one) for one in seen if 5 in one][:4] == [8, 4, 2, 1]

    def test_other_errors_end_everything(self) -> None:
        cancelled: list[Future] = []

        def submit(which: Tensor, again: bool) -> Future[str]:
            future: Future[str] = Future()
            cancelled.append(future)
            if int(which[0]) == 1:
                future.set_exception(ValueError("wrong"))
            return future

        with pytest.raises(ValueError, match="wrong"):
            list(in_shards(submit, torch.arange(4).split(1), lambda: 4, (OSError,)))
        assert cancelled[0].cancelled()


class Poisoned(Executor):
    """A cluster whose worker dies over node 7."""

    lost = (ConnectionError,)

    def dumps(self, value: Any) -> bytes:
        import pickle

        return pickle.dumps(value)

    def workers(self) -> int:
        return 1

    def sending(self, folder: Path) -> Any:
        from contextlib import nullcontext

        self.folder = folder
        return nullcontext()

    def begin(self, parts: bytes, digest: str, asked: bytes, ids: Tensor, again: bool) -> Future:
        from nora.questions.workers import answer

        future: Future = Future()
        if 7 in ids:
            future.set_exception(ConnectionError("the worker has died"))
        else:
            future.set_result(answer(parts, digest, self.folder, asked, ids))
        return future


def test_what_is_missing_is_reported_after_everything_else_is_done(tmp_path) -> None:
    data = nora.load_dataset("karate").data
    data.x = torch.randn(34, 3, generator=torch.Generator().manual_seed(0)).double()
    model = network("gcn")
    asked: dict[str, Any] = {"checkpoint": tmp_path / "parts", "progress": False}
    with pytest.raises(IncompleteError, match="1 of the nodes are missing") as reply:
        nora.influence(model, data, executor=Poisoned(), **asked)
    assert reply.value.missing.tolist() == [7]
    assert sorted(read_parts(tmp_path / "parts")["node"]) == [n for n in range(34) if n != 7]
    whole = nora.influence(model, data, "exact", **asked)
    assert torch.allclose(whole.scores, nora.influence(model, data, "brute", progress=False).scores)
