"""Predictions on an edited graph, straight from the definition: the graph is built, and the model run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nora.graph.edit_batch import EditBatch
from nora.graph.removal import kept
from nora.model.misfit import MISFIT, message_of, transform_failure
from nora.model.task import Task
from nora.model.tasks.link_prediction import LinkPrediction

if TYPE_CHECKING:
    from nora.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Changes:
    """The predictions of a graph that an edit changes; all others stay as they were.

    Attributes:
        item: Items whose predictions change, ascending `[q]`.
        after: Their predictions after the edit `[q, …]`.
        removed: Items that are removed with their nodes `[g]`.
        before: The predictions of `item` before the edit, where all of that time are not at hand.
    """

    item: Tensor
    after: Tensor
    removed: Tensor
    before: Tensor | None = None

    def predictions(self, before: Tensor) -> Tensor:
        """All predictions after the edit `[items, …]`, NaN of removed items."""
        after = before.clone()
        after[self.item] = self.after
        after[self.removed] = float("nan")
        return after

    def survivors(self, count: int) -> Tensor:
        """Mask `[items]` of the remaining items."""
        return kept(self.removed, count)


@dataclass(frozen=True, eq=False)
class FullPass:
    """A full pass on an edited graph.

    Attributes:
        problem: The question.
        output: The model's output there.
        task: The task there.
        survivors: Mask `[items]` of the items that remain.
        old: Mask of the edited graph's nodes that the graph had before.
    """

    problem: Problem
    output: Tensor
    task: Task
    survivors: Tensor
    old: Tensor

    def predictions(self) -> tuple[Tensor, Tensor | None]:
        """Predictions of the surviving items, and of added nodes (None for pairs)."""
        found = self.problem.predicted(self.output, self.task)
        if self.problem.by_id:
            return found[self.survivors], None
        if self.task.item != "node":
            return found, None
        old = self.old.to(found.device)
        return found[old], found[~old]


def run_after(problem: Problem, done: EditBatch) -> FullPass:
    """Run the model on the graph after the one edit of `done`, which must have a node."""
    if problem.by_id and done.added_nodes:
        raise ValueError(
            "this model has weights per node id, and none for a new node: nodes cannot be added"
        )
    keep = kept(done.node.to(problem.device), problem.num_nodes)
    task, survivors = problem.task.survivors(keep)
    data = done.apply(problem.data, isolate=problem.by_id)
    count = int(data.num_nodes or 0)
    old = _old_rows(problem, done, count)
    if problem.by_id:
        task = problem.task
    elif isinstance(task, LinkPrediction) and done.added_nodes:
        task = replace(task, pairs=old.nonzero().flatten().to(task.pairs.device)[task.pairs])
    try:
        output = problem.run(problem.asked(data, task))
    except MISFIT as error:
        what, always = (
            _failure(problem, done),
            "must work on every edited graph, also with a node fewer",
        )
        failure = transform_failure(error)
        if failure:
            raise ValueError(f"the transform {what}: {failure}. It {always}") from error
        raise ValueError(
            f"the model {type(problem.model).__name__} {what}: {message_of(error)}. Its forward {always}"
        ) from error
    wrong = problem.wrong_rows(output, task, count)
    if wrong:
        raise ValueError(
            f"{wrong}: does it store one row per node itself? Keep these rows in data (e.g. data.x, or "
            "data.n_id to look them up in forward), so that a removal deletes them too"
        )
    return FullPass(problem, output, task, survivors, old)


def _failure(problem: Problem, done: EditBatch) -> str:
    if len(done.edge) or not done.only_removes:
        return "cannot be run on the edited graph"
    removed = problem.node_index.named(done.node.tolist()[:3])
    return f"cannot be run without node {', '.join(map(str, removed))}" + (
        " …" if len(done.node) > 3 else ""
    )


def _old_rows(problem: Problem, done: EditBatch, count: int) -> Tensor:
    """Mask of the edited graph's nodes that the graph had before."""
    index, more = problem.node_index, done.added_counts
    if not more:
        return torch.ones(count, dtype=torch.bool)
    removed, parts = index.by_type(done.node), []
    for kind, size in zip(index.types or (None,), index.counts, strict=True):
        left = size - len(removed[kind])
        parts += [torch.ones(left, dtype=torch.bool), torch.zeros(more.get(kind, 0)).bool()]
    return torch.cat(parts)


@dataclass(frozen=True, eq=False)
class After:
    """Predictions after an edit.

    Attributes:
        predictions: Of all items of the graph before it `[items, …]`; NaN where the item is removed.
        survivors: Mask `[items]` of those that remain.
        added: Of the added nodes, in the order of global ids; None for links.
        fallback: Why a full pass was made instead of asking the engine; empty where it was not.
    """

    predictions: Tensor
    survivors: Tensor
    added: Tensor | None = None
    fallback: str = ""


def predict_after(problem: Problem, before: Tensor, done: EditBatch) -> After:
    """Predictions on the graph after an edit.

    Args:
        problem: The question, its model in eval mode.
        before: Predictions on `G`, whose shape the result has.
        done: The edit, a batch of one.
    """
    after = torch.full_like(before, float("nan"))
    keep = kept(done.node.to(problem.device), problem.num_nodes)
    if not bool(keep.any()) and not done.added_nodes:
        return After(after, problem.task.survivors(keep)[1])
    passed = run_after(problem, done)
    after[passed.survivors], added = passed.predictions()
    return After(after, passed.survivors, added if done.added_nodes else None)
