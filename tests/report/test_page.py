"""`write_report`: what the page says, that it is true, escaped, whole and small enough."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

import nora
from nora.analysis.reporting import write_report
from nora.questions.refine import refined
from nora.report.consequences import consequence
from nora.report.drawing import edge_pairs
from nora.report.packing import packed_edges, unpacked
from nora.results.plots.style import COLOURS
from nora.training.trust import verdict
from pages import page_value, words

ASSETS = Path(nora.__file__).parent / "report" / "assets"


@pytest.fixture(scope="module")
def run():
    return nora.train("gcn", "polarised", epochs=20, progress=False)


@pytest.fixture(scope="module")
def scores(run):
    found = nora.influence(run.model, run.data, "exact", progress=False)
    return replace(found, names=run.dataset.node_names)


@pytest.fixture(scope="module")
def page(run, scores, tmp_path_factory):
    degree = nora.influence(run.model, run.data, "degree", progress=False)
    return nora.write_report(
        tmp_path_factory.mktemp("page") / "report.html",
        run.model,
        run.data,
        [scores, degree],
        class_names=run.dataset.class_names,
        metrics=run.metrics,
        notes=["Drawn up on a Tuesday."],
        warnings=["The surrogate is weak."],
        effects=5,
    )


def test_the_first_finding_is_what_what_if_says_of_the_first_node(page, run, scores):
    first = int(scores.top(1)["node"][0])
    flips = len(nora.what_if(run.model, run.data, first).flips())
    assert flips > 0
    name = run.dataset.node_names[first]
    assert f"Without {name}, {flips} of 999 other nodes would flip to another class" in words(page)


def test_the_shares_of_the_first_nodes_are_those_of_the_scores(page, scores):
    ordered = scores.scores.sort(descending=True).values
    for share, number, carried in page_value(page)["spread"]["shares"]:
        assert number == round(share * 1000)
        assert carried == pytest.approx(float(ordered[:number].sum() / ordered.sum()), abs=1e-4)
    first = float(ordered[:10].sum() / ordered.sum())
    assert f"The top 1 % of nodes (10) carry {100 * first:.0f} % of all influence" in words(page)


def test_columns_are_those_of_scores_graph_and_model(page, run, scores):
    node = page_value(page)["node"]
    assert node["influence"] == pytest.approx(scores.scores.tolist(), rel=1e-4)
    assert sorted(node["rank"]) == list(range(1, 1001))
    degree = torch.bincount(run.data.edge_index[0], minlength=1000)
    assert node["degree"] == degree.tolist()
    assert sum(node["pagerank"]) == pytest.approx(1, abs=1e-3)
    predicted = run.model(run.data.x, run.data.edge_index).argmax(dim=-1)
    assert node["predicted"] == predicted.tolist()
    assert node["label"] == run.data.y.tolist()
    assert node["name"] == list(run.dataset.node_names)


def test_every_effect_is_shown_if_all_fit(run, scores, tmp_path):
    path = write_report(tmp_path / "a.html", run.model, run.data, scores)
    value = page_value(path)
    assert len(value["effect"]) == 1000
    assert value["effects"]["of"][:5] == scores.top(5)["node"].tolist()
    for node in scores.top(1000)["node"][::97]:
        assert value["effect"][str(node)]["total"] == pytest.approx(
            scores[int(node)], rel=1e-3, abs=1e-4
        )


def test_no_more_effects_are_shown_than_fit_the_page(run, scores, tmp_path, monkeypatch):
    monkeypatch.setattr("nora.report.contents.MOST_BYTES", 500_000)
    path = write_report(tmp_path / "a.html", run.model, run.data, scores)
    assert 16 <= len(page_value(path)["effect"]) < 1000
    assert path.stat().st_size < 510_000


def test_edges_are_packed_whole():
    random = np.random.default_rng(0)
    source, target = edge_pairs(random.integers(0, 50, (2, 200)), 50)
    found = unpacked(packed_edges(source, target, 50, 1e6))
    pairs, at = set(), 0
    for start, amount in enumerate(found["count"]):
        end = start
        for step in found["step"][at : at + amount]:
            end += step
            pairs.add((start, end))
        at += amount
    assert pairs == set(zip(source.tolist(), target.tolist(), strict=True))
    assert packed_edges(source, target, 50, 100) is None


@pytest.fixture(scope="module")
def estimated(run, tmp_path_factory):
    session = nora.Session(run.model, run.data)
    scores = refined(session, session.influence("cauchy", progress=False), first=40)
    degree = session.influence("degree", progress=False)
    path = tmp_path_factory.mktemp("page") / "estimate.html"
    given = (run.model, run.data, [scores, degree])
    return scores, write_report(path, *given, session=session, names=run.dataset.node_names)


def test_an_estimate_is_called_one(estimated):
    scores, path = estimated
    text = words(path)
    assert "node (estimate by cauchy" in text
    assert "Method estimate by cauchy" in text and "Measured for" not in text
    facts = scores.details["refined"]
    assert f"Spearman {facts['spearman']:.3f}, median error" in text
    assert "The top 1 % of nodes (10) carry about" in text


def test_every_node_whose_effect_is_shown_is_ranked_by_it(estimated):
    scores, path = estimated
    value = page_value(path)
    assert set(value["effects"]["of"]) == set(value["estimate"]["exact"])
    assert set(value["estimate"]["exact"]) == set(scores.details["refined"]["nodes"])
    for node, effect in value["effect"].items():
        assert effect["total"] == pytest.approx(
            value["node"]["influence"][int(node)], rel=1e-3, abs=1e-4
        )
    order = sorted(range(1000), key=value["node"]["rank"].__getitem__)
    influence = [value["node"]["influence"][node] for node in order]
    assert influence == sorted(influence, reverse=True)


def test_nothing_is_found_in_differences_within_the_error(run, tmp_path):
    session = nora.Session(run.model, run.data)
    exact = session.influence("exact", progress=False)
    noise = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    poor = nora.Influence(exact.scores * (1.5 * noise).exp(), "cauchy")
    degree = session.influence("degree", progress=False)
    page = write_report(tmp_path / "a.html", run.model, run.data, [poor, degree], session=session)
    text = words(page)
    assert "order the nodes" not in text and "ranks the nodes" not in text
    # Ranks on the page are near the exact ones, whichever way the error went.
    ranks = exact.to_frame()["rank"]
    for node, rank in re.findall(r"node (\d+) has many edges .*? ranks only about ([\d,]+)", text):
        assert int(rank.replace(",", "")) <= int(ranks[int(node)]) * 1.1
    for node, rank in re.findall(r"node (\d+) has many edges .*? ranks at best ([\d,]+)", text):
        assert int(rank.replace(",", "")) <= int(ranks[int(node)])
    for node, rank in re.findall(r"node (\d+) has few edges .*? ranks about ([\d,]+)", text):
        assert int(ranks[int(node)]) <= 1.5 * int(rank.replace(",", ""))


def test_of_very_many_nodes_the_first_and_a_sample_are_kept(run, scores, tmp_path, monkeypatch):
    monkeypatch.setattr("nora.report.contents.MOST_NODES", 400)
    monkeypatch.setattr("nora.report.contents.FIRST_SHARE", 0.25)
    monkeypatch.setattr("nora.report.drawing.DRAWN_NODES", 50)
    page = write_report(tmp_path / "a.html", run.model, run.data, scores, effects=2)
    value = page_value(page)
    kept = value["node"]["id"]
    assert set(scores.top(100)["node"]) <= set(kept) and 300 < len(kept) <= 700
    ranks = scores.to_frame()["rank"]
    assert value["node"]["rank"] == [int(ranks[node]) for node in kept]
    assert max(value["node"]["rank"]) > 900


def test_effects_of_the_first_nodes_only_are_shown(page, scores):
    assert {int(key) for key in page_value(page)["effect"]} == set(scores.top(5)["node"])


def test_an_effect_lists_who_changes_from_which_class_to_which(page, run, scores):
    first = int(scores.top(1)["node"][0])
    effect = nora.what_if(run.model, run.data, first)
    flips = effect.flips()
    shown = page_value(page)["effect"][str(first)]
    assert shown["flips"] == len(flips)
    assert shown["node"][: len(flips)] == flips["node"].tolist()
    assert shown["from"][: len(flips)] == flips["from_class"].tolist()
    assert shown["to"][: len(flips)] == flips["to_class"].tolist()
    assert shown["total"] == pytest.approx(effect.total, rel=1e-4)
    assert sum(amount for _, _, amount in shown["moves"]) == len(flips)
    assert shown["before"][0] == pytest.approx(
        float(effect.before[flips["node"][0]].max()), abs=1e-3
    )


def test_a_weak_model_is_warned_of_once_though_the_caller_gives_other_advice(run, scores, tmp_path):
    weak = verdict("accuracy", 0.5, 0.5, "always answering 'left'", 100)
    worded_as_flags = weak.caution.replace("model= or encoding=", "--model or --encoding")
    assert worded_as_flags != weak.caution
    about = dict(trust=weak, warnings=[worded_as_flags], effects=3, edges=0, progress=False)
    written = write_report(tmp_path / "r.html", run.model, run.data, scores, **about)
    assert words(written).count("too weak for its influences") == 1


def test_warnings_notes_quality_and_provenance_are_there(page, run):
    text = words(page)
    assert "Read with care" in text and "The surrogate is weak." in text
    assert "Drawn up on a Tuesday." in text
    assert f"{100 * run.metrics['test_accuracy']:.0f} %" in text
    for part in (
        "exact, node task",
        "Compared with degree",
        f"nora {nora.__version__}",
        "torch_geometric",
    ):
        assert part in text


def test_other_methods_are_compared(page, scores):
    (other,) = page_value(page)["others"]
    assert other["name"] == "degree"
    truth = nora.Influence(torch.tensor(other["score"]), "degree").compare(scores)
    assert other["spearman"] == pytest.approx(truth["spearman"], abs=0.01)
    assert "ranks the nodes with a correlation" in words(page)


def test_links_are_reported(tmp_path):
    run = nora.train("gcn", "karate", "link", epochs=30, progress=False)
    scores = nora.influence(run.model, run.data, "exact", run.task, progress=False)
    page = write_report(
        tmp_path / "a.html", run.model, run.data, scores, run.task, metrics=run.metrics, effects=2
    )
    value = page_value(page)
    assert value["task"] == "link" and value["coloured_by"] == "label"
    assert "predicted" not in value["node"]
    first = int(scores.top(1)["node"][0])
    shown = value["effect"][str(first)]
    best = nora.what_if(run.model, run.data, first, run.task).top(1).iloc[0]
    largest = shown["change"].index(max(shown["change"]))
    assert shown["change"][largest] == pytest.approx(best["change"], abs=1e-4)
    assert {shown["source"][largest], shown["target"][largest]} == {best["source"], best["target"]}
    assert "156 pairs (edges and non-edges) among 34" in words(page)
    assert "Pairs predicted 156" in words(page)
    assert f"test AUC {run.metrics['test_auc']:.2f} baseline: guessing 0.50" in words(page)


def test_the_whole_graph_is_shown_if_the_model_sees_a_part_of_its_edges(tmp_path):
    run = nora.train("gcn", "karate", "link", epochs=5, progress=False)
    scores = nora.influence(run.model, run.data, "degree", run.task, progress=False)
    whole = run.dataset.data
    given = (run.model, run.data, scores, run.task)
    part = write_report(tmp_path / "a.html", *given, effects=0)
    page = write_report(tmp_path / "b.html", *given, effects=0, graph=whole)
    degree = torch.bincount(whole.edge_index[0], minlength=34).tolist()
    assert page_value(page)["node"]["degree"] == degree
    assert page_value(page)["drawing"]["edges"] == 78 > page_value(part)["drawing"]["edges"]
    assert "Nodes 34 Edges 78 " in words(page)
    assert page_value(page)["node"]["pagerank"] != page_value(part)["node"]["pagerank"]


@pytest.mark.parametrize(
    ("edges", "degrees", "number"),
    [
        # 0 follows 1 and 2, 1 follows 0, and 2 follows itself.
        ([[0, 0, 1, 2], [1, 2, 0, 2]], [3, 2, 1], 4),
        # The same both ways: each pair of directions is one edge.
        ([[0, 1, 0, 2, 2], [1, 0, 2, 0, 2]], [2, 1, 1], 3),
    ],
)
def test_degrees_and_edges_are_counted_as_people_count_them(tmp_path, edges, degrees, number):
    data = Data(x=torch.randn(3, 2), edge_index=torch.tensor(edges))
    model = nora.build_model("gcn", 2, 2).eval()
    scores = nora.Influence(torch.tensor([3.0, 2.0, 1.0]), "made up")
    page = write_report(tmp_path / "a.html", model, data, scores, effects=0)
    assert page_value(page)["node"]["degree"] == degrees
    assert f"Nodes 3 Edges {number} " in words(page)


def wheel(spokes: int) -> torch.Tensor:
    """Edges of a wheel: its hub is node 0, its rim goes round."""
    rim = torch.arange(1, spokes + 1)
    edges = torch.stack([torch.cat([torch.zeros_like(rim), rim]), torch.cat([rim, rim.roll(-1)])])
    return torch.cat([edges, edges.flip(0)], dim=1)


@pytest.mark.parametrize(("extra", "mentioned"), [(0, True), (1, False)])
def test_only_a_node_of_clearly_few_edges_is_described_so(tmp_path, extra, mentioned):
    # Forty nodes round a hub, ten of them tied to each other: these have many edges, the others three.
    clique = torch.combinations(torch.arange(1, 11)).t()
    edges = torch.cat([wheel(40), clique, clique.flip(0)], dim=1)
    if extra:  # all have about as many, and the first as many as half of them
        ring = torch.arange(41)
        edges = torch.cat([torch.stack([ring, ring.roll(-step)]) for step in (1, 2, 3)], dim=1)
        chords = torch.tensor([list(range(1, 20)), list(range(21, 40))])
        edges = torch.cat([edges, edges.flip(0), chords, chords.flip(0)], dim=1)
    values = torch.linspace(1, 0.1, 41)
    values[40] = 9.0
    data = Data(x=torch.randn(41, 2), edge_index=edges)
    model = nora.build_model("gcn", 2, 2).eval()
    scores = nora.Influence(values, "made up")
    page = write_report(tmp_path / "a.html", model, data, scores, effects=0)
    assert page_value(page)["node"]["rank"][40] == 1
    assert ("node 40 has few edges" in words(page)) == mentioned


def test_the_page_loads_nothing(page):
    text = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.search(r"<(script|img|iframe|link)[^>]*(src|href)=\"(?!data:)", text)


def test_twenty_thousand_nodes_fit_in_five_megabytes(tmp_path):
    random = torch.Generator().manual_seed(0)
    number = 20_000
    edges = torch.randint(number, (2, 80_000), generator=random)
    data = Data(
        x=torch.randn(number, 4, generator=random),
        edge_index=torch.cat([edges, edges.flip(0)], dim=1),
        y=torch.randint(3, (number,), generator=random),
    )
    model = nora.build_model("gcn", 4, 3, hidden_channels=8).eval()
    scores = nora.influence(model, data, "degree", progress=False)
    names = [f"account number {node:05d}" for node in range(number)]
    page = write_report(tmp_path / "a.html", model, data, scores, names=names, effects=5)
    assert page.stat().st_size < 5_000_000
    value = page_value(page)
    assert len(value["node"]["id"]) == number
    assert len(value["drawing"]["node"]) == 1500
    first = scores.top(5)["node"].tolist()
    assert set(first) <= {value["node"]["id"][at] for at in value["drawing"]["node"]}
    # Nor do yardsticks compare themselves with themselves.
    assert [one["key"] for one in value["against"]] == ["pagerank"]


@pytest.mark.parametrize("values", [[0.0, 0.0, 0.0], [1.0, float("nan"), 0.5]])
def test_scores_of_zero_or_of_some_nodes_only_are_no_obstacle(values, tmp_path):
    data = Data(x=torch.randn(3, 2), edge_index=torch.tensor([[0, 1], [1, 0]]))
    model = nora.build_model("gcn", 2, 2).eval()
    scores = nora.Influence(torch.tensor(values), "made up")
    value = page_value(write_report(tmp_path / "a.html", model, data, scores))
    assert value["scored"] == sum(one == one for one in values)
    assert (value["spread"] is None) == (not any(one > 0 for one in values))


def test_a_graph_without_edges_is_reported(tmp_path):
    data = Data(x=torch.randn(4, 2), edge_index=torch.empty(2, 0, dtype=torch.long))
    model = nora.build_model("gcn", 2, 2).eval()
    scores = nora.influence(model, data, "brute", progress=False)
    page = write_report(tmp_path / "a.html", model, data, scores)
    assert "No removal would change any other" in words(page)


def test_of_many_classes_the_commonest_have_a_colour(tmp_path):
    data = Data(
        x=torch.randn(30, 2), edge_index=torch.randint(30, (2, 60)), y=torch.arange(30) % 10
    )
    model = nora.build_model("gcn", 2, 10).eval()
    scores = nora.influence(model, data, "degree", progress=False)
    colours = [
        one["colour"]
        for one in page_value(write_report(tmp_path / "a.html", model, data, scores))["classes"]
    ]
    assert sorted(colour for colour in colours if colour >= 0) == list(range(8))
    assert colours.count(-1) == 2


def test_only_the_classes_that_count_are_summed(run, scores):
    task = nora.NodeClassification(classes=[1])
    first = int(scores.top(1)["node"][0])
    whole = consequence(nora.what_if(run.model, run.data, first))
    part = consequence(nora.what_if(run.model, run.data, first, task))
    assert part.total == pytest.approx(whole.total / 2, rel=1e-3)
    assert part.flips == whole.flips


def test_the_style_has_the_colours_of_the_figures():
    style = (ASSETS / "report.css").read_text(encoding="utf-8")
    found = dict(re.findall(r"--class-(\d): ?(#[0-9a-fA-F]+)", style.split("@media")[0]))
    short = {"#000": "#000000"}
    shown = [short.get(found[str(k)], found[str(k)]) for k in range(len(COLOURS))]
    assert [colour.upper() for colour in shown] == [colour.upper() for colour in COLOURS]


def test_every_page_carries_the_notices_of_the_libraries_in_it(page):
    text = page.read_text(encoding="utf-8")
    for name in ("sigma 3", "graphology 0", "@sigma/node-border 3", "events 3"):
        assert name in text
    assert text.count("Permission is hereby granted") >= 5


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"scores": []}, TypeError, "nora.Influence"),
        ({"scores": nora.Influence(torch.ones(3), "x")}, ValueError, "1000; got 3"),
        ({"scores": nora.Influence(torch.ones(1000), "x", task="link")}, ValueError, "link task"),
        (
            {"scores": nora.Influence(torch.full((1000,), float("nan")), "x")},
            ValueError,
            "no node has a score",
        ),
        ({"names": ["a"]}, ValueError, "names.*1000; got 1"),
        ({"class_names": ["a"]}, ValueError, "class_names.*2; got 1"),
        ({"labels": [0]}, ValueError, "labels must be"),
        ({"effects": -1}, ValueError, "at least 0"),
        ({"data": HeteroData()}, TypeError, "HeteroData"),
        ({"graph": Data(num_nodes=3)}, ValueError, "graph.*1000; got 3"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(
    run, scores, tmp_path, change, error, match
):
    given = {"model": run.model, "data": run.data, "scores": scores, **change}
    with pytest.raises(error, match=match):
        write_report(tmp_path / "a.html", **given)
    assert not list(tmp_path.iterdir())
