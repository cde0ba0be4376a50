"""Predictions on an edited graph, straight from the definition: the graph is built, and the model run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nora.graph.edit_batch import EditBatch
from nora.graph.node_index import Graph
from nora.graph.removal import kept
from nora.model.misfit import MISFIT, told
from nora.model.problem import Problem
from nora.model.task import Task
from nora.model.tasks.link_prediction import LinkPrediction


@dataclass(frozen=True, eq=False)
class After:
    """Predictions after an edit.

    Attributes:
        predictions: Of all items of the graph before it `[items, …]`; NaN where the item is gone.
        survivors: Mask `[items]` of those that are left.
        added: Of the added nodes, in the order of global ids; None for links.
        fallback: Why a full pass was taken where the engine was asked; empty where it was not.
    """

    predictions: Tensor
    survivors: Tensor
    added: Tensor | None = None
    fallback: str = ""


def predict_after(problem: Problem, before: Tensor, done: EditBatch) -> After:
    """Predictions on the graph that an edit leads to.

    Args:
        problem: The question, its model in eval mode.
        before: Predictions on `G`, whose shape the result has.
        done: The edit, a batch of one.
    """
    keep = kept(done.node.to(problem.device), problem.num_nodes)
    _, survivors = problem.task.survivors(keep)
    after = torch.full_like(before, float("nan"))
    if not bool(keep.any()) and not done.added_nodes:
        return After(after, survivors)
    passed = run_after(problem, done)
    task, old = passed.task, passed.old
    found = problem.predicted(passed.output, task)
    if problem.by_id:
        after[survivors] = found[survivors]
        return After(after, survivors)
    if isinstance(task, LinkPrediction):
        after[survivors] = found
        return After(after, survivors)
    old = old.to(found.device)
    after[survivors] = found[old]
    return After(after, survivors, found[~old] if done.added_nodes else None)


@dataclass(frozen=True, eq=False)
class Passed:
    """A full pass on an edited graph.

    Attributes:
        output: The model's output there.
        task: The task there.
        survivors: Mask `[items]` of the items that are left.
        old: Mask of the graph's nodes that were there before.
    """

    output: Tensor
    task: Task
    survivors: Tensor
    old: Tensor


def run_after(problem: Problem, done: EditBatch) -> Passed:
    """Run the model on the graph that an edit leads to; at least one node must be there."""
    if problem.by_id and done.added_nodes:
        raise ValueError(
            "this model has weights by node id, and none for a new node: nodes cannot be added"
        )
    keep = kept(done.node.to(problem.device), problem.num_nodes)
    task, survivors = problem.task.survivors(keep)
    data = done.apply(problem.data, isolate=problem.by_id)
    old = _old_rows(problem, done, int(data.num_nodes or 0))
    if problem.by_id:
        task = problem.task
    elif isinstance(task, LinkPrediction) and done.added_nodes:
        task = replace(task, pairs=old.nonzero().flatten().to(task.pairs.device)[task.pairs])
    output = _run(problem, data, task)
    wrong = problem.wrong_rows(output, task, int(data.num_nodes or 0))
    if wrong:
        raise ValueError(
            f"{wrong}: does it hold rows of its own for the nodes? Keep them in the data (e.g. data.x "
            "or data.n_id) and look them up in forward"
        )
    return Passed(output, task, survivors, old)


def _old_rows(problem: Problem, done: EditBatch, count: int) -> Tensor:
    """Mask of the nodes of the new graph that were there before."""
    index, more = problem.node_index, done.added_counts
    if not more:
        return torch.ones(count, dtype=torch.bool)
    removed, parts = index.by_type(done.node), []
    for kind, size in zip(index.types or (None,), index.counts, strict=True):
        left = size - len(removed[kind])
        parts += [torch.ones(left, dtype=torch.bool), torch.zeros(more.get(kind, 0)).bool()]
    return torch.cat(parts)


def _run(problem: Problem, data: Graph, task: Task) -> Tensor:
    try:
        return problem.run(problem.asked(data, task))
    except MISFIT as error:
        raise ValueError(
            f"the model {type(problem.model).__name__} cannot be run on the edited graph: {told(error)}"
        ) from error
