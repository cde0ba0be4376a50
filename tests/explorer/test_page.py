"""The explorer in a real browser: the numbers are those of `nora.what_if`, by mouse and by keyboard.

Without Chromium these tests are skipped, or fail where NORA_REQUIRE_BROWSER=1.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time

import pandas as pd
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import nora
from chromium import Watched
from explorer_page import (
    choose,
    click_node,
    clicks_remove,
    flipped,
    names_of,
    settled,
    spot,
    total,
    visit,
)
from nora.progress import progress_bar
from papers import typed_papers

EVIL = "<script>alert(1)</script>"


def test_it_loads_from_its_own_server_alone(watched, explorer):
    own = f"http://127.0.0.1:{explorer.port}/"
    assert watched.requests and all(url.startswith((own, "data:")) for url in watched.requests)
    assert watched.page.url == own
    assert watched.page.title().startswith("Karate")


def test_a_click_selects_a_node_and_shows_what_its_absence_would_change(watched, run, names):
    page = watched.page
    click_node(page, 33)
    page.wait_for_selector(".preview strong")
    true = nora.what_if(run.model, run.data, 33)
    shown = page.locator(".preview").inner_text()
    assert f"{len(true.flips())} of 33 nodes would flip to another class" in shown
    assert f"{true.noticed} predictions would change" in shown
    # Nothing is edited: not by this click, and not by others, whatever they hit.
    for node in (0, 5, 16):
        click_node(page, node)
    assert page.locator("#chosen-title").inner_text() == names[16]
    assert page.locator("#panel-title").inner_text() == "No edits"
    assert "#" not in page.url
    page.locator("#chosen .panel-head").get_by_role("button", name="Remove").click()
    settled(page, 1)
    assert page.locator(".preview").is_hidden()
    # Of another node, with the edit that there is.
    choose(page, names[33])
    page.wait_for_selector(".preview:has-text('With 1 edit and without it')")
    both = nora.what_if(run.model, run.data, [16, 33])
    page.wait_for_selector(f".preview:has-text('{len(both.flips())} of 32 nodes')")


def test_the_effect_stays_in_view_while_the_ranking_is_scrolled(watched):
    page = watched.page
    page.set_viewport_size({"width": 1280, "height": 500})
    following = page.locator("#following")
    page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
    assert following.is_hidden()  # nothing is edited
    page.locator('#table tr[data-node="33"] td.act button').click()
    settled(page, 1)
    page.evaluate("document.getElementById('table').scrollIntoView()")
    page.wait_for_selector("#following:has-text('would flip to another class')")
    box = following.bounding_box()
    assert box["y"] >= 0 and box["y"] + box["height"] <= 500
    following.get_by_role("button", name="Show").click()
    page.wait_for_selector("#following", state="hidden")


def test_clicks_can_take_nodes_away_and_the_page_shows_the_effect_of_what_if(watched, run, names):
    page = watched.page
    clicks_remove(page)
    click_node(page, 33)
    settled(page, 1)
    true = nora.what_if(run.model, run.data, 33)
    assert total(page) == pytest.approx(true.total, rel=1e-6)
    flips = true.flips()
    assert len(flips) > 0
    assert flipped(page) == names_of(flips, names)
    caught = f"{len(flips)} of 33 nodes would flip to another class"
    assert caught in page.locator("#panel .summary").inner_text()
    assert caught in page.locator("#announcer").inner_text()
    assert page.url.endswith("#remove=33")
    click_node(page, 33)  # and puts it back
    page.wait_for_selector("#panel h3:text-is('No edits')")


def test_several_removals_tell_each_alone_and_all_together(watched, run):
    page = watched.page
    for node in (33, 0):
        page.locator(f'#table tr[data-node="{node}"] td.act button').click()
    settled(page, 2)
    together = nora.what_if(run.model, run.data, [0, 33]).total
    alone = [nora.what_if(run.model, run.data, node).total for node in (33, 0)]
    shown = [float(one.get_attribute("data-total")) for one in page.locator(".edits .value").all()]
    assert shown == pytest.approx(alone, rel=1e-6)
    assert total(page) == pytest.approx(together, rel=1e-6)
    values = page.locator("#panel .facts dd")
    assert float(values.nth(1).get_attribute("data-value")) == pytest.approx(sum(alone), rel=1e-6)
    more = "more" if together > sum(alone) else "less"
    assert re.search(
        rf"Together they change .* {more} than one by one", page.locator("#panel").inner_text()
    )


def test_back_is_undo_and_forward_is_redo(watched, run):
    page = watched.page
    for node in (33, 0):
        page.locator(f'#table tr[data-node="{node}"] td.act button').click()
    settled(page, 2)
    page.go_back()
    settled(page, 1)
    assert total(page) == pytest.approx(nora.what_if(run.model, run.data, 33).total, rel=1e-6)
    page.go_back()
    page.wait_for_selector("#panel h3:text-is('No edits')")
    page.go_forward()
    settled(page, 1)
    page.get_by_role("button", name="Redo").click()
    settled(page, 2)
    page.locator("h1").click()
    page.keyboard.press("Control+z")
    settled(page, 1)


def test_a_link_to_a_state_opens_in_a_second_window(watched, run):
    page = watched.page
    second = Watched(page.context.new_page())
    row = run.data.x[5].clone()
    row[2] = 0.5
    second.page.goto(
        page.url.split("#")[0] + "#remove=32&remove_edge=0-1&add_edge=16-33&set=5.2:0.5"
    )
    settled(second.page, 4)
    true = nora.what_if(
        run.model, run.data, 32, remove_edges=[(0, 1)], add_edges=[(16, 33)], features={5: row}
    )
    assert total(second.page) == pytest.approx(true.total, rel=1e-5)
    # Undo works though this window has no history.
    second.page.get_by_role("button", name="Undo the last edit").click()
    second.page.wait_for_function("() => document.querySelectorAll('.edits li').length !== 4")


def test_an_edge_is_removed_by_a_click_and_restored_by_another(watched, run):
    page = watched.page
    clicks_remove(page)
    # 16 is tied to 5 and 6 only.
    a, b = spot(page, 16), spot(page, 5)
    middle = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2]
    page.mouse.move(*middle)
    page.mouse.click(*middle)
    settled(page, 1)
    cut = re.search(r"#remove_edge=(\d+)-(\d+)$", page.url)
    assert cut, page.url
    true = nora.what_if(run.model, run.data, remove_edges=[(int(cut[1]), int(cut[2]))])
    assert total(page) == pytest.approx(true.total, rel=1e-5)
    page.mouse.click(*middle)
    page.wait_for_selector("#panel h3:text-is('No edits')")


def test_search_edges_and_features_work_from_the_panel_of_a_node(watched, run, names):
    page = watched.page
    choose(page, "member 17")
    page.locator("#neighbours summary").click()
    page.get_by_role("button", name="Remove the edge to member 6").click()
    settled(page, 1)
    true = nora.what_if(run.model, run.data, remove_edges=[(16, 5)])
    assert total(page) == pytest.approx(true.total, rel=1e-5)
    page.locator("#connect summary").click()
    field = page.get_by_role("combobox", name="From member 17 to")
    field.fill("member 34")
    page.locator("#connect").get_by_role("option").first.wait_for()
    field.press("Enter")
    settled(page, 2)
    true = nora.what_if(run.model, run.data, remove_edges=[(16, 5)], add_edges=[(16, 33)])
    assert total(page) == pytest.approx(true.total, rel=1e-5)
    page.locator("#features summary").click()
    page.get_by_label("New value").fill("0.25")
    page.get_by_role("button", name="Set", exact=True).click()
    settled(page, 3)
    row = run.data.x[16].clone()
    row[16] = 0.25
    true = nora.what_if(
        run.model, run.data, remove_edges=[(16, 5)], add_edges=[(16, 33)], features={16: row}
    )
    assert total(page) == pytest.approx(true.total, rel=1e-5)


def test_why_tells_the_influencers(watched, run, names):
    page = watched.page
    choose(page, "member 9")
    page.locator("#why summary").click()
    page.locator("#why .node").first.wait_for()
    true = nora.influencers(run.model, run.data, 8, 12, progress=False)
    assert page.locator("#why .node").all_text_contents() == [names[one] for one in true["node"]]


def test_shift_and_click_select_several_that_go_together(watched, run):
    page = watched.page
    click_node(page, 33, shift=True)
    click_node(page, 16, shift=True)
    page.wait_for_selector("#chosen-title:text-is('2 nodes selected')")
    page.get_by_role("button", name="Add an edge", exact=True).click()
    settled(page, 1)
    true = nora.what_if(run.model, run.data, add_edges=[(16, 33)])
    assert total(page) == pytest.approx(true.total, rel=1e-5)
    page.get_by_role("button", name="Remove all").click()
    settled(page, 2)  # the added edge went with its ends
    assert total(page) == pytest.approx(nora.what_if(run.model, run.data, [33, 16]).total, rel=1e-6)


def test_two_quick_clicks_on_two_nodes_take_both_away(watched, run):
    page = watched.page
    clicks_remove(page)
    first, second = spot(page, 33), spot(page, 0)
    page.mouse.click(*first)
    page.mouse.click(*second)
    settled(page, 2)
    assert total(page) == pytest.approx(nora.what_if(run.model, run.data, [33, 0]).total, rel=1e-6)


def test_enter_takes_the_match_of_what_was_typed_not_of_a_text_before(watched):
    page = watched.page
    page.route("**/api/search*", lambda route: (page.wait_for_timeout(150), route.continue_()))
    field = page.get_by_role("combobox", name="Find a node")
    field.press_sequentially("member 30")
    field.press("Enter")
    page.wait_for_function(
        "() => document.getElementById('chosen-title')?.textContent === 'member 30'"
    )
    page.unroute("**/api/search*")


def test_everything_can_be_done_by_keyboard_alone(watched, run):
    page = watched.page
    page.keyboard.press("/")
    page.keyboard.type("member 34")
    page.locator("#finder").get_by_role("option").first.wait_for()
    page.keyboard.press("Enter")
    page.wait_for_selector("#chosen-title:focus")
    page.keyboard.press("Delete")
    settled(page, 1)
    assert total(page) == pytest.approx(nora.what_if(run.model, run.data, 33).total, rel=1e-6)
    page.keyboard.press("Escape")
    page.wait_for_selector("#chosen", state="hidden")
    page.locator("#table tbody tr").nth(1).locator("td.act button").focus()
    page.keyboard.press("Enter")
    settled(page, 2)
    # The focus stays on the button, which now puts back.
    assert page.evaluate("document.activeElement.textContent") == "Restore"
    page.keyboard.press("Control+z")
    settled(page, 1)


def test_two_states_stand_side_by_side(watched, run):
    page = watched.page
    page.locator('#table tr[data-node="33"] td.act button').click()
    settled(page, 1)
    page.get_by_role("button", name="Keep to compare").click()
    page.locator('#table tr[data-node="0"] td.act button').click()
    settled(page, 2)
    row = page.locator("#compare tr", has_text="Total change").locator("td")
    kept, now = (float(row.nth(k).get_attribute("data-value")) for k in (0, 1))
    assert kept == pytest.approx(nora.what_if(run.model, run.data, 33).total, rel=1e-6)
    assert now == pytest.approx(nora.what_if(run.model, run.data, [0, 33]).total, rel=1e-6)
    page.get_by_role("button", name="Swap").click()
    settled(page, 1)
    second = page.context.new_page()
    second.goto(page.url)
    second.wait_for_function(
        "() => document.querySelectorAll('#compare td[data-value]').length === 6"
    )
    page.get_by_role("button", name="Stop comparing").click()
    page.wait_for_selector("#comparison", state="hidden")


def test_what_is_exported_can_be_read_back(watched, run, names, tmp_path):
    page = watched.page
    page.locator('#table tr[data-node="33"] td.act button').click()
    settled(page, 1)
    true = nora.what_if(run.model, run.data, 33)
    files = {}
    for text in ("PNG", "CSV", "Python", "Report"):
        with page.expect_download(timeout=60_000) as waiting:
            page.locator("#exporting").get_by_role("button", name=text).click()
        files[text] = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(files[text])
    frame = pd.read_csv(files["CSV"])
    assert frame["change"].sum() == pytest.approx(true.total, rel=1e-5)
    from PIL import Image

    picture = Image.open(files["PNG"])
    assert picture.width > 400 and len(picture.convert("RGB").getcolors(1 << 20) or []) > 10
    program = files["Python"].read_text()
    assert f"33,  # {names[33]!r}" in program
    space: dict = {"__name__": "what_if"}
    exec(compile(program, "what_if.py", "exec"), space)
    assert space["ask"](run.model, run.data).total == pytest.approx(true.total, rel=1e-6)
    assert "the class of 33 nodes" in files["Report"].read_text(encoding="utf-8")


def test_a_name_that_is_a_script_is_text_everywhere(watched):
    page = watched.page
    assert page.locator("h1").inner_text() == f"Karate {EVIL}"
    choose(page, EVIL)
    assert page.locator("#chosen-title").inner_text() == EVIL
    page.get_by_role("button", name=f"Remove {EVIL}").first.click()
    settled(page, 1)
    assert EVIL in page.locator(".edits").inner_text()
    assert EVIL in page.locator("#announcer").inner_text()
    assert page.locator("main script, header script").count() == 0


def test_what_contradicts_itself_is_said_and_can_be_undone(watched):
    page = watched.page
    page.evaluate("location.hash = '#cut=0-9'")  # the word of earlier versions
    alert = page.locator("#panel [role=alert]")
    alert.wait_for()
    assert "not in the graph" in alert.inner_text()
    watched.complaints.clear()  # the browser reports the status 422 itself
    page.get_by_role("button", name="Undo", exact=True).click()
    page.wait_for_selector("#panel h3:text-is('No edits')")


def test_a_foolish_address_is_read_as_far_as_it_makes_sense(watched, run):
    page = watched.page
    page.goto(
        page.url.split("#")[0] + "#remove=x&remove=999&set=1.2:NaN&what=%00&remove=33&remove_edge=1"
    )
    settled(page, 1)
    assert total(page) == pytest.approx(nora.what_if(run.model, run.data, 33).total, rel=1e-6)


def test_what_an_address_says_twice_counts_once(watched, run):
    page = watched.page
    page.goto(
        page.url.split("#")[0]
        + "#remove=33&remove=33&remove_edge=0-1&remove_edge=1-0&set=5.2:1&set=5.2:0.5"
    )
    settled(page, 3)
    assert page.locator("#panel-title").inner_text() == "3 edits"
    row = run.data.x[5].clone()
    row[2] = 0.5
    true = nora.what_if(run.model, run.data, 33, remove_edges=[(0, 1)], features={5: row})
    assert total(page) == pytest.approx(true.total, rel=1e-5)


def test_colour_by_change_influence_and_error(watched):
    page = watched.page
    page.locator('#table tr[data-node="33"] td.act button').click()
    settled(page, 1)
    for mode, text in (
        ("change", "changes most"),
        ("influence", "most influential"),
        ("error", "differs from the label"),
    ):
        page.locator("#colour-by").select_option(mode)
        assert text in page.locator("#legend").inner_text()


def test_a_server_that_stops_is_reported_and_one_that_returns_goes_on(browser, run):
    with nora.explore(run.model, run.data, browser=False, run="runs/my karate") as explorer:
        port = explorer.port
        watched = visit(browser, explorer)
        page = watched.page
        page.locator('#table tr[data-node="33"] td.act button').click()
        settled(page, 1)
        keys = explorer._keys
        secret = keys.secret
    # By an event: the page may know by now that nothing can be clicked.
    page.locator('#table tr[data-node="0"] td.act button').dispatch_event("click")
    page.wait_for_selector("#banner:not([hidden])")
    page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
    banner = page.locator("#banner")
    assert "stopped. Start it again: nora explore" in banner.inner_text()
    box = banner.bounding_box()
    assert box["y"] >= 0 and box["y"] + box["height"] <= 900
    # Nothing is offered that does nothing.
    assert page.evaluate("document.getElementById('main').inert")
    with nora.explore(run.model, run.data, port=port, browser=False) as again:
        again._keys.secret = secret  # the same server, back again
        settled(page, 2)
        page.wait_for_selector("#banner", state="hidden")
        assert total(page) == pytest.approx(
            nora.what_if(run.model, run.data, [0, 33]).total, rel=1e-6
        )
        again._keys.secret = "another one"
        page.locator('#table tr[data-node="2"] td.act button').click()
        page.wait_for_selector("#banner:not([hidden])")
        assert "closed" in page.locator("#banner").inner_text()
    page.context.close()


def test_a_report_in_work_is_forgotten_when_the_server_stops(browser, run, monkeypatch):
    asked, seen = threading.Event(), threading.Event()

    # In work until the page has seen the end: a report written in time would be an answer.
    def slow(*_):
        asked.set()
        seen.wait(60)
        return b""

    monkeypatch.setattr("nora.explorer.app.as_report", slow)
    try:
        with nora.explore(run.model, run.data, browser=False) as explorer:
            page = visit(browser, explorer).page
            page.locator("#exporting").get_by_role("button", name="Report").click()
            page.wait_for_selector("#exporting:has-text('is being written')")
            assert asked.wait(10)
        page.wait_for_selector("#banner:has-text('The server has stopped')")
        assert "being written" not in page.locator("#exporting").inner_text()
    finally:
        seen.set()
    page.context.close()


def test_a_long_question_shows_how_far_it_is_and_can_be_cancelled(browser, run, monkeypatch):
    ended = threading.Event()

    def slow(session, *_, **__):
        try:
            with progress_bar("flip: removing nodes", 1000, False) as advance:
                for _ in range(1000):
                    time.sleep(0.05)
                    advance()
        finally:
            ended.set()

    monkeypatch.setattr(nora.Session, "flip", slow)
    with nora.explore(run.model, run.data, browser=False) as explorer:
        watched = visit(browser, explorer)
        page = watched.page
        choose(page, "node 5")
        page.locator("#flip summary").click()
        page.wait_for_selector("#flip:has-text('flip: removing nodes')")
        page.wait_for_selector("#flip:has-text('of 1,000')")
        page.locator("#flip").get_by_role("button", name="Cancel").click()
        page.wait_for_selector("#flip:has-text('Cancelled')")
        # The work itself has ended, so that the next question is answered at once.
        assert ended.wait(10)
        page.locator("#why summary").click()
        page.wait_for_selector("#why ol li")
        assert not watched.complaints
        page.context.close()


def test_touch_screens_get_their_own_instructions(browser, explorer):
    watched = visit(browser, explorer, 390, 844, has_touch=True, is_mobile=True)
    page = watched.page
    for place in ("figcaption", "#panel"):
        shown = page.locator(place).inner_text()
        assert "Tap a node" in shown and "Click a node" not in shown
    page.context.close()


def test_a_phone_shows_the_names_of_classes_in_full(browser, run):
    classes = [f"topic number {word}" for word in ("one", "two", "three", "four")]
    torch.manual_seed(5)
    model = GCN(34, 16, 2, 4).eval()  # untrained: predictions turn from any class to any other
    with nora.explore(model, run.data, class_names=classes, browser=False) as explorer:
        page = visit(browser, explorer, 320, 844, has_touch=True, is_mobile=True).page
        page.goto(page.url.split("#")[0] + "#remove=17&remove=25&remove=33")
        settled(page, 3)
        heads = page.locator("#panel .fromto th")
        assert heads.count() > 3
        for head in heads.all():
            assert head.inner_text().replace("\n", " ").strip() in [*classes, "others"]
            assert head.evaluate("cell => cell.scrollWidth <= cell.clientWidth + 1")
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        page.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light"), (320, "dark")])
def test_it_fits_phones_and_dark_rooms(browser, explorer, run, width, scheme):
    watched = visit(browser, explorer, width, 844, color_scheme=scheme)
    page = watched.page
    page.locator('#table tr[data-node="33"] td.act button').click()
    settled(page, 1)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    assert total(page) == pytest.approx(nora.what_if(run.model, run.data, 33).total, rel=1e-6)
    assert not watched.complaints
    page.context.close()


def test_a_large_graph_has_all_nodes_behind_and_the_effect_in_front(browser, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 6000, (2, 15_000), generator=generator)
    edges = torch.cat([edges, edges.flip(0)], dim=1).unique(dim=1)
    data = Data(x=torch.randn(6000, 8, generator=generator), edge_index=edges)
    torch.manual_seed(0)
    model = nora.build_model("gcn", 8, 4, hidden_channels=16)
    with nora.explore(model, data, browser=False) as explorer:
        watched = visit(browser, explorer)
        page = watched.page
        # Whom the picture shows in front no longer changes by itself.
        page.wait_for_selector("#panel h4:text-is('Most influential')")
        page.wait_for_function("() => window.noraGraph.getGraph().order > 20")
        assert page.evaluate("window.noraGraph.getGraph().order") < 1000
        clicks_remove(page)
        page.mouse.click(*spot(page, int(edges[0].bincount().argmax())))
        settled(page, 1)
        gone = int(re.search(r"#remove=(\d+)", page.url)[1])
        true = nora.what_if(model, data, gone)
        assert total(page) == pytest.approx(true.total, rel=1e-4)
        assert page.evaluate("gone => window.noraGraph.getGraph().hasNode(gone)", str(gone))
        # A node that is drawn in the background only is hit by a click, too.
        behind = page.evaluate(
            """() => {
                const sigma = window.noraGraph;
                const box = document.getElementById("stage").getBoundingClientRect();
                const at = sigma.graphToViewport({ x: 5000, y: 5000 });
                return [box.left + at.x, box.top + at.y];
            }"""
        )
        page.mouse.click(*behind)
        settled(page, 2)
        assert not watched.complaints
        page.context.close()


def test_nodes_of_several_types_have_shapes_and_edges_of_several_types_come(browser):
    model, data, task = typed_papers()
    with nora.explore(model, data, task, browser=False) as explorer:
        watched = visit(browser, explorer)
        page = watched.page
        page.wait_for_selector("#panel h4:text-is('Most influential')")
        assert {"author", "paper"} <= set(page.locator("#legend li").all_text_contents())
        kinds = page.evaluate("['0', '20'].map(id => window.noraGraph.getNodeDisplayData(id).type)")
        assert kinds == ["disc", "square"]
        page.locator("#table-group-0").select_option(label="author (12)")
        assert "of 12 nodes" in page.locator("#table .status").inner_text()
        choose(page, "author 3")
        page.get_by_role("button", name="Remove author 3").first.click()
        settled(page, 1)
        true = nora.what_if(model, data, ("author", 3), task)
        assert total(page) == pytest.approx(true.total, rel=1e-5)
        assert f"of {data['paper'].num_nodes} nodes" in page.locator("#announcer").inner_text()
        choose(page, "paper 1")
        page.locator("#connect summary").click()
        page.get_by_label("Edge type").select_option(label="cites")
        field = page.get_by_role("combobox", name="From paper 1 to")
        cited = data["paper", "cites", "paper"].edge_index
        free = next(k for k in range(2, 20) if k not in set(cited[1][cited[0] == 1].tolist()))
        field.fill(f"paper {free}")
        field.press("Enter")
        settled(page, 2)
        session = nora.Session(model, data, task)
        added = {("paper", "cites", "paper"): [(1, free)]}
        true = session.what_if(("author", 3), add_edges=added)
        assert total(page) == pytest.approx(true.total, rel=1e-5)
        assert not watched.complaints
        page.context.close()


def test_the_command_explores_a_saved_run(browser, run, tmp_path):
    folder = run.save(tmp_path / "karate-run")
    command = [sys.executable, "-m", "nora", "explore", str(folder), "--no-browser"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        try:
            address = next(line for line in started.stdout if line.startswith("Explorer: "))
            url = address.removeprefix("Explorer: ").strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/enter\?token=[\w-]+", url)
            page = browser.new_page()
            page.goto(url)
            page.wait_for_selector("body.ready")
            assert page.locator("h1").inner_text() == "karate-run"
            page.close()
        finally:
            started.terminate()


def test_features_are_chosen_by_their_names(browser, run):
    names = [f"trait {k}" for k in range(20)]
    shown = {"names": run.dataset.node_names, "feature_names": names, "browser": False}
    with nora.explore(run.model, run.data, **shown) as named:
        watched = visit(browser, named)
        page = watched.page
        choose(page, "member 17")
        page.locator("#features summary").click()
        page.get_by_label("Feature", exact=True).select_option("trait 3")
        page.get_by_label("New value").fill("0.5")
        page.get_by_role("button", name="Set", exact=True).click()
        settled(page, 1)
        assert "trait 3 = 0.5" in page.locator(".edits li").inner_text()
        row = run.data.x[16].clone()
        row[3] = 0.5
        true = nora.what_if(run.model, run.data, features={16: row})
        assert total(page) == pytest.approx(true.total, rel=1e-5)
        assert not watched.complaints
        page.context.close()
