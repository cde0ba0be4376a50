"""The effect of removing each of these nodes alone, in one batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nora.model.task import item_change
from nora.model.tasks.link_prediction import LinkPrediction
from nora.questions.score import Batch, score
from nora.questions.session import Session
from nora.results.effect import Effect


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of one node's removal.

    Attributes:
        node: The removed node's global id.
        item: The items that change and count `[Q]`.
        before: Their predictions on `G` `[Q, …]`.
        after: Their predictions without the node `[Q, …]`.
        change: The change of each `[Q]`, on the classes that count.
    """

    node: int
    item: Tensor
    before: Tensor
    after: Tensor
    change: Tensor

    @property
    def total(self) -> float:
        """The node's influence."""
        return float(self.change.double().sum())


def outcomes_of(session: Session, nodes: Sequence[int]) -> Iterator[Outcome]:
    """Yield what the removal of each of these nodes changes, the costliest removals first."""
    problem = session.problem(list(nodes))
    # The class that a node moves to is known from all classes only.
    classes = problem.task.counted_classes
    problem = replace(problem, task=problem.task.on_every_class())
    with problem.evaluating(), torch.no_grad():
        batch = Batch.nodes(problem.nodes)
        for ids, (before, moves), _ in score(session, problem, batch, lambda *moved: moved):
            before, after = before[moves.item], moves.after
            counts = item_change(before, after) > 0
            if problem.targets is not None:
                counts &= problem.targets[moves.item]
            removal, item, before, after = (
                one[counts].cpu() for one in (moves.removal, moves.item, before, after)
            )
            change = item_change(before, after)
            if classes is not None:
                change = item_change(before[:, list(classes)], after[:, list(classes)])
            order = removal.argsort(stable=True)
            removed = ids.tolist()
            ends = removal.bincount(minlength=len(removed)).cumsum(0).tolist()
            for at, node in enumerate(removed):
                own = order[(ends[at - 1] if at else 0) : ends[at]]
                yield Outcome(node, item[own], before[own], after[own], change[own])


def effects_of_each(session: Session, nodes: Sequence[int]) -> Iterator[Effect]:
    """Yield `what_if(node)` of each of these nodes, in this order."""
    first, *others = nodes
    whole = session.what_if(first)
    yield whole
    found = {outcome.node: outcome for outcome in outcomes_of(session, others)} if others else {}
    targets = session.problem().targets
    for node in others:
        outcome, after = found[node], whole.before.clone()
        after[outcome.item] = outcome.after.to(after.device)
        removed = torch.zeros(session.num_nodes, dtype=torch.bool, device=after.device)
        removed[node] = True
        if isinstance(session.task, LinkPrediction):
            removed = removed[session.task.pairs].any(dim=0)
        after[removed] = float("nan")
        counted = ~removed if targets is None else ~removed & targets
        yield replace(whole, removed=session.node_index.named([node]), after=after, counted=counted)
