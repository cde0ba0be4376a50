"""What Sphinx and its theme leave out for readers with a keyboard or a screen reader, put in afterwards."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

# A signature over several lines is a list of descriptions without terms: its lines are plain lines.
PARAMETERS = re.compile(r"<dl>\n(?=<dd><em class=\"sig-param)(.*?)</dl>", re.DOTALL)
REPLACED = (
    # Captions of the navigation are called headings, without a level.
    ('<p class="caption" role="heading">', '<p class="caption">'),
    # Two landmarks of a kind need names.
    ('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="All pages">'),
    ('<aside class="toc-drawer">', '<aside class="toc-drawer" aria-label="On this page">'),
    # Long lines scroll, by keyboard too.
    ("<pre>", '<pre tabindex="0">'),
    ('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
)


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("build-finished", mend)
    return {"parallel_read_safe": True}


def mend(app: Any, error: Exception | None) -> None:
    """Every page of the site."""
    if error is None and app.builder.format == "html":
        for page in Path(app.outdir).rglob("*.html"):
            page.write_text(accessible(page.read_text(encoding="utf-8")), encoding="utf-8")


def accessible(page: str) -> str:
    """A page with what was left out.

    Pages that a later build leaves as they are come here twice: it changes nothing then.
    """
    for found, better in REPLACED:
        page = page.replace(found, better)
    return PARAMETERS.sub(_lines, page)


def _lines(found: re.Match[str]) -> str:
    lines = found[1].replace("<dd>", '<span class="parameter">').replace("</dd>", "</span>")
    return f'<span class="parameters">\n{lines}</span>'
