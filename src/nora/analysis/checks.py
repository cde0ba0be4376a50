"""What can be refused at once, without torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from nora.arguments import shown
from nora.ingest.formats import GRAPHS, MATRICES, TABLES, existing
from nora.methods import METHODS
from nora.models import MODELS
from nora.options import option


def check_files(edges: Any, features: Any = None, labels: Any = None) -> None:
    """Raise unless every file is there, may be read and is of a kind we know; frames are left alone."""
    given: list[tuple[Any, tuple[str, ...]]] = [
        (edges, (*TABLES, *GRAPHS, *MATRICES)),
        (features, (*TABLES, *MATRICES)),
        (labels, TABLES),
    ]
    for source, kinds in given:
        if isinstance(source, str | Path):
            existing(source, kinds, folder=source is edges)
        elif (source is not None or source is edges) and not hasattr(source, "columns"):
            raise TypeError(
                f"a graph is read from a file or a pandas DataFrame, got {shown(source)}"
            )


def check_names(model: str | None, methods: Iterable[str]) -> None:
    """Raise for a model or a method that nobody has."""
    if model not in (None, "auto"):
        MODELS.check(model)
    for name in methods:
        METHODS.check(name)


def check_models(model: str | None, models: Sequence[str]) -> None:
    """Raise where one architecture is named, and several, or one of them twice."""
    if model is not None and models:
        raise ValueError(
            f"{option('model')} names one architecture and {option('models')} several: give one of them"
        )
    if len(set(models)) < len(models):
        raise ValueError(
            f"{option('models')} names one twice: {', '.join(models)}; for other seeds give "
            f"{option('repeats')}"
        )


def check_task(task: str | None) -> None:
    """Raise unless it is a task, or left open."""
    if task not in (None, "node", "link"):
        raise ValueError(f"got {option('task', task)}; it must be 'node' or 'link'")
