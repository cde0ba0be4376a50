"""Before a run: does the engine give what the definition gives, and is it faster?

After a removal every prediction is compared with a full pass. On large graphs a full pass takes long: there
the predictions of a few nodes are compared, by a pass over only the nodes that can change them. The program
says which these are, so a wrong reach shows, too.
"""

from __future__ import annotations

import random
import time
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing

from nora.engine.engine import Engine
from nora.engine.rounding import tolerated
from nora.engine.store.array_store import make_room
from nora.engine.unsupported import UnsupportedError, described
from nora.graph.edit_batch import EditBatch
from nora.graph.removal import kept
from nora.model import Problem

# Checking more often than this would cost more than the run itself.
REMOVALS_PER_CHECK = 5000
FEWEST, MOST = 2, 8
# Where a pass takes no longer than this, a few more are nothing to wait for.
QUICK_SECONDS, QUICK = 0.01, 4
# A chunk that takes no longer may take as long with many more removals: so many are timed then.
STARTING_SECONDS, MANY = 0.1, 64
# Operations of a convolution, and of any other layer, about.
OF_CONVOLUTION, OF_LAYER = 20, 2
# What a pass takes, in seconds, about: per operation, per node and weight, per convolution and edge.
PER_OPERATION, PER_WEIGHT, PER_EDGE = 1.5e-5, 5e-11, 5e-8
# What preparing an engine takes: full passes, and seconds per operation that is recorded.
PASSES, PER_RECORDED = 6, 1.6e-3
# An engine may turn out to be no faster: preparing it must not take more than this share of brute force.
PREPARING_SHARE = 0.2
# Runs shorter than this are not worth a second thought.
SHORT_SECONDS = 0.5
# On large graphs: predictions that are compared after a removal, of which so many should not change; and the
# share of the nodes that may matter to them for a pass over these to be worth it.
COMPARED, UNCHANGED, WORTH_IT = 5, 2, 0.25


