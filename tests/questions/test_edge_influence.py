"""The influence of every edge, against graphs built without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch_geometric import nn as pyg
from torch_geometric.data import Data, HeteroData

import nora
from graphs import FEATURES, GRAPHS, directed, double, some_pairs, two_camps
from hetero_graphs import library
from hetero_graphs import network as hetero_network
from networks import PLAIN, Centred, network, patchwork
from nora.engine.estimate.cost_sample import CostSample
from nora.graph.edge_lookup import EdgeLookup
from nora.methods import auto
from nora.results.exactness import method_name


@torch.no_grad()
def oracle(model: torch.nn.Module, data: Data, edge: tuple[int, int]) -> float:
    """The definition: build the graph without the edge, run the model, compare."""
    weight = {} if data.get("edge_weight") is None else {"edge_weight": data.edge_weight}
    before = model(data.x, data.edge_index, **weight).softmax(dim=-1)
    left = nora.Edits(remove_edges=[edge]).apply(data)
    weight = {} if left.get("edge_weight") is None else {"edge_weight": left.edge_weight}
    after = model(left.x, left.edge_index, **weight).softmax(dim=-1)
    return float((before - after).abs().sum())


CASES = [(kind, "gcn") for kind in sorted(GRAPHS)]
CASES += [(kind, name) for kind in ("directed", "looped") for name in PLAIN if name != "gcn"]
CASES += [("duplicated", "patchwork"), ("two_camps", "patchwork")]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_every_edge_has_the_influence_of_the_definition(kind: str, name: str) -> None:
    data = double(GRAPHS[kind]())
    model = patchwork() if name == "patchwork" else network(name)
    if kind == "weighted" and name not in ("gcn",):
        del data.edge_weight
    found = nora.edge_influence(model, data, progress=False).to_frame()
    pairs = EdgeLookup(data).every()[None].t().tolist()
    assert found[["source", "target"]].to_numpy().tolist() == pairs
    truth = [oracle(model, data, tuple(pair)) for pair in pairs]
    assert found["influence"].to_numpy() == pytest.approx(truth, abs=1e-9)


@pytest.mark.parametrize("name", ["mixed", "mean", "to_hetero", "hgt"])
def test_edges_of_types(name: str) -> None:
    data, model = library(edges=6), hetero_network(name)
    task = nora.NodeClassification(node_type="paper")
    scores = nora.edge_influence(model, data, task=task, progress=False)
    frame = scores.to_frame()
    assert list(frame)[:5] == ["source_type", "source", "relation", "target_type", "target"]

    def predictions(graph: HeteroData) -> torch.Tensor:
        with torch.no_grad():
            out = model(graph.x_dict, graph.edge_index_dict)
        return (out["paper"] if isinstance(out, dict) else out).softmax(dim=-1)

    before = predictions(data)
    for row in frame.itertuples():
        kind = (row.source_type, row.relation, row.target_type)
        edits = nora.Edits(remove_edges={kind: [(row.source, row.target)]})
        truth = float((before - predictions(edits.apply(data))).abs().sum())
        assert row.influence == pytest.approx(truth, abs=1e-9)
        assert scores[(*kind, row.source, row.target)] == row.influence
        assert scores[kind, row.source, row.target] == row.influence


def test_the_reverse_that_pyg_made_is_scored_with_the_original() -> None:
    data = HeteroData()
    data["a"].x, data["b"].x = torch.randn(3, 4).double(), torch.randn(4, 4).double()
    ties = torch.tensor([[0, 1, 2, 2], [0, 1, 2, 3]])
    data["a", "to", "b"].edge_index = ties
    data["b", "rev_to", "a"].edge_index = ties.flip(0)

    class Both(torch.nn.Module):
        def forward(self, x_dict: dict, edge_index_dict: dict) -> torch.Tensor:
            source, target = edge_index_dict["a", "to", "b"]
            b = x_dict["b"].index_add(0, target, x_dict["a"][source])
            source, target = edge_index_dict["b", "rev_to", "a"]
            return x_dict["a"].index_add(0, target, b[source])

    task = nora.NodeClassification(node_type="a")
    every = nora.edge_influence(Both(), data, task=task, progress=False)
    assert len(every) == 4
    one = nora.edge_influence(Both(), data, {"rev_to": [(3, 2)]}, task, progress=False)
    assert one.edges.to_numpy().tolist() == [["a", 2, "to", "b", 3]]
    assert one.scores[0] == every["a", "to", "b", 2, 3]


def test_a_typed_edge_is_named_in_either_direction_where_all_have_their_reverse() -> None:
    data = HeteroData()
    data["a"].x = torch.randn(4, 3).double()
    data["a", "knows", "a"].edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    data["a", "follows", "a"].edge_index = torch.tensor([[0, 3], [2, 1]])

    class Degree(torch.nn.Module):
        def forward(self, x_dict: dict, edge_index_dict: dict) -> torch.Tensor:
            x = x_dict["a"]
            for source, target in edge_index_dict.values():
                x = x.index_add(0, target, x[source])
            return x

    scores = nora.edge_influence(Degree(), data, progress=False)
    assert scores["a", "knows", "a", 2, 1] == scores["a", "knows", "a", 1, 2] > 0
    assert scores["a", "follows", "a", 0, 2] > 0
    with pytest.raises(KeyError, match="has no score"):
        scores["a", "follows", "a", 2, 0]


def test_links_and_targets_and_classes() -> None:
    data, model = double(two_camps()), network()
    task = nora.LinkPrediction(some_pairs(data))
    found = nora.edge_influence(model, data, [(3, 4)], task, progress=False)
    assert found[4, 3] == pytest.approx(
        nora.what_if(model, data, task=task, remove_edges=[(3, 4)]).total
    )
    some = nora.edge_influence(model, data, [(3, 4)], targets=[0, 5], progress=False)
    truth = nora.what_if(model, data, remove_edges=[(3, 4)], targets=[0, 5]).total
    assert some[3, 4] == pytest.approx(truth, abs=1e-12)
    one = nora.NodeClassification(classes=[1])
    found = nora.edge_influence(model, data, [(3, 4)], one, progress=False)
    truth = nora.what_if(model, data, task=one, remove_edges=[(3, 4)]).total
    assert found[3, 4] == pytest.approx(truth, abs=1e-12)
    assert found.details["classes"] == [1]


def test_some_edges_are_scored_as_among_all() -> None:
    data, model = double(directed()), network()
    every = nora.edge_influence(model, data, progress=False)
    some = nora.edge_influence(model, data, torch.tensor([[3, 0], [4, 1]]), progress=False)
    assert some.edges.to_numpy().tolist() == [[0, 1], [3, 4]]
    assert some[3, 4] == every[3, 4]
    with pytest.raises(KeyError, match="has no score"):
        every[4, 3]


def test_a_model_that_cannot_be_followed_is_run_for_every_edge() -> None:
    data, model = double(two_camps()), Centred()
    with pytest.warns(RuntimeWarning, match="falls back"):
        found = nora.edge_influence(model, data, progress=False)
    assert found[3, 4] == pytest.approx(oracle(model, data, (3, 4)), abs=1e-9)


def test_brute_gives_the_same() -> None:
    data, model = double(two_camps()), network("gat")
    one, other = (
        nora.edge_influence(model, data, method=method, progress=False).scores
        for method in ("exact", "brute")
    )
    torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


def test_a_checkpoint_is_resumed_and_belongs_to_its_question(tmp_path: Path) -> None:
    data, model = double(two_camps()), network()
    folder = tmp_path / "parts"
    asked = {"checkpoint": folder, "progress": False, "measure": ["change", "flips"]}
    some = nora.edge_influence(model, data, [(0, 1), (3, 4)], **asked)
    assert len(some) == 2
    every = nora.edge_influence(model, data, **asked)
    assert len(every) == 13
    assert every[3, 4] == some[3, 4]
    assert sum(len(pd.read_parquet(part)) for part in folder.glob("part-*")) == 13
    merged = nora.merge_checkpoints([folder])
    assert isinstance(merged, nora.EdgeInfluence)
    pd.testing.assert_frame_equal(merged.to_frame(), every.to_frame())
    with pytest.raises(ValueError, match=r"belongs to another run.*options differ"):
        nora.edge_influence(model, data, checkpoint=folder, progress=False)
    with pytest.raises(ValueError, match="belongs to another run"):
        nora.influence(model, data, "exact", checkpoint=folder, progress=False)
    plain = tmp_path / "plain"
    nora.edge_influence(model, data, checkpoint=plain, progress=False)
    with pytest.raises(ValueError, match="belongs to another run"):
        nora.edge_influence(network(seed=1), data, checkpoint=plain, progress=False)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("types", [False, True])
def test_saved_scores_come_back(suffix: str, types: bool, tmp_path: Path) -> None:
    if types:
        task = nora.NodeClassification(node_type="paper")
        session = nora.Session(hetero_network(), library(edges=5), task)
    else:
        names = [f"n{node}" for node in range(8)]
        session = nora.Session(network(), double(two_camps()), names=names)
    scores = session.edge_influence(measure=["class:1", "flips"], progress=False)
    back = nora.EdgeInfluence.load(scores.save(tmp_path / f"edges.{suffix}"))
    pd.testing.assert_frame_equal(back.sort(), scores.sort())
    assert (back.measure, back.names, back.options) == ("class:1", scores.names, scores.options)
    assert back.compare(scores)["pearson"] == pytest.approx(1)


def test_tables_are_sorted_and_named_and_drawn() -> None:
    names = [f"n{node}" for node in range(8)]
    session = nora.Session(network(), double(two_camps()), names=names)
    scores = session.edge_influence(measure="class:1", progress=False)
    frame = scores.sort()
    assert frame["influence"].abs().is_monotonic_decreasing
    assert frame["influence"].min() < 0 < frame["influence"].max()
    assert (frame["source_name"] == "n" + frame["source"].astype(str)).all()
    assert "13 edges" in repr(scores)
    assert "n3" in scores._repr_html_()
    figure = scores.plot(3)
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels[0] == f"{frame['source_name'][0]} – {frame['target_name'][0]}"
    by_name = session.edge_influence([("n4", "n3")], measure="class:1", progress=False)
    assert by_name[3, 4] == scores[3, 4]


def test_parts_merge() -> None:
    data, model = double(two_camps()), network()
    every = nora.edge_influence(model, data, progress=False)
    pairs = [tuple(pair) for pair in every.edges.to_numpy().tolist()]
    parts = [
        nora.edge_influence(model, data, some, progress=False) for some in (pairs[:5], pairs[5:])
    ]
    pd.testing.assert_frame_equal(nora.EdgeInfluence.merge(parts).to_frame(), every.to_frame())
    with pytest.raises(ValueError, match="the same edge"):
        nora.EdgeInfluence.merge([parts[0], every])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"edges": [(0, 7)]}, "edge 0–7 is not in the graph"),
        ({"edges": []}, "edges names no edge"),
        ({"edges": [(0, 9)]}, "node 9 is out of range"),
        ({"edges": [3]}, "edges must be pairs"),
        ({"method": "cauchy"}, "must be 'exact' or 'brute'"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"tolerance": -1}, "tolerance must not be negative"),
        ({"budget": 3}, "edge_influence has no option 'budget'"),
        ({"method": "auto", "budget": 0}, "budget must be positive"),
        ({"method": "auto", "tolerance": 0.1}, "method='auto' has no option 'tolerance'"),
        ({"measure": "flip"}, "unknown measure 'flip'..*you mean 'flips'"),
    ],
)
def test_what_cannot_be_asked_is_refused(asked: dict, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        nora.edge_influence(network(), double(two_camps()), progress=False, **asked)


def test_auto_is_exact_where_that_fits_and_an_estimate_where_it_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = nora.train("gcn", "karate", epochs=10, hidden_channels=16, progress=False)
    session = run.session()
    truth = session.edge_influence(progress=False)
    quick = session.edge_influence(method="auto", budget=100, progress=False)
    assert quick.options["tolerance"] == 0
    assert "full forward passes" in quick.details["auto"]["reason"]
    torch.testing.assert_close(quick.scores, truth.scores)

    class Slow(CostSample):
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            self.seconds = 1000.0

    monkeypatch.setattr(auto, "_pass_seconds", lambda problem: 1.0)
    within = session.edge_influence(method="auto", budget=30, progress=False)
    assert "within the budget" in within.details["auto"]["reason"]
    monkeypatch.setattr(auto, "CostSample", Slow)
    monkeypatch.setattr(auto, "CALIBRATED", 0)
    with pytest.warns(UserWarning, match="auto picked an estimate: exact"):
        some = session.edge_influence(
            method="auto", budget=30, checkpoint=tmp_path / "kept", progress=False
        )
    assert some.options["tolerance"] == 0.01
    assert method_name(some) == "estimate by exact with tolerance 0.01"
    assert some.details["auto"]["expected_pearson"] > 0.95
    assert some.compare(truth)["pearson"] > 0.95
    again = session.edge_influence(method="auto", checkpoint=tmp_path / "kept", progress=False)
    assert again.details["auto"]["reason"].startswith("the checkpoint")
    torch.testing.assert_close(again.scores, some.scores)


def test_a_full_pass_for_every_edge_is_said_in_the_details(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auto, "_pass_seconds", lambda problem: 100.0)

    class Braked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.SAGEConv(FEATURES, 3)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            h = self.conv(x, edge_index)
            return h / 2 if float(h.max()) > 1 else h

    data = double(two_camps())
    session = nora.Session(Braked().double().eval(), data)
    session.prepared.pays = lambda *_: True
    with pytest.warns(RuntimeWarning, match="falls back"):
        found = session.edge_influence(method="auto", progress=False)
    assert "Python number" in found.details["fallback"]
    assert "full pass" in found.details["auto"]["reason"]


def test_a_graph_without_edges_is_refused() -> None:
    data = Data(x=torch.randn(3, 3).double(), edge_index=torch.empty(2, 0, dtype=torch.long))
    with pytest.raises(ValueError, match="the graph has no edges"):
        nora.edge_influence(network(), data, progress=False)
