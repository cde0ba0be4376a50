"""The stages of an analysis: what each took, and a bar for those that show none of their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from nora.machine import held_memory, peak_memory, release_memory
from nora.progress import Advance, progress_bar

EVERY_SECONDS = 0.05


@dataclass
class Stages:
    """Seconds and memory that each stage took.

    Attributes:
        progress: Whether to show bars.
        seconds: By the stage's name.
        computing: Seconds of all cores together, by the stage's name.
        memory: The most bytes held during each stage, by its name; empty where it is not measured.
    """

    progress: bool = True
    seconds: dict[str, float] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    computing: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measured(self, name: str) -> Iterator[None]:
        """Measure what is done inside, which shows its own progress."""
        start, computed, before = time.perf_counter(), time.process_time(), peak_memory()
        with _watched() as most:
            yield
        self.seconds[name] = round(time.perf_counter() - start, 3)
        self.computing[name] = round(time.process_time() - computed, 3)
        after = peak_memory()
        if before is not None and after is not None:
            # The peak of the whole process is exact; samples where it did not rise.
            self.memory[name] = after if after > before else min(after, max(most))
        release_memory()

    @contextmanager
    def shown(self, name: str, steps: float | None = None) -> Iterator[Advance]:
        """The same with a progress bar, of this many steps if known."""
        with self.measured(name), progress_bar(name, steps, self.progress) as advance:
            yield advance


@contextmanager
def _watched() -> Iterator[list[int]]:
    """The most bytes held inside, looked at now and then."""
    most, done = [held_memory()], threading.Event()

    def look() -> None:
        while not done.wait(EVERY_SECONDS):
            most[0] = max(most[0], held_memory())

    watcher = threading.Thread(target=look, name="memory", daemon=True)
    watcher.start()
    try:
        yield most
    finally:
        done.set()
        watcher.join()
        most[0] = max(most[0], held_memory())
