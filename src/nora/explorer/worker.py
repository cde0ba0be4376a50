"""One thread that asks the session: what a person waits for goes before what runs in the background."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

NOW, SOON, LATER = 0, 1, 2


class Worker:
    """A queue of functions that one thread executes, urgent ones first.

    A session is asked by one thread at a time; cancelling the future of a function that waits takes it out.

    >>> worker = Worker()
    >>> worker.submit(NOW, lambda: 6 * 7).result()
    42
    >>> worker.close()
    """

    def __init__(self) -> None:
        self._queue: queue.PriorityQueue[Any] = queue.PriorityQueue()
        self._number = itertools.count()
        self._asked = -float("inf")
        self._thread = threading.Thread(target=self._work, name="nora-explorer", daemon=True)
        self._thread.start()

    def submit(self, urgency: int, function: Callable[[], Any]) -> Future[Any]:
        """Have a function called; its value or exception is the future's."""
        future: Future[Any] = Future()
        if urgency < LATER:
            self._asked = time.monotonic()
        self._queue.put((urgency, next(self._number), function, future))
        return future

    def idle(self) -> float:
        """Seconds since the last urgent question."""
        return time.monotonic() - self._asked

    def close(self, timeout: float = 10.0) -> None:
        """Stop after what is in work now."""
        self._queue.put((-1, next(self._number), None, None))
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _work(self) -> None:
        while True:
            _, _, function, future = self._queue.get()
            if function is None:
                return
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)
