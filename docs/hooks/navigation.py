"""The navigation, from `NAVIGATION` in `conf.py`: the first page itself says nothing of it."""

from __future__ import annotations

from typing import Any

FIRST = "docs/index"


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_config_value("NAVIGATION", {}, "env")
    app.connect("source-read", add_navigation)
    return {"parallel_read_safe": True}


def add_navigation(app: Any, name: str, content: list[str]) -> None:
    """Hidden tables of contents at the end of the first page."""
    if name != FIRST:
        return
    for section, pages in app.config.NAVIGATION.items():
        lines = ["```{toctree}", ":hidden:", f":caption: {section}", "", *pages, "```"]
        content[0] += "\n\n" + "\n".join(lines) + "\n"
