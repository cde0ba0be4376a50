"""The explorer's ranking in a real browser: of nodes, edges and fragile nodes, by any measure, filtered."""

from __future__ import annotations

import pytest

import nora
from explorer_page import choose, settled, total, visit


def test_the_ranking_is_that_of_influence(watched, run, names):
    true = nora.influence(run.model, run.data, "exact", progress=False)
    shown = watched.page.locator("#table tbody .node").all_text_contents()
    assert shown == [names[node] for node in true.top(15)["node"]]


def row_nodes(page) -> list[str]:
    return page.locator("#table tbody tr").evaluate_all("rows => rows.map(r => r.dataset.node)")


def show_ranking(page, of: str) -> None:
    page.locator(f"#table input[name=ranking-of][value={of}]").check()
    page.wait_for_function(
        """what => document.querySelector("#table .streaming").hidden
            && document.querySelector("#table .status").textContent.includes(what)""",
        arg={"edges": " edge", "fragile": " fragile"}[of],
    )


def test_edges_are_ranked_by_what_their_absence_changes_and_cut_from_the_ranking(watched, run):
    page = watched.page
    show_ranking(page, "edges")
    true = nora.edge_influence(run.model, run.data, progress=False).top(15)
    shown = row_nodes(page)
    assert len(shown) == 15
    first = (int(true["source"].iloc[0]), int(true["target"].iloc[0]))
    assert shown[0] == "-".join(map(str, sorted(first)))
    page.locator("#table tbody tr").first.get_by_role("button", name="Remove").click()
    settled(page, 1)
    alone = nora.what_if(run.model, run.data, remove_edges=[first]).total
    assert total(page) == pytest.approx(alone, rel=1e-5)
    assert alone == pytest.approx(float(true["influence"].iloc[0]), rel=1e-4)
    page.locator("#table tbody tr").first.get_by_role("button", name="Restore").click()
    page.wait_for_selector("#panel h3:text-is('No edits')")
    page.locator("#table-degree").fill("17")
    degree = run.data.edge_index[0].bincount(minlength=34)
    ends = run.data.edge_index.t().tolist()
    fits = {tuple(sorted(pair)) for pair in ends if max(degree[end] for end in pair) >= 17}
    page.wait_for_selector(f"#table .status:has-text('of {len(fits)} edges')")


def test_fragile_nodes_are_those_of_fragile(watched, run, names):
    page = watched.page
    show_ranking(page, "fragile")
    true = nora.fragile(run.model, run.data, progress=False)
    shown = {int(one) for one in row_nodes(page)}
    fragile = true.counts.nonzero().flatten().tolist()
    assert fragile and shown == set(fragile[:15] if len(fragile) > 15 else fragile)
    count = page.locator("#table tbody tr td.flips").first.inner_text()
    assert int(count) == int(true.counts.max())


@pytest.mark.parametrize("measure", ["flips", "accuracy", "class:1"])
def test_the_ranking_by_another_measure_is_that_of_influence(watched, run, measure):
    page = watched.page
    page.locator("#measure").select_option(measure)
    page.wait_for_function(
        """() => document.querySelector("#table .streaming").hidden
            && !document.querySelector("#table tbody").textContent.includes("…")
            && document.querySelector("#panel h4").textContent.startsWith("Most influential by")"""
    )
    session = nora.Session(run.model, run.data)
    scores = session.influence("exact", measure=measure, progress=False).scores
    largest = scores.abs().sort(descending=True).values[:15]
    shown = [int(one) for one in row_nodes(page)]
    assert scores[shown].abs().tolist() == pytest.approx(largest.tolist(), abs=1e-6)


def test_the_ranking_filters_by_group(watched):
    page = watched.page
    page.locator("#table-group-0").select_option(label="second (17)")
    assert "of 17 nodes" in page.locator("#table .status").inner_text()
    assert all(int(one) >= 17 for one in row_nodes(page))


def test_the_ranking_filters_by_class_label_and_degree(watched, run):
    page = watched.page
    before = nora.what_if(run.model, run.data, 0).before.argmax(dim=-1)
    page.locator("#table-class").select_option("0")
    assert f"of {int((before == 0).sum())} node" in page.locator("#table .status").inner_text()
    page.locator("#table-degree").fill("9")
    shown = page.locator("#table tbody tr").evaluate_all(
        "rows => rows.map(r => Number(r.dataset.node))"
    )
    degree = run.data.edge_index[0].bincount(minlength=34)
    assert sorted(shown) == [n for n in range(34) if before[n] == 0 and degree[n] >= 9]
    page.locator("#table-search").fill("missing")
    assert "No node matches" in page.locator("#table .status").inner_text()


@pytest.mark.parametrize("other", ["edges", "fragile"])
def test_the_nodes_come_back_after_another_ranking(watched, other):
    page = watched.page
    before = row_nodes(page)
    titles = page.locator("#table thead th").all_text_contents()
    show_ranking(page, other)
    assert page.locator("#table thead th").all_text_contents() != titles
    page.locator("#table input[name=ranking-of][value=nodes]").check()
    page.wait_for_selector("#table .status:has-text('of 34 nodes')")
    assert page.locator("#table thead th").all_text_contents() == titles
    assert row_nodes(page) == before


def test_a_finished_ranking_arrives_whole_in_however_many_parts(
    browser, explorer, run, monkeypatch
):
    monkeypatch.setattr("nora.explorer.background_ranking.PART", 10)
    watched = visit(browser, explorer)
    page = watched.page
    page.wait_for_selector("#panel h4:text-is('Most influential')")
    assert page.locator("#table .streaming").is_hidden()
    true = nora.influence(run.model, run.data, "exact", progress=False)
    choose(page, run.dataset.node_names[int(true.top(34)["node"].iloc[-1])])
    assert "34th of 34" in page.locator("#chosen .facts").inner_text()
    page.locator("#table").get_by_role("button", name="Next").click()
    page.locator("#table").get_by_role("button", name="Next").click()
    assert "…" not in page.locator("#table tbody").inner_text()
    assert not watched.complaints
    page.context.close()
