"""From any PyG model to a plan: record what it does, and follow every operation.

The model is recorded on the asked graph and on a few others, the tapes are laid side by side, and a walk
along them tells of every tensor whose rows it holds. Convolutions that have a rule are followed as one
piece; everything else operation by operation.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from nora.engine.given import PAIRS, RELATION, Extent, Given, tensors_of, with_own_memory
from nora.engine.guards import Guards
from nora.engine.ledger import Ledger, moved
from nora.engine.pieces import Pieces, watched_modules
from nora.engine.plan import Plan, UnsupportedError
from nora.engine.recordings import samples, with_pairs, without_one
from nora.engine.spaces import Space
from nora.engine.steps.step import Value
from nora.engine.tape import kinds
from nora.engine.tape.follow import Walk
from nora.engine.tape.program import CoincidenceError, Program, lay_side_by_side
from nora.engine.tape.record import record
from nora.engine.tape.sizes import Sizes, sizes_of, with_sizes
from nora.engine.tape.tape import Ref, Tape, TooLongError
from nora.engine.tape.tracked import Layout, Matrix, Uniform
from nora.engine.templates import Templates
from nora.problem import Problem
from nora.problem.checks import check_same
from nora.problem.edge_sets import with_plain_edges
from nora.problem.node_index import Graph
from nora.problem.preserve import CheckedRemoval, another_random_state
from nora.problem.task import Task
from nora.problem.tasks.link_prediction import LinkPrediction, dot_product

assert kinds  # importing them enters them
# How often other graphs are drawn, where numbers that mean different things are the same on all.
DRAWS = 3


@dataclass(frozen=True)
class Recording:
    """What is left of the passes that were recorded, to follow the model again without making the large ones.

    Attributes:
        rules: Whether convolutions that have a rule are followed by it.
        extents: How large every recorded graph is, the asked one first.
        sizes: The numbers on the tapes of all but the small graphs.
        samples: The small graphs, with the task on each.
    """

    rules: bool
    extents: list[Extent]
    sizes: list[Sizes]
    samples: list[tuple[Graph, Task]]


def trace(problem: Problem, rules: bool = True, ledger: Ledger | None = None) -> Plan:
    """The plan of the problem's model on its graph; call it in eval mode, without gradients.

    Args:
        problem: The question.
        rules: Follow convolutions that have a rule by it.
        ledger: Takes note of what is made, and of the recording.

    Raises:
        UnsupportedError: When the model cannot be followed; the message names where.
    """
    watched = watched_modules(problem, rules and not problem.by_id)
    tapes: list[Tape] = []

    def recorded(graphs: list[tuple[Graph, Task, int | None]]) -> list[Tensor]:
        """Record them, after those that are recorded already; what the model gave."""
        outputs = []
        try:
            for graph in graphs:
                tape, output = _recorded(problem, *graph, watched)
                tapes.append(tape)
                outputs.append(output)
        except TooLongError as error:
            raise UnsupportedError(f"the model takes {error}") from error
        except Exception as error:  # whatever the model's own code raises
            told = str(error).splitlines()[0] if str(error) else ""
            where = "on a part of this graph" if tapes else "while it is recorded"
            raise UnsupportedError(
                f"the model fails {where}: {type(error).__name__}: {told}"
            ) from error
        return outputs

    given: list[tuple[Graph, Task, int | None]] = [(problem.data, problem.task, None)]
    with another_random_state():
        first = recorded(given)[0]
    check_same(problem, first)
    given += without_one(problem)
    recorded(given[1:])
    if len(given) > 1 and not _aligns(tapes):
        # Without the hub the model takes another branch; others may leave it on this one.
        del tapes[1:]
        given[1:] = without_one(problem, hub=False)
        recorded(given[1:])
    known = problem.checked_removals
    known |= {node: replace(one, output=moved(one.output)) for node, one in known.items()}
    for draw in range(DRAWS):
        del tapes[len(given) :]
        graphs = [*given, *samples(problem, draw)]
        recorded(graphs[len(given) :])
        extents = [Extent.of(problem, data, task) for data, task, _ in graphs]
        try:
            plan = _followed(problem, extents, tapes, ledger)
            if ledger is not None:
                sizes = [sizes_of(tape) for tape in tapes[: len(given)]]
                small = [(data, task) for data, task, _ in graphs[len(given) :]]
                ledger.recording = Recording(rules, extents, sizes, small)
            return plan
        except CoincidenceError:
            if draw == DRAWS - 1:
                raise
    raise AssertionError


def _aligns(tapes: list[Tape]) -> bool:
    """Whether the tapes hold the same program."""
    try:
        lay_side_by_side(tapes)
    except CoincidenceError:
        return True
    except UnsupportedError:
        return False
    return True


def record_on(problem: Problem, data: Graph, task: Task) -> Tape:
    """The tape of the problem's model on another graph."""
    return _recorded(problem, data, task, None, {})[0]


