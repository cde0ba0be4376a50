"""NORA as an algorithm of PyG's `Explainer`."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.explain import Explainer, Explanation
from torch_geometric.explain.metric import fidelity
from torch_geometric.nn import GCNConv

import nora
from graphs import FEATURES, bridge, double, some_pairs, star, weighted
from networks import CLASSES, network
from nora import NoraExplainer
from nora.model.preserve import seeded

NODES = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
LINKS = {"mode": "binary_classification", "task_level": "edge", "return_type": "raw"}


def explainer(
    model: nn.Module, algorithm: NoraExplainer, config: dict[str, str] = NODES, **settings: Any
) -> Explainer:
    settings = {"explanation_type": "model", "node_mask_type": "object", **settings}
    return Explainer(model, algorithm=algorithm, model_config=config, **settings)


class Weighted(nn.Module):
    """A model that reads edge weights, and a number that is not a tensor."""

    def __init__(self) -> None:
        super().__init__()
        with seeded(0):
            self.conv = GCNConv(FEATURES, CLASSES).double()

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor, scale: float) -> Tensor:
        return scale * self.conv(x, edge_index, edge_weight)


class Linked(nn.Module):
    """A link model as in PyG's examples: `forward` is `decode` after `encode`."""

    def __init__(self, shift: float = 0.0) -> None:
        super().__init__()
        self.shift = shift
        with seeded(0):
            self.conv = GCNConv(FEATURES, 4).double()

    def encode(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index)

    def decode(self, z: Tensor, edge_label_index: Tensor) -> Tensor:
        return (z[edge_label_index[0]] * z[edge_label_index[1]]).sum(dim=-1, keepdim=True)

    def forward(self, x: Tensor, edge_index: Tensor, edge_label_index: Tensor) -> Tensor:
        scores = self.decode(self.encode(x, edge_index), edge_label_index)
        return scores.view(-1) + self.shift


class Probable(nn.Module):
    """Another model's predictions as probabilities, or their logarithms."""

    def __init__(self, model: nn.Module, log: bool) -> None:
        super().__init__()
        self.model, self.log = model, log

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out = self.model(x, edge_index)
        return out.log_softmax(dim=-1) if self.log else out.softmax(dim=-1)


@pytest.mark.parametrize("method", ["auto", "exact", "brute", "nora", "degree"])
def test_the_mask_is_the_influence(method: str) -> None:
    model, data = network(), double(bridge())
    explanation = explainer(model, NoraExplainer(method))(data.x, data.edge_index)
    assert isinstance(explanation, Explanation)
    assert explanation.validate()
    assert explanation.available_explanations == ["node_mask"]
    expected = nora.influence(model, data, method, progress=False).scores
    torch.testing.assert_close(explanation.node_mask, expected.double().unsqueeze(-1))


@pytest.mark.parametrize("index", [2, torch.tensor(2), torch.tensor([2]), [2, 6], "mask"])
def test_an_index_restricts_it_to_these_predictions(index: Any) -> None:
    model, data = network(), double(bridge())
    targets = [2] if not isinstance(index, list) else index
    if index == "mask":
        index = torch.arange(7) == 2
    found = explainer(model, NoraExplainer("exact"))(data.x, data.edge_index, index=index)
    expected = nora.influence(model, data, "exact", targets=targets, progress=False).scores
    torch.testing.assert_close(found.node_mask.flatten(), expected)
    if len(targets) == 1:
        assert float(found.node_mask[2]) == 0, "a removed node's own prediction does not count"


def test_masks_of_single_predictions_add_up_to_the_whole() -> None:
    model, data = network(), double(bridge())
    ask = explainer(model, NoraExplainer("exact"))
    each = [ask(data.x, data.edge_index, index=node).node_mask for node in range(7)]
    torch.testing.assert_close(sum(each), ask(data.x, data.edge_index).node_mask)


def test_the_explanation_knows_what_it_is_about() -> None:
    model, data = network(), double(bridge())
    found = explainer(model, NoraExplainer("exact"))(data.x, data.edge_index, index=0)
    assert found.index.tolist() == [0]
    assert torch.equal(found.target, model(data.x, data.edge_index).argmax(dim=-1))
    # Node 4, three steps away, matters through the degree of node 3; nodes 5 and 6 do not.
    assert found.node_mask.flatten().nonzero().flatten().tolist() == [1, 2, 3, 4]
    assert found.get_explanation_subgraph().num_nodes == 4
    with pytest.raises(ValueError, match="object-level"):
        found.visualize_feature_importance()


