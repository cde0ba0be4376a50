"""Long questions that a person waits for: their progress, and how they are cancelled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nora.progress import listening


class CancelledError(Exception):
    """The question was cancelled."""


@dataclass
class Job:
    """One question in work; a page polls it, and cancels it by closing its request."""

    what: str = ""
    done: float = 0.0
    total: float | None = None
    cancelled: bool = False

    def step(self, what: str, done: float, total: float | None) -> None:
        """Keep how far the work is; raise where it is to end."""
        if self.cancelled:
            raise CancelledError(what)
        self.what, self.done, self.total = what, done, total

    def of(self, question: Callable[[], Any]) -> Callable[[], Any]:
        """The question, reporting its progress to this job."""

        def ask() -> Any:
            with listening(self.step):
                return question()

        return ask

    def state(self) -> dict[str, Any]:
        """How far it is."""
        return {"what": self.what, "done": self.done, "total": self.total}
