"""Share a question between processes or machines: shards are sent out, answers come back.

Every process opens the engine from its folder. A session that has none on disk is kept in a temporary folder
for as long as the question takes. The driver alone writes checkpoints.
"""

from __future__ import annotations

import hashlib
import pickle
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import Tensor

from nora.artefact import MANIFEST
from nora.engine.exec.shards import MissingError, Schedule, in_shards
from nora.files import read_json
from nora.machine import usable_cores
from nora.methods.exact import ScoredPart
from nora.model import Problem
from nora.options import option
from nora.questions.score import Batch, ScoredParts
from nora.questions.session import Session
from nora.questions.workers import Answered, Question, answer_in_pool, session_parts
from nora.stacklevel import warn

# Shards that wait for each worker, so that none waits for the driver.
AHEAD = 2


class IncompleteError(RuntimeError):
    """All that could be computed is; some removals end whatever works on them.

    Attributes:
        missing: The nodes by global ids, or the places of edges.
    """

    def __init__(self, message: str, missing: Tensor) -> None:
        super().__init__(message)
        self.missing = missing


@runtime_checkable
class Cluster(Protocol):
    """An executor with more than the interface of `concurrent.futures`: `nora.RayCluster`."""

    @property
    def lost(self) -> tuple[type[BaseException], ...]:
        """The errors of a worker that has died."""

    def dumps(self, value: Any) -> bytes:
        """An object as bytes, for its workers."""

    def workers(self) -> int:
        """How many shards it works on at a time."""

    def sending(self, folder: Path) -> Any:
        """A context in which `begin` can be called for this engine."""

    def begin(
        self, parts: bytes, digest: str, asked: bytes, ids: Tensor, again: bool
    ) -> Future[Answered]:
        """Begin the work on a shard."""


def check_executor(executor: Any) -> None:
    """Raise unless an executor can be used."""
    if executor is None or isinstance(executor, Cluster):
        return
    if isinstance(executor, ThreadPoolExecutor):
        raise TypeError(
            "executor= is for processes and machines: leave it out for threads (workers= is their number)"
        )
    if not isinstance(executor, Executor):
        raise TypeError(
            "executor must be a concurrent.futures.Executor, such as a ProcessPoolExecutor, or a "
            f"nora.RayCluster; got {type(executor).__name__}"
        )


def check_remote(executor: Any, method: str, tolerance: float | None, workers: int | None) -> None:
    """Raise unless an executor, if there is one, can do the work: before anything is done."""
    check_executor(executor)
    if executor is None:
        return
    if method != "exact" or tolerance:
        raise ValueError(
            "executor= is for exact values, method='exact' without a tolerance: estimates are made in one "
            "process, leave executor= out for them"
        )
    if workers is not None:
        raise ValueError("workers= is for threads: an executor has its own number of processes")


