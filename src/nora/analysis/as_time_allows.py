"""Compute the parts of a page, each within its share of the page's time.

Every edge is removed by itself; where that would take long, those at the most influential nodes come first.
What the removal of a node changes is asked from the first node on. Fragile predictions need all removals, so
a few are tried to see whether all would fit.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch

from nora.engine.effects import Effects
from nora.graph.edit_batch import EditBatch
from nora.methods.auto import Budget
from nora.methods.exact import engine_for
from nora.model.tasks.link_prediction import LinkPrediction
from nora.progress import progress_bar
from nora.questions.each import outcomes_of
from nora.questions.score import Batch, measuring_of, score
from nora.questions.session import Session
from nora.report.consequences import Consequence, consequence, consequence_of
from nora.report.options import ReportOptions
from nora.report.ranked_edges import RankedEdges

# How long each question may take, and how many effects are found in any case.
SECONDS, LEAST = {"edges": 5.0, "effects": 8.0, "fragile": 8.0}, 30
# How many go between two looks at the clock: few at first, each of which may change all predictions of a
# large graph, then as many as take a quarter of the time; of edges more and more, by full passes one.
AT_FIRST, AT_ONCE = 8, 128
EDGES_AT_FIRST, EDGES_AT_ONCE = 16, 1024
# As many edges as there is time for, about: it is for these that the engine is compared with the definition.
REMOVED = 5000
# By how many removals the time of all is foreseen: by the engine, by passes.
TRIED, TRIED_BY_PASSES = 64, 4


def first_edges(
    session: Session, influence: np.ndarray, most: int = ReportOptions.edges, progress: bool = False
) -> RankedEdges | None:
    """The `most` most influential edges of those that there is time for; None where there is none.

    Args:
        session: The session.
        influence: Influences of nodes `[N]`, by which edges are taken; NaN where not known.
        most: How many.
        progress: Show a progress bar.
    """
    ends = session.every_edge[None]
    if not most or not ends.size(1):
        return None
    at_ends = torch.from_numpy(np.nan_to_num(influence)).double()[ends].sum(dim=0)
    order = at_ends.argsort(descending=True, stable=True)
    found = torch.full((len(order), 2), float("nan"), dtype=torch.double)
    problem, measuring = measuring_of(session, session.problem(), ["change", "flips"], None)
    bar = progress_bar("influential edges, as many as there is time for", len(order), progress)
    with bar as advance, problem.evaluating(), torch.no_grad():
        batch, asked = Batch.edges(session, order), min(len(order), REMOVED)
        ready = engine_for(problem, session.prepared, batch.removals, count=asked)
        # Comparing with the definition has taken passes: it is done whatever the time.
        budget = Budget(SECONDS["edges"], least=1)
        scored, at_once = 0, EDGES_AT_FIRST if ready[0] is not None else 1
        while scored < len(order) and not budget.over(scored):
            part = batch.pick(torch.arange(scored, min(scored + at_once, len(order))))
            for edges, values, _ in score(session, problem, part, measuring, ready=ready):
                found[edges] = values
            scored += len(part)
            advance(len(part))
            at_once = min(2 * at_once, EDGES_AT_ONCE) if ready[0] is not None else 1
    change, flips = found.nan_to_num().numpy().T
    first = np.argsort(-change, kind="stable")[:most]
    first = first[change[first] > 0]
    return RankedEdges(
        source=ends[0].numpy()[first],
        target=ends[1].numpy()[first],
        influence=change[first],
        flips=flips[first].astype(int),
        scored=scored,
        of=len(order),
        directed=not session.edges.paired(None),
    )


def consequences_of(
    session: Session, nodes: Sequence[int], least: int = LEAST, progress: bool = False
) -> dict[int, Consequence]:
    """The effects of removing each of these nodes, in their order, as many as time allows."""
    found: dict[int, Consequence] = {}
    pairs, at, at_once = None, 0, AT_FIRST
    if isinstance(session.task, LinkPrediction):
        pairs = session.task.pairs.cpu().numpy()
    start = time.perf_counter()
    with progress_bar("what removals change, as time allows", len(nodes), progress) as advance:
        while at < len(nodes) and not (
            at >= least and time.perf_counter() - start > SECONDS["effects"]
        ):
            begun = time.perf_counter()
            part = list(nodes[at : at + at_once])
            if session.task.predicts == "labels":
                found_here = {node: consequence(session.what_if(node)) for node in part}
            else:
                found_here = {
                    one.node: consequence_of(one, pairs) for one in outcomes_of(session, part)
                }
            found.update((node, found_here[node]) for node in part if node in found_here)
            advance(len(part))
            at += len(part)
            each = (time.perf_counter() - begun) / len(part)
            at_once = int(min(max(SECONDS["effects"] / 4 / max(each, 1e-9), 1), AT_ONCE))
    return found


def fragile_counts(session: Session) -> np.ndarray | None:
    """Removals of one node that flip each node `[N]`, −1 where its prediction does not count.

    None where predictions are not classes, or all removals would take longer than the page may.
    """
    if session.task.predicts != "classes" or _foreseen_seconds(session) > SECONDS["fragile"]:
        return None
    found = session.fragile(progress=False)
    return torch.where(found.counted, found.counts, -1).numpy()


def _foreseen_seconds(session: Session) -> float:
    problem = session.problem()
    nodes = torch.from_numpy(np.random.default_rng(0).permutation(session.num_nodes))
    with problem.evaluating(), torch.no_grad():
        effects = Effects.prepare(problem, session.prepared, "exact", TRIED)
        some = nodes[: TRIED if effects.engine is not None else TRIED_BY_PASSES]
        start = time.perf_counter()
        for _ in effects.moves(EditBatch.remove_nodes(some.to(effects.before.device))):
            pass
        return (time.perf_counter() - start) / len(some) * session.num_nodes