@pytest.mark.parametrize("index", [None, 2])
@pytest.mark.parametrize("nodes", [None, "object"])
def test_the_edge_mask_is_the_influence_of_each_edge(nodes: str | None, index: int | None) -> None:
    model, data = network(), double(bridge())
    ask = explainer(model, NoraExplainer("exact"), node_mask_type=nodes, edge_mask_type="object")
    found = ask(data.x, data.edge_index, index=index)
    assert found.validate()
    assert ("node_mask" in found) == (nodes is not None)
    targets = None if index is None else [index]
    whole = model(data.x, data.edge_index).softmax(dim=-1)
    for at, (one, other) in enumerate(data.edge_index.t().tolist()):
        ends = data.edge_index
        gone = ((ends[0] == one) & (ends[1] == other)) | ((ends[0] == other) & (ends[1] == one))
        change = (model(data.x, ends[:, ~gone]).softmax(dim=-1) - whole).abs().sum(dim=-1)
        expected = change.sum() if targets is None else change[targets].sum()
        assert float(found.edge_mask[at]) == pytest.approx(float(expected.detach()), abs=1e-9)


@pytest.mark.parametrize("index", [None, 2])
def test_pyg_draws_the_explanation(index: int | None, tmp_path: Path) -> None:
    model, data = network(), double(bridge())
    ask = explainer(model, NoraExplainer("exact"), edge_mask_type="object")
    found = ask(data.x, data.edge_index, index=index)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found.visualize_graph(str(tmp_path / "graph.png"), backend="networkx")
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")


def test_a_graph_without_edges_has_an_empty_edge_mask() -> None:
    model, data = network(), double(bridge())
    ask = explainer(model, NoraExplainer("exact"), edge_mask_type="object")
    assert ask(data.x, data.edge_index[:, :0]).edge_mask.shape == (0,)


@pytest.mark.parametrize("method", ["exact", "brute"])
def test_edge_weights_and_other_arguments_reach_the_model(method: str) -> None:
    model, data = Weighted().eval(), double(weighted())
    given = {"edge_weight": data.edge_weight, "scale": 2.0}
    found = explainer(model, NoraExplainer(method))(data.x, data.edge_index, **given)
    expected = nora.influence(
        model,
        data,
        "brute",
        forward=lambda model, data: model(data.x, data.edge_index, data.edge_weight, 2.0),
        progress=False,
    ).scores
    assert found.validate()
    torch.testing.assert_close(found.node_mask.flatten(), expected)
    plain = explainer(model, NoraExplainer(method))(
        data.x, data.edge_index, edge_weight=torch.ones(12).double(), scale=2.0
    )
    assert not torch.allclose(found.node_mask, plain.node_mask)


@pytest.mark.parametrize("return_type", ["probs", "log_probs"])
def test_what_the_model_returns_is_taken_at_its_word(return_type: str) -> None:
    data = double(bridge())
    model = Probable(network(), log=return_type == "log_probs")
    config = {**NODES, "return_type": return_type}
    found = explainer(model, NoraExplainer("brute"), config)(data.x, data.edge_index)
    expected = nora.influence(network(), data, "brute", progress=False).scores
    torch.testing.assert_close(found.node_mask.flatten(), expected)


@pytest.mark.parametrize("index", [None, torch.tensor([0, 3])])
@pytest.mark.parametrize("method", ["exact", "brute"])
def test_links_are_explained_through_encode_and_decode(method: str, index: Any) -> None:
    model, data = Linked().eval(), double(bridge())
    pairs = some_pairs(data)
    found = explainer(model, NoraExplainer(method), LINKS)(
        data.x, data.edge_index, index=index, edge_label_index=pairs
    )
    expected = nora.influence(
        model,
        data,
        "brute",
        nora.LinkPrediction(pairs),
        targets=index,
        forward=lambda model, data: model.encode(data.x, data.edge_index),
        progress=False,
    ).scores
    assert found.validate()
    torch.testing.assert_close(found.node_mask.flatten(), expected)


