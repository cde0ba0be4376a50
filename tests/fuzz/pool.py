"""Trials in processes of their own, so that a crash or a hang costs one trial only."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

Record = dict[str, Any]
Trial = Callable[[int, str], Record]
# Spawned, not forked: threads of torch and numba do not survive a fork.
CONTEXT = multiprocessing.get_context("spawn")


def tried(seed: int, kind: str) -> Record:
    """The record of one trial."""
    # Takes seconds: in the worker, not in the process that hands out seeds.
    from fuzz import branching, edge_pieces, trial

    own = {"branches": branching.run, "edges": edge_pieces.run}
    return (own[kind](seed) if kind in own else trial.run(seed, kind)).record()


def work(pipe: Connection, kind: str, trial: Trial) -> None:
    """Answer seeds with records until the other end closes."""
    if trial is tried:
        import fuzz.trial  # noqa: F401  (no trial pays for it)
    pipe.send(None)
    while True:
        try:
            seed = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        pipe.send(trial(seed, kind))


@dataclass
class Worker:
    """A process and the trial it is at."""

    process: BaseProcess
    pipe: Connection
    seed: int | None = None
    since: float = 0.0
    ready: bool = False

    @classmethod
    def start(cls, kind: str, trial: Trial) -> Worker:
        here, there = CONTEXT.Pipe()
        process = CONTEXT.Process(target=work, args=(there, kind, trial), daemon=True)
        process.start()
        there.close()
        return cls(process, here)

    def give(self, seed: int) -> None:
        self.seed, self.since = seed, time.monotonic()
        self.pipe.send(seed)

    def stop(self) -> None:
        """End the process: it goes by itself when it waits for a seed, else it is killed."""
        self.pipe.close()
        if self.ready and self.seed is None:
            self.process.join(5)
        self.process.kill()
        self.process.join()


def outcomes(
    seeds: Iterable[int], kind: str, workers: int, patience: float, trial: Trial = tried
) -> Iterator[Record]:
    """The record of every seed, as they come.

    Args:
        seeds: What to try.
        kind: `data`, `hetero` or `all`.
        workers: How many processes.
        patience: Seconds that a trial may take.
        trial: What is tried: a function of seed and kind.
    """
    todo = iter(seeds)
    crew = [Worker.start(kind, trial) for _ in range(workers)]
    try:
        while crew:
            found = wait([one.pipe for one in crew], timeout=0.5)
            now = time.monotonic()
            for worker in list(crew):
                late = now - worker.since > patience and worker.seed is not None
                if worker.pipe in found:
                    record, lost = _answer(worker)
                elif late or (not worker.ready and not worker.process.is_alive()):
                    record, lost = _failed(worker, f"no answer in {patience:g} s"), True
                else:
                    continue
                if not worker.ready and lost:
                    raise RuntimeError("a worker process cannot be started")
                if record is not None:
                    yield record
                if lost:
                    worker.stop()
                    crew.remove(worker)
                    worker = Worker.start(kind, trial)
                    crew.append(worker)
                    continue
                seed = next(todo, None)
                worker.seed = None
                if seed is None:
                    worker.stop()
                    crew.remove(worker)
                else:
                    worker.give(seed)
    finally:
        for worker in crew:
            worker.stop()


def _answer(worker: Worker) -> tuple[Record | None, bool]:
    """What a worker says, and whether it is gone; its first word only tells that it is ready."""
    try:
        record = worker.pipe.recv()
    except (EOFError, OSError):
        worker.process.join(1)
        return _failed(worker, f"the process ended with {worker.process.exitcode}"), True
    worker.ready = True
    return record, False


def _failed(worker: Worker, why: str) -> Record | None:
    if worker.seed is None:
        return None
    return {"seed": worker.seed, "category": "crash", "detail": why, "largest": 0.0}
