"""Which nodes, removed together, change the other predictions most?

The effect of a group is not the sum of its members': two nodes with the same audience change it
little more together than one of them does. Lazy greedy search (CELF: Leskovec et al., 2007) grows the
group one node at a time. Every candidate's last known gain `F(S ∪ {v}) − F(S)` waits in a queue; only
those that could still be the best are computed again, exactly.

Were `F` submodular, as gains that only shrink while the group grows, this would find what plain greedy
search finds, within `1 − 1/e` of the best group. `F` is neither submodular nor monotone in general: a
removed node's own change no longer counts, and changes may cancel or reinforce each other. So before a
node is accepted, some that seem to follow it are computed again too (`recheck`); and where simply
the most influential nodes change more together, these are the answer.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

import torch
from torch import nn

from nora.arguments import check_whole
from nora.graph.edit_batch import EditBatch
from nora.graph.node_index import Graph, Nodes
from nora.methods.exact import ExactOptions, Ready, engine_for
from nora.model import Problem
from nora.model.measuring import MeasureNames, Measuring
from nora.model.task import Task
from nora.progress import progress_bar
from nora.questions.score import Batch, one_measure, score, tracked
from nora.questions.session import Session
from nora.questions.session_options import CountingOptions, takes_session_options
from nora.results.group import Group

Joint = Callable[[Sequence[int]], float]


@takes_session_options(CountingOptions)
def best_group(
    model: nn.Module,
    data: Graph,
    size: int = 10,
    task: Task | None = None,
    *,
    candidates: Nodes | None = None,
    measure: MeasureNames = "change",
    method: str = "exact",
    recheck: int = 5,
    progress: bool = True,
    **about: Unpack[CountingOptions],
) -> Group:
    """Find `size` nodes whose joint removal changes the other predictions most.

    The search is lazy greedy, on exact effects. Because influence is not always submodular, the group is not
    proven to be the best. Its effect is at least that of the `size` most influential nodes together.

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The graph, with `x` and `edge_index`.
        size: How many nodes to find.
        task: What is predicted; node classification from logits by default.
        candidates: Choose among these nodes (ids or mask); all by default.
        measure: What is summed over the predictions that change, as in `nora.influence`. Measures that can be
            negative count by absolute value.
        method: `exact`, or `brute` for full forward passes.
        recheck: How many of the next candidates in the queue must fail to beat a node before it is accepted.
        progress: Show a progress bar.
        **about: Arguments of `nora.Session`.

    Returns:
        The nodes in the order in which they were chosen, with the joint effect of the first, of the first
        two, and so on.

    Example:
        >>> import nora
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> group = nora.best_group(run.model, run.data, size=3, progress=False)
        >>> len(group), group.total >= group.alone
        (3, True)
    """
    session = Session(model, data, task, **about, once=True)
    return session.best_group(
        size,
        candidates=candidates,
        measure=measure,
        method=method,
        recheck=recheck,
        progress=progress,
    )


def _check_sizes(session: Session, size: int, candidates: Nodes | None, recheck: int) -> None:
    """Raise unless this many nodes can be chosen."""
    check_whole("size", size)
    check_whole("recheck", recheck)
    count = session.num_nodes if candidates is None else len(session.node_index.ids(candidates))
    if not 1 <= size <= count:
        raise ValueError(f"size is {size}; with {count} candidates it must be 1 … {count}")
    if size == session.num_nodes:
        raise ValueError(
            f"size is {size}, which is every node: no prediction would be left to change"
        )
    if recheck < 0:
        raise ValueError(f"recheck must not be negative, got {recheck}")


def grow_group(
    session: Session,
    size: int,
    candidates: Nodes | None,
    method: str,
    recheck: int,
    progress: bool,
    measure: MeasureNames = "change",
) -> Group:
    """See `best_group`."""
    _check_sizes(session, size, candidates, recheck)
    problem, measuring = one_measure(
        session, session.problem(candidates), measure, "a group is chosen"
    )
    start = time.perf_counter()
    with problem.evaluating(), torch.no_grad():
        batch = Batch.nodes(problem.nodes)
        ready = engine_for(problem, session.prepared, batch.removals) if method == "exact" else None
        joint = _Joint(session, problem, measuring, method, ready)
        influence: dict[int, float] = {}
        parts = score(session, problem, batch, measuring, method=method, ready=ready)
        for ids, values, _ in tracked(parts, len(batch), "group: removing nodes", progress):
            influence.update(zip(ids.tolist(), values[:, 0].abs().tolist(), strict=True))
        with progress_bar("group: choosing nodes", size, progress) as advance:
            nodes, totals = lazy_greedy(joint, influence, size, recheck, advance)
        first = sorted(influence, key=lambda node: (-influence[node], node))[:size]
        alone = totals[-1] if set(first) == set(nodes) else joint(first)
        better = alone > totals[-1]
        if better:
            nodes = first
            inner = [joint(first[:some]) for some in range(2, size)]
            totals = [influence[first[0]], *inner, alone]
    return Group(
        nodes=problem.node_index.named(nodes),
        totals=tuple(totals),
        influences=tuple(influence[node] for node in nodes),
        alone=alone,
        evaluations=len(batch) + joint.evaluations,
        chosen_by="influence" if better else "greedy",
        task=problem.task.name,
        seconds=time.perf_counter() - start,
        names=session.names,
        measure=measuring.first,
    )


@dataclass
class _Joint:
    """The measure of several nodes that are removed together; counts how often it is computed."""

    session: Session
    problem: Problem
    measuring: Measuring
    method: str
    ready: Ready | None
    evaluations: int = 0

    def __call__(self, nodes: Sequence[int]) -> float:
        self.evaluations += 1
        together = EditBatch.of(torch.tensor(sorted(nodes)))
        (part,) = score(
            self.session,
            self.problem,
            Batch("nodes", torch.zeros(1, dtype=torch.long), together),
            self.measuring,
            method=self.method,
            how=ExactOptions(workers=1),  # one removal has no use for threads
            ready=self.ready,
        )
        return float(part.values[0, 0].abs())


def lazy_greedy(
    joint: Joint,
    alone: Mapping[int, float],
    size: int,
    recheck: int,
    advance: Callable[[], None] = lambda: None,
) -> tuple[list[int], list[float]]:
    """Grow a group by the node that adds most; see the module for when a gain is computed again.

    Args:
        joint: `F` of several nodes together.
        alone: `F` of every candidate by itself.
        size: How many to choose.
        recheck: How many that seem to follow the best are tried before it is accepted.
        advance: Called after every node chosen.

    Returns:
        The nodes in the order chosen, and `F` of the first, the first two, and so on. Of equal
        gains the smaller id wins.

    Example:
        >>> audience = {0: {"a", "b", "c"}, 1: {"b", "c"}, 2: {"d"}}
        >>> reached = lambda nodes: float(len(set.union(*(audience[node] for node in nodes))))
        >>> lazy_greedy(reached, {node: reached([node]) for node in audience}, 2, 0)
        ([0, 2], [3.0, 4.0])
    """
    # Losses rather than gains: Python's heap has the smallest on top.
    queue = [(-gain, node) for node, gain in alone.items()]
    heapq.heapify(queue)
    loss, node = heapq.heappop(queue)
    nodes, totals = [node], [-loss]
    advance()
    while len(nodes) < size:
        best, best_total = (math.inf, -1), 0.0
        passed_over: list[tuple[float, int]] = []
        patience = recheck
        while queue:
            if best < queue[0]:  # nothing in the queue seems better any more
                if patience == 0:
                    break
                patience -= 1
            _, node = heapq.heappop(queue)
            total = joint([*nodes, node])
            tried = (totals[-1] - total, node)
            if tried < best:
                tried, best, best_total, patience = best, tried, total, recheck
            passed_over.append(tried)
        for waiting in passed_over[1:]:  # the first is the one there was before any was tried
            heapq.heappush(queue, waiting)
        nodes.append(best[1])
        totals.append(best_total)
        advance()
    return nodes, totals
