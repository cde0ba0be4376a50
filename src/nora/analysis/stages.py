"""The stages of an analysis: how long each took, and a bar for those that show none of their own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from nora.progress import Advance, progress_bar


@dataclass
class Stages:
    """Seconds that each stage took.

    Attributes:
        progress: Whether to show bars.
        seconds: By the stage's name.
    """

    progress: bool = True
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measured(self, name: str) -> Iterator[None]:
        """Measure what is done inside, which shows its own progress."""
        start = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - start, 3)

    @contextmanager
    def shown(self, name: str, steps: int | None = None) -> Iterator[Advance]:
        """The same with a bar, of so many steps if that is known beforehand."""
        with self.measured(name), progress_bar(name, steps, self.progress) as advance:
            yield advance
