"""The error that the engine raises for an unsupported model, operation or edit."""

from __future__ import annotations


class UnsupportedError(Exception):
    """The engine does not support a model, operation or edit; the message names the line and the reason."""


def described(error: Exception) -> str:
    """An exception in one line: its class, and the first line of its message."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
