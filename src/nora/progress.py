"""Progress bars on standard error, for people only: silent when nobody is looking."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

Advance = Callable[..., None]


@contextmanager
def progress_bar(
    description: str, total: float | None, show: bool = True, fields: str = ""
) -> Iterator[Advance]:
    """A bar with rate and time left; yields `advance(steps, **fields)`.

    Args:
        description: What is being done.
        total: How many steps there are; None where nobody knows.
        show: False for no bar at all.
        fields: Format of extra columns, e.g. `"loss {task.fields[loss]}"`.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    # A notebook without ipywidgets cannot draw a bar, and would be told so at every step.
    drawable = console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)
    visible = show and drawable
    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TextColumn(fields),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=console, transient=True, disable=not visible) as bar:
        names: dict[str, Any] = {"loss": "", "metric": ""}
        task = bar.add_task(description, total=total, rate="", **names)

        def advance(steps: float = 1, **values: Any) -> None:
            speed = bar.tasks[task].speed
            rate = f"{speed:,.0f}/s" if speed and speed >= 10 else f"{speed:.2g}/s" if speed else ""
            bar.update(task, advance=steps, rate=rate, **values)

        yield advance
