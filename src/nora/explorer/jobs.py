"""Long requests: their progress and cancellation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nora.progress import listening


class CancelledError(Exception):
    """The question was cancelled."""


@dataclass
class Job:
    """A running request; a page polls its progress, and cancels it by closing the connection."""

    what: str = ""
    done: float = 0.0
    total: float | None = None
    cancelled: bool = False

    def step(self, what: str, done: float, total: float | None) -> None:
        """Store the progress; raise if the job was cancelled."""
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
        """The progress."""
        return {"what": self.what, "done": self.done, "total": self.total}
