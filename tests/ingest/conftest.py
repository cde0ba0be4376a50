"""Files as users have them, written in a line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(name: str, text: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return make


@pytest.fixture
def edges(write: Write) -> Path:
    """A triangle with a tail: a, b, c, d."""
    return write("edges.csv", "source,target\na,b\nb,c\nc,a\nc,d\n")
