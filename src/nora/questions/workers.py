"""Worker processes: each opens the engine once and computes its shard."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import time
import warnings
from collections import OrderedDict
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from nora.methods.exact import ExactOptions
from nora.questions.score import Batch, collected, measuring_of, score
from nora.questions.session import Session


@dataclass(frozen=True)
class Question:
    """A question to a worker.

    Attributes:
        of: What is removed.
        measure, by: What is summed, as in `nora.influence`.
        memory: What the removals in work may take, in bytes.
        count: How many removals are asked about in all: how they are computed depends on it, and must not
            depend on how they are cut.
    """

    of: Literal["nodes", "edges"]
    measure: Any = "change"
    by: Any = None
    memory: int = 2 * 10**9
    count: int = 1


class Answered(NamedTuple):
    """The result of a worker: values `[n, columns]`, the reason for a full pass, and seconds."""

    values: Tensor
    fallback: str
    seconds: float


# Sessions that a process keeps open.
KEPT = 2
_OPEN: OrderedDict[str, Session] = OrderedDict()


def session_parts(session: Session) -> dict[str, Any]:
    """The arguments with which another process opens the same session, beside the folder."""
    return {
        "model": session.model,
        "task": session.given_task,
        "class_names": session.class_names,
        "masks": session.masks,
        **session.given,
    }


def opened_here(parts: bytes, digest: str, folder: Path) -> Session:
    """The session of a folder in this process, opened when it is first asked for."""
    if digest not in _OPEN:
        torch.set_num_threads(1)  # there are as many processes as are wanted
        given = pickle.loads(parts)
        model, task = given.pop("model"), given.pop("task")
        # The driver has compared it with the model.
        _OPEN[digest] = Session.open(folder, model, task, verify=0, **given)
    _OPEN.move_to_end(digest)
    while len(_OPEN) > KEPT:
        _OPEN.popitem(last=False)
    return _OPEN[digest]


def answer(parts: bytes, digest: str, folder: Path, asked: bytes, ids: Tensor) -> Answered:
    """The effects of removing each of these nodes or edges.

    Args:
        parts: The driver's own session, pickled.
        digest: Names it: the same session is opened once, whatever it is asked.
        folder: The engine.
        asked: The question, pickled.
        ids: Nodes by global ids, or places in the list of all edges.
    """
    session, question = opened_here(parts, digest, folder), pickle.loads(asked)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the driver says why
        values, fallback = _sums(session, question, ids)
    return Answered(values, fallback, time.perf_counter() - start)


def answer_in_pool(parts: bytes, digest: str, folder: Path, asked: bytes, ids: Tensor) -> Answered:
    """The same in a process of a pool, which must end with its driver."""
    _end_with_the_driver()
    return answer(parts, digest, folder, asked, ids)


@cache
def _end_with_the_driver() -> None:
    """End this process when the one that started it does.

    A pool's processes wait for work on a pipe that they hold open themselves: after a `kill -9` of their
    driver they would wait for ever, with all their memory.
    """
    driver = multiprocessing.parent_process()
    if driver is None:  # not of Python's own pools
        return

    def watch() -> None:
        wait([driver.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="nora-driver", daemon=True).start()


def _sums(session: Session, question: Question, ids: Tensor) -> tuple[Tensor, str]:
    problem, measuring = measuring_of(session, session.problem(), question.measure, question.by)
    batch = Batch.nodes(ids) if question.of == "nodes" else Batch.edges(session, ids)
    how = ExactOptions(memory=question.memory, workers=1, verify=0)  # the driver has verified it
    with problem.evaluating(), torch.no_grad():
        parts = score(session, problem, batch, measuring, how=how, count=question.count)
        table, facts = collected(parts, int(ids.max()) + 1, len(measuring.columns))
    return table[ids], str(facts.get("fallback", ""))
