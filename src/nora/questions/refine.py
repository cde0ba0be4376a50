"""Refine an estimate: its first nodes exactly, and how far the others may be off.

The nodes that an estimate puts first are removed for real, and ranked by the result; those that move up
to their places are computed in turn, until the first ones are all exact or the time is up. A sample spread
evenly over the ranking is removed as well: it shows how well the estimate agrees with the definition, where
most nodes are and not only at the hubs which rule Pearson's correlation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from nora.graph.edit_batch import EditBatch
from nora.methods import METHODS
from nora.methods.auto import Budget
from nora.methods.exact import engine_for
from nora.progress import progress_bar
from nora.questions.score import Batch, score
from nora.questions.session import Session
from nora.results.agreement import pearson, spearman
from nora.results.exactness import YARDSTICKS, is_exact
from nora.results.influence import Influence

FIRST = 500
SAMPLED = 120
AT_ONCE = 64
# Seconds it may take, or this share of what scoring took, if that is more.
SECONDS, SHARE = 10.0, 0.25
# An estimate further off than this in all is of another scale, and is brought to the right one.
SCALE = 2.0
ROUNDING = 1e-6


def refined(
    session: Session,
    scores: Influence,
    least: int = 10,
    first: int = FIRST,
    progress: bool = False,
) -> Influence:
    """The scores with exact values for the first nodes and a sample; as they are if they are exact.

    `details["refined"]` then has `nodes`, the ids whose scores are exact, `sampled`, and how well the
    estimate agreed on the sample: `pearson`, `spearman`, `median_error` (relative), `factor` (four of five
    are within it), and `scale`, by which the other scores were multiplied.

    Args:
        session: The session of the scores.
        scores: Any method's.
        least: How many are refined in any case.
        first: How many if there is time.
        progress: Show a progress bar.
    """
    if not _can_be_refined(scores):
        return scores
    values = scores.scores.detach().cpu().double().numpy().copy()
    scored = np.flatnonzero(~np.isnan(values))
    exact = np.full(len(values), np.nan)
    sample = _spread(scored[np.argsort(-values[scored], kind="stable")])
    problem = session.problem()
    steps = min(first, len(scored)) + len(sample)
    bar = progress_bar("the first nodes and a sample, exactly", steps, progress)
    with bar as advance, problem.evaluating(), torch.no_grad():
        every = EditBatch.remove_nodes(torch.from_numpy(scored))
        ready = engine_for(problem, session.prepared, every, count=first + len(sample))
        # From here on: of a large graph, the passes that an engine is compared with take longer than that.
        budget = Budget(max(SECONDS, SHARE * scores.seconds), least)

        def compute(nodes: np.ndarray) -> None:
            batch = Batch.nodes(torch.from_numpy(nodes))
            for part, found, _ in score(session, problem, batch, ready=ready):
                exact[part.numpy()] = found[:, 0].double().numpy()
                advance(len(part))

        _in_parts(compute, sample, budget)
        known = sample[~np.isnan(exact[sample])]
        facts = _agreement(values[known], exact[known])
        values = values * facts["scale"]
        for wanted in (min(least, first), first):
            while True:
                now = np.where(np.isnan(exact), values, exact)
                order = scored[np.argsort(-now[scored], kind="stable")][:wanted]
                left = order[np.isnan(exact[order])]
                if not len(left) or budget.over(wanted - 1):
                    break
                compute(left[: AT_ONCE if ready[0] is not None else 1])
    done = np.flatnonzero(~np.isnan(exact))
    new = scores.scores.detach().cpu().double().clone()
    new[:] = torch.from_numpy(np.where(np.isnan(exact), values, exact))
    facts = {"nodes": done.tolist(), **facts}
    given: dict[str, Any] = {"scores": new, "details": {**scores.details, "refined": facts}}
    if scores.stderr is not None:
        error = scores.stderr.detach().cpu().double() * facts["scale"]
        error[torch.from_numpy(done)] = 0.0
        given["stderr"] = error
    return replace(scores, **given)


def _can_be_refined(scores: Influence) -> bool:
    if is_exact(scores) or scores.method in YARDSTICKS or "refined" in scores.details:
        return False
    # A custom method may score something else than influence.
    entry = METHODS.get(scores.method)
    return entry is not None and entry.facts.uses_model


def _spread(order: np.ndarray) -> np.ndarray:
    """Nodes at equal distances in the ranking, from the first to the last."""
    if len(order) <= SAMPLED:
        return order
    start = np.random.default_rng(0).random()
    return order[((np.arange(SAMPLED) + start) * len(order) / SAMPLED).astype(int)]


def _in_parts(compute: Any, nodes: np.ndarray, budget: Budget) -> None:
    """All nodes, in an order that is spread over the ranking whenever the time is up."""
    shuffled = np.random.default_rng(0).permutation(nodes)
    for at in range(0, len(shuffled), AT_ONCE):
        if budget.over(at):
            break
        compute(shuffled[at : at + AT_ONCE])


def _agreement(estimate: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    """How well an estimate `[n]` agrees with the truth `[n]`, as JSON-able facts."""
    facts: dict[str, Any] = {"sampled": len(truth), "scale": 1.0}
    seen = truth > ROUNDING
    if len(truth) < 2 or not seen.any():
        return facts
    estimate = np.maximum(estimate, 0)
    size = float(estimate.sum() / truth.sum())
    if size > 0 and not 1 / SCALE <= size <= SCALE:
        facts["scale"] = 1 / size
        estimate = estimate / size
    with np.errstate(divide="ignore"):
        ratio = np.log(estimate[seen] / truth[seen])
    off = np.abs(estimate[seen] - truth[seen]) / truth[seen]
    factor = float(np.exp(np.quantile(np.abs(ratio), 0.8, method="higher")))
    agreement: Mapping[str, float] = {
        "pearson": pearson(estimate, truth),
        "spearman": spearman(estimate, truth),
        "median_error": float(np.median(off)),
        "factor": factor,
    }
    facts.update({key: value for key, value in agreement.items() if np.isfinite(value)})
    return facts
