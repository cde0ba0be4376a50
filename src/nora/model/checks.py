"""Checks of a model before any long work, by running it a few times."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.parameter import UninitializedParameter
from torch_geometric.data import Data
from torch_geometric.data.storage import N_KEYS

from nora.graph.removal import isolate_nodes, kept
from nora.model.by_id import by_id, moved_by_numbers, rounding
from nora.model.foreign import ModelCall, check_structure, clear_caches, clear_misfits, watched
from nora.model.hetero import HeteroForward
from nora.model.input_watcher import InputWatcher
from nora.model.misfit import MISFIT, advice, message_of
from nora.model.precomputed import precomputed
from nora.model.preserve import another_random_state
from nora.model.tasks.link_prediction import LinkPrediction
from nora.stacklevel import warn

if TYPE_CHECKING:
    from nora.model.problem import Problem


# Edges, and other nodes, of the part of a large graph on which a model is checked.
PART = 200


def check_model(problem: Problem, again: bool = True, call: ModelCall | None = None) -> Problem:
    """Run the model: it must accept the graph, fit the task, and be deterministic.

    Over a large graph it runs once; what else must be seen is seen on a part of the graph.

    Args:
        problem: The question.
        again: Whether to run it a second time here, to see that it is deterministic; a method that runs it
            on `G` once more anyway compares that pass itself (`check_same`).
        call: `(model, data) -> output` for the first pass, if something else is to be seen of it too.

    Returns:
        The problem, with the output it has now been seen to have, and with what removing a node means
        for this model.
    """
    if any(isinstance(p, UninitializedParameter) for p in problem.model.parameters()):
        raise ValueError(
            f"the model {type(problem.model).__name__} has layers that have not seen data yet (in_channels "
            "-1): run it once, and train it, before asking"
        )
    with problem.evaluating(), torch.no_grad():
        first, reading = _first_output(problem, call)
        if problem.direct:
            assert isinstance(problem.task, LinkPrediction)
            problem.task.check_pairs(problem.num_nodes)
            problem.task.check_scores(first, "the model")
        else:
            _check_labels(problem, first)
            problem.task.check(first, problem.num_nodes, _telling_rows(problem))
        problem = replace(problem, original=first)
        reading = clear_caches(problem, first, reading)
        part = _on_part(problem) if problem.is_large else None
        moves = _moves_with_nodes(problem, reading, part)
        check_structure(problem, reading, moves)
        reason = by_id(problem, reading, moves, runs_on_part=part is not None)
        if reason:
            warn(
                f"the model {type(problem.model).__name__} {reason}: a removed node keeps its id and "
                "loses its edges (it is isolated), instead of being deleted. To have nodes deleted, keep "
                "per-node values in data (data.x, or data.n_id to look them up)",
                RuntimeWarning,
            )
            problem = replace(problem, by_id=True)
        read = {source.name for source in reading.behind_output}
        _check_rows(problem, read)
        _check_precomputed(problem, read)
        if not reading.reads_edges and _ignores_graph(problem):
            raise ValueError(
                f"the model {type(problem.model).__name__} does not read the edges of this graph: without "
                "any of them it predicts the same, and every influence would be 0. Structure that was "
                "computed beforehand (SIGN's x1, x2, a propagated feature) needs transform=…, which "
                "computes it again without the removed node; edges that the model keeps itself must be "
                "read from data"
            )
    return problem


def _check_rows(problem: Problem, read: set[str]) -> None:
    """Raise if a graph has as many edges as nodes, so that the rows of a tensor could belong to either."""
    if not isinstance(problem.data, Data) or problem.edge_index.size(1) != problem.num_nodes:
        return
    for name, value in problem.data.items():
        clear = "edge" in name or "node" in name or name in N_KEYS | {"y", "adj_t"}
        rows = isinstance(value, Tensor) and value.dim() and len(value) == problem.num_nodes
        if f"data.{name}" in read and rows and not clear and not name.endswith("_mask"):
            raise ValueError(
                f"the graph has {problem.num_nodes} nodes and as many edges, so that data.{name} may hold "
                f"rows of either: rename it node_{name} or edge_{name}"
            )


def _check_precomputed(problem: Problem, read: set[str]) -> None:
    """Warn of structure that was computed before the model sees the graph; refuse it if asked to."""
    if problem.transform is not None:
        return
    for what, transform in precomputed(problem.data, read):
        message = (
            f"{what}: it was computed from the whole graph and does not change when a node is removed, so "
            f"influences miss its part. Leave it out of data, and pass transform={transform}: NORA then "
            "applies it to the graph without the removed node"
        )
        if problem.strict:
            raise ValueError(message)
        warn(message, RuntimeWarning)


def _first_output(problem: Problem, call: ModelCall | None) -> tuple[Tensor, InputWatcher]:
    """The output on `G` and what the pass has read, or an error that says how the model is called."""
    try:
        try:
            first, reading = watched(problem, call)
        except MISFIT:
            if not clear_misfits(problem):
                raise
            first, reading = watched(problem)
    except MISFIT as error:
        if "writes into its parameter" in str(error):
            raise
        raise ValueError(
            f"the model {type(problem.model).__name__} could not be run on this graph: "
            f"{message_of(error)}. {advice(problem, error)}"
        ) from error
    if not isinstance(first, Tensor):
        raise TypeError(
            f"the model returned {type(first).__name__}, expected one tensor; pass "
            "forward=lambda model, data: … that picks it"
        )
    return first, reading


def _wanted(problem: Problem) -> str | None:
    """The type of the nodes that are classified, where nodes have types."""
    forward = problem.forward
    wanted = forward.wanted if isinstance(forward, HeteroForward) else ()
    return wanted[0] if wanted and problem.task.item == "node" else None


def _telling_rows(problem: Problem) -> Tensor | None:
    """Mask `[N]` of the output's rows that are predictions; None for all."""
    wanted = _wanted(problem)
    return None if wanted is None else problem.node_index.mask(wanted).to(problem.device)


