"""The explorer works with a screen reader and by keyboard: axe-core finds nothing, in any of its states."""

from __future__ import annotations

import pytest

from chromium import violations
from explorer_page import choose, settled, visit


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing(browser, explorer, run, width, scheme):
    watched = visit(browser, explorer, width, 900, color_scheme=scheme)
    page = watched.page
    page.wait_for_selector("#panel h4:text-is('Most influential')")
    assert violations(page) == []
    page.locator('#table tr[data-node="33"] td.act button').click()
    settled(page, 1)
    choose(page, run.dataset.node_names[5])
    for part in page.locator("#chosen summary").all():
        part.click()
    page.wait_for_function(
        """() => [...document.querySelectorAll("#chosen .body")].every(
            (part) => !["", "…"].includes(part.textContent) && !part.querySelector(".working"))"""
    )
    assert violations(page) == []
    page.get_by_role("button", name="Keep to compare").click()
    page.wait_for_selector("#compare td[data-value]")
    page.locator("#table input[name=ranking-of][value=fragile]").check()
    page.wait_for_selector("#table .status:has-text('fragile')")
    assert violations(page) == []
    assert not watched.complaints
    page.context.close()
