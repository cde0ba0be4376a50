"""Whether something fits into memory, before it is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from nora.machine import available_memory
from nora.memory import in_words as amount
from nora.memory import parse_bytes

_LIMIT: ContextVar[str | int | None] = ContextVar("memory limit", default=None)


@contextmanager
def memory_limit(most: str | int | None) -> Iterator[None]:
    """Refuse inside whatever would take more than `most` bytes (`"2GB"`); None for what is free."""
    if most is not None:
        parse_bytes(most)
    token = _LIMIT.set(most)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def check_fits(what: str, size: int, rows: int | None = None) -> None:
    """Raise when something of `size` bytes does not fit into memory.

    >>> with memory_limit("1MB"):
    ...     check_fits("edges.csv", 3_000_000)
    Traceback (most recent call last):
    ValueError: edges.csv would take 3.0 MB in memory; memory='1MB' allows 1.0 MB
    """
    asked = _LIMIT.get()
    limit = available_memory() if asked is None else parse_bytes(asked)
    if limit is not None and size > limit:
        many = f" ({rows:,} rows)" if rows else ""
        free = f"memory={asked!r} allows" if asked is not None else "there is"
        raise ValueError(
            f"{what}{many} would take {amount(size)} in memory; {free} {amount(limit)}"
        )
