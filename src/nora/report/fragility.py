"""How many single removals flip each node's prediction, where there is time to find out."""

from __future__ import annotations

import time

import numpy as np
import torch

from nora.engine.effects import Effects
from nora.graph.edit_batch import EditBatch
from nora.questions.session import Session

# How long the page may take to find out, and by how many removals that is foreseen: by the engine, by passes.
SECONDS = 8.0
TRIED, TRIED_BY_PASSES = 64, 4


def fragile_counts(session: Session, seed: int = 0) -> np.ndarray | None:
    """Removals of one node that flip each node `[N]`, −1 where its prediction does not count.

    None where predictions are no classes, or all removals would take longer than the page may.
    """
    if session.task.predicts != "classes" or _foreseen_seconds(session, seed) > SECONDS:
        return None
    found = session.fragile(progress=False)
    return torch.where(found.counted, found.counts, -1).numpy()


def _foreseen_seconds(session: Session, seed: int) -> float:
    problem = session.problem()
    nodes = torch.from_numpy(np.random.default_rng(seed).permutation(session.num_nodes))
    with problem.evaluating(), torch.no_grad():
        effects = Effects.prepare(problem, session.prepared, "exact", TRIED)
        some = nodes[: TRIED if effects.engine is not None else TRIED_BY_PASSES]
        start = time.perf_counter()
        for _ in effects.moves(EditBatch.remove_nodes(some.to(effects.before.device))):
            pass
        return (time.perf_counter() - start) / len(some) * session.num_nodes