def retrace(problem: Problem, recording: Recording, ledger: Ledger) -> Plan:
    """The same plan once more: the model runs on the small graphs alone, and rows are those of the ledger.

    Raises:
        OtherTapeError: When the model does something else than was recorded.
    """
    watched = watched_modules(problem, recording.rules and not problem.by_id)
    problem.run(problem.asked(*recording.samples[0]))  # the first pass is made on copies
    small = [_recorded(problem, data, task, None, watched)[0] for data, task in recording.samples]
    large = [with_sizes(small[0], sizes) for sizes in recording.sizes]
    return _followed(problem, recording.extents, [*large, *small], ledger)


def _followed(
    problem: Problem, extents: list[Extent], tapes: list[Tape], ledger: Ledger | None
) -> Plan:
    """The plan of what the tapes have in common."""
    with nullcontext() if ledger is None else ledger.walking():
        return _walked(problem, extents, lay_side_by_side(tapes))


def _walked(problem: Problem, extents: list[Extent], program: Program) -> Plan:
    given = Given(problem, extents)
    known = {name: given.known[name] for name in program.inputs}
    walk = Walk(program, given.spaces, list(given.nodes.values()), known, given.all_nodes.size)
    pieces = Pieces(walk, given)
    walk.go(pieces.follow)
    plan = pieces.plan
    plan.output = _output(walk, given)
    plan.structure = walk.frozen
    plan.attributes = given.of_nodes
    index = problem.node_index
    plan.templates = Templates(given.edges, index.starts if index.types else {}, given.of_edges)
    strange = [
        name for name, one in known.items() if isinstance(one, Matrix) and one.space.origin is None
    ]
    if strange:
        walk.unsure(f"adj_t has other edges than edge_index ({strange[0]})")
    plan.unsure_of_edges = walk.unsure_of_edges
    plan.features = given.features
    plan.guards = Guards(plan.num_nodes, [*walk.nodes, *walk.spaces], walk.guards)
    if plan.guards.mostly_broken:
        raise UnsupportedError(f"for most removals {plan.guards.mostly_broken}")
    return plan


def decodes(problem: Problem) -> bool:
    """Whether the plan ends in the scores of pairs; else it ends in the model's own output."""
    return isinstance(problem.task, LinkPrediction) and (
        problem.direct or problem.task.decoder is not dot_product
    )


def _recorded(
    problem: Problem, data: Graph, task: Task, gone: int | None, watched: Mapping[str, nn.Module]
) -> tuple[Tape, Tensor]:
    """The tape of the model, and of the decoder where there is one, on a graph, and the model's output.

    A pass without one node is noted: it is what the definition says of that node.
    """
    if isinstance(task, LinkPrediction):  # its pairs may well be the graph's own edges
        task = with_pairs(task, task.pairs.clone(), task.relation)
    given = with_own_memory(with_plain_edges(problem.asked(data, task)))
    inputs = tensors_of(given)
    if isinstance(task, LinkPrediction):
        inputs[PAIRS] = task.pairs
        if task.relation is not None:
            inputs[RELATION] = task.relation
    made: list[Any] = []

    def run() -> Any:
        output = problem.run(given)
        made.append(output)
        if not decodes(problem) or problem.direct:
            return output
        assert isinstance(task, LinkPrediction)
        more = () if task.relation is None else (task.relation,)
        return task.decoder(output, task.pairs, *more)

    start = time.perf_counter()
    tape = record(run, inputs, watched)
    if gone is not None and gone not in problem.checked_removals:
        problem.checked_removals[gone] = CheckedRemoval(made[0], time.perf_counter() - start)
    return tape, made[0]


def _output(walk: Walk, given: Given) -> Value:
    """What was returned, as rows of all nodes or of the pairs."""
    ref = walk.program.output
    if not isinstance(ref, Ref):
        raise UnsupportedError("the model does not return one tensor")
    if ref.id in walk.unknown:
        raise UnsupportedError(walk.unknown[ref.id])
    found = walk.known[ref.id]
    if isinstance(found, (Uniform, Tensor)):
        raise UnsupportedError("the model's output does not depend on the graph")
    wanted = None
    if decodes(given.problem):
        wanted = next(space for space in given.spaces if space.label == "pairs")
    if found.layout != Layout(0) or found.ids:
        raise UnsupportedError("the model's output is not one row per node")
    space = found.space
    fits = space is (wanted or given.all_nodes) or (
        wanted is None and _is_all_nodes(space, given.all_nodes.size)
    )
    if not fits:
        raise UnsupportedError(f"the model's output has rows of {space.label}")
    return found.value


def _is_all_nodes(space: Space, total: int) -> bool:
    if space.size != total or space.ends.size(0) < 1:
        return False
    return bool((space.ends == torch.arange(total)).all())