@dataclass
class Remote:
    """A session whose questions an executor answers.

    Attributes:
        session: The session.
        executor: Who works.
        question: What is asked.
        key: As in `nora.influence`.
        fallbacks: Why full passes were made, if any were.
        shards: How many shards were done.
    """

    session: Session
    executor: Any
    question: Question
    key: str | None = None
    fallbacks: list[str] = field(default_factory=list)
    shards: int = 0

    def facts(self) -> dict[str, Any]:
        """Facts for provenance."""
        facts: dict[str, Any] = {"executor": type(self.executor).__name__, "shards": self.shards}
        if self.fallbacks:
            facts["fallback"] = self.fallbacks[0]
        return facts

    def answers(self, batch: Batch, problem: Problem, at_once: int | None = None) -> ScoredParts:
        """Yield `(ids, values [n, columns])` as shards finish.

        Args:
            batch: What is removed.
            problem: The question, whose engine estimates the cost of each removal.
            at_once: So many, in this order, make a shard, instead of those that a schedule cuts.
        """
        ids = batch.ids
        executor, question = self.executor, replace(self.question, count=len(ids))
        cluster = cast(Cluster, executor) if isinstance(executor, Cluster) else None
        workers = cluster.workers if cluster else lambda: _workers(executor)
        dumps = cluster.dumps if cluster else pickle.dumps
        sent = _pickled(dumps, {**session_parts(self.session), "key": self.key})
        asked = _pickled(dumps, question)
        lost = cluster.lost if cluster else ()
        folder = self.session.folder
        assert folder is not None, "see saved_for"
        folder = folder.absolute()
        engine = self.session.prepared.engine(problem, removals=len(ids))
        cost = engine.cost_of(batch.removals)
        schedule = Schedule(cost, workers())
        digest = hashlib.sha256(sent).hexdigest() + read_json(folder / MANIFEST)["sha256"]

        def submit(which: Tensor, again: bool) -> Future[Answered]:
            if cluster:
                return cluster.begin(sent, digest, asked, ids[which], again)
            future = executor.submit(answer_in_pool, sent, digest, folder, asked, ids[which])
            return cast("Future[Answered]", future)

        with cluster.sending(folder) if cluster else nullcontext():
            try:
                given = torch.arange(len(ids)).split(at_once) if at_once else schedule
                found = in_shards(submit, given, lambda: AHEAD * workers(), lost)
                for which, answered in found:
                    schedule.learn(float(cost[which].sum()), answered.seconds)
                    self._note(answered)
                    yield ScoredPart(ids[which], answered.values)
            except MissingError as missing:
                left = ids[missing.which].sort().values
                raise IncompleteError(_missing(left, question.of, str(missing)), left) from missing
            except BrokenExecutor as error:
                raise RuntimeError(
                    "a worker process was killed or ran out of memory, which stopped the executor: make a "
                    "new one and ask again; with "
                    f"{option('checkpoint')} finished parts are kept"
                ) from error
        return self.facts()

    def _note(self, answered: Answered) -> None:
        self.shards += 1
        if answered.fallback and not self.fallbacks:
            warn(f"exact falls back to brute force: {answered.fallback}", RuntimeWarning)
        self.fallbacks += [answered.fallback] if answered.fallback else []


def remote_for(
    session: Session, executor: Any, question: Question, key: str | None = None
) -> Remote | None:
    """The session's counterpart in an executor; None without an executor."""
    return None if executor is None else Remote(session, executor, question, key)


@contextmanager
def saved_for(session: Session, executor: Any, key: str | None = None) -> Iterator[None]:
    """Save the session's engine while an executor needs it; without an executor, do nothing."""
    check_executor(executor)
    if executor is None or session.folder is not None:
        yield
        return
    from nora.questions.prepare import keep

    with tempfile.TemporaryDirectory(prefix="nora-engine-") as place:
        session.folder = keep(session, Path(place) / "engine", key=key)
        try:
            yield
        finally:
            session.folder = None


def _missing(missing: Tensor, of: str, why: str) -> str:
    some = ", ".join(map(str, missing[:5].tolist())) + (" …" if len(missing) > 5 else "")
    return (
        f"{len(missing)} of the {of} are missing: the worker process died in every attempt ({why}). Missing "
        f"are {some}; the others are finished, and {option('checkpoint')} keeps them"
    )


def _workers(executor: Executor) -> int:
    return int(getattr(executor, "_max_workers", 0) or usable_cores())


def _pickled(dumps: Callable[[Any], bytes], parts: dict[str, Any] | Question) -> bytes:
    """A session or a question as bytes; what cannot be sent is named."""
    try:
        return dumps(parts)
    except MemoryError:  # no fault of the object's
        raise
    except Exception as error:  # whatever an object's own code raises
        for name, part in (parts if isinstance(parts, dict) else vars(parts)).items():
            try:
                dumps(part)
            except Exception:
                raise TypeError(
                    f"{name} cannot be sent to another process ({error}): define it at the top of a module"
                ) from error
        raise
