"""The effect of removing every node, or every edge: computed in the background, in slices so short that no
question waits long.

Likely leaders come first, so that a ranking is useful early: nodes of high degree, and edges between
nodes that have few others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nora.explorer.network import Network
from nora.explorer.worker import LATER, Worker
from nora.graph.edit_batch import EditBatch
from nora.model import Problem
from nora.model.measuring import Measuring
from nora.questions.score import Batch, collected, measuring_of, score
from nora.results.exactness import is_exact
from nora.results.influence import Influence

# How long a slice may take: as long as a click may wait for it.
SLICE_SECONDS = 0.04
# In a large graph one removal alone may take longer: it then waits until no question came for so long.
COURTESY_SECONDS = 2.0
LARGEST_SLICE = 4000
# Scores in one message of the stream.
PART = 5000


class Ranking:
    """Scores as they are computed, with listeners.

    Args:
        network: What is explored.
        worker: Who asks the session.
        scores: Influences of nodes that are known already.
        of: `nodes` or `edges`: what is removed, one at a time, and ranked.
        measure: As in `nora.influence`.

    Attributes:
        order: What is scored, in this order: nodes by id, edges by their place in `Network.edge_pairs` `[n]`.
        scores: Their influences `[n]`; NaN where not known yet.
        done: How many of `order` are known.
        status: `waiting`, `running`, `paused`, `done` or `failed`.
        problem: Why it failed.
    """

    def __init__(
        self,
        network: Network,
        worker: Worker,
        scores: Influence | None = None,
        *,
        of: str = "nodes",
        measure: str = "change",
    ) -> None:
        self.network, self.worker = network, worker
        self.of, self.measure = of, measure
        if of == "nodes":
            self.order = np.argsort(-network.degree, kind="stable")
        else:
            ends = [network.degree[side] for side in network.edge_pairs]
            self.order = np.argsort(np.minimum(*ends), kind="stable")
        self.scores = np.full(len(self.order), np.nan)
        self.done, self.status, self.problem = 0, "waiting", ""
        self.method, self.exact, self.signed = "exact", True, False
        self._size, self._took = 1, 0.0
        self._lock = threading.Lock()
        self._listeners: set[Callable[[], None]] = set()
        if scores is not None:
            self._take(scores)
        else:
            # All of them in the end, however few at a time.
            network.session.prepared.expect(network.num_nodes)

    def _take(self, scores: Influence) -> None:
        known = scores.scores.detach().cpu().double().numpy()
        if known.shape != self.scores.shape:
            raise ValueError(
                f"scores must have one entry per node, {len(self.scores)}; got {len(known)}"
            )
        self.scores, self.method = known, scores.method
        self.exact = is_exact(scores)
        asked = ~np.isnan(known)
        self.order = np.concatenate([self.order[asked[self.order]], self.order[~asked[self.order]]])
        self.done, self.status = len(known), "done"

    def start(self) -> None:
        """Start, or resume after a pause."""
        with self._lock:
            if self.status not in ("waiting", "paused"):
                return
            self.status = "running" if len(self.order) else "done"
        self._notify()
        self.worker.submit(LATER, self._slice)

    def pause(self) -> None:
        """Stop after the slice that is in work."""
        with self._lock:
            if self.status == "running":
                self.status = "paused"
        self._notify()

    def state(self) -> dict[str, Any]:
        """How far it is; `preparing` while it waits for the engine."""
        waits = self.status == "running" and not self.network.session.prepared.ready
        return {
            "done": self.done,
            "total": len(self.order),
            "status": "preparing" if waits else self.status,
            "problem": self.problem,
            "method": self.method,
            "exact": self.exact,
            "signed": self.signed,
        }

    def part(self, cursor: int) -> tuple[int, dict[str, Any]]:
        """The next scores beyond `cursor`: where to go on; ids, scores and `state`.

        A part with more behind it is `running`, and `done` counts what was sent: a client that follows
        the scores stops at the last part, not at the first.
        """
        state = self.state()
        known = state["done"]
        ids = self.order[cursor : min(known, cursor + PART)]
        values = [None if np.isnan(one) else float(one) for one in self.scores[ids]]
        reached = cursor + len(ids)
        if reached < known:
            state |= {"done": reached, "status": "running"}
        return reached, {"id": ids.tolist(), "influence": values, **state}

    @property
    def has_listeners(self) -> bool:
        """Whether any page follows it."""
        return bool(self._listeners)

    def best_first(self) -> np.ndarray:
        """Places of what is known, the largest first; in size where values have signs."""
        value = np.abs(self.scores) if self.signed else self.scores
        found = np.argsort(-value, kind="stable")
        return found[: int((~np.isnan(value)).sum())]

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have a function called whenever there is news; call what is returned to end that."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def _notify(self) -> None:
        for listener in list(self._listeners):
            listener()

    @cached_property
    def _asked(self) -> tuple[Problem, Measuring]:
        """The question on the classes that the measure looks at, and what is summed."""
        session = self.network.session
        problem, measuring = measuring_of(session, session.problem(), self.measure, None)
        self.signed = measuring.measures[measuring.first].signed
        return problem, measuring

    def _batch(self, ids: Tensor) -> Batch:
        if self.of == "edges":
            removals = EditBatch.remove_edges(*self.network.pair_edges).pick(ids)
            return Batch("edges", ids, removals)
        return Batch.nodes(ids)

    def _influences(self, ids: Tensor) -> Tensor:
        """As `Session.influence` or `edge_influence`, without all that is checked before a long run."""
        session, (problem, measuring) = self.network.session, self._asked
        with problem.evaluating(), torch.no_grad():
            parts = score(session, problem, self._batch(ids), measuring, count=len(self.order))
            table, _ = collected(parts, len(self.scores), len(measuring.columns))
        return table[ids, 0].double()

    def _work(self, ids: np.ndarray) -> None:
        """Find out about these, and keep it."""
        self.scores[ids] = self._influences(torch.from_numpy(ids)).numpy()

    def _slice(self) -> None:
        if self.status != "running":
            return
        if self._took > 4 * SLICE_SECONDS and self.worker.idle() < COURTESY_SECONDS:
            later = threading.Timer(0.25, lambda: self.worker.submit(LATER, self._slice))
            later.daemon = True
            later.start()
            return
        start = time.perf_counter()
        ids = self.order[self.done : self.done + self._size]
        try:
            self._work(ids)
        except Exception as error:
            self.status, self.problem = "failed", str(error).splitlines()[0] if str(error) else ""
            self._notify()
            return
        self.done += len(ids)
        took = self._took = max(time.perf_counter() - start, 1e-4)
        self._size = int(
            np.clip(self._size * SLICE_SECONDS / took, max(self._size // 2, 1), 2 * self._size)
        )
        self._size = min(max(self._size, 1), LARGEST_SLICE)
        with self._lock:
            if self.done >= len(self.order):
                self.status = "done"
            again = self.status == "running"
        self._notify()
        if again:
            self.worker.submit(LATER, self._slice)
