"""What is found out about a model before any removal: weights per node id, edges that are not read."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import LINKX, GCNConv
from torch_geometric.transforms import SIGN, GCNNorm

import nora
from graphs import FEATURES, bridge, directed, double
from hetero_graphs import library
from hetero_graphs import network as typed_network
from networks import network
from nora.graph.removal import isolate_nodes
from nora.model import build_problem
from nora.model.checks import check_model
from nora.model.preserve import seeded

PAPERS = nora.NodeClassification(node_type="paper")


def isolated(model: nn.Module, data: Data, node: int) -> float:
    """The influence of a node that keeps its id and loses its edges."""
    with torch.no_grad():
        before = model(data.x, data.edge_index)
        cut = isolate_nodes(data, node)
        after = model(cut.x, cut.edge_index)
    change = (before.softmax(-1) - after.softmax(-1)).abs().sum(dim=-1)
    return float(change.sum() - change[node])


class Table(nn.Module):
    """A whole embedding table in the place of features."""

    def __init__(self, num_nodes: int) -> None:
        super().__init__()
        with seeded(0):
            self.emb = nn.Embedding(num_nodes, 4)
            self.conv = GCNConv(4, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(self.emb.weight, edge_index)


class Numbers(Table):
    """Looks its nodes' numbers up, which it makes itself."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(self.emb(torch.arange(x.size(0))), edge_index)


def linkx(num_nodes: int) -> nn.Module:
    with seeded(0):
        return LINKX(num_nodes, FEATURES, 8, 3, num_layers=2).eval()