def test_links_need_their_pairs() -> None:
    data = double(bridge())
    ask = explainer(Linked(), NoraExplainer(), {**LINKS})
    with pytest.raises(ValueError, match=r"edge_index, edge_label_index=pairs\)"):
        ask.algorithm(Linked(), data.x, data.edge_index, target=None)


def test_a_link_model_in_one_piece_is_rejected_with_the_remedy() -> None:
    class InOnePiece(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor, edge_label_index: Tensor) -> Tensor:
            return (x[edge_label_index[0]] * x[edge_label_index[1]]).sum(dim=-1)

    data = double(bridge())
    with pytest.raises(ValueError, match="InOnePiece has no encode"):
        explainer(InOnePiece(), NoraExplainer(), LINKS)(
            data.x, data.edge_index, edge_label_index=some_pairs(data)
        )


def test_a_link_model_that_does_more_than_encode_and_decode_is_refused() -> None:
    data = double(bridge())
    with pytest.raises(ValueError, match=r"Linked's forward gives other scores.*decode"):
        explainer(Linked(shift=1.0), NoraExplainer(), LINKS)(
            data.x, data.edge_index, edge_label_index=some_pairs(data)
        )


@pytest.mark.parametrize(
    ("config", "settings", "reason"),
    [
        (NODES, {"explanation_type": "phenomenon"}, "use explanation_type='model'"),
        (NODES, {"node_mask_type": "attributes"}, "use node_mask_type='object'"),
        ({**NODES, "task_level": "graph"}, {}, "at task_level='graph'"),
        ({**NODES, "mode": "regression"}, {}, "mode='regression'"),
        ({**NODES, "mode": "binary_classification"}, {}, "mode='binary_classification' at"),
        ({**LINKS, "mode": "multiclass_classification"}, {}, "at task_level='edge'"),
    ],
)
def test_what_it_cannot_explain_is_refused_and_the_log_says_why(
    config: dict[str, str],
    settings: dict[str, Any],
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(ValueError, match="'NoraExplainer' does"):
        explainer(network(), NoraExplainer(), config, **settings)
    assert len(caplog.records) == 1
    assert reason in caplog.text


def test_a_wrong_method_or_option_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="exakt"):
        NoraExplainer("exakt")
    with pytest.raises(TypeError, match="has no option 'betta'"):
        NoraExplainer("nora", betta=2.0)
    with pytest.raises(ValueError, match="learns from the true influence"):
        NoraExplainer("predict-n")


def test_methods_take_their_options_and_labels() -> None:
    model, data = network(), double(bridge())
    labels = nora.influence(model, data, nodes=[0, 1, 2, 3], progress=False)
    algorithm = NoraExplainer("predict-n", labels=labels, epochs=3)
    found = explainer(model, algorithm)(data.x, data.edge_index)
    assert bool(found.node_mask.isfinite().all())
    assert repr(algorithm) == "NoraExplainer('predict-n', epochs=3)"


def test_a_method_that_looks_at_no_prediction_takes_no_index() -> None:
    data = double(star())
    with pytest.raises(ValueError, match="cannot restrict itself to targets"):
        explainer(network(), NoraExplainer("degree"))(data.x, data.edge_index, index=0)


def test_typed_graphs_are_refused() -> None:
    algorithm = explainer(network(), NoraExplainer()).algorithm
    with pytest.raises(ValueError, match="one node type"):
        algorithm(network(), {"paper": torch.ones(2, 3)}, {}, target=None)


def test_a_threshold_makes_a_mask_that_pygs_metrics_take() -> None:
    model, data = network(), double(bridge())
    ask = explainer(model, NoraExplainer("exact"), threshold_config=("topk_hard", 3))
    found = ask(data.x, data.edge_index)
    assert sorted(found.node_mask.flatten().tolist()) == [0] * 4 + [1] * 3
    assert all(0 <= value <= 1 for value in fidelity(ask, found))


def test_the_model_is_left_as_found() -> None:
    model, data = network().train(), double(bridge())
    before = {key: value.clone() for key, value in model.state_dict().items()}
    explainer(model, NoraExplainer("exact"))(data.x, data.edge_index, index=2)
    assert model.training
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
