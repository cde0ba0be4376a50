"""What a report's page says, read from its file."""

from __future__ import annotations

import json
import re
from pathlib import Path

from nora.report.packing import unpacked


def page_value(path: Path) -> dict:
    """The value that the page's script works from."""
    page = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', page)
    assert found
    value = json.loads(found[1])
    pieces = value["pieces"]
    if "node" in pieces:
        value["node"] = unpacked(pieces["node"])
    effects = [effect for piece in pieces["effects"] for effect in unpacked(piece)]
    value["effect"] = dict(zip(map(str, value["effects"]["of"]), effects, strict=True))
    return value


def words(path: Path) -> str:
    """The page's text, without script, style and tags."""
    page = path.read_text(encoding="utf-8")
    page = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
    page = re.sub(r"</(dt|dd|p|li|h\d|div)>", " ", page)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page))
    return text.replace("\u202f", " ")
