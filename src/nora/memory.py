"""Amounts of memory as people write them."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def parse_bytes(amount: str | float) -> int:
    """Bytes from `"2GB"`, `"512 MB"`, `"1.5GiB"` or a plain number.

    >>> parse_bytes("2GB"), parse_bytes("1KiB")
    (2000000000, 1024)
    """
    if isinstance(amount, int | float):
        found = float(amount)
    else:
        match = re.fullmatch(r"\s*(\d+\.?\d*)\s*([KMGT]?)(i?)B?\s*", amount, re.IGNORECASE)
        if match is None:
            raise ValueError(f"cannot read {amount!r} as an amount of memory; write e.g. '2GB'")
        unit = _UNITS[match[2].upper()]
        if match[3]:
            unit = 2 ** (10 * list(_UNITS).index(match[2].upper()))
        found = float(match[1]) * unit
    if found < 1:
        raise ValueError(f"memory must be positive, got {amount!r}")
    return int(found)


def in_words(size: float) -> str:
    """Bytes with a unit.

    >>> in_words(3_000_000), in_words(2.14e9), in_words(120e9)
    ('3.0 MB', '2.1 GB', '120 GB')
    """
    for unit, one in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if size >= one:
            return f"{size / one:.0f} {unit}" if size >= 100 * one else f"{size / one:.1f} {unit}"
    return f"{max(1, round(size / 1e3))} KB"
