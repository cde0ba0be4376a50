"""The definition's numbers by incremental recomputation: only what a removal changes.

Removing `r` changes nothing beyond the reach of the model's layers. The engine in
`nora.engine` keeps the original rows of every layer and recomputes, for many removals at once,
only the rows that change.

With `tolerance > 0` the scores are estimates. Of the rows that a removal reaches only some are computed,
drawn at random by how much they matter, and count for the others (`nora.engine.sampling`); the tolerance
is the relative error that is aimed at, for hubs and leaves alike. A few removals, of hubs and of leaves, are
done exactly beside their estimates. They show how far estimates are off on this model and graph: scores are
corrected by their bias, and every score gets its standard error from the rest (`nora.engine.calibration`).
The 20 first are then computed exactly. Where errors are much more than the tolerance, a warning says so.

`pruning="drop"` leaves out whatever is small instead: a node whose change would shift its message to its
neighbours by less than `tolerance` times the mean L1 size of messages at that layer is not propagated
further. The result is then an underestimate, mostly; `Influence.details["pruned_share"]` says which share
of the summed message changes was left out.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import replace
from typing import Any, get_args

import torch

from nora.engine.backends.choice import BackendName
from nora.engine.calibration import estimated
from nora.engine.changed import Removals
from nora.engine.engine import Engine, Pruning
from nora.engine.plan import UnsupportedError
from nora.engine.prepared import Prepared
from nora.engine.verification import is_slower
from nora.memory import parse_bytes
from nora.methods import METHODS, MethodFacts, Part
from nora.methods.brute import brute
from nora.problem import Problem
from nora.problem.checks import check_deterministic
from nora.stacklevel import warn


@METHODS.register(
    "exact",
    "the definition's numbers, incrementally: hundreds of times faster than brute",
    MethodFacts(
        uses_engine=True,
        exact=True,
        runs_again=True,
        execution_options=("memory", "verify", "workers", "backend", "seed"),
        errors_unless={"tolerance": (0.0,), "pruning": ("drop",)},
    ),
)
def exact(
    problem: Problem,
    prepared: Prepared,
    *,
    tolerance: float = 0.0,
    pruning: Pruning = "random",
    memory: str | float = "2GB",
    verify: int | None = None,
    workers: int | None = None,
    backend: BackendName = "auto",
    seed: int = 0,
) -> Generator[Part, None, dict[str, Any]]:
    """Yield `F(r)` chunk by chunk.

    Args:
        problem: The question.
        prepared: What is prepared for the exact engine.
        tolerance: 0 is exact; see the module for what more means.
        pruning: What a tolerance leaves out: `random` or `drop`.
        memory: What the chunks in work may take together, e.g. `"2GB"`.
        verify: Removals compared with `brute` before the run; 0 for none. By default 8 in long runs,
            fewer in short ones: one in 5,000, at least 2.
        workers: Threads; all cores by default.
        backend: `compiled` (numba, CPU), `vectorised` (torch, any device) or `auto`.
        seed: Seed of the verified removals, and of the draws that a tolerance makes.
    """
    if not tolerance >= 0:
        raise ValueError(f"tolerance must not be negative, got {tolerance}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    if verify is not None and verify < 0:
        raise ValueError(f"verify must not be negative, got {verify}")
    if pruning == "random" and tolerance >= 1:
        raise ValueError(
            f"tolerance is the relative error aimed at, and must be below 1, got {tolerance:g}; 0.05 is a "
            "good start"
        )
    if pruning not in get_args(Pruning):
        raise ValueError(f"pruning is {pruning!r}; it must be one of {get_args(Pruning)}")
    budget = parse_bytes(memory)
    as_it_comes = backend == "auto" and verify is None and tolerance == 0
    if as_it_comes and not prepared.pays(problem, len(problem.nodes)):
        with torch.no_grad():
            check_deterministic(problem)
            yield from brute(problem)
        return {"backend": "brute", "reason": "a full pass for every node takes no longer here"}
    try:
        engine = prepared.engine(problem, backend, len(problem.nodes))
        checked = {} if verify == 0 else prepared.verify(engine, verify, seed)
        pruned = engine.with_tolerance(tolerance, pruning, seed)
        if pruned.sampling is not None and not engine.worth.rows:
            warn(
                "a tolerance saves nothing with this model: none of its layers can be estimated by rows that "
                "are drawn (sums and attention of known convolutions can), so scores will be exact",
                UserWarning,
            )
    except UnsupportedError as reason:
        warn(f"exact falls back to brute force: {reason}", RuntimeWarning)
        with torch.no_grad():
            check_deterministic(problem)
            yield from brute(problem)
        return {"fallback": str(reason)}
    if tolerance == 0 and is_slower(checked, len(problem.nodes)):
        with torch.no_grad():
            yield from brute(problem)
        return {
            **checked,
            "backend": "brute",
            "reason": "a full pass for every node takes no longer here",
        }
    start = time.perf_counter()
    done: list[torch.Tensor] = []
    facts: dict[str, Any] = {}
    try:
        if pruned.sampling is not None:
            facts["estimated"] = yield from _estimated(
                engine, pruned, problem, budget, workers, done
            )
        else:
            for part in pruned.scores(problem.nodes, budget, workers):
                done.append(part[0])
                yield part
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        # What went well for the verified removals may still meet a case that a step does not know.
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        rest = problem.nodes[~torch.isin(problem.nodes, torch.cat([*done, problem.nodes[:0]]))]
        warn(
            f"exact falls back to brute force for {len(rest)} nodes: a step failed ({told})",
            RuntimeWarning,
        )
        with torch.no_grad():
            yield from brute(replace(problem, nodes=rest))
        return {"fallback": told, **checked}
    if pruned.tally.full_passes:
        facts["full_passes"] = pruned.tally.full_passes
    if tolerance > 0 and pruning == "drop":
        facts["pruned_share"] = pruned.tally.share
    return {
        "backend": engine.backend.__name__.rpartition(".")[2],
        "removal_seconds": time.perf_counter() - start,
        **checked,
        **facts,
    }


def _estimated(
    engine: Engine,
    pruned: Engine,
    problem: Problem,
    memory: int,
    workers: int | None,
    done: list[torch.Tensor],
) -> Generator[Part, None, dict[str, Any]]:
    """Yield estimates with their standard errors; first some nodes that are exact. Returns what these say."""
    found = estimated(engine, pruned, Removals.single(problem.nodes.cpu()), memory, workers)
    try:
        while True:
            which, scores, errors = next(found)
            nodes = problem.nodes[which.to(problem.nodes.device)]
            done.append(nodes)
            yield nodes, scores, errors
    except StopIteration as stop:
        facts: dict[str, Any] = stop.value
        return facts
