"""The page in a real browser: it works from a file, alone, by mouse and keyboard, at any width.

Without Chromium these tests are skipped, or fail where NORA_REQUIRE_BROWSER=1.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import nora
from chromium import Watched, launch, violations
from nora.analysis.as_time_allows import SECONDS
from report_page import visit

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def run():
    return nora.train("gcn", "karate", epochs=60, progress=False)


@pytest.fixture(scope="module")
def scores(run):
    return nora.influence(run.model, run.data, "exact", progress=False)


@pytest.fixture(scope="module")
def report(run, scores, tmp_path_factory) -> Path:
    """A report of the karate club; its second member has a script for a name."""
    names = list(run.dataset.node_names)
    names[int(scores.top(2)["node"][1])] = EVIL
    cauchy = nora.influence(run.model, run.data, "cauchy", progress=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SECONDS, "edges", 600.0)  # every edge, however busy the machine is
        return nora.write_report(
            tmp_path_factory.mktemp("page") / "report.html",
            run.model,
            run.data,
            [scores, cauchy],
            names=names,
            class_names=run.dataset.class_names,
            metrics=run.metrics,
            warnings=[f"Take care {EVIL}"],
            effects=4,
        )


@pytest.fixture
def watched(browser, report) -> Iterator[Watched]:
    found = visit(browser, report, reduced_motion="reduce")
    yield found
    assert not found.complaints
    found.page.context.close()


LABELLED = "name => window.noraGraph.getGraph().findNode((_, data) => data.label === name)"


def first_rows(page) -> list[str]:
    return page.locator("#table tbody .node").all_text_contents()


def test_it_opens_from_a_file_without_complaint_and_asks_for_nothing_else(watched, report):
    asked = [url for url in watched.requests if not url.startswith("data:")]
    assert asked == [report.as_uri()]
    assert watched.page.title() == watched.page.locator("h1").inner_text()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing(browser, report, width, scheme):
    found = visit(browser, report, width, color_scheme=scheme, reduced_motion="reduce")
    assert violations(found.page) == []
    found.page.locator("#table tbody .node").first.click()
    found.page.wait_for_selector("#panel .changes")
    assert violations(found.page) == []
    found.page.context.close()


def test_the_ranking_starts_with_the_most_influential(watched, run, scores):
    first = run.dataset.node_names[int(scores.top(1)["node"][0])]
    assert first_rows(watched.page)[:2] == [first, EVIL]
    assert len(first_rows(watched.page)) == 25  # a page


def test_the_ranking_sorts_by_every_column(watched):
    page = watched.page
    for title in (
        "Rank",
        "Node",
        "Influence",
        "Degree",
        "PageRank",
        "Fragile",
        "Predicted",
        "Label",
    ):
        head = page.locator("#table").get_by_role("columnheader", name=title, exact=True)
        head.get_by_role("button").click()
        once = head.get_attribute("aria-sort")
        ordered = first_rows(page)
        head.get_by_role("button").click()
        assert {once, head.get_attribute("aria-sort")} == {"ascending", "descending"}
        assert first_rows(page) != ordered
    page.get_by_role("columnheader", name="Degree").get_by_role("button").click()
    degrees = [int(text) for text in page.locator("#table tbody td.degree").all_text_contents()]
    assert degrees == sorted(degrees, reverse=True)


def test_the_ranking_filters_and_turns_pages(watched):
    page = watched.page
    page.get_by_role("button", name="Next").click()
    assert "26 to 34 of 34" in page.locator("#table .status").inner_text()
    page.get_by_label("Search the ranking").fill("member 3")
    assert "member 31" in first_rows(page)
    assert all(name.startswith("member 3") for name in first_rows(page))
    page.get_by_label("Search the ranking").fill("no such node")
    assert "No node matches" in page.locator("#table .status").inner_text()


def test_choosing_a_node_in_the_table_shows_its_effect(watched, run, scores):
    page = watched.page
    first = int(scores.top(1)["node"][0])
    flips = nora.what_if(run.model, run.data, first).flips()
    page.locator("#table tbody .node").first.click()
    panel = page.locator("#panel")
    assert f"{len(flips)} of 33 other nodes would flip to another class" in (
        panel.inner_text().replace("\n", " ")
    )
    moved = [run.dataset.node_names[node] for node in flips["node"]]
    assert moved
    assert panel.locator(".changes .flipped .node").all_text_contents() == moved
    assert page.locator("#announcer").inner_text().startswith("Without")
    assert page.url.endswith(f"#node-{first}")
    panel.get_by_role("button", name="Restore").click()
    assert "No node is removed" in panel.inner_text()


def test_choosing_a_node_in_the_graph_shows_its_effect(watched, run, scores):
    page = watched.page
    assert page.evaluate("Boolean(window.noraGraph)"), "Chromium draws WebGL in software"
    first = int(scores.top(1)["node"][0])
    name = run.dataset.node_names[first]
    page.locator("#stage").scroll_into_view_if_needed()
    where = page.evaluate(
        """name => {
            const sigma = window.noraGraph;
            const key = sigma.getGraph().findNode((_, data) => data.label === name);
            const data = sigma.getGraph().getNodeAttributes(key);
            const box = document.getElementById("stage").getBoundingClientRect();
            const at = sigma.graphToViewport(data);
            return [box.left + at.x, box.top + at.y];
        }""",
        name,
    )
    page.mouse.move(*where)
    page.mouse.click(*where)
    page.wait_for_function("document.getElementById('panel').innerText.includes('Without')")
    assert page.locator("#panel h3").inner_text() == name


def place_of(page, name: str) -> list[float]:
    """Where a node of the drawing is on the screen."""
    page.locator("#stage").scroll_into_view_if_needed()
    return page.evaluate(
        """name => {
            const sigma = window.noraGraph;
            const key = sigma.getGraph().findNode((_, data) => data.label === name);
            const box = document.getElementById("stage").getBoundingClientRect();
            const at = sigma.graphToViewport(sigma.getGraph().getNodeAttributes(key));
            return [box.left + at.x, box.top + at.y];
        }""",
        name,
    )


def test_pointing_at_a_node_shows_its_card_and_its_neighbours(watched, run, scores):
    page = watched.page
    first = int(scores.top(1)["node"][0])
    name = run.dataset.node_names[first]
    card = page.locator(".hovercard")
    assert not card.is_visible()
    page.mouse.move(*place_of(page, name))
    page.wait_for_function("!document.querySelector('.hovercard').hidden")
    text = card.inner_text()
    degree = int((run.data.edge_index[0] == first).sum())
    assert name in text and "1st of 34" in text and f"Degree\n{degree}" in text
    lit = page.evaluate(
        """() => {
            const sigma = window.noraGraph;
            const ink = getComputedStyle(document.documentElement).getPropertyValue("--edge-lit").trim();
            return sigma.getGraph().edges().filter(key => sigma.getEdgeDisplayData(key).color === ink).length;
        }"""
    )
    assert lit == degree
    page.mouse.move(2, 2)
    page.wait_for_function("document.querySelector('.hovercard').hidden")


def test_edges_can_be_seen(watched):
    """Between a third and two thirds of the way from the paper to the ink."""
    for theme in ("light", "dark"):
        watched.page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        style = "name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()"
        paper, edge = (watched.page.evaluate(style, name) for name in ("--paper", "--edge"))
        light = [sum(int(colour[1:][k : k + 2], 16) for k in (0, 2, 4)) for colour in (paper, edge)]
        assert abs(light[0] - light[1]) > 150


def test_choosing_an_edge_draws_it_in_the_graph(watched, run):
    page = watched.page
    first = nora.edge_influence(run.model, run.data, progress=False, measure=["change", "flips"])
    first = first.top(3).iloc[2]
    row = page.locator("#edges tbody tr").nth(2)
    assert row.locator("td.influence").inner_text() == f"{first['influence']:.3f}"
    row.locator("button").click()
    ends = [
        page.evaluate(LABELLED, run.dataset.node_names[int(first[end])])
        for end in ("source", "target")
    ]
    lit = """() => {
        const sigma = window.noraGraph;
        const ink = getComputedStyle(document.documentElement).getPropertyValue("--edge-lit").trim();
        const graph = sigma.getGraph();
        const own = graph.edges().filter(key => sigma.getEdgeDisplayData(key).color === ink);
        return own.map(key => graph.extremities(key));
    }"""
    (drawn,) = page.evaluate(lit)
    assert sorted(drawn) == sorted(ends)
    flips = int(first["flips"])
    reply = f"Without this edge, {flips} node" if flips else "no prediction would flip"
    assert reply in page.locator("#panel").inner_text()
    assert reply in page.locator("#announcer").inner_text()
    page.locator("#table tbody .node").first.click()  # a node instead
    assert page.evaluate(lit) == [] and page.locator("#edges tr.selected").count() == 0
    row.locator("button").click()
    page.locator("#panel").get_by_role("button", name="Restore the edge").click()
    assert "No node is removed" in page.locator("#panel").inner_text()


def test_more_edges_are_shown_when_asked_for(watched):
    page = watched.page
    assert page.locator("#edges tbody tr").count() == 10
    page.locator("#edges").get_by_role("button", name="Show").click()
    assert page.locator("#edges tbody tr").count() == 78
    assert page.evaluate("document.activeElement.closest('tr').dataset.edge") == "11"


def test_back_and_forward_go_through_what_was_chosen(watched):
    page = watched.page
    names = first_rows(page)[:2]
    page.locator("#table tbody .node").nth(0).click()
    page.locator("#table tbody .node").nth(1).click()
    assert page.locator("#panel h3").inner_text() == names[1]
    page.go_back()
    assert page.locator("#panel h3").inner_text() == names[0]
    page.go_back()
    assert "No node is removed" in page.locator("#panel").inner_text()
    page.go_forward()
    assert page.locator("#panel h3").inner_text() == names[0]
    page.get_by_role("button", name="Restore").click()
    assert "#" not in page.url
    page.go_back()
    assert page.locator("#panel h3").inner_text() == names[0]


def test_the_ranking_is_filtered_by_class(watched, run):
    page = watched.page
    page.get_by_label("Class", exact=True).select_option(index=1)
    shown = page.locator("#table tbody td.predicted").all_text_contents()
    assert len(set(shown)) == 1 and len(shown) < 34
    counted = page.get_by_label("Class", exact=True).locator("option").nth(1).inner_text()
    assert f"of {counted.split('(')[1][:-1]} node" in page.locator("#table .status").inner_text()
    page.get_by_label("Class", exact=True).select_option(index=0)
    assert "of 34 nodes" in page.locator("#table .status").inner_text()


def test_a_node_without_a_stored_effect_says_how_to_find_out(watched, run, scores):
    page = watched.page
    tenth = int(scores.top(10)["node"][9])
    page.locator(f'#table tr[data-node="{tenth}"] .node').click()
    reply = page.locator("#panel").inner_text()
    assert f"nora what-if RUN --remove '{run.dataset.node_names[tenth]}'" in reply
    assert f"nora.what_if(model, data, remove={tenth})" in reply


@pytest.mark.parametrize("names", [True, False])
def test_the_command_names_the_node_and_the_run(browser, run, scores, tmp_path, names):
    given = [f"it's {12 * node}" for node in range(34)] if names else None
    path = nora.write_report(
        tmp_path / "a.html", run.model, run.data, scores, names=given, run="my out/run", effects=1
    )
    watched = visit(browser, path, reduced_motion="reduce")
    page = watched.page
    field = page.get_by_role("combobox", name="Find a node")
    field.fill("it's 12" if names else "3")
    found = [
        text.split("\n")[0]
        for text in page.locator("#finder").get_by_role("option").all_inner_texts()
    ]
    assert found[0] == ("it's 12" if names else "node 3")
    assert all(name.startswith("it's 12" if names else "node 3") for name in found[:3])
    if names:  # then the position 33 does not matter
        field.fill("33")
        (only,) = page.locator("#finder").get_by_role("option").all_inner_texts()
        assert only.startswith("it's 336")
    else:
        assert "node 13" in found or "node 23" in found
    last = int(scores.top(34)["node"][33])
    page.evaluate("hash => { location.hash = hash }", f"node-{last}")
    command = page.locator("#panel code").all_inner_texts()
    word = shlex.quote(given[last]) if given else str(last)
    assert command == [f"nora what-if 'my out/run' --remove {word}"]
    assert shlex.split(command[0])[-1] == (given[last] if given else str(last))
    assert not watched.complaints
    page.context.close()


def test_a_click_anywhere_in_a_row_chooses_its_node(watched):
    page = watched.page
    row = page.locator("#table tbody tr").nth(2)
    name = row.locator(".node").inner_text()
    row.locator("td.degree").click()
    assert page.locator("#panel h3").inner_text() == name


def test_labels_in_the_chart_of_shares_do_not_overlap(watched):
    boxes = watched.page.locator("#figures .share text").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect()).map(box => [box.top, box.bottom])"
    )
    assert len(boxes) == 2  # of 34 nodes, 1 % and 3 % are the same one
    (_, above), (below, _) = sorted(boxes)
    assert below >= above - 2


def test_paper_has_every_name_in_full_and_no_prompts(browser, run, scores, tmp_path):
    names = [f"a member whose name is rather long, number {node} of all" for node in range(34)]
    path = nora.write_report(
        tmp_path / "a.html", run.model, run.data, scores, names=names, effects=1
    )
    watched = visit(browser, path, width=794, reduced_motion="reduce")
    page = watched.page
    page.emulate_media(media="print")
    cut = "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).length"
    assert page.locator("#table .node").count() == 25
    assert page.locator("#table .node").evaluate_all(cut) == 0
    assert not page.locator("#panel").is_visible()
    assert not page.get_by_text("Remove a node").is_visible()
    assert not page.locator("#table .amount").first.is_visible()
    shown = "one => getComputedStyle(one).display"
    assert page.locator("#table thead").evaluate(shown) == "table-header-group"
    assert page.evaluate("document.documentElement.scrollWidth") <= 794
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.context.close()


def test_a_name_that_is_a_script_is_shown_as_text_and_does_nothing(watched):
    page = watched.page
    assert f"Take care {EVIL}" in page.locator(".caution").inner_text()
    page.locator("#table tbody .node").nth(1).click()
    assert page.locator("#panel h3").inner_text() == EVIL
    assert page.locator("main script").count() == 0


def test_scripts_that_are_not_the_page_s_own_do_not_run(browser, report):
    watched = visit(browser, report)
    watched.page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.intruder = true";
            document.body.append(script);
        }"""
    )
    assert watched.page.evaluate("window.intruder") is None
    assert any("Content Security Policy" in text for text in watched.complaints)
    watched.page.context.close()


