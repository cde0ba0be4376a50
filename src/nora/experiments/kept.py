"""Finished numbers as files, with the checksum that tells whether they are as they were written."""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

from nora.files import read_json, written_atomically


def keep(path: Path, content: Any) -> None:
    """Write what `kept` reads."""
    text = json.dumps({"content": content, "sha256": _sum(content)})
    with written_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def kept(path: Path) -> Any:
    """What was kept there; None where nothing was, or what is there is damaged, which is warned of."""
    if not path.exists():
        return None
    try:
        found = read_json(path)
        if found["sha256"] == _sum(found["content"]):
            return found["content"]
    except (ValueError, LookupError, TypeError):
        pass
    warnings.warn(f"{path} is not as it was written: it is computed again", stacklevel=2)
    return None


def _sum(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
