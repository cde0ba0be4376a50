"""What tests do with the explorer's page, and read off it."""

from __future__ import annotations

import pandas as pd

from chromium import Watched


def visit(browser, explorer, width: int = 1280, height: int = 900, **context) -> Watched:
    opened = browser.new_context(
        viewport={"width": width, "height": height}, reduced_motion="reduce", **context
    )
    opened.set_default_timeout(60_000)  # a busy machine takes its time
    watched = Watched(opened.new_page())
    watched.page.goto(explorer.url)
    watched.page.wait_for_selector("body.ready")
    return watched


def settled(page, edits: int) -> None:
    """So many edits, and what they do, all together and one by one."""
    page.wait_for_function(
        """edits => document.querySelectorAll(".edits li").length === edits
            && document.querySelectorAll(".edits .value[data-total]").length === edits
            && document.getElementById("panel").getAttribute("aria-busy") === "false" """,
        arg=edits,
    )


def total(page) -> float:
    return float(page.locator("#panel .facts dd").first.get_attribute("data-value"))


def flipped(page) -> list[str]:
    return page.locator("#panel .changes .flipped > .node").all_text_contents()


def spot(page, node: int) -> list[float]:
    """Where a node is on the screen."""
    page.locator("#stage").scroll_into_view_if_needed()
    return page.evaluate(
        """node => {
            const box = document.getElementById("stage").getBoundingClientRect();
            const at = window.noraPlaces(node);
            return [box.left + at.x, box.top + at.y];
        }""",
        node,
    )


def clicks_remove(page) -> None:
    """From now on a click takes away or cuts what it hits."""
    page.locator("#controls input[name=clicks][value=remove]").check()


def click_node(page, node: int, **how) -> None:
    where = spot(page, node)
    page.mouse.move(*where)
    if how.get("shift"):
        page.keyboard.down("Shift")
    page.mouse.click(*where)
    if how.get("shift"):
        page.keyboard.up("Shift")


def names_of(flips: pd.DataFrame, names: list[str]) -> list[str]:
    return [names[node] for node in flips["node"]]


def choose(page, name: str) -> None:
    field = page.get_by_role("combobox", name="Find a node")
    field.fill(name)
    page.locator("#finder").get_by_role("option").first.wait_for()
    field.press("Enter")
    page.wait_for_function(
        "name => document.getElementById('chosen-title')?.textContent === name", arg=name
    )
