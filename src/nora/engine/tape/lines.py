"""Which line of the model's own code is running."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import torch
import torch_geometric

from nora.engine.tape.tape import Line

_OURS = tuple(
    str(Path(module.__file__ or "").parent)
    for module in (torch, torch_geometric, sys.modules[__name__.split(".")[0]])
)


# PyG writes the code of a layer's `propagate` into files of its own.
_GENERATED = re.compile(r"_(propagate|edge_updater)_\w+\.py$")


def current_line() -> Line:
    """The innermost line outside torch, PyG and this package; else the innermost outside torch."""
    frame: Any = sys._getframe(2)
    fallback: Line | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_OURS):
            if not file.startswith("<") and not _GENERATED.search(file):
                return Line(file, frame.f_lineno, frame.f_code.co_name)
        elif fallback is None and file.startswith(_OURS[1]):
            fallback = Line(file, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return fallback or Line("?", 0, "?")
