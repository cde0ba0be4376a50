"""Traces a model: on the graph that is asked about, without one node, and on a few small graphs."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from nora.engine.trace.recorder import record
from nora.engine.trace.samples import with_pairs
from nora.engine.trace.trace import TooLongError, Trace
from nora.engine.unsupported import UnsupportedError, described
from nora.graph.edge_sets import with_plain_edges
from nora.graph.node_index import Graph
from nora.model import Problem
from nora.model.preserve import CheckedRemoval
from nora.model.task import Task
from nora.model.tasks.link_prediction import LinkPrediction, dot_product

# A graph with the task on it, and the node that it lacks, if any.
TraceInput = tuple[Graph, Task, int | None]
# The names of the inputs of a pass that a link task adds.
PAIRS, RELATION = "the pairs", "the relation of each pair"


def tensors_of(data: Graph) -> dict[str, Tensor]:
    """Every tensor of a graph, by a name of its own."""
    found = {}
    for store in data.stores:
        for key, value in sorted(store.items()):
            if isinstance(value, Tensor):
                found[f"{getattr(store, '_key', None)}/{key}"] = value
    return found


def with_own_memory(data: Graph) -> Graph:
    """A graph whose tensors share no memory with each other, as those of its parts do not.

    Two edge types may have one `edge_index` tensor between them; without a node they have two.
    """
    new, seen = data, set[int]()
    for place, store in enumerate(data.stores):
        for key, value in sorted(store.items()):
            if not isinstance(value, Tensor) or value.layout != torch.strided or not value.numel():
                continue
            memory = value.untyped_storage().data_ptr()
            if memory in seen:
                new = copy.copy(data) if new is data else new
                new.stores[place][key] = value.clone()
            seen.add(memory)
    return new


def decodes(problem: Problem) -> bool:
    """Whether the program ends in the scores of pairs; else it ends in the model's own output."""
    return isinstance(problem.task, LinkPrediction) and (
        problem.direct or problem.task.decoder is not dot_product
    )


def trace_on(
    problem: Problem, graph: TraceInput, watched: Mapping[str, nn.Module], part: bool
) -> tuple[Trace, Tensor]:
    """The trace of the problem's model on a graph, and the model's output.

    Args:
        problem: The question.
        graph: The graph.
        watched: Modules whose calls are noted, by name.
        part: Whether it is another graph than the one that is asked about.

    Raises:
        UnsupportedError: When the model fails, or takes too many operations.
    """
    try:
        return _traced(problem, *graph, watched)
    except TooLongError as error:
        raise UnsupportedError(f"the model takes {error}") from error
    except UnsupportedError:
        raise
    except Exception as error:  # whatever the model's own code raises
        where = "on a part of this graph" if part else "while it is recorded"
        raise UnsupportedError(f"the model fails {where}: {described(error)}") from error


def _traced(
    problem: Problem, data: Graph, task: Task, removed: int | None, watched: Mapping[str, nn.Module]
) -> tuple[Trace, Tensor]:
    """The trace of the model, and of the decoder where there is one, on a graph, and the model's output.

    A pass without one node is noted: it is what the definition says of that node.
    """
    if isinstance(task, LinkPrediction):  # its pairs may well be the graph's own edges
        task = with_pairs(task, task.pairs.clone(), task.relation)
    given = with_own_memory(with_plain_edges(problem.asked(data, task)))
    inputs = tensors_of(given)
    if isinstance(task, LinkPrediction):
        inputs |= _pairs_of(task)
    made: list[Any] = []

    def run() -> Any:
        output = problem.run(given)
        made.append(output)
        if not decodes(problem) or problem.direct:
            return output
        assert isinstance(task, LinkPrediction)
        return task.scores_of(output)

    start = time.perf_counter()
    trace = record(run, inputs, watched)
    if removed is not None and removed not in problem.checked_removals:
        problem.checked_removals[removed] = CheckedRemoval(made[0], time.perf_counter() - start)
    return trace, made[0]


class TracedCall:
    """How to call a model in a pass over `G` that is made anyway, so that it is traced on its way.

    Args:
        problem: The question.
        watched: Modules whose calls are noted, by name.

    Attributes:
        trace: The trace, once the pass is made.
    """

    def __init__(self, problem: Problem, watched: Mapping[str, nn.Module]) -> None:
        self.problem, self.watched = problem, watched
        self.trace: Trace | None = None

    def __call__(self, model: nn.Module, data: Graph) -> Any:
        """Call the model on a graph and trace it."""
        inputs, task, made = tensors_of(data), self.problem.task, list[Any]()
        if isinstance(task, LinkPrediction):
            inputs |= _pairs_of(task)

        def run() -> Any:
            made.append(self.problem.call(model, data))
            return made[0]

        self.trace = record(run, inputs, self.watched)
        return made[0]


def _pairs_of(task: LinkPrediction) -> dict[str, Tensor]:
    """The inputs that a link task adds."""
    return {PAIRS: task.pairs} | ({} if task.relation is None else {RELATION: task.relation})


def record_on(problem: Problem, data: Graph, task: Task) -> Trace:
    """The trace of the problem's model on another graph."""
    return _traced(problem, data, task, None, {})[0]
