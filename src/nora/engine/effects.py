"""Effects of removals, per prediction or summed, by the engine or by full passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nora.engine.edit_support import unsupported_edits
from nora.engine.engine import Engine
from nora.engine.ir.op import Tally
from nora.engine.prepared import Prepared
from nora.engine.unsupported import UnsupportedError
from nora.graph.edit_batch import EditBatch
from nora.memory import parse_bytes
from nora.model import Problem
from nora.model.edited import After, Changes, predict_after
from nora.stacklevel import warn

MEMORY = parse_bytes("2GB")


def check_method(method: str) -> None:
    """Raise unless `method` computes the effect of a removal, not only a score."""
    if method not in ("exact", "brute"):
        raise ValueError(f"method is {method!r}; here it must be 'exact' or 'brute'")


@dataclass(frozen=True, eq=False)
class ChangedPredictions:
    """Predictions that some removals change.

    Attributes:
        which: Their removals, as positions in the batch `[m]`.
        removal: For each prediction, the position of its removal in `which` `[Q]`.
        item: The item `[Q]`: a node, or the position of a pair.
        after: The new prediction `[Q, …]`; some may equal the old one.
        weight: Horvitz–Thompson weights `[Q]` of sampled predictions; None if all were computed.
    """

    which: Tensor
    removal: Tensor
    item: Tensor
    after: Tensor
    weight: Tensor | None = None


@dataclass(frozen=True)
class Effects:
    """Computes effects of removals for one question, after preparing once.

    Attributes:
        problem: The question, with its model in eval mode.
        before: Predictions on `G`.
        engine: The engine, or None if every removal takes a full forward pass.
    """

    problem: Problem
    before: Tensor
    engine: Engine | None = None

    @staticmethod
    def prepare(
        problem: Problem, prepared: Prepared, method: str = "exact", removals: int = 1
    ) -> Effects:
        """Prepare the engine, if it supports the model and this many removals are worth it.

        Args:
            problem: The question; `problem.nodes` are those to be removed.
            prepared: What is prepared for the model and graph.
            method: `exact` or `brute`.
            removals: How many will be asked for.
        """
        check_method(method)
        if method == "exact" and not prepared.pays(problem, removals):
            prepared.count_passes(removals)
        elif method == "exact":
            try:
                engine = prepared.engine(problem, removals=removals)
                prepared.verify(engine, None, seed=0, removals=removals)
            except UnsupportedError as reason:
                warn(f"exact falls back to brute force: {reason}", RuntimeWarning)
            else:
                return Effects(problem, engine.before, engine)
        return Effects(problem, problem.predict())

    def changes_of(self, done: EditBatch) -> Changes | After:
        """The effect of the one edit of a batch; by a full pass, all predictions after it."""
        here = done.to(self.before.device)
        reason = ""
        if self.engine is not None:
            reason = unsupported_edits(self.engine, done) or self.engine.program.guards.why(here)
            if not reason:
                return self.engine.changes_of(here)
        return replace(predict_after(self.problem, self.before, done), fallback=reason)

    def after_edits(self, done: EditBatch) -> After:
        """All predictions after the one edit of a batch."""
        found = self.changes_of(done)
        if isinstance(found, After):
            return found
        return After(found.predictions(self.before), found.survivors(len(self.before)))

    def moves(
        self, removals: EditBatch, memory: int = MEMORY, workers: int | None = None
    ) -> Iterator[ChangedPredictions]:
        """Yield the predictions that removals change, in parts, as they finish.

        The engine computes them if it supports these removals; else each takes a full pass.
        """
        engine = self.engine
        why = "" if engine is None else unsupported_edits(engine, removals)
        if why:
            warn(f"exact falls back to a full pass for every edit: {why}", RuntimeWarning)
            engine = None
        if engine is None:
            for at in range(len(removals)):
                yield self._moved(removals, at)
            return

        def ask(some: EditBatch, tally: Tally) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
            assert engine is not None
            with torch.no_grad():
                changed = engine.changed_output(some, tally)
                return *engine.changed_items(some, changed, tally), changed.weight

        for which, found in engine.in_chunks(ask, removals, memory, workers):
            yield ChangedPredictions(which, *found)

    def _moved(self, removals: EditBatch, at: int) -> ChangedPredictions:
        """By a full pass."""
        one = removals.pick(torch.tensor([at], device=removals.ptr.device))
        after = predict_after(self.problem, self.before, one)
        item = after.survivors.nonzero().flatten()
        return ChangedPredictions(
            torch.tensor([at]), torch.zeros_like(item), item, after.predictions[item]
        )
