"""Bad input gets a specific message, before any long work."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData

import nora
from graphs import bridge, double, graph, looped, star, weighted
from networks import network
from nora import LinkPrediction, NodeClassification
from nora.methods import METHODS
from nora.model import build_problem

METHOD_NAMES = [entry.name for entry in METHODS]


def changed(**parts: object) -> Data:
    data = double(bridge())
    for key, value in parts.items():
        data[key] = value
    return data


def with_bad_value(value: float) -> Data:
    data = double(bridge())
    data.x[4, 1] = value
    return data


EDGES = bridge().edge_index
BAD_GRAPHS: list[tuple[str, Callable[[], Data], type[Exception], str]] = [
    ("no edge_index", lambda: Data(x=torch.ones(3, 3)), ValueError, "data has no edge_index"),
    (
        "edge_index transposed",
        lambda: changed(edge_index=EDGES.t()),
        ValueError,
        r"edge_index.*got \[16, 2\]",
    ),
    (
        "edge_index flat",
        lambda: changed(edge_index=EDGES.flatten()),
        ValueError,
        r"edge_index.*got \[32\]",
    ),
    (
        "edge_index of floats",
        lambda: changed(edge_index=EDGES.float()),
        TypeError,
        r"float32; use edge_index\.long\(\)",
    ),
    (
        "edge_index of int32",
        lambda: changed(edge_index=EDGES.int()),
        TypeError,
        r"torch\.long node ids, got torch\.int32",
    ),
    (
        "edge to a node beyond",
        lambda: changed(edge_index=torch.tensor([[0, 1], [1, 7]])),
        ValueError,
        r"edge_index.*node 7.*\(0 … 6\)",
    ),
    (
        "edge from a negative node",
        lambda: changed(edge_index=torch.tensor([[0, -1], [1, 2]])),
        ValueError,
        "edge_index.*node -1.*7 nodes",
    ),
    (
        "empty graph",
        lambda: graph([], 0),
        ValueError,
        "the graph is empty: it has no nodes",
    ),
    (
        "NaN features",
        lambda: with_bad_value(float("nan")),
        ValueError,
        r"x holds NaN.*node 4",
    ),
    (
        "infinite features",
        lambda: with_bad_value(float("-inf")),
        ValueError,
        r"x holds NaN.*node 4",
    ),
    (
        "features for other nodes",
        lambda: changed(x=torch.ones(6, 3), num_nodes=7),
        ValueError,
        "x has 6 rows but the graph has 7 nodes",
    ),
    ("no features", lambda: Data(edge_index=EDGES, num_nodes=7), ValueError, "no node features x"),
]


@pytest.mark.parametrize("method", METHOD_NAMES)
@pytest.mark.parametrize(
    ("build", "error", "message"),
    [case[1:] for case in BAD_GRAPHS],
    ids=[case[0] for case in BAD_GRAPHS],
)
def test_a_bad_graph_is_refused_by_every_method(
    build: Callable[[], Data], error: type[Exception], message: str, method: str
) -> None:
    with pytest.raises(error, match=message):
        nora.influence(network(), build(), method, progress=False)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [case[1:] for case in BAD_GRAPHS],
    ids=[case[0] for case in BAD_GRAPHS],
)
def test_a_bad_graph_is_refused_by_what_if(
    build: Callable[[], Data], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        nora.what_if(network(), build(), 0)


def test_a_graph_of_another_type_is_refused() -> None:
    with pytest.raises(ValueError, match="the graph is empty"):
        nora.influence(network(), HeteroData(), "brute")
    with pytest.raises(TypeError, match=r"Data or HeteroData, got dict"):
        nora.influence(network(), {"x": 1}, "brute")  # type: ignore[arg-type]


def test_something_that_is_no_model_is_refused() -> None:
    with pytest.raises(TypeError, match=r"model.*torch\.nn\.Module, got function"):
        nora.influence(lambda x: x, bridge(), "brute")  # type: ignore[arg-type]


def test_something_that_is_no_task_is_refused() -> None:
    with pytest.raises(TypeError, match=r"got str; e\.g\. task=nora\.LinkPrediction\(pairs\)"):
        nora.influence(network(), bridge(), "brute", "link")  # type: ignore[arg-type]


@pytest.mark.parametrize("where", ["nodes", "targets"])
@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([9000], ValueError, r"9000 is out of range.*\(0 … 6\)"),
        ([-1, 2], ValueError, "-1 is out of range: the graph.*7"),
        (torch.tensor([7]), ValueError, "7 is out of range"),
        ([0.5, 1.5], TypeError, r"ids must.*integers, got torch\.float32"),
        (torch.ones(5, dtype=torch.bool), ValueError, "mask has 5 entries, expected 7"),
    ],
    ids=["beyond", "negative", "tensor", "floats", "short mask"],
)
def test_bad_ids_are_refused(where: str, ids: object, error: type[Exception], message: str) -> None:
    what = where.removesuffix("s")
    with pytest.raises(error, match=f"{what}.*{message}"):
        nora.influence(network(), double(bridge()), "brute", **{where: ids})  # type: ignore[arg-type]


def test_bad_ids_to_remove_are_refused() -> None:
    model, data = network(), double(bridge())
    with pytest.raises(ValueError, match=r"node 7.*range: the graph has 7 nodes"):
        nora.what_if(model, data, 7)
    with pytest.raises(ValueError, match="node 9 is out of range"):
        nora.what_if(model, data, [0, 9])
    with pytest.raises(ValueError, match="the edit is empty: give remove="):
        nora.what_if(model, data, [])


def test_no_targets_at_all_are_refused() -> None:
    with pytest.raises(ValueError, match=r"targets is empty"):
        nora.influence(network(), double(bridge()), "brute", targets=[])


def test_link_targets_beyond_the_pairs_are_refused() -> None:
    task = LinkPrediction(torch.tensor([[0, 1], [1, 2]]))
    with pytest.raises(ValueError, match=r"target pair 2.*task has 2 pairs"):
        nora.influence(network(), double(bridge()), "brute", task, targets=[2])


def test_a_model_built_for_other_features_is_refused_with_both_sizes() -> None:
    data = double(bridge())
    data.x = data.x[:, :2]
    with pytest.raises(ValueError, match=r"run.*shape \[7, 2\]: was the model built"):
        nora.influence(network(), data, "brute")


def test_a_model_with_other_arguments_is_rejected_without_forward() -> None:
    class Other(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, graph: Data) -> Tensor:
            return self.inner(graph.x, graph.edge_index)

    data = double(bridge())
    with pytest.raises(ValueError, match=r"pass forward=lambda model, data"):
        nora.influence(Other(), data, "brute")
    expected = nora.influence(network(), data, "brute", progress=False).scores
    reply = nora.influence(
        Other(), data, "brute", forward=lambda model, data: model(data), progress=False
    ).scores
    assert torch.equal(reply, expected)


def test_a_model_that_returns_several_things_is_refused() -> None:
    class Both(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
            return x, x

    with pytest.raises(TypeError, match=r"returned tuple, expected.*tensor; pass forward="):
        nora.influence(Both(), bridge(), "brute")


class Constant(nn.Module):
    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self.output = output

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.output


@pytest.mark.parametrize("shape", [(6,), (6, 3), (6, 1), (7, 3, 2)])
def test_an_output_that_is_no_row_of_classes_per_node_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(
        ValueError, match=r"shape \[7, classes ≥ 2\], or \[7\].*; the model returned"
    ):
        nora.influence(Constant(torch.zeros(shape)), bridge(), "brute")


def test_an_output_that_is_no_embedding_per_node_is_refused() -> None:
    task = LinkPrediction(torch.tensor([[0], [1]]))
    with pytest.raises(ValueError, match=r"shape \[7, D\]; the model returned \[7\]"):
        nora.influence(Constant(torch.zeros(7)), bridge(), "brute", task)


def test_a_model_that_predicts_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="predicts NaN or infinite values"):
        nora.influence(Constant(torch.full((7, 2), float("nan"))), bridge(), "brute")


@pytest.mark.parametrize(
    ("return_type", "value"), [("probs", 3.0), ("probs", -0.5), ("log_probs", 1.0)]
)
def test_a_wrong_return_type_is_noticed(return_type: str, value: float) -> None:
    task = NodeClassification(return_type)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=rf"return_type='{return_type}'.*return_type='raw'"):
        nora.influence(Constant(torch.full((7, 2), value)), bridge(), "brute", task)


@pytest.mark.parametrize("method", [entry.name for entry in METHODS if entry.facts.uses_model])
def test_a_model_that_is_random_in_eval_mode_is_refused(method: str) -> None:
    class Random(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.inner(nn.functional.dropout(x, 0.5, training=True), edge_index)

    with pytest.raises(ValueError, match=r"Random is not deterministic.*differ by"):
        nora.influence(Random(), double(bridge()), method)


def test_the_check_happens_before_any_removal() -> None:
    seen = []

    class Counting(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            seen.append(x.size(0))
            return x[:5]

    with pytest.raises(ValueError, match="classes ≥ 2"):
        nora.influence(Counting(), star(), "brute")
    assert seen == [6]


def test_edge_weights_reach_a_model_that_names_them() -> None:
    data = double(weighted())
    weighed = nora.influence(network(), data, "brute", progress=False).scores
    del data.edge_weight
    plain = nora.influence(network(), data, "brute", progress=False).scores
    assert not torch.allclose(weighed, plain, rtol=1e-2)


def test_edge_weights_do_not_trouble_a_model_that_does_not_name_them() -> None:
    data = double(weighted())
    scores = nora.influence(network("sage"), data, "brute", progress=False).scores
    del data.edge_weight
    plain = nora.influence(network("sage"), data, "brute", progress=False).scores
    assert torch.equal(scores, plain)


def test_weights_for_other_edges_are_refused() -> None:
    data = double(weighted())
    data.edge_weight = data.edge_weight[:4]
    with pytest.raises(ValueError, match="weight for each of the 12 edges"):
        nora.influence(network(), data, "brute")


def test_a_question_holds_sorted_distinct_nodes() -> None:
    problem = build_problem(network(), double(looped()), nodes=[4, 0, 4])
    assert problem.nodes.tolist() == [0, 4]
    assert problem.num_nodes == 5
    assert problem.targets is None


def test_removing_everything_is_rejected_because_no_prediction_is_left() -> None:
    with pytest.raises(ValueError, match="remove names all 6 nodes"):
        nora.what_if(network(), double(star()), range(6))


def test_a_graph_of_one_node_scores_zero() -> None:
    data = double(graph([], 1))
    for entry in METHODS:
        if entry.facts.uses_model:
            assert nora.influence(network(), data, entry.name, progress=False).scores.tolist() == [
                0
            ]
