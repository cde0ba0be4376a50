"""Rejections of requests: a status and one line, never a traceback."""

from __future__ import annotations


class Rejected(Exception):  # noqa: N818 (it is an answer, not an error of ours)
    """A rejected request.

    Args:
        status: The HTTP status, 4xx.
        message: What was wrong and what to do.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
