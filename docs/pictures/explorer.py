"""Takes the pictures of `docs/explorer.md` from the running explorer, in Chromium.

    python docs/pictures/explorer.py

Needs Playwright and Chromium, which the tests of the pages use, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nora

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))


def remove(page: Any, *names: str) -> None:
    """Remove nodes by the search, one after the other."""
    for at, name in enumerate(names, 1):
        field = page.get_by_role("combobox", name="Find a node")
        field.fill(name)
        field.press("Enter")
        page.wait_for_function(
            "name => document.getElementById('chosen-title')?.textContent === name", arg=name
        )
        page.locator("#chosen .panel-head").get_by_role("button", name=f"Remove {name}").click()
        page.keyboard.press("Escape")
        page.wait_for_function(
            "count => document.querySelectorAll('.edits .value[data-total]').length === count",
            arg=at,
        )


def two_removed(page: Any) -> None:
    """Two accounts are removed, and the whole network is shown."""
    remove(page, "@bubopu", "@zasanu")
    page.get_by_role("button", name="Show all").click()


def a_node(page: Any) -> None:
    """A node is opened, with the removals that move it most."""
    field = page.get_by_role("combobox", name="Find a node")
    field.fill("@buzenu")
    field.press("Enter")
    page.locator("#why summary").click()
    page.locator("#why .node").first.wait_for()


def fragile(page: Any) -> None:
    """Predictions that depend on a single other node."""
    page.locator("input[name=ranking-of][value=fragile]").check()
    page.wait_for_function(
        """() => document.querySelector("#table .streaming").hidden
            && document.querySelector("#table td.flips")"""
    )
    page.locator("#ranking").scroll_into_view_if_needed()
    page.evaluate("document.getElementById('ranking').scrollIntoView()")


PICTURES: dict[str, tuple[Callable[[Any], None], str, int, int]] = {
    "explorer": (two_removed, "light", 1280, 820),
    "explorer-node": (a_node, "dark", 1280, 820),
    "explorer-ranking": (fragile, "light", 1280, 700),
    "explorer-phone": (two_removed, "light", 390, 844),
}


def main() -> None:
    """Take them all."""
    from playwright.sync_api import sync_playwright

    from chromium import launch

    run = nora.train("gcn", "polarised")
    named = {"names": run.dataset.node_names, "class_names": run.dataset.class_names}
    title = "A polarised network"
    with (
        nora.explore(run.model, run.data, title=title, browser=False, **named) as explorer,
        sync_playwright() as play,
    ):
        browser = launch(play)
        for name, (prepare, scheme, width, height) in PICTURES.items():
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme=scheme,
                reduced_motion="reduce",
            )
            page = context.new_page()
            page.goto(explorer.url)
            page.wait_for_selector("#panel h4:text-is('Most influential')", timeout=180_000)
            prepare(page)
            page.mouse.move(2, 2)
            page.wait_for_timeout(1000)
            page.screenshot(path=ROOT / "docs" / f"{name}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
