"""Who influences whom: `influence_matrix` and `influencers` against the definition."""

from __future__ import annotations

import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg

import nora
from by_hand import changes
from graphs import FEATURES, GRAPHS, bridge, double
from half import half
from networks import CLASSES, Centred, network
from nora import LinkPrediction, NodeClassification
from posed import CLOSE, both_ways, every_graph, every_task, posed


def dense(frame: pd.DataFrame, what: str) -> dict[tuple[int, int], float]:
    return dict(zip(zip(frame["removed"], frame[what], strict=True), frame["change"], strict=True))


class TestInfluenceMatrix:
    @every_task
    @every_graph
    @both_ways
    def test_it_holds_every_change(self, kind: str, name: str, method: str) -> None:
        model, (data, task) = network("sage"), posed(kind, name)
        removed = [0, 1, 4]
        frame = nora.influence_matrix(model, data, removed, task, method=method, progress=False)
        what = "node" if name == "node" else "pair"
        found = dense(frame, what)
        assert len(found) == len(frame)
        assert (frame["change"] > 0).all()
        for node in removed:
            truth = changes(model, data, [node], task=task)
            assert {item for r, item in found if r == node} <= set(truth)
            for item, change in truth.items():
                assert found.get((node, item), 0.0) == pytest.approx(change, **CLOSE)
        if what == "pair":
            pairs = task.pairs[:, frame["pair"].tolist()]
            assert frame[["source", "target"]].to_numpy().T.tolist() == pairs.tolist()

    @every_graph
    def test_its_sums_are_the_influences(self, kind: str) -> None:
        model, (data, _) = network("gat"), posed(kind)
        every = range(data.num_nodes)
        frame = nora.influence_matrix(model, data, every, progress=False)
        sums = frame.groupby("removed")["change"].sum().reindex(every, fill_value=0)
        truth = nora.influence(model, data, "brute", progress=False).scores
        assert sums.tolist() == pytest.approx(truth.tolist(), **CLOSE)

    def test_rows_are_in_order(self) -> None:
        model, data = network(), double(bridge())
        frame = nora.influence_matrix(model, data, [5, 2], progress=False)
        assert frame["removed"].is_monotonic_increasing
        for _, part in frame.groupby("removed"):
            assert part["change"].is_monotonic_decreasing

    def test_nodes_out_of_reach_are_left_out(self) -> None:
        data = double(GRAPHS["components"]())
        frame = nora.influence_matrix(network(), data, [0, 6], progress=False)
        assert set(frame[frame["removed"] == 0]["node"]) == {1, 2}
        assert set(frame[frame["removed"] == 6]["node"]) <= {3, 4, 5}

    def test_it_may_be_empty(self) -> None:
        data = double(GRAPHS["isolated"]())
        frame = nora.influence_matrix(network(), data, [4, 5], progress=False)
        assert list(frame) == ["removed", "node", "change"]
        assert frame.empty

    def test_classes_and_targets_count(self) -> None:
        model, data = network(), double(bridge())
        task = NodeClassification(classes=[2])
        frame = nora.influence_matrix(model, data, [3], task, targets=[1, 2, 3], progress=False)
        truth = changes(model, data, [3], task=task)
        assert dense(frame, "node") == pytest.approx({(3, 1): truth[1], (3, 2): truth[2]})

    def test_a_model_that_mixes_nodes_gets_the_definition(self) -> None:
        model, data = Centred(), double(bridge())
        with pytest.warns(RuntimeWarning, match="exact falls back to brute force") as caught:
            frame = nora.influence_matrix(model, data, [0, 6], progress=False)
        assert caught[0].filename == __file__
        for node in (0, 6):
            truth = changes(model, data, [node])
            found = {
                item: change for (r, item), change in dense(frame, "node").items() if r == node
            }
            assert found == pytest.approx(truth, **CLOSE)

    def test_bad_nodes_are_refused(self) -> None:
        with pytest.raises(ValueError, match="nodes names no node"):
            nora.influence_matrix(network(), double(bridge()), [])
        with pytest.raises(ValueError, match="node 7 is out of range"):
            nora.influence_matrix(network(), double(bridge()), [7])
        with pytest.raises(ValueError, match="method is 'degree'"):
            nora.influence_matrix(network(), double(bridge()), [1], method="degree")


class Backwards(nn.Module):
    """Listens against the direction of the edges."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = pyg.SAGEConv(FEATURES, CLASSES, flow="target_to_source").double()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index)


class TestInfluencers:
    @pytest.mark.parametrize(
        ("kind", "name", "model"),
        half(GRAPHS, ["node", "link"], ["gcn", "sage", "gat", "backwards"]),
    )
    def test_they_are_those_whose_removal_changes_the_node(
        self, kind: str, name: str, model: str
    ) -> None:
        asked, (data, task) = (
            Backwards() if model == "backwards" else network(model),
            posed(kind, name),
        )
        without = [changes(asked, data, [other], task=task) for other in range(data.num_nodes)]
        session = nora.Session(asked, data, task)
        for node in range(data.num_nodes):
            truth = {}
            own = [node] if name == "node" else (task.pairs == node).any(0).nonzero().flatten()
            for other, change in enumerate(without):
                amount = sum(change.get(int(item), 0.0) for item in own)
                if amount > 1e-12 and other != node:
                    truth[other] = amount
            frame = session.influencers(node, k=99, progress=False)
            found = dict(zip(frame["node"], frame["influence"], strict=True))
            found = {other: amount for other, amount in found.items() if amount > 1e-12}
            assert found == pytest.approx(truth, **CLOSE)
            assert frame["influence"].is_monotonic_decreasing
            assert frame["rank"].tolist() == list(range(1, len(frame) + 1))

    def test_the_first_k_are_listed(self) -> None:
        model, data = network(), double(GRAPHS["two_camps"]())
        every = nora.influencers(model, data, 3, k=99, progress=False)
        assert nora.influencers(model, data, 3, k=2, progress=False).equals(every.head(2))

    def test_a_node_apart_has_none(self) -> None:
        frame = nora.influencers(network(), double(GRAPHS["isolated"]()), 5, progress=False)
        assert frame.empty
        assert list(frame) == ["node", "influence", "rank"]

    def test_a_model_that_mixes_nodes_has_all(self) -> None:
        model, data = Centred(), double(GRAPHS["isolated"]())
        with pytest.warns(RuntimeWarning, match="exact falls back to brute force") as caught:
            frame = nora.influencers(model, data, 5, k=99, progress=False)
        assert caught[0].filename == __file__
        truth = {other: changes(model, data, [other])[5] for other in range(5)}
        assert dict(zip(frame["node"], frame["influence"], strict=True)) == pytest.approx(truth)

    def test_what_cannot_be_asked_is_refused(self) -> None:
        model, data = network(), double(bridge())
        with pytest.raises(ValueError, match="k must be at least 1, got 0"):
            nora.influencers(model, data, 3, k=0)
        with pytest.raises(ValueError, match="node 9 is out of range"):
            nora.influencers(model, data, 9)
        with pytest.raises(ValueError, match=r"one node id.*got 2 nodes"):
            nora.influencers(model, data, [1, 2])  # type: ignore[arg-type]
        task = LinkPrediction(torch.tensor([[0, 1], [1, 2]]))
        with pytest.raises(ValueError, match=r"no pair.*node 6"):
            nora.influencers(model, data, 6, task=task)
