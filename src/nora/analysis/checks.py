"""What can be refused at once, without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nora.arguments import shown
from nora.ingest.formats import GRAPHS, MATRICES, TABLES, existing


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
