"""Before a run: does the engine give what the definition gives, and is it faster?"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

from nora.incremental.changed import Removals
from nora.incremental.engine import Engine
from nora.incremental.plan import UnsupportedError

# Checking more often than this would cost more than the run itself.
REMOVALS_PER_CHECK = 2500
FEWEST, MOST = 4, 8
# Runs shorter than this are not worth a second thought.
SHORT_SECONDS = 0.5


def tolerated(dtype: torch.dtype) -> float:
    """Largest difference of two probabilities that rounding explains."""
    return {torch.double: 1e-9, torch.float: 1e-4}.get(dtype, 5e-2)


def verify_engine(engine: Engine, count: int | None, seed: int) -> dict[str, Any]:
    """Compare every prediction after a few removals with brute force, and the time both take.

    Predictions are compared rather than influences: summed over all nodes, brute force's own
    rounding can exceed a small influence. The removals are spread: the node with most edges, one with
    few, a neighbour of the first, and random ones. Without a `count` long runs check 8 and short
    ones fewer: one in 2,500, at least 4.

    Raises:
        UnsupportedError: When they differ; the caller then falls back.
    """
    problem = engine.problem
    if len(problem.nodes) == 0:
        return {}
    if count is None:
        count = min(max(FEWEST, len(problem.nodes) // REMOVALS_PER_CHECK), MOST)
    chosen = spread_removals(engine, count, seed)
    largest, brute_seconds = 0.0, 0.0
    for node in chosen.split(1):
        start = time.perf_counter()
        with torch.no_grad():
            truth, survivors = problem.predict_without(node)
            brute_seconds += time.perf_counter() - start
            found = engine.effect(node)[survivors]
        error = float((found - truth).abs().nan_to_num(torch.inf).max()) if truth.numel() else 0.0
        largest = max(largest, error)
        if not error <= tolerated(truth.dtype):
            name = problem.numbering.named([int(node)])[0]
            raise UnsupportedError(
                f"without node {name} its predictions would differ from the definition's by up to "
                f"{error:.2g}"
            )
    engine_seconds = _seconds(engine, chosen)
    if engine_seconds > brute_seconds:
        engine_seconds = _seconds(engine, chosen)  # the first time, loops may have been compiled
    return {
        "verified": len(chosen),
        "verified_error": largest,
        "seconds_per_removal": engine_seconds / len(chosen),
        "brute_seconds_per_removal": brute_seconds / len(chosen),
    }


def _seconds(engine: Engine, nodes: Tensor) -> float:
    engine = engine.with_tolerance(engine.tolerance, engine.compensate)  # with a tally of its own
    start = time.perf_counter()
    with torch.no_grad():
        engine.influences(Removals.single(nodes))
    return time.perf_counter() - start


def is_slower(checked: dict[str, Any], removals: int) -> bool:
    """Whether brute force would be done before the engine, by what checking them has taken."""
    brute = checked.get("brute_seconds_per_removal", float("inf"))
    if brute * removals < SHORT_SECONDS:
        return False
    return bool(checked.get("seconds_per_removal", 0.0) > brute)


def spread_removals(engine: Engine, count: int, seed: int) -> Tensor:
    """Nodes to check: the one with most edges, one with fewest, a neighbour, random ones."""
    problem = engine.problem
    edge_index = problem.edge_index
    nodes = problem.nodes.to(edge_index.device)
    edges_at = torch.bincount(edge_index.flatten(), minlength=problem.num_nodes)
    generator = torch.Generator().manual_seed(seed)
    others = nodes[torch.randperm(len(nodes), generator=generator).to(nodes.device)]
    hub = others[edges_at[others].argmax()]
    linked = others[edges_at[others] > 0]
    leaf = linked[edges_at[linked].argmin()] if len(linked) else hub
    beside = torch.cat([edge_index[1][edge_index[0] == hub], edge_index[0][edge_index[1] == hub]])
    beside = beside[torch.isin(beside, nodes)][:1]
    wanted = torch.cat([hub.reshape(1), leaf.reshape(1), beside, others])
    distinct = list(dict.fromkeys(wanted[: count + 3].tolist()))
    return torch.tensor(distinct[:count], device=nodes.device)
