"""A report's page in a real browser."""

from __future__ import annotations

from pathlib import Path

from chromium import Watched


def visit(browser, report: Path, width: int = 1280, height: int = 900, **context) -> Watched:
    opened = browser.new_context(viewport={"width": width, "height": height}, **context)
    opened.set_default_timeout(60_000)  # also on a busy machine
    watched = Watched(opened.new_page())
    watched.page.goto(report.as_uri())
    watched.page.wait_for_selector("#figures svg")
    return watched
