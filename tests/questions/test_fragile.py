"""Which predictions depend on a single node or edge: every flip, beside full passes."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import nora
from graphs import barabasi, double, some_pairs, two_camps
from hetero_graphs import library
from hetero_graphs import network as hetero_network
from networks import network
from nora.graph.edge_lookup import EdgeLookup


@pytest.fixture
def data() -> Data:
    torch.manual_seed(0)
    edges = barabasi(25, 2)
    return Data(x=torch.randn(25, 3).double(), edge_index=edges)


@torch.no_grad()
def by_hand(model: torch.nn.Module, data: Data, by: str) -> set[tuple]:
    before = model(data.x, data.edge_index).argmax(dim=1).tolist()
    found = set()
    if by == "nodes":
        things = list(range(data.num_nodes))
    else:
        things = [tuple(pair) for pair in EdgeLookup(data).every()[None].t().tolist()]
    for one in things:
        edits = nora.Edits(remove=one) if by == "nodes" else nora.Edits(remove_edges=[one])
        left = edits.apply(data)
        after = model(left.x, left.edge_index).argmax(dim=1).tolist()
        others = [node for node in range(data.num_nodes) if by == "edges" or node != one]
        for node, now in zip(others, after, strict=True):
            if now != before[node]:
                gone = (one,) if by == "nodes" else one
                found.add((*gone, node, before[node], now))
    return found


@pytest.mark.parametrize("by", ["nodes", "edges"])
@pytest.mark.parametrize("name", ["gcn", "gat"])
def test_every_flip_is_listed(name: str, by: str, data: Data) -> None:
    model = network(name, seed=6)
    found = nora.fragile(model, data, by=by, progress=False)
    truth = by_hand(model, data, by)
    assert truth
    assert set(found.flips.itertuples(index=False, name=None)) == truth
    for node in range(25):
        assert found.counts[node] == sum(flip[-3] == node for flip in truth)
    scored = (
        nora.influence(model, data, measure="flips", progress=False)
        if by == "nodes"
        else nora.edge_influence(model, data, measure="flips", progress=False)
    )
    assert len(found.flips) == int(scored.scores.sum())


def test_nodes_are_listed_with_name_class_and_margin(data: Data) -> None:
    names = [f"n{node}" for node in range(25)]
    session = nora.Session(network(seed=6), data, names=names, class_names=["a", "b", "c"])
    found = session.fragile(progress=False)
    frame = found.sort()
    assert list(frame) == ["node", "name", "class", "margin", "flipped_by"]
    assert frame["flipped_by"].is_monotonic_decreasing
    assert set(frame["class"]) <= {"a", "b", "c"}
    with torch.no_grad():
        rows = session.model(data.x, data.edge_index).softmax(dim=1).sort(dim=1).values
    torch.testing.assert_close(found.margin, rows[:, -1] - rows[:, -2])
    assert found.distribution().sum() == 25
    assert found.share == pytest.approx((found.counts > 0).double().mean())
    assert f"25 nodes removed one at a time: {len(found.flips)} flips" in repr(found)
    assert frame["name"][0] in found._repr_html_()
    assert found.plot().axes[0].get_title(loc="left").endswith("depend on a single node")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_saved_flips_come_back(suffix: str, data: Data, tmp_path: Path) -> None:
    found = nora.fragile(network(seed=6), data, by="edges", progress=False)
    back = nora.Fragile.load(found.save(tmp_path / f"flips.{suffix}"))
    pd.testing.assert_frame_equal(back.flips, found.flips)
    pd.testing.assert_frame_equal(back.to_frame(), found.to_frame())


@pytest.mark.parametrize("by", ["nodes", "edges"])
def test_types(by: str) -> None:
    data, model = library(edges=10), hetero_network()
    task = nora.NodeClassification(node_type="paper")
    found = nora.fragile(model, data, task, by=by, progress=False)
    assert set(found.flips["type"]) <= {"paper"}
    assert int(found.counted.sum()) == 7
    if by == "nodes":
        session = nora.Session(model, data, task)
        assert len(found.flips) == sum(
            len(session.what_if((kind, node)).flips())
            for kind in ("author", "paper", "venue")
            for node in range(data[kind].num_nodes)
        )
    else:
        assert {"source_type", "relation"} < set(found.flips)


def test_only_targets_are_looked_at(data: Data) -> None:
    whole = nora.fragile(network(seed=6), data, progress=False)
    some = nora.fragile(network(seed=6), data, targets=[1, 2, 3, 4], progress=False)
    assert len(some.flips) == int(whole.counts[1:5].sum())
    assert len(some.to_frame()) == 4


def test_nothing_may_flip() -> None:
    data = Data(x=torch.eye(3).double(), edge_index=torch.tensor([[0], [1]]))
    model = network(seed=1)
    found = nora.fragile(model, data, by="edges", targets=[2], progress=False)
    assert (len(found.flips), found.share) == (0, 0.0)
    assert list(found.flips) == ["source", "target", "node", "from_class", "to_class"]
    assert found.plot() is not None


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"by": "links"}, "it must be 'nodes' or 'edges'"),
        ({"tolerance": 0.1}, "tolerance"),
        ({"budget": 3}, "fragile has no option 'budget'"),
        ({"method": "nora"}, "must be 'exact' or 'brute'"),
        ({"task": nora.NodeRegression()}, "task predicts values"),
        ({"task": nora.LinkPrediction(some_pairs(two_camps()))}, "task predicts links"),
    ],
)
def test_what_cannot_be_asked_is_refused(asked: dict, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        nora.fragile(network(), double(two_camps()), progress=False, **asked)
