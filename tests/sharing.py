"""Runs whose work several processes or machines share: what their tests have in common."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pandas as pd
from torch import Tensor

import nora


def run_in_double(model: str, dataset: str) -> nora.Run:
    """In double precision: in single, last digits depend on how many rows are multiplied at a time."""
    made = nora.train(model, dataset, epochs=3, progress=False)
    made.model.double()
    made.data.x = made.data.x.double()
    return made


def engine_of(run: nora.Run, folder: Path) -> Path:
    """The run's engine on disk."""
    return nora.prepare(run.model, run.data, folder, run.task, progress=False)


def truth_of(run: nora.Run) -> Tensor:
    """The scores by one process that prepares everything itself."""
    return nora.influence(run.model, run.data, "exact", run.task, progress=False).scores


def once_each(parts: Path, count: int) -> bool:
    """Whether each of so many nodes is in one part of a checkpoint, and in one only."""
    frames = [pd.read_parquet(file) for file in parts.glob("part-*.parquet")]
    return sorted(pd.concat(frames)["node"]) == list(range(count))


class Deadly:
    """The change of predictions; the first process that computes it dies over it."""

    def __init__(self, mark: Path, always: bool = False) -> None:
        self.mark, self.always = mark, always

    def __call__(self, before: Tensor, after: Tensor, items: Tensor) -> Tensor:
        if self.always or not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return (after - before).abs().sum(dim=1)


class Slow:
    """The change of predictions, and a while for every look at it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, before: Tensor, after: Tensor, items: Tensor) -> Tensor:
        time.sleep(self.seconds)
        return (after - before).abs().sum(dim=1)


class Held(Slow):
    """The same; once two parts are finished, it waits for a mark."""

    def __init__(self, seconds: float, parts: Path, mark: Path) -> None:
        super().__init__(seconds)
        self.parts, self.mark = parts, mark

    def __call__(self, before: Tensor, after: Tensor, items: Tensor) -> Tensor:
        while len(list(self.parts.glob("part-*.parquet"))) >= 2 and not self.mark.exists():
            time.sleep(0.05)
        return super().__call__(before, after, items)


def asked_slowly(
    session: nora.Session, executor: Any, parts: Path, seconds: float, mark: Path | None = None
) -> nora.Influence:
    """A question that takes long enough to be disturbed."""
    return session.influence(
        "exact",
        measure={"moved": Slow(seconds) if mark is None else Held(seconds, parts, mark)},
        executor=executor,
        checkpoint=parts,
        progress=False,
        key="slow",
    )
