"""The page of a large graph in a real browser: a neighbourhood is drawn, estimates are marked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import nora
from nora.questions.refine import refined
from report_page import visit


@pytest.fixture(scope="module")
def crowd(tmp_path_factory) -> Path:
    """A report of an estimate on a graph of twelve classes, of which a part is drawn."""
    random = torch.Generator().manual_seed(0)
    number, classes = 3200, 12
    y = torch.randint(classes, (number,), generator=random)
    hubs = torch.randint(40, (2 * number,), generator=random)
    ends = torch.randint(number, (2 * number,), generator=random)
    edges = torch.stack([hubs, ends])[:, hubs != ends]
    x = torch.nn.functional.one_hot(y, classes).float()
    x = x + 0.8 * torch.randn(number, classes, generator=random)
    data = Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], dim=1), y=y)
    torch.manual_seed(0)
    model = nora.build_model("sage", classes, classes, hidden_channels=16).eval()
    session = nora.Session(model, data)
    scores = session.influence("cauchy", samples=8, progress=False)
    scores = refined(session, replace(scores, stderr=0.01 + 0.2 * scores.scores), first=60)
    path = tmp_path_factory.mktemp("crowd") / "report.html"
    return nora.write_report(path, model, data, scores, session=session, title="crowd")


def test_of_a_large_graph_the_chosen_node_s_own_neighbourhood_is_drawn(browser, crowd):
    watched = visit(browser, crowd, reduced_motion="reduce")
    page = watched.page
    page.locator("#table tbody .node").first.click()
    name = page.locator("#panel h3").inner_text()
    assert f"Drawn: {name}, its neighbours" in page.locator("#graph figcaption").inner_text()
    drawn, tied = page.evaluate(
        """name => {
            const graph = window.noraGraph.getGraph();
            const key = graph.findNode((_, data) => data.label === name);
            return [graph.order, graph.degree(key)];
        }""",
        name,
    )
    assert 50 < tied < drawn < 500
    page.go_back()
    assert "1,500 of 3,200 nodes" in page.locator("#graph figcaption").inner_text()
    assert page.evaluate("window.noraGraph.getGraph().order") == 1500
    assert not watched.complaints
    page.context.close()


def test_colours_and_the_table_of_moves_are_of_the_classes_that_the_removal_is_about(
    browser, crowd
):
    watched = visit(browser, crowd, reduced_motion="reduce")
    page = watched.page
    page.locator("#table tbody .node").first.click()
    rows = page.locator("#panel .fromto tbody tr")
    assert 2 <= rows.count() <= 7
    own = page.locator("#panel .fromto th .chip").all_text_contents()
    legend = page.locator("#graph .legend").inner_text()
    assert own[0] in legend
    other = page.evaluate(
        "getComputedStyle(document.documentElement).getPropertyValue('--class-other').trim()"
    )
    colour = "one => getComputedStyle(one).getPropertyValue('--own').trim()"
    title = page.locator("#panel h3").evaluate(colour)
    assert title.startswith("#") and title != other
    flips = page.locator("#panel .summary strong").nth(1).inner_text().split(" of ")[0]
    cells = page.locator("#panel .fromto td.number").all_text_contents()
    assert sum(int(cell) for cell in cells if cell.isdigit()) == int(flips)
    page.context.close()


def test_estimates_are_marked_and_exact_values_are_not(browser, crowd):
    watched = visit(browser, crowd, reduced_motion="reduce")
    page = watched.page
    first = page.locator("#table tbody tr").first
    assert "≈" not in first.inner_text()
    remark = page.locator("#table .remark").inner_text()
    assert "± their standard errors: On 120 sampled nodes" in remark
    assert "±" not in first.inner_text()
    page.get_by_role("columnheader", name="Rank", exact=True).get_by_role("button").click()
    last = page.locator("#table tbody tr:has-text('≈')").first
    assert last.locator("td.influence [title^='estimated: between about']").count() == 1
    assert "±" in last.locator("td.influence").inner_text()
    last.locator(".node").click()
    assert "≈" in page.locator("#panel .facts").inner_text()
    assert "nodes only, whose influence is exact" in page.locator("#panel").inner_text()
    page.context.close()
