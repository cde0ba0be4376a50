"""The most influential edges, as the page lists and draws them.

Every edge is removed by itself. Where that would take long, those at the most influential nodes come first,
and the page says how many were removed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import torch

from nora.engine.effects import Effects
from nora.graph.edit_batch import EditBatch
from nora.progress import progress_bar
from nora.questions.measured import How, measuring_of, sums_of, why_not_followed
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
    removals = EditBatch.remove_edges(*session.edge_units)
    problem, measuring = measuring_of(session, session.problem(), ["change", "flips"], None)
    bar = progress_bar("influential edges, as many as there is time for", len(order), progress)
    with bar as advance, problem.evaluating(), torch.no_grad():
        asked = min(len(order), REMOVED)
        effects = Effects.prepare(problem, session.prepared, "exact", asked)
        if effects.engine is not None and why_not_followed(effects.engine, removals):
            effects = replace(effects, engine=None)
        # Comparing with the definition has taken passes: it is done whatever the time.
        deadline = time.perf_counter() + SECONDS
        scored, at_once = 0, AT_FIRST if effects.engine is not None else 1
        while scored < len(order) and not (scored and time.perf_counter() > deadline):
            part = order[scored : scored + at_once]
            for which, values in sums_of(effects, removals.pick(part), measuring, How()):
                found[part[which.cpu()]] = values
            scored += len(part)
            advance(len(part))
            at_once = min(2 * at_once, AT_ONCE) if effects.engine is not None else 1
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