class TestWeightsByNodeId:
    @pytest.mark.parametrize("build", [linkx, Table, Numbers])
    def test_a_removed_node_is_isolated_and_the_result_says_so(self, build: Any) -> None:
        data = bridge()
        model = build(7).eval()
        with pytest.warns(RuntimeWarning, match="keeps its id and loses its edges"):
            found = nora.influence(model, data, "brute", progress=False)
        assert found.details["removal"] == "isolated"
        for node in range(7):
            assert found[node] == pytest.approx(isolated(model, data, node), abs=1e-5)
        with pytest.warns(RuntimeWarning, match="keeps its id"):
            effect = nora.what_if(model, data, 2, method="brute")
        assert effect.total == pytest.approx(found[2], rel=1e-5)
        assert effect.removal == "isolated"
        assert not effect.counted[2]

    def test_links_are_checked_on_the_isolated_graph_too(self) -> None:
        task = nora.LinkPrediction(torch.tensor([[0, 1, 2], [3, 2, 6]]))
        with pytest.warns(RuntimeWarning, match="keeps its id"):
            effect = nora.what_if(Table(7), bridge(), 2, task, method="brute")
        assert effect.counted.tolist() == [True, False, False]
        assert effect.total > 0

    def test_a_table_that_is_looked_up_by_the_data_is_none(self) -> None:
        class Looked(Table):
            def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
                return self.conv(self.emb(x.flatten()), edge_index)

        data = Data(x=torch.arange(7).reshape(7, 1), edge_index=bridge().edge_index)
        problem = check_model(build_problem(Looked(7), data))
        assert not problem.by_id
        assert problem.without(torch.tensor([1])).num_nodes == 6

    def test_a_width_that_happens_to_be_the_number_of_nodes_is_none(self) -> None:
        with seeded(0):
            model = nora.build_model("gcn", FEATURES, 3, hidden_channels=7)
        found = nora.influence(model, bridge(), "brute", progress=False)
        assert "removal" not in found.details

    def test_a_model_that_minds_the_order_without_such_rows_is_asked_as_ever(self) -> None:
        class Rolling(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = network()

            def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
                return self.inner(x, edge_index).roll(1, 0)

        found = nora.influence(Rolling(), double(bridge()), "brute", progress=False)
        assert "removal" not in found.details

    def test_a_tensor_that_the_call_brings_along_counts(self) -> None:
        extra = torch.randn(7, FEATURES, generator=torch.Generator().manual_seed(0)).double()

        def call(model: nn.Module, data: Data) -> Tensor:
            return model(data.x + extra[: data.num_nodes], data.edge_index)

        problem = build_problem(network(), double(bridge()), forward=call)
        with pytest.warns(RuntimeWarning, match="weights per node id"):
            assert check_model(problem).by_id

    def test_a_model_that_fails_on_fewer_nodes_is_asked_with_all_of_them(self) -> None:
        class Fixed(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = network()

            def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
                assert x.size(0) == 7, "seven nodes, please"
                return self.inner(x, edge_index)

        data = double(bridge())
        with pytest.warns(RuntimeWarning, match=r"fewer nodes \(seven nodes, please\)"):
            found = nora.influence(Fixed(), data, "brute", progress=False)
        assert found.details["removal"] == "isolated"
        assert found[3] == pytest.approx(isolated(network(), data, 3))

    def test_a_decoder_that_needs_a_pair_does_not_decide_it(self) -> None:
        def decoder(z: Tensor, pairs: Tensor) -> Tensor:
            assert pairs.numel(), "at least one pair"
            return (z[pairs[0]] * z[pairs[1]]).sum(dim=-1)

        task = nora.LinkPrediction(torch.tensor([[0], [1]]), decoder, "raw")
        assert not check_model(build_problem(network(), double(bridge()), task)).by_id

    def test_rows_with_types_are_found_too(self) -> None:
        model = typed_network()
        problem = check_model(build_problem(model, library(), PAPERS))
        assert not problem.by_id


class TestEdgesThatAreNotRead:
    def test_a_model_that_reads_no_edges_is_refused(self) -> None:
        class Blind(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                with seeded(0):
                    self.lin = nn.Linear(FEATURES, 3)

            def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
                return self.lin(x)

        with pytest.raises(ValueError, match=r"not read the edges.*needs transform="):
            nora.influence(Blind(), bridge(), "brute", progress=False)

    def test_a_model_that_reads_a_statistic_of_all_nodes_is_answered(self) -> None:
        class Centred(nn.Module):
            def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
                return x - x.mean(dim=0)

        found = nora.influence(Centred(), bridge(), "brute", progress=False)
        assert bool((found.scores > 0).all())

    def test_nothing_is_said_of_the_others(self) -> None:
        data = Data(x=bridge().x, edge_index=torch.empty(2, 0, dtype=torch.long))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            nora.influence(network().float(), bridge(), "brute", progress=False)
            nora.influence(network().float(), data, "brute", progress=False)


class Sign(nn.Module):
    """Reads what SIGN has computed beforehand, and no edges."""

    def __init__(self) -> None:
        super().__init__()
        with seeded(0):
            self.lins = nn.ModuleList(nn.Linear(FEATURES, 3) for _ in range(3))

    def forward(self, data: Data) -> Tensor:
        return sum(lin(data[key]) for lin, key in zip(self.lins, ("x", "x1", "x2"), strict=True))


def call(model: nn.Module, data: Data) -> Any:
    return model(data)


class TestTransform:
    def test_structure_is_computed_afresh_without_each_node(self) -> None:
        data, model = bridge(), Sign()
        found = nora.influence(
            model, data, "brute", forward=call, transform=SIGN(2), progress=False
        )
        ready = SIGN(2)(data.clone())
        with torch.no_grad():
            before = model(ready).softmax(-1)
            for node in range(7):
                keep = torch.arange(7) != node
                after = model(SIGN(2)(data.subgraph(keep))).softmax(-1)
                assert found[node] == pytest.approx(
                    float((before[keep] - after).abs().sum()), abs=1e-5
                )
        assert "x1" not in data
        effect = nora.what_if(model, data, 3, forward=call, transform=SIGN(2), method="brute")
        assert effect.total == pytest.approx(found[3], rel=1e-5)

    def test_weights_made_by_a_transform_reach_a_model_that_names_them(self) -> None:
        class Weighing(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                with seeded(0):
                    self.conv = GCNConv(FEATURES, 3, normalize=False)

            def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
                return self.conv(x, edge_index, edge_weight)

        class Usual(Weighing):
            def __init__(self) -> None:
                super().__init__()
                with seeded(0):
                    self.conv = GCNConv(FEATURES, 3)

            def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
                return self.conv(x, edge_index)

        data = directed()
        expected = nora.influence(Usual(), data, "brute", progress=False).scores
        found = nora.influence(
            Weighing(), data, "brute", transform=GCNNorm(), progress=False
        ).scores
        assert torch.allclose(found, expected, atol=1e-5)

    def test_every_question_takes_it(self) -> None:
        data, model = bridge(), Sign()
        given: dict[str, Any] = {"forward": call, "transform": SIGN(2)}
        scores = nora.influence(model, data, "brute", progress=False, **given)
        group = nora.best_group(model, data, 2, method="brute", progress=False, **given)
        assert group.influences[0] == pytest.approx(float(scores.scores.max()), rel=1e-5)
        changes = nora.influence_matrix(model, data, [3], method="brute", progress=False, **given)
        assert changes["change"].sum() == pytest.approx(scores[3], rel=1e-4)
        who = nora.influencers(model, data, 0, k=2, method="brute", progress=False, **given)
        assert len(who) == 2

    def test_graphs_with_types_are_transformed_too(self) -> None:
        def halved(data: HeteroData) -> HeteroData:
            data["paper"].x = data["paper"].x / 2
            return data

        model, data = typed_network(), library()
        half = library()
        half["paper"].x /= 2
        expected = nora.influence(model, half, "brute", PAPERS, progress=False).scores
        found = nora.influence(
            model, data, "brute", PAPERS, transform=halved, progress=False
        ).scores
        assert torch.allclose(found, expected)
        assert torch.equal(data["paper"].x, library()["paper"].x)

    def test_a_checkpoint_of_another_transform_is_refused(self, tmp_path: Any) -> None:
        data, model = bridge(), Sign()
        given: dict[str, Any] = {"forward": call, "checkpoint": tmp_path / "c", "progress": False}

        def other(data: Data) -> Data:
            data = SIGN(2)(data)
            data.x1 = -data.x1
            return data

        nora.influence(model, data, "brute", transform=SIGN(2), **given)
        with pytest.raises(ValueError, match="model"):
            nora.influence(model, data, "brute", transform=other, **given)

    def test_one_that_writes_in_place_leaves_the_graph_alone(self) -> None:
        def halved(data: Data) -> Data:
            data.x.div_(2)
            return data

        data, half = double(bridge()), double(bridge())
        half.x /= 2
        expected = nora.influence(network(), half, "brute", progress=False).scores
        found = nora.influence(network(), data, "brute", transform=halved, progress=False).scores
        assert torch.allclose(found, expected)
        assert torch.equal(data.x, double(bridge()).x)

    def test_one_that_returns_nothing_is_refused(self) -> None:
        with pytest.raises(TypeError, match=r"transform must return.*graph, got NoneType"):
            nora.influence(Sign(), bridge(), "brute", transform=lambda data: None)

    def test_something_that_is_no_function_is_refused(self) -> None:
        with pytest.raises(TypeError, match="function of the graph, got str"):
            nora.influence(Sign(), bridge(), "brute", transform="sign")  # type: ignore[arg-type]
