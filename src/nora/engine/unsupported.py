"""The engine's refusal of a model, an operation or an edit."""

from __future__ import annotations


class UnsupportedError(Exception):
    """The engine does not support this; the message names where and why."""