def removals_to_verify(problem: Problem, asked: int | None = None) -> int:
    """How many removals to compare: 8 in long runs, one in 5,000 in short ones, at least 2; 4 where quick.

    Args:
        problem: The question.
        asked: How many removals will be asked for; by default all of the problem's.
    """
    seconds = [found.seconds for found in problem.checked_removals.values()]
    fewest = QUICK if min(seconds, default=problem.passes.seconds) < QUICK_SECONDS else FEWEST
    asked = len(problem.nodes) if asked is None else asked
    return min(max(fewest, asked // REMOVALS_PER_CHECK), MOST)


def verify_engine(engine: Engine, count: int, seed: int, fully: bool = False) -> dict[str, Any]:
    """Compare predictions after a few removals with brute force, and the time both take.

    Predictions are compared rather than influences: summed over all nodes, brute force's own
    rounding can exceed a small influence. The removals are spread: the node with most edges and one of
    its neighbours, which earlier checks have computed on their way, one with few, and random ones.

    Args:
        engine: The engine.
        count: How many removals.
        seed: Seed of the random ones.
        fully: Compare every prediction, however large the graph.

    Raises:
        UnsupportedError: When they differ; the caller then falls back.
    """
    problem = engine.problem
    if len(problem.nodes) == 0:
        return {}
    seconds = [found.seconds for found in problem.checked_removals.values()]
    chosen = spread_removals(engine, count, seed)
    largest, by_part = 0.0, 0
    for node in chosen.split(1):
        error = None if fully or not problem.is_large else _difference_nearby(engine, node, seed)
        by_part += error is not None
        largest = max(largest, _difference(engine, node, seconds) if error is None else error)
    a_pass = min(seconds, default=problem.passes.seconds)
    facts = {
        "verified": len(chosen),
        "verified_error": largest,
        "seconds_per_removal": _seconds_per_removal(engine, chosen, a_pass, seed),
        "brute_seconds_per_removal": a_pass,
    }
    # After so many removals, only some predictions were compared.
    return facts | ({"verified_by_part": by_part} if by_part else {})


def _difference_nearby(engine: Engine, node: Tensor, seed: int) -> float | None:
    """How far a few predictions are from the definition after a removal, by a pass over a part of the graph.

    The part has all nodes that can change these predictions, by the program. None where a full pass must
    decide: the part is not much smaller than the graph, something fails, or predictions differ, as the model
    may do something else on a part.
    """
    problem, program = engine.problem, engine.program
    local = program.is_local and problem.task.item == "node" and not problem.by_id
    if not local or program.output.space.size != problem.num_nodes:
        return None
    with torch.no_grad():
        try:
            changes = engine.changes_of(EditBatch.of(node))
        except (
            Exception
        ):  # an operation in a case that it does not know: the full comparison says which
            return None
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(changes.item), generator=generator)[: COMPARED - UNCHANGED]
        others = torch.randint(problem.num_nodes, (COMPARED - len(order),), generator=generator)
        centres = torch.cat([changes.item[order].cpu(), others]).unique().to(problem.device)
        centres = centres[centres != node]
        found = engine.before[centres]
        moved = torch.isin(centres, changes.item)
        found[moved] = changes.after[torch.searchsorted(changes.item, centres[moved])]
        part = program.within_reach(centres)
        part[node] = False
        removed = (~part).nonzero().flatten()
        if len(removed) < (1 - WORTH_IT) * problem.num_nodes:
            return None
        make_room()
        try:
            truth, survivors = problem.predict_without(removed)
        except Exception:  # whatever the model does on a part of the graph
            return None
    at = (survivors.cumsum(0) - 1)[centres]
    error = _apart(found, truth[at])
    close = error <= tolerated(truth.dtype) * problem.task.scale(engine.before)
    return error if close else None


def compare_with(engine: Engine, problem: Problem, removals: int) -> None:
    """Compare an engine from elsewhere with the model: all predictions, and those after a few removals.

    The removals are random, so that a changed engine cannot be right for them alone.

    Args:
        engine: The engine.
        problem: The same question, of which nothing is known but the model and the graph.
        removals: How many.

    Raises:
        UnsupportedError: When they differ.
    """
    with torch.no_grad():
        error = _apart(engine.before, problem.predict())
    if not error <= tolerated(engine.before.dtype) * problem.task.scale(engine.before):
        raise UnsupportedError(f"its predictions differ from the model's by up to {error:.2g}")
    count = min(removals, problem.num_nodes)
    for node in random.SystemRandom().sample(range(problem.num_nodes), count):
        _difference(engine, torch.tensor([node], device=problem.device), [], problem)


def _apart(found: Tensor, truth: Tensor) -> float:
    """The largest difference of two tensors; infinite where one alone is NaN."""
    apart = (found - truth).abs().nan_to_num(torch.inf)
    apart[(found == truth) | (found.isnan() & truth.isnan())] = 0
    return float(apart.max()) if truth.numel() else 0.0


def _difference(
    engine: Engine, node: Tensor, seconds: list[float], problem: Problem | None = None
) -> float:
    """How far a removal is from the definition; what a pass takes is added to `seconds`."""
    problem = engine.problem if problem is None else problem
    with torch.no_grad():
        if int(node) in problem.checked_removals:
            keep = kept(node.to(problem.device), problem.num_nodes)
            task, survivors = problem.task.survivors(keep)
            truth = problem.predicted(problem.checked_removals[int(node)].output, task)
        else:
            make_room()
            start = time.perf_counter()
            truth, survivors = problem.predict_without(node)
            seconds.append(time.perf_counter() - start)
        try:
            found = engine.effect_of(EditBatch.of(node))[survivors]
        except Exception as failed:  # an operation in a case that it does not know
            raise UnsupportedError(f"an operation does not run ({described(failed)})") from failed
    if found.shape != truth.shape:
        raise UnsupportedError(
            "after the removal of a node the model returns an unexpected number of rows"
        )
    error = _apart(found, truth)
    if not error <= tolerated(truth.dtype) * problem.task.scale(engine.before):
        name = problem.node_index.named([int(node)])[0]
        raise UnsupportedError(
            f"without node {name} its predictions would differ from the definition's by up to "
            f"{error:.2g}"
        )
    return error


def _seconds_per_removal(engine: Engine, nodes: Tensor, a_pass: float, seed: int) -> float:
    """The engine's time for one removal of many; measured closely only if a pass seems faster."""
    taken = _seconds(engine, nodes)
    if taken > a_pass * len(nodes):
        taken = _seconds(engine, nodes)  # the first time, loops may have been compiled
    if taken > a_pass * len(nodes) and taken < STARTING_SECONDS:
        # So few removals mostly show what starting a chunk takes.
        nodes = spread_removals(engine, MANY, seed)
        taken = _seconds(engine, nodes)
    return taken / len(nodes)


def _seconds(engine: Engine, nodes: Tensor) -> float:
    engine = engine.with_tolerance(0)  # with a tally of its own
    start = time.perf_counter()
    with torch.no_grad():
        engine.influences(EditBatch.remove_nodes(nodes))
    return time.perf_counter() - start


def is_slower(checked: dict[str, Any], removals: int) -> bool:
    """Whether brute force would be done before the engine, by what checking them has taken."""
    brute = checked.get("brute_seconds_per_removal", float("inf"))
    if brute * removals < SHORT_SECONDS:
        return False
    return bool(checked.get("seconds_per_removal", 0.0) > brute)


def spread_removals(engine: Engine, count: int, seed: int) -> Tensor:
    """Nodes to check: the one with most edges, those that are known, one with few edges, random ones."""
    problem = engine.problem
    edge_index = problem.edge_index
    nodes = problem.nodes.to(edge_index.device)
    edges_at = torch.bincount(edge_index.flatten(), minlength=problem.num_nodes)
    generator = torch.Generator().manual_seed(seed)
    others = nodes[torch.randperm(len(nodes), generator=generator).to(nodes.device)]
    hub = nodes[edges_at[nodes].argmax()]  # as the recordings have it
    linked = others[edges_at[others] > 0]
    leaf = linked[edges_at[linked].argmin()] if len(linked) else hub
    known = torch.tensor(list(problem.checked_removals), dtype=torch.long, device=nodes.device)
    known = known[torch.isin(known, nodes)]
    wanted = torch.cat([hub.reshape(1), known, leaf.reshape(1), others])
    distinct = list(dict.fromkeys(wanted[: count + len(known) + 2].tolist()))
    return torch.tensor(distinct[:count], device=nodes.device)


def is_worth_preparing(problem: Problem, removals: float) -> bool:
    """Whether preparing an engine is cheap beside a full pass for every removal.

    By estimates from sizes alone: a clock would decide otherwise now and then, and the same call would
    not give the same last digits.
    """
    layers = [module for module in problem.model.modules() if not list(module.children())]
    convolutions = sum(isinstance(m, MessagePassing) for m in problem.model.modules())
    operations = OF_CONVOLUTION * (1 + convolutions) + OF_LAYER * len(layers)
    weights = sum(p.numel() for p in problem.model.parameters())
    a_pass = (
        PER_OPERATION * operations
        + PER_WEIGHT * weights * problem.num_nodes
        + PER_EDGE * (1 + convolutions) * problem.edge_index.size(1)
    )
    preparing = PASSES * a_pass + PER_RECORDED * operations
    return preparing <= PREPARING_SHARE * a_pass * removals
