"""Before a long run: does the engine give what the definition gives?"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nora.incremental.changed import Removals
from nora.incremental.engine import Engine
from nora.incremental.steps import Chunk
from nora.removal import kept, remove_nodes

# Below this many removals for every verified one, checking would cost more than the run.
REMOVALS_PER_CHECK = 100


class VerificationError(RuntimeError):
    """The engine and brute force disagree: a rule is wrong, or the model is not what it seems."""


def tolerated(dtype: torch.dtype) -> float:
    """Largest difference, relative to the largest influence, that rounding explains."""
    return 1e-9 if dtype == torch.double else 1e-3


def verify_engine(engine: Engine, count: int, seed: int) -> dict[str, Any]:
    """Compare random removals with brute force.

    Short runs are checked in proportion: one removal in a hundred, at least one.

    Raises:
        VerificationError: When they differ; the message names the first convolution that does.
    """
    problem = engine.problem
    if len(problem.nodes) == 0:
        return {}
    count = max(1, min(count, len(problem.nodes) // REMOVALS_PER_CHECK))
    generator = torch.Generator().manual_seed(seed)
    chosen = problem.nodes[torch.randperm(len(problem.nodes), generator=generator)[:count]]
    device = problem.data.edge_index.device
    with torch.no_grad():
        found = engine.influences(Removals.single(chosen.to(device)), tolerance=0.0).cpu()
        truth = torch.stack(
            [
                problem.total_change(engine.before, *problem.predict_without(node))
                for node in chosen.split(1)
            ]
        ).cpu()
    scale = max(float(truth.abs().max()), 1e-3 * engine.before.numel() ** 0.5)
    error = float((found - truth).abs().max()) / scale
    if error > tolerated(truth.dtype):
        worst = chosen[(found - truth).abs().argmax()]
        raise VerificationError(
            f"the incremental result for node {int(worst)} differs from brute force by "
            f"{error:.2g} of the largest influence, first in {first_difference(engine, worst)}; "
            "use method='brute', or verify=0 to go on regardless"
        )
    return {"verified": count, "verified_error": error}


def first_difference(engine: Engine, node: Tensor) -> str:
    """Name of the first convolution whose output on `G − node` the plan gets wrong."""
    problem, plan = engine.problem, engine.plan
    outputs: list[Tensor] = []
    handles = [
        problem.model.get_submodule(name.removeprefix("model.")).register_forward_hook(
            lambda module, args, output: outputs.append(output)
        )
        for name in dict.fromkeys(name for name, _ in plan.convolutions)
    ]
    removed = node.reshape(1).to(problem.data.edge_index.device)
    try:
        with torch.no_grad():
            problem.forward(problem.model, remove_nodes(problem.data, removed))
    finally:
        for handle in handles:
            handle.remove()
    # The finished plan has composed steps and freed rows: a fresh, unfinished one still has all.
    from nora.incremental.trace import trace

    with torch.no_grad():
        fresh = trace(problem, finish=False)
        chunk = Chunk(Removals.group(removed), plan.num_nodes, engine.backend)
        keep = kept(removed, plan.num_nodes)
        for (name, value), truth in zip(fresh.convolutions, outputs, strict=True):
            rows = value.whole().clone()
            changed = fresh.run_to(value, chunk)
            if len(changed):
                rows[changed.node] = changed.rows
            difference = (rows[keep] - truth).abs().max() / truth.abs().max().clamp(min=1e-12)
            if float(difference) > tolerated(truth.dtype):
                conv = problem.model.get_submodule(name.removeprefix("model."))
                return f"{name.removeprefix('model.')} ({type(conv).__name__})"
    return "the maps between the convolutions"
