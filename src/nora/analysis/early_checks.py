"""Checks of arguments that need no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nora.arguments import shown
from nora.ingest.formats import ROLES, existing
from nora.options import option


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


def check_labels_matter(task: str | None, balanced: bool, targets: Any) -> None:
    """Raise if edges are predicted, but options about classes or nodes are given."""
    if task == "link" and balanced:
        raise ValueError(
            f"{option('balanced', True)} gives every class the same weight, but {option('task', 'link')} "
            "predicts edges, which have no classes; leave it out"
        )
    if task == "link" and targets is not None:
        raise ValueError(
            f"{option('targets')} names nodes whose predictions count, but {option('task', 'link')} "
            "predicts edges; leave it out"
        )
