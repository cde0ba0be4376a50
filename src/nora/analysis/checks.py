"""What can be refused at once, without torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from nora.arguments import shown
from nora.ingest.formats import ROLES, existing
from nora.methods import METHODS
from nora.models import MODELS


def check_files(edges: Any, features: Any = None, labels: Any = None) -> None:
    """Raise unless every file is there, may be read and is of a kind we know; frames are left alone."""
    for role, source in zip(ROLES, (edges, features, labels), strict=True):
        if isinstance(source, str | Path):
            existing(source, role)
        elif source is edges and hasattr(source, "adjacency"):  # NetworkX is slow to load
            continue
        elif (source is not None or source is edges) and not hasattr(source, "columns"):
            raise TypeError(
                f"a graph is read from a file, a pandas DataFrame or a NetworkX graph, got {shown(source)}"
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
        raise ValueError("model= names one architecture and models= several: give one of them")
    if len(set(models)) < len(models):
        raise ValueError(
            f"models= names one twice: {', '.join(models)}; for other seeds give repeats="
        )


def check_labels_matter(task: str | None, balanced: bool, targets: Any) -> None:
    """Raise where edges are predicted, and something about classes or nodes is asked."""
    if task == "link" and balanced:
        raise ValueError(
            "balanced=True gives every class the same weight, but task='link' predicts edges, which have "
            "no classes; leave it out"
        )
    if task == "link" and targets is not None:
        raise ValueError(
            "targets= names nodes whose predictions count, but task='link' predicts edges; leave it out"
        )


def check_task(task: str | None) -> None:
    """Raise unless it is a task, or left open."""
    if task not in (None, "node", "link"):
        raise ValueError(f"got task={task!r}; it must be 'node' or 'link'")
