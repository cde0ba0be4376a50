"""Answers about one network: cached by what was asked; of one page the latest question goes first.

A request holds all edits, so that the server need not remember a page; it keeps a bounded number of answers,
and the number of each page's latest question.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from nora.explorer.network import Network
from nora.explorer.page_edits import PageEdit, PageEdits, as_edits, edge_kinds, features_of_node
from nora.explorer.page_effects import effect_columns, no_effect
from nora.explorer.rejection import Rejected
from nora.explorer.worker import LATER, NOW, SOON, Worker

ANSWERS, PAGES = 400, 200
INVALID = (ValueError, TypeError, IndexError, NotImplementedError)


class LRUCache:
    """A cache of the most recently used values, safe to use from several threads.

    >>> cache = LRUCache(2)
    >>> cache["a"], cache["b"] = 1, 2
    >>> cache.get("a"), cache.get("c")
    (1, None)
    >>> cache["c"] = 3
    >>> cache.get("b"), len(cache)
    (None, 2)
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._held: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: Hashable) -> Any:
        """The value of a key, or None."""
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


class AnswerCache:
    """Answers about one network, computed one after the other.

    Attributes:
        recent: The latest answers.
    """

    def __init__(self, network: Network, worker: Worker) -> None:
        self.network, self.worker = network, worker
        self.recent = LRUCache(ANSWERS)
        self._latest = LRUCache(PAGES)

    def effect(self, edits: PageEdits, page: str = "", number: int = 0) -> Future[dict[str, Any]]:
        """The joint effect of these edits.

        Args:
            edits: The edits.
            page: The page that asks; "" for none in particular.
            number: The page's questions count upwards: a later one makes an earlier one void.
        """
        if page:
            self._latest[page] = max(number, self._latest.get(page) or 0)

        def ask() -> dict[str, Any]:
            if page and number < (self._latest.get(page) or 0):
                raise Rejected(409, "a later question of the same page came before")
            return self._effect(edits)

        found = self.recent.get(("effect", edits))
        return self.worker.submit(NOW, ask) if found is None else _completed(found)

    def singles(self, edits: PageEdits) -> Future[list[dict[str, Any]]]:
        """The effect of each of these edits alone: the total change, and the number of flips."""
        known = [self.recent.get(("effect", (one,))) for one in edits]
        if all(one is not None for one in known):
            return _completed([_summary(one) for one in known])
        return self.worker.submit(SOON, lambda: [self._alone(one) for one in edits])

    def _alone(self, edit: PageEdit) -> dict[str, Any]:
        """One edit's summary; unknown where it makes no sense without the others."""
        try:
            return _summary(self._effect((edit,)))
        except Rejected:
            return {"total": None, "flips": None}

    def _effect(self, edits: PageEdits) -> dict[str, Any]:
        found = self.recent.get(("effect", edits))
        if found is None:
            session = self.network.session
            try:
                found = no_effect(self.network)
                if edits:
                    effect = session.what_if(as_edits(edits, session))
                    found = effect_columns(effect, self.network)
            except INVALID as error:
                raise Rejected(422, str(error)) from error
            self.recent["effect", edits] = found
        return found

    def warm_up(self) -> None:
        """Ask one question of each kind beforehand: the first of a kind is compared with the definition."""
        network, session = self.network, self.network.session
        questions = []
        source, target = network.edge_pairs
        if len(source):
            questions.append(PageEdit("remove_edge", (int(source[0]), int(target[0]))))
        with suppress(Rejected, IndexError):  # where nodes have no features to set
            questions.append(PageEdit("set", (0,), 0, float(features_of_node(0, session)[0]) + 1.0))
        if not session.node_index.types and not edge_kinds(session)[0]["values"]:
            neighbours = {0, *network.neighbours(0).tolist()}
            free = next((node for node in range(network.num_nodes) if node not in neighbours), None)
            if free is not None:
                questions.append(PageEdit("add_edge", (0, free)))
        for edit in questions:
            self.worker.submit(LATER, lambda edit=edit: self._alone(edit))  # type: ignore[misc]

    def ask(self, key: Hashable, question: Callable[[], Any]) -> Future[Any]:
        """The answer to any other question, cached under a key."""
        found = self.recent.get(key)
        if found is not None:
            return _completed(found)

        def work() -> Any:
            try:
                answer = question()
            except INVALID as error:
                raise Rejected(422, str(error)) from error
            self.recent[key] = answer
            return answer

        return self.worker.submit(SOON, work)


def _summary(found: dict[str, Any]) -> dict[str, Any]:
    return {key: found[key] for key in ("total", "flips")}


def _completed(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future
