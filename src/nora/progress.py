"""Progress bars on standard error, for people only: silent without a terminal or notebook."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any

Advance = Callable[..., None]
# Called with what is being done, the steps done and their number; it may raise to end the work.
Listener = Callable[[str, float, float | None], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
# Columns of a terminal in which a bar of full length has room.
ROOMY = 130


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Report all progress within to a function, whether bars are shown or not.

    >>> steps = []
    >>> with listening(lambda *step: steps.append(step)):
    ...     with progress_bar("work", 2, show=False) as advance:
    ...         advance()
    >>> steps
    [('work', 0, 2), ('work', 1.0, 2)]
    """
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


@contextmanager
def progress_bar(
    description: str, total: float | None, show: bool = True, fields: str = ""
) -> Iterator[Advance]:
    """A bar with rate and time left; yields `advance(steps, **fields)`.

    Args:
        description: What is being done.
        total: How many steps there are; None where that is unknown.
        show: False for no bar at all.
        fields: Format of extra columns, e.g. `"loss {task.fields[loss]}"`.
    """
    listener, done = _listener.get(), 0.0
    if listener is not None:
        listener(description, 0, total)
    with _bar(description, total, show, fields) as advance:

        def step(steps: float = 1, **values: Any) -> None:
            nonlocal done
            done += steps
            if listener is not None:
                listener(description, done, total)
            advance(steps, **values)

        yield step


@contextmanager
def _bar(description: str, total: float | None, show: bool, fields: str) -> Iterator[Advance]:
    # Without a bar nothing of it is made: older versions of rich end even one not shown with an empty line.
    if not (show and _drawable()):
        yield lambda *_, **__: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    console = Console(stderr=True)
    narrow = console.width < ROOMY
    # Where there is little room, the description gets what figures and times leave.
    described = Column(no_wrap=True, overflow="ellipsis", ratio=1 if narrow else None)
    columns = [
        TextColumn("{task.description}", table_column=described),
        *([] if narrow and fields else [BarColumn(bar_width=10 if narrow else 40)]),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        *([TextColumn(fields)] if fields else []),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=console, transient=True, expand=narrow) as bar:
        names: dict[str, Any] = {"loss": "", "metric": ""}
        task = bar.add_task(description, total=total, rate="", **names)

        def advance(steps: float = 1, **values: Any) -> None:
            speed = bar.tasks[task].speed
            rate = f"{speed:,.0f}/s" if speed and speed >= 10 else f"{speed:.2g}/s" if speed else ""
            bar.update(task, advance=steps, rate=rate, **values)

        yield advance


def _drawable() -> bool:
    """Whether bars can be shown; a notebook without ipywidgets would warn at every step."""
    before = random.getstate()
    from rich.console import Console

    random.setstate(before)  # rich draws a number when it is loaded
    console = Console(stderr=True)
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)
