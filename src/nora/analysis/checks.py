"""What can be refused at once, without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nora.ingest.formats import GRAPHS, MATRICES, TABLES, existing


def check_files(edges: Any, features: Any = None, labels: Any = None) -> None:
    """Raise unless every file is there, may be read and is of a kind we know; frames are left alone."""
    for source, kinds in (
        (edges, (*TABLES, *GRAPHS, *MATRICES)),
        (features, (*TABLES, *MATRICES)),
        (labels, TABLES),
    ):
        if isinstance(source, str | Path):
            existing(source, kinds, folder=source is edges)


def check_task(task: str | None) -> None:
    """Raise unless it is a task, or left open."""
    if task not in (None, "node", "link"):
        raise ValueError(f"got task={task!r}; it must be 'node' or 'link'")
