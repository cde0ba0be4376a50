"""Pack large parts of the page: deflated JSON, as text. The page unpacks each part on demand."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np

from nora.report.consequences import Consequence, as_columns

TOGETHER = 16


def packed(value: Any) -> str:
    """A JSON-able value as text.

    >>> unpacked(packed({"node": [1, 2]}))
    {'node': [1, 2]}
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    # Half of a surrogate pair, which a name from a broken file may hold, becomes a "?".
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 6)).decode()


def unpacked(text: str) -> Any:
    """The value that `packed` packed."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


def packed_effects(
    found: dict[int, Consequence], position: np.ndarray, room: float
) -> tuple[list[int], list[str]]:
    """Effects in groups of `TOGETHER`, as far as they fit `room` bytes: the nodes they are of, the groups."""
    nodes, taken = list(found), 0
    groups: list[str] = []
    for at in range(0, len(nodes), TOGETHER):
        part = [as_columns(found[node], position) for node in nodes[at : at + TOGETHER]]
        text = packed(part)
        if groups and taken + len(text) > room:
            return nodes[:at], groups
        groups.append(text)
        taken += len(text)
    return nodes, groups


def packed_edges(source: np.ndarray, target: np.ndarray, size: int, room: float) -> str | None:
    """Edges between positions, each once: per node the number of later neighbours and the steps between them.

    None where there are more than fit `room` bytes.
    """
    if 1.2 * len(source) > room:  # it takes more than a byte each
        return None
    low, high = np.minimum(source, target), np.maximum(source, target)
    order = np.lexsort((high, low))
    low, high = low[order], high[order]
    count = np.bincount(low, minlength=size)
    before = np.concatenate([low[:1], high[:-1]])
    before = np.where(np.concatenate([[True], low[1:] != low[:-1]])[: len(low)], low, before)
    text = packed({"count": count.tolist(), "step": (high - before).tolist()})
    return text if len(text) <= room else None
