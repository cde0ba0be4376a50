"""Certified top-k: screen all nodes cheaply, refine the best exactly, certify the result.

No removal changes more than what it reaches. A prediction that `L` layers cannot carry a change to
stays as it is, and one that is reached moves by at most 2 (the L1 distance of two distributions), a link
by at most 1, and where a model returns probabilities of its own every class by at most 1. That bounds
every node's influence without computing it. Candidates are refined in the order of their screening scores
until no node that is left could enter the top `k`, or the budget ends.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from nora.arguments import check_number, check_whole
from nora.engine.engine import Engine
from nora.engine.exec.kernels.choice import FLOATS
from nora.graph.edit_batch import EditBatch
from nora.graph.node_index import Graph
from nora.methods import METHODS
from nora.methods.auto import Budget
from nora.methods.exact import engine_for
from nora.model import Problem
from nora.model.measuring import MeasureNames
from nora.model.task import Task
from nora.questions.executors import remote_for, saved_for
from nora.questions.frontier import frontier_bound
from nora.questions.influence import bind_options
from nora.questions.score import Batch, collected, method_parts, one_measure, score, tracked
from nora.questions.session import Session
from nora.questions.session_options import CountingOptions, takes_session_options
from nora.questions.workers import Question
from nora.results.top import Top

# Refined between two looks at the clock.
AT_ONCE = 256
# Tolerance of the estimates that candidates are ordered by, and the degrees of freedom of their errors.
SCREENED, TAILS = 0.05, 5


@takes_session_options(CountingOptions)
def top(
    model: nn.Module,
    data: Graph,
    k: int = 100,
    task: Task | None = None,
    *,
    budget: float = 60.0,
    screen: str = "auto",
    measure: MeasureNames = "change",
    executor: Any = None,
    progress: bool = True,
    **about: Unpack[CountingOptions],
) -> Top:
    """Find the `k` most influential nodes, with exact scores and a certificate.

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The graph.
        k: How many nodes to find.
        task: What is predicted; node classification from logits by default.
        budget: Seconds for computing exact scores. At least `k` nodes are computed; screening takes
            additional time.
        screen: The method that orders the candidates. Default: estimates with standard errors (`exact` with a
            tolerance), which also give the probability that no other node belongs to the top `k`. If the
            model has no layers that can be estimated, `cauchy`; if `exact` does not support the model,
            `pagerank`.
        measure: What is summed over the predictions that change, as in `nora.influence`. Measures that can be
            negative rank by absolute value. If a measure has no upper bound (`loss`, a function), nothing is
            certified before all nodes are scored.
        executor: Where exact scores are computed, as in `nora.influence`. Screening runs in this process.
        progress: Show progress bars.
        **about: Arguments of `nora.Session`.

    Returns:
        The nodes, their scores, and how many of them are certified to be in the true top `k`.

    Example:
        >>> import nora
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> best = nora.top(run.model, run.data, k=3, progress=False)
        >>> len(best.nodes), best.certified
        (3, 3)
    """
    session = Session(model, data, task, **about, once=True)
    return session.top(
        k, budget=budget, screen=screen, measure=measure, executor=executor, progress=progress
    )


def certified_top(
    session: Session,
    k: int,
    budget: float,
    screen: str,
    progress: bool,
    measure: MeasureNames = "change",
    executor: Any = None,
) -> Top:
    """See `top`."""
    _check_k(k, budget, session.num_nodes)
    start = time.perf_counter()
    asked = session.problem()
    problem, measuring = one_measure(session, asked, measure, "top ranks")
    name, what = next(iter(measuring.measures.items()))
    largest = None if measuring.definition else what.largest
    exact = torch.full((problem.num_nodes,), float("nan"), dtype=torch.double)
    with problem.evaluating(), torch.no_grad(), saved_for(session, executor):
        ready = engine_for(problem, session.prepared, EditBatch.remove_nodes(problem.nodes))
        bound = frontier_bound(problem, ready[0], largest)
        screen, screened, error, screening = _screened(session, asked, screen, ready[0], progress)
        # What cannot matter is last, whatever its screening score.
        order = torch.minimum(screened.double(), bound * (1 if largest is None else torch.inf))
        order = order.nan_to_num(0.0).argsort(descending=True)
        remote = remote_for(session, executor, Question("nodes", measure))
        at_once = 1 if remote is None and ready[0] is None else AT_ONCE
        limit, done, looked = Budget(budget, k), 0, 0
        batch = Batch.nodes(order)
        refined = score(
            session, problem, batch, measuring, at_once=at_once, ready=ready, remote=remote
        )
        refined = tracked(refined, len(batch), "top: refining", progress)
        for nodes, values, _ in refined:
            exact[nodes] = values[:, 0].cpu().double()
            done += len(nodes)
            if done - looked < at_once:
                continue  # how parts are cut must not decide when to stop
            looked = done
            if limit.over(done) or _settled(exact.abs(), bound, k):
                refined.close()
                break
    left = exact.isnan()
    rest = float(bound[left].max()) if bool(left.any()) else 0.0
    best = exact.abs().nan_to_num(-1.0).argsort(descending=True, stable=True)[:k]
    return Top(
        nodes=problem.node_index.named(best.tolist()),
        scores=tuple(exact[best].tolist()),
        certified=int((exact[best].abs() >= rest).sum()),
        refined=int((~left).sum()),
        num_nodes=problem.num_nodes,
        rest=rest,
        seconds=time.perf_counter() - start,
        screened_by={"method": screen, "seconds": screening},
        names=session.names,
        measure=name,
        confidence=_confidence(exact, screened, error, k) if measuring.definition else None,
    )


def _check_k(k: int, budget: float, num_nodes: int) -> None:
    """Raise before any work where the options do not fit."""
    check_whole("k", k)
    check_number("budget", budget)
    Budget(budget)
    if not 1 <= k <= num_nodes:
        raise ValueError(f"k must lie between 1 and {num_nodes} nodes, got {k}")


def _confidence(exact: Tensor, screened: Tensor, error: Tensor | None, k: int) -> float | None:
    """How likely it is that no node exceeds the `k`-th exact score but those that were refined, at least."""
    if error is None:
        return None
    from scipy.stats import t

    left = exact.isnan().numpy()
    last = float(exact[~exact.isnan()].topk(k).values[-1])
    off = np.maximum(error.cpu().double().numpy()[left], 1e-300)
    # Errors have longer tails than a normal distribution.
    exceeds = t.sf((last - screened.cpu().double().numpy()[left]) / off, TAILS)
    return float(np.clip(1 - exceeds.sum(), 0.0, 1.0))


def _screened(
    session: Session, problem: Problem, screen: str, engine: Engine | None, progress: bool
) -> tuple[str, Tensor, Tensor | None, float]:
    """The method that orders the candidates, its scores and standard errors `[N]`, and its seconds."""
    # What needs the engine would take as long as scoring all nodes, and gradients want full precision.
    followed = engine is not None and engine.before.dtype in FLOATS
    options: dict[str, Any] = {}
    if screen == "auto":
        samples = engine is not None and bool(engine.importance.rows)
        screen, options = ("exact", {"tolerance": SCREENED}) if samples else ("cauchy", {})
    if not followed and METHODS[screen].facts.uses_model:
        screen, options = "pagerank", {}
    start = time.perf_counter()
    if session.restricted and not METHODS[screen].facts.uses_targets:
        entry = METHODS[screen]
        asked = replace(problem, targets=None)
        parts = method_parts(entry, asked, bind_options(entry, {}), session.prepared)
        scores = collected(parts, problem.num_nodes, 1)[0][:, 0]
        return screen, scores, None, time.perf_counter() - start
    found = session.influence(screen, progress=progress, **options)
    return screen, found.scores, found.stderr, time.perf_counter() - start


def _settled(exact: Tensor, bound: Tensor, k: int) -> bool:
    """Whether no node that is left could enter the top `k`."""
    left = exact.isnan()
    if int((~left).sum()) < k:
        return False
    last = float(exact[~left].topk(k).values[-1])
    return not bool(left.any()) or last >= float(bound[left].max())
