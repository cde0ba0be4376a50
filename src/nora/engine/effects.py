"""Effects of removals, un-summed or summed, by the engine or by the definition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from nora.engine.changed import Removals
from nora.engine.engine import CHUNK_BYTES, Chunks, Engine, summed_in
from nora.engine.plan import UnsupportedError
from nora.engine.prepared import Prepared
from nora.engine.steps.step import Tally
from nora.memory import parse_bytes
from nora.problem import Problem
from nora.problem.edit_resolution import Resolved
from nora.problem.edited import After, predict_after
from nora.problem.removal import kept
from nora.problem.task import item_change
from nora.stacklevel import warn

MEMORY = parse_bytes("2GB")


def check_method(method: str) -> None:
    """Raise unless `method` tells the effect of a removal, not only a score."""
    if method not in ("exact", "brute"):
        raise ValueError(f"method is {method!r}; here it must be 'exact' or 'brute'")


@dataclass(frozen=True)
class Effects:
    """The effects of any removals of one question: prepared once, asked many times.

    Attributes:
        problem: The question, with its model in eval mode.
        before: Predictions on `G`.
        engine: None where a full forward pass on the reduced graph is to give the answer.
    """

    problem: Problem
    before: Tensor
    engine: Engine | None = None

    @staticmethod
    def prepare(
        problem: Problem, prepared: Prepared, method: str = "exact", removals: int = 1
    ) -> Effects:
        """By the engine where so many removals are worth it and it can follow the model.

        Args:
            problem: The question; `problem.nodes` are those to be removed.
            prepared: What is prepared for the model and graph.
            method: `exact` or `brute`.
            removals: How many will be asked for.
        """
        check_method(method)
        if method == "exact" and prepared.pays(problem, removals):
            try:
                engine = prepared.engine(problem, removals=removals)
                prepared.verify(engine, None, seed=0)
            except UnsupportedError as reason:
                warn(f"exact falls back to brute force: {reason}", RuntimeWarning)
            else:
                return Effects(problem, engine.before, engine)
        return Effects(problem, problem.predict())

    def after(self, removed: Tensor) -> tuple[Tensor, Tensor]:
        """Predictions without `removed`, NaN where the item is gone, and the surviving items."""
        if self.engine is None:
            part, survivors = self.problem.predict_without(removed)
            after = torch.full_like(self.before, float("nan"))
            after[survivors] = part
            return after, survivors
        removed = removed.to(self.before.device)
        after = self.engine.effect(removed)
        _, survivors = self.problem.task.survivors(kept(removed, self.problem.num_nodes))
        after[~survivors] = float("nan")
        return after, survivors

    def after_edits(self, done: Resolved) -> After:
        """Predictions after an edit."""
        return predict_after(self.problem, self.before, done)

    def total(self, removed: Tensor) -> float:
        """`F(removed)`: the summed change when these nodes go together."""
        if self.engine is not None:
            removals = Removals.group(removed.to(self.before.device))
            return float(self.engine.influences(removals))
        part, survivors = self.problem.predict_without(removed)
        return float(self.problem.total_change(self.before, part, survivors))

    def totals(self, nodes: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield `(nodes, F)` part by part, every node removed by itself."""
        if self.engine is not None:
            yield from self.engine.scores(nodes, MEMORY)
            return
        for node in nodes.split(1):
            yield node, torch.tensor([self.total(node)], dtype=summed_in(self.before.dtype))

    def changes(self, nodes: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Yield `(nodes, removal [Q], item [Q], change [Q])` part by part, every node by itself.

        `nodes[removal]` are the removed nodes. Only items that change, survive and, if there are
        targets, are targets.
        """
        for part, removal, item, change in self._changes(nodes):
            counts = change > 0
            if self.problem.targets is not None:
                counts &= self.problem.targets[item]
            yield part, removal[counts].cpu(), item[counts].cpu(), change[counts].cpu()

    def _changes(self, nodes: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        if self.engine is None:
            for node in nodes.split(1):
                part, survivors = self.problem.predict_without(node)
                item = survivors.nonzero().flatten()
                yield node, torch.zeros_like(item), item, item_change(self.before[item], part)
            return
        cost = self.engine.cost.cpu()[nodes]
        order = cost.argsort(descending=True, stable=True)
        chunks = Chunks(nodes[order], cost[order], CHUNK_BYTES)
        for chunk, bound in chunks:
            tally = Tally()
            removals = Removals.single(chunk.to(self.before.device))
            changed = self.engine.changed_output(removals, tally=tally)
            removal, item, after = self.engine.changed_items(removals, changed, tally)
            chunks.learn(tally.bytes / max(bound, 1.0))
            yield chunk, removal, item, item_change(self.before[item], after)
