"""JSON that every program reads: no NaN, no infinity, nothing of NumPy or torch."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def json_text(document: Any) -> str:
    """`document` as strict JSON: what JSON cannot hold (NaN, infinity) becomes null."""
    return json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy and torch, scalars and arrays
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
