"""Which line of the model's own code is running."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch_geometric


class Line(NamedTuple):
    """The line of the model's code that called an operation."""

    file: str
    number: int
    function: str

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.number} ({self.function})"


_OURS = tuple(
    str(Path(module.__file__ or "").parent)
    for module in (torch, torch_geometric, sys.modules[__name__.split(".")[0]])
)


# PyG writes the code of a layer's `propagate` into files of its own.
_GENERATED = re.compile(r"_(propagate|edge_updater)_\w+\.py$")


@cache
def _kind(file: str) -> str:
    """Whose code a file holds: torch's or this package's (`ours`), PyG's (`pyg`), made up, or the user's."""
    if file.startswith(_OURS):
        return "pyg" if file.startswith(_OURS[1]) else "ours"
    return "made up" if file.startswith("<") or _GENERATED.search(file) else "own"


def is_own_file(file: str) -> bool:
    """Whether a file is the user's: of no library, and not made up."""
    return _kind(file) == "own"


def current_line() -> Line:
    """The innermost line outside torch, PyG and this package; else the innermost outside torch."""
    frame: Any = sys._getframe(2)
    fallback: Any = None
    while frame is not None:
        kind = _kind(frame.f_code.co_filename)
        if kind == "own":
            break
        if kind == "pyg" and fallback is None:
            fallback = frame
        frame = frame.f_back
    found = frame or fallback
    if found is None:
        return Line("?", 0, "?")
    return Line(found.f_code.co_filename, found.f_lineno, found.f_code.co_name)
