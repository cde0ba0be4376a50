"""Warnings that point at the line of the user's code, however deep inside NORA they arise."""

from __future__ import annotations

import sys
import warnings

PACKAGE = __name__.partition(".")[0]


def warn(message: str, category: type[Warning]) -> None:
    """Warn of `message` where NORA was called."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module == PACKAGE or module.startswith(f"{PACKAGE}.")
