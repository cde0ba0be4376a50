"""Before a long run: does the engine give what the definition gives?"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nora.incremental.changed import Removals
from nora.incremental.engine import Engine
from nora.incremental.steps import Chunk
from nora.incremental.trace import trace
from nora.removal import kept, remove_nodes

# Checking more often than this would cost more than the run itself.
REMOVALS_PER_CHECK = 5000


class VerificationError(RuntimeError):
    """The engine and brute force disagree: a rule is wrong, or the model is not what it seems."""


def tolerated(dtype: torch.dtype) -> float:
    """Largest difference of two probabilities that rounding explains."""
    return 1e-9 if dtype == torch.double else 1e-4


def verify_engine(engine: Engine, count: int | None, seed: int) -> dict[str, Any]:
    """Compare every prediction after a few random removals with brute force.

    Predictions are compared rather than influences: summed over all nodes, brute force's own
    rounding can exceed a small influence. One of them is the node with most edges. Without a `count`
    long runs check 8 removals and short ones fewer: one in 5,000, at least two.

    Raises:
        VerificationError: When they differ; the message names the first convolution that does.
    """
    problem = engine.problem
    if len(problem.nodes) == 0:
        return {}
    edge_index = problem.edge_index
    nodes = problem.nodes.to(edge_index.device)
    edges_at = torch.bincount(edge_index.flatten(), minlength=problem.num_nodes)
    hub = nodes[edges_at[nodes].argmax()].reshape(1)
    count = min(max(2, len(nodes) // REMOVALS_PER_CHECK), 8) if count is None else count
    generator = torch.Generator().manual_seed(seed)
    others = nodes[torch.randperm(len(nodes), generator=generator).to(nodes.device)]
    chosen = torch.cat([hub, others[others != hub]])[:count]
    largest = 0.0
    for node in chosen.split(1):
        with torch.no_grad():
            truth, survivors = problem.predict_without(node)
            found = engine.effect(node)[survivors]
        error = float((found - truth).abs().max()) if truth.numel() else 0.0
        largest = max(largest, error)
        if not error <= tolerated(truth.dtype):
            name = problem.numbering.named([int(node)])[0]
            raise VerificationError(
                f"without node {name} the incremental predictions differ from brute force by up "
                f"to {error:.2g}, first in {first_difference(engine, node)}; use method='brute', or "
                "verify=0 to go on regardless"
            )
    return {"verified": len(chosen), "verified_error": largest}


def first_difference(engine: Engine, node: Tensor) -> str:
    """Name of the first convolution whose output on `G − node` the plan gets wrong."""
    problem, plan = engine.problem, engine.plan
    outputs: list[Tensor] = []
    handles = [
        engine.module(name).register_forward_hook(
            lambda module, args, output: outputs.append(output)
        )
        for name in dict.fromkeys(name for name, _ in plan.convolutions)
    ]
    removed = node.reshape(1).to(problem.device)
    try:
        with torch.no_grad():
            problem.forward(problem.model, remove_nodes(problem.data, removed))
    finally:
        for handle in handles:
            handle.remove()
    # The finished plan has composed steps and freed rows: a fresh, unfinished one still has all.
    with torch.no_grad():
        fresh = trace(problem, finish=False)
        chunk = Chunk(Removals.group(removed), plan.num_nodes, engine.backend)
        keep = kept(removed, plan.num_nodes)
        for (name, value), truth in zip(fresh.convolutions, outputs, strict=True):
            if not isinstance(truth, Tensor) or len(truth) != int(keep.sum()):
                continue  # of one node type, or several: cannot be told apart here
            rows = value.whole().clone()
            changed = fresh.run_to(value, chunk)
            if len(changed):
                rows[changed.node] = changed.rows
            difference = (rows[keep] - truth).abs().max() / truth.abs().max().clamp(min=1e-12)
            if not float(difference) <= tolerated(truth.dtype):
                return f"{name.removeprefix('model.')} ({type(engine.module(name)).__name__})"
    return "the maps between the convolutions"
