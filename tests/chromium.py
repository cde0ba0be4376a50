"""A real browser for tests of pages, and pages that are listened to."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    # Where WebGL is drawn by the processor, putting layers together is quicker without it.
    "--disable-gpu-compositing",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def missing() -> str | None:
    """Why there is no browser; None where there is one."""
    if not Path(CHROMIUM).exists() and shutil.which("chromium") is None:
        return f"no Chromium at {CHROMIUM}: apt-get install chromium"
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "no playwright: pip install -e '.[dev]'"
    return None


def require_browser() -> None:
    """Skip without a browser, or fail where NORA_REQUIRE_BROWSER=1."""
    reason = missing()
    if reason:
        (pytest.fail if os.environ.get("NORA_REQUIRE_BROWSER") == "1" else pytest.skip)(reason)


def launch(play: Any, *more: str) -> Any:
    """Chromium, drawing WebGL in software, with more flags if there are any."""
    path = CHROMIUM if Path(CHROMIUM).exists() else shutil.which("chromium")
    return play.chromium.launch(executable_path=path, headless=True, args=[*FLAGS, *more])


class Watched:
    """A page with everything that it said, asked for and threw."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", self._logged)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", self._asked)

    def _logged(self, message: Any) -> None:
        # A note of the driver about software drawing, which is this machine's.
        if "GPU stall due to ReadPixels" in message.text:
            return
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _asked(self, dialog: Any) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()


AXE = Path(__file__).parent / "assets" / "axe.min.js"


def violations(page: Any) -> list[str]:
    """What axe-core finds wrong with a page as it is now: rule, elements and what is missing."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("() => axe.run({resultTypes: ['violations']})")
    return [
        f"{one['id']} ({one['impact']}): {node['target']} {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"]
    ]
