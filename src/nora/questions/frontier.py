"""How far a removal can reach: which nodes matter for a prediction, and how large an influence can be.

A program's operations carry a change along their own edges, one hop each, up to the depth of its output.
Where a removal breaks a guard, the model may take another branch, and everything may change.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from nora.engine.engine import Engine
from nora.graph.edit_batch import EditBatch
from nora.model import Problem
from nora.model.tasks.link_prediction import LinkPrediction

# Up to here, the nodes of frontiers are counted one by one.
COUNTED_WALKS = 2e7


def frontier_nodes(problem: Problem, engine: Engine | None, ends: Tensor) -> Tensor:
    """The nodes whose removal alone can change the output at `ends`; all where the frontier is unknown."""
    if engine is None or not engine.program.is_local:
        return torch.arange(problem.num_nodes)
    reached = engine.program.within_reach(ends)
    return (reached.cpu() | _breaks_guards(engine, problem.num_nodes)).nonzero().flatten()


def _breaks_guards(engine: Engine, num_nodes: int) -> Tensor:
    """Which nodes' removals break a guard `[N]`."""
    return engine.program.guards.broken(EditBatch.remove_nodes(torch.arange(num_nodes)))


def _weights(problem: Problem, largest: float | None) -> Tensor:
    """How much the predictions that depend on each node can change at most, `[N]`."""
    counted = problem.targets
    if isinstance(problem.task, LinkPrediction):
        pairs = problem.task.pairs if counted is None else problem.task.pairs[:, counted]
        there = torch.bincount(pairs.flatten().cpu(), minlength=problem.num_nodes).double()
        return there * (1.0 if largest is None else largest)
    each = problem.task.largest_change(problem.predict().size(1)) if largest is None else largest
    most = torch.full((problem.num_nodes,), each, dtype=torch.double)
    return most if counted is None else most * counted.cpu()


def frontier_bound(problem: Problem, engine: Engine | None, largest: float | None = None) -> Tensor:
    """No node's influence exceeds this, `[N]`: the sum over its frontier of each prediction's largest change.

    Small graphs: the nodes of the frontier, each once. Large ones: walks, which count nodes that are
    reached on several paths several times, and so still give a bound. Without an engine the frontier is
    unknown, and everything may change.

    Args:
        problem: The question.
        engine: The engine, which knows how far a change is carried.
        largest: A prediction's largest value, where another measure is summed than the change.
    """
    weight, n = _weights(problem, largest).numpy(), problem.num_nodes
    if not np.isfinite(weight).all():
        return torch.full((n,), float("inf"), dtype=torch.double)  # values may move by any amount
    everything = weight.sum() - weight
    if engine is None or problem.by_id or not engine.program.is_local:
        return torch.from_numpy(everything)
    source, target = (ends.cpu().numpy() for ends in engine.program.hops())
    step = sparse.csr_array((np.ones(len(source)), (source, target)), shape=(n, n))
    step.data[:] = 1.0  # duplicate edges lead to the same place
    step = (step + sparse.eye_array(n, format="csr")).tocsr()
    step.data[:] = 1.0
    hops = max(engine.program.output.depth, 0)
    walks = np.ones(n)
    total = weight.copy()
    for _ in range(hops):
        walks, total = np.asarray(step @ walks), np.asarray(step @ total)
    if walks.sum() <= COUNTED_WALKS:
        reach = step
        for _ in range(hops - 1):
            reach = reach @ step
            reach.data[:] = 1.0
        total = np.asarray(reach @ weight) if hops else weight
    # Its own predictions do not count; an isolated node changes nothing.
    bound = np.maximum(np.minimum(total, weight.sum()) - weight, 0.0)
    return torch.from_numpy(np.where(_breaks_guards(engine, n).numpy(), everything, bound))
