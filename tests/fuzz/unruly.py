"""Trials that end badly, to see that they take nothing else with them."""

from __future__ import annotations

import os
import time
from typing import Any


def unruly(seed: int, kind: str) -> dict[str, Any]:
    """Seed 1 ends its process, seed 2 hangs, all others are well."""
    if seed == 1:
        os._exit(3)
    if seed == 2:
        time.sleep(1000)
    return {"seed": seed, "category": "equal", "detail": kind, "largest": 1.0}