def test_the_search_finds_a_node_by_keyboard(watched, run, scores):
    page = watched.page
    third = run.dataset.node_names[int(scores.top(3)["node"][2])]
    field = page.get_by_role("combobox", name="Find a node")
    field.focus()
    page.keyboard.type(third[1:])
    assert page.locator("#finder").get_by_role("option").first.inner_text().startswith(third)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator("#panel h3").inner_text() == third


def test_everything_needed_can_be_reached_and_pressed_by_keyboard(watched):
    page = watched.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = None
    for _ in range(60):
        page.keyboard.press("Tab")
        reached = page.evaluate("document.activeElement.id")
        if reached == "table-search":
            break
    assert reached == "table-search"
    page.keyboard.type("member")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "table-class"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    rank = page.locator("#table").get_by_role("columnheader", name="Rank", exact=True)
    assert rank.get_attribute("aria-sort") == "descending"
    assert rank.get_by_role("button").evaluate("it => it === document.activeElement")


def test_findings_lead_to_the_nodes_they_name(watched):
    page = watched.page
    link = page.locator(".findings a").first
    name = link.inner_text()
    link.click()
    assert page.locator("#panel h3").inner_text() == name
    assert page.evaluate("document.activeElement.id") == "panel-title"


def test_dark_follows_the_system_and_the_button(browser, report):
    def ground(page) -> str:
        return page.evaluate("getComputedStyle(document.documentElement).backgroundColor")

    watched = visit(browser, report, color_scheme="dark")
    page = watched.page
    dark = ground(page)
    page.get_by_role("button", name="Change to light colours").click()
    light = ground(page)
    assert sum(map(int, dark[4:-1].split(","))) < 150 < 600 < sum(map(int, light[4:-1].split(",")))
    page.emulate_media(media="print")
    assert page.locator(".picture").is_visible()
    assert not page.locator("#stage").is_visible()
    assert not watched.complaints
    page.context.close()


