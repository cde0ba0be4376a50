"""The most influential edges, as the page lists and draws them.

Every edge is removed by itself. Where that would take long, those at the most influential nodes come first,
and the page says how many were removed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from nora.methods.auto import Budget
from nora.methods.exact import engine_for
from nora.progress import progress_bar
from nora.questions.score import Batch, measuring_of, score
from nora.questions.session import Session

LISTED = 100
# How long the page may take to find them.
SECONDS = 5.0
# How many edges go between two looks at the clock: by the engine few at first, each of which may reach a
# large part of the graph, then more and more; by full passes one.
AT_FIRST, AT_ONCE = 16, 1024
# As many as there is time for, about: it is for these that the engine is compared with the definition.
REMOVED = 5000


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges by influence, the most influential first, and none without any.

    Attributes:
        source: One end of each `[k]`.
        target: The other end `[k]`.
        influence: The summed change of all predictions without it `[k]`.
        flips: How many predictions go to another class without it `[k]`.
        scored: How many edges were removed.
        of: How many there are.
        directed: Whether edges go one way.
    """

    source: np.ndarray
    target: np.ndarray
    influence: np.ndarray
    flips: np.ndarray
    scored: int
    of: int
    directed: bool


def first_edges(
    session: Session, influence: np.ndarray, most: int = LISTED, progress: bool = False
) -> Edges | None:
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
        budget = Budget(SECONDS, least=1)
        scored, at_once = 0, AT_FIRST if ready[0] is not None else 1
        while scored < len(order) and not budget.over(scored):
            part = batch.pick(torch.arange(scored, min(scored + at_once, len(order))))
            for edges, values, _ in score(session, problem, part, measuring, ready=ready):
                found[edges] = values
            scored += len(part)
            advance(len(part))
            at_once = min(2 * at_once, AT_ONCE) if ready[0] is not None else 1
    change, flips = found.nan_to_num().numpy().T
    first = np.argsort(-change, kind="stable")[:most]
    first = first[change[first] > 0]
    return Edges(
        source=ends[0].numpy()[first],
        target=ends[1].numpy()[first],
        influence=change[first],
        flips=flips[first].astype(int),
        scored=scored,
        of=len(order),
        directed=not session.edges.paired(None),
    )
