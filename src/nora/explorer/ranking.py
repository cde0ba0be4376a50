"""The influence of all nodes, found out in the background, in slices short enough that nobody waits.

Nodes of high degree come first: they are the likely leaders, so that the ranking is soon worth looking at.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nora.engine.effects import Effects
from nora.explorer.network import Network
from nora.explorer.worker import LATER, Worker
from nora.results.exactness import is_exact
from nora.results.influence import Influence

# How long a slice may take: as long as a click may wait for it.
SLICE_SECONDS = 0.04
LARGEST_SLICE = 4000


class Ranking:
    """Scores that come in, told to whoever listens.

    Attributes:
        order: Nodes in the order in which they are scored `[N]`.
        scores: Their influences `[N]`, by node; NaN where not known yet.
        done: How many of `order` are known.
        status: `waiting`, `running`, `paused`, `done` or `failed`.
        problem: Why it failed.
    """

    def __init__(self, network: Network, worker: Worker, scores: Influence | None = None) -> None:
        self.network, self.worker = network, worker
        self.order = np.argsort(-network.degree, kind="stable")
        self.scores = np.full(network.num_nodes, np.nan)
        self.done, self.status, self.problem = 0, "waiting", ""
        self.method, self.exact = "exact", True
        self._size = 1
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
            raise ValueError(f"scores of {len(known)} nodes for a graph of {len(self.scores)}")
        self.scores, self.method = known, scores.method
        self.exact = is_exact(scores)
        asked = ~np.isnan(known)
        self.order = np.concatenate([self.order[asked[self.order]], self.order[~asked[self.order]]])
        self.done, self.status = len(known), "done"

    def start(self) -> None:
        """Begin, or go on after a pause."""
        with self._lock:
            if self.status not in ("waiting", "paused"):
                return
            self.status = "running"
        self._tell()
        self.worker.submit(LATER, self._slice)

    def pause(self) -> None:
        """Stop after the slice that is in work."""
        with self._lock:
            if self.status == "running":
                self.status = "paused"
        self._tell()

    def state(self) -> dict[str, Any]:
        """How far it is."""
        return {
            "done": self.done,
            "total": len(self.order),
            "status": self.status,
            "problem": self.problem,
            "method": self.method,
            "exact": self.exact,
        }

    def part(self, cursor: int, most: int = 5000) -> tuple[int, dict[str, Any]]:
        """What is known beyond `cursor`: where to go on, ids and scores."""
        ids = self.order[cursor : min(self.done, cursor + most)]
        values = [None if np.isnan(one) else float(one) for one in self.scores[ids]]
        return cursor + len(ids), {"id": ids.tolist(), "influence": values}

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have a function called whenever there is news; call what is returned to end that."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def _tell(self) -> None:
        for listener in list(self._listeners):
            listener()

    def _influences(self, ids: Tensor) -> np.ndarray:
        """As `Session.influence`, without all that is checked before a long run."""
        session = self.network.session
        problem = session.problem()
        found = np.full(len(self.scores), np.nan)
        with problem.evaluating(), torch.no_grad():
            effects = Effects.prepare(problem, session.prepared, "exact", len(ids))
            for part, scores in effects.totals(ids):
                found[part.cpu().numpy()] = scores.detach().cpu().double().numpy()
        return found[ids.numpy()]

    def _slice(self) -> None:
        if self.status != "running":
            return
        start = time.perf_counter()
        ids = self.order[self.done : self.done + self._size]
        try:
            found = self._influences(torch.from_numpy(ids))
        except Exception as error:
            self.status, self.problem = "failed", str(error).splitlines()[0] if str(error) else ""
            self._tell()
            return
        self.scores[ids] = found
        self.done += len(ids)
        took = max(time.perf_counter() - start, 1e-4)
        self._size = int(
            np.clip(self._size * SLICE_SECONDS / took, max(self._size // 2, 1), 2 * self._size)
        )
        self._size = min(max(self._size, 1), LARGEST_SLICE)
        with self._lock:
            if self.done >= len(self.order):
                self.status = "done"
            again = self.status == "running"
        self._tell()
        if again:
            self.worker.submit(LATER, self._slice)