def test_no_width_scrolls_sideways(watched):
    page = watched.page
    for width in (1440, 768, 390, 320):
        page.set_viewport_size({"width": width, "height": 844})
        page.locator("#table tbody .node").nth(1).click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.get_by_role("button", name="Restore").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_webgl_there_is_a_notice_and_a_still_picture(play, report):
    browser = launch(play, "--disable-3d-apis")
    watched = visit(browser, report, reduced_motion="reduce")
    page = watched.page
    assert "no WebGL" in page.locator("#graph .notice").inner_text()
    assert page.locator("#graph svg.picture circle").count() == 34
    page.locator("#table tbody .node").first.click()
    assert "Without" in page.locator("#panel").inner_text()
    page.get_by_role("button", name="Zoom in").click()
    assert not watched.complaints
    browser.close()


def test_without_scripts_the_findings_and_the_first_nodes_are_there(browser, report, run, scores):
    opened = browser.new_context(java_script_enabled=False)
    page = opened.new_page()
    page.goto(report.as_uri())
    assert page.locator(".finding").count() >= 3
    first = run.dataset.node_names[int(scores.top(1)["node"][0])]
    assert first in page.locator("noscript table, main table").first.inner_text()
    opened.close()


@pytest.mark.parametrize("task", ["node", "link"])
def test_small_graphs_of_either_task_work(browser, tmp_path, task):
    run = nora.train("gcn", "karate", task, epochs=30, progress=False)
    scores = nora.influence(run.model, run.data, "exact", run.task, progress=False)
    path = nora.write_report(
        tmp_path / "report.html", run.model, run.data, scores, run.task, effects=3
    )
    watched = visit(browser, path)
    watched.page.locator("#table tbody .node").first.click()
    assert "Without" in watched.page.locator("#panel").inner_text()
    assert watched.page.locator("#panel .changes li").count() > 3
    assert not watched.complaints
    watched.page.context.close()
