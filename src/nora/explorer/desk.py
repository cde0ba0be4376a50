"""Where questions are answered: kept by what was asked, and of one page the latest first.

A request holds all edits, so that the server need remember nothing of a page; what it keeps is a bounded
number of answers, and of each page the number of its latest question.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any

from nora.explorer.answers import nothing, told
from nora.explorer.changes import Change, Key, as_edits, edge_kinds, features_of
from nora.explorer.network import Network
from nora.explorer.refusal import Refused
from nora.explorer.worker import LATER, NOW, SOON, Worker

ANSWERS, PAGES = 400, 200
CONTRADICTIONS = (ValueError, TypeError, IndexError, NotImplementedError)


class Kept:
    """The answers used last, at most so many.

    >>> kept = Kept(2)
    >>> kept["a"], kept["b"] = 1, 2
    >>> kept.get("a"), kept.get("c")
    (1, None)
    >>> kept["c"] = 3
    >>> kept.get("b"), len(kept)
    (None, 2)
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._held: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: Hashable) -> Any:
        """What is kept under a key, or None."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def __setitem__(self, key: Hashable, value: Any) -> None:
        with self._lock:
            self._held[key] = value
            self._held.move_to_end(key)
            while len(self._held) > self.most:
                self._held.popitem(last=False)


class Desk:
    """Answers about one network, one after the other."""

    def __init__(self, network: Network, worker: Worker) -> None:
        self.network, self.worker = network, worker
        self.kept = Kept(ANSWERS)
        self._latest = Kept(PAGES)

    def effect(self, changes: Key, page: str = "", number: int = 0) -> Future[dict[str, Any]]:
        """What these edits change, all together.

        Args:
            changes: The edits.
            page: Who asks; "" for nobody in particular.
            number: The page's questions count upwards: a later one makes an earlier one void.
        """
        if page:
            self._latest[page] = max(number, self._latest.get(page) or 0)
        found = self.kept.get(("effect", changes))
        if found is not None:
            return _settled(found)

        def ask() -> dict[str, Any]:
            if page and number < (self._latest.get(page) or 0):
                raise Refused(409, "a later question of the same page came before")
            return self._effect(changes)

        return self.worker.submit(NOW, ask)

    def singles(self, changes: Key) -> Future[list[dict[str, Any]]]:
        """What each of these edits changes by itself: in all, and how many flips."""
        asked = [self.kept.get(("effect", (one,))) for one in changes]
        if all(one is not None for one in asked):
            return _settled([_short(one) for one in asked])
        return self.worker.submit(
            SOON, lambda: [_short(self._effect((one,), contradictory=True)) for one in changes]
        )

    def _effect(self, changes: Key, contradictory: bool = False) -> dict[str, Any]:
        found = self.kept.get(("effect", changes))
        if found is None:
            if changes:
                try:
                    edits = as_edits(changes, self.network.session)
                    found = told(self.network.session.what_if(edits), self.network)
                except (Refused, *CONTRADICTIONS) as error:
                    if contradictory:
                        return {"total": None, "flips": None}
                    if isinstance(error, Refused):
                        raise
                    raise Refused(422, str(error)) from error
            else:
                found = nothing(self.network)
            self.kept["effect", changes] = found
        return found

    def practise(self) -> None:
        """Ask one question of each kind beforehand: the first of a kind is compared with the definition."""
        network, session = self.network, self.network.session
        source, target = network.ties
        if len(source):
            ends = int(source[0]), int(target[0])
            self.worker.submit(LATER, lambda: self._effect((Change("cut", ends),), True))
        try:
            value = float(features_of(0, session)[0]) + 1.0
        except (Refused, IndexError):
            pass
        else:
            change = Change("set", (0,), 0, value)
            self.worker.submit(LATER, lambda: self._effect((change,), True))
        kinds = edge_kinds(session)
        if network.num_nodes > 2 and not session.node_index.types and not kinds[0]["values"]:
            near = set(network.neighbours(0).tolist()) | {0}
            free = next((node for node in range(network.num_nodes) if node not in near), None)
            if free is not None:
                tie = Change("add", (0, free))
                self.worker.submit(LATER, lambda: self._effect((tie,), True))

    def ask(self, key: Hashable, question: Callable[[], Any]) -> Future[Any]:
        """Any other question, kept under a key."""
        found = self.kept.get(key)
        if found is not None:
            return _settled(found)

        def work() -> Any:
            try:
                answer = question()
            except CONTRADICTIONS as error:
                raise Refused(422, str(error)) from error
            self.kept[key] = answer
            return answer

        return self.worker.submit(SOON, work)


def _short(found: dict[str, Any]) -> dict[str, Any]:
    return {key: found[key] for key in ("total", "flips")}


def _settled(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future