def _check_labels(problem: Problem, output: Tensor) -> None:
    """Raise when the graph's labels speak against the task."""
    wanted = _wanted(problem)
    y = (problem.data if wanted is None else problem.data[wanted]).get("y")
    if isinstance(y, Tensor):
        problem.task.check_labels(y, output)


def _moves_with_nodes(problem: Problem, reading: InputWatcher, part: Problem | None) -> bool:
    """Whether predictions are permuted with the nodes when these are renumbered, by one more pass.

    A part of a large graph shows it, unless numbers from elsewhere may be ids of nodes that are not in it.

    Raises:
        ValueError: When the model is not deterministic, which would look the same.
    """
    seen = problem if part is None or reading.uses or reading.numbers or reading.rows else part
    with another_random_state():
        moved = moved_by_numbers(seen)
    if moved > 1e-5:
        check_deterministic(seen)
    return moved <= rounding(seen.output().dtype)


def check_deterministic(problem: Problem) -> None:
    """Raise when a second pass predicts something else: over the graph, or over a part of a large one."""
    if problem.is_large:
        problem = _on_part(problem) or problem
    with another_random_state():
        output = problem.run(problem.asked(problem.data, problem.task))
    check_same(problem, output)


def _on_part(problem: Problem) -> Problem | None:
    """The question on a small part of the graph, with its output; None where the model cannot be run there.

    The part is induced by the ends of some random edges, and random nodes.
    """
    random, edges = torch.Generator().manual_seed(0), problem.edge_index
    some = torch.randint(edges.size(1), (PART,), generator=random).to(edges.device)
    others = torch.randint(problem.num_nodes, (PART,), generator=random)
    keep = ~kept(torch.cat([edges[:, some].flatten().cpu(), others]), problem.num_nodes)
    task, _ = problem.task.survivors(keep.to(problem.device))
    data = problem.without((~keep).nonzero().flatten())
    part = replace(problem, data=data, task=task, targets=None, original=None)
    try:
        output = part.run(part.asked(data, task))
    except Exception:  # whatever the model does on a part of a graph
        return None
    if not isinstance(output, Tensor) or part.wrong_rows(output, task, part.num_nodes):
        return None
    part = replace(part, original=output)
    return part if len(part.predict()) else None


def check_same(problem: Problem, output: Tensor) -> None:
    """Raise when the output of another pass over the same graph predicts something else."""
    again, before = problem.predicted(output, problem.task), problem.predict()
    difference = (before.float() - again.float()).abs()
    # On a part of a graph, nodes without edges may be NaN, or infinite.
    difference[(before == again) | (before.isnan() & again.isnan())] = 0
    # Scatter on several threads may add in another order: allow rounding, nothing more.
    allowed = max(1e-4, 4 * torch.finfo(before.dtype).eps) * problem.task.scale(before)
    if difference.numel() and not float(difference.max()) <= allowed:
        raise ValueError(
            f"the model {type(problem.model).__name__} is not deterministic in eval mode: two "
            f"passes over the same graph differ by {float(difference.max()):.3g}. Is dropout called with "
            "training=True, or a random state drawn in forward?"
        )


def _ignores_graph(problem: Problem) -> bool:
    """Whether the model predicts the same without any edge, and without either half of the nodes."""
    source, target = problem.edge_index
    if not bool((source != target).any()):
        return False
    nodes = torch.arange(problem.num_nodes)
    bare = isolate_nodes(problem.data, nodes)
    try:
        if not torch.equal(problem.run(problem.asked(bare, problem.task)), problem.output()):
            return False
        for half in (nodes[::2], nodes[1::2]):  # it may read something of all nodes, if no edges
            found, survivors = problem.predict_without(half)
            if not torch.allclose(found, problem.predict()[survivors], equal_nan=True):
                return False
    except Exception:  # a model may need edges, or most of its nodes
        return False
    return True
