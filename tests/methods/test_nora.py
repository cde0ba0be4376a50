"""`nora` against a deliberately plain implementation of the formula.

The plain one knows nothing of hooks or autograd: the derivative of the predictions with respect to a
layer's input is a central difference, and everything else is a loop over nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, SAGEConv

import nora
from graphs import GRAPHS, bridge, components, directed, double, graph, isolated, some_pairs, star
from networks import network, patchwork
from nora import LinkPrediction, NodeClassification
from nora.methods.nora import layer_terms, norms_of
from nora.model import build_problem
from nora.model.preserve import seeded
from nora.model.task import Task

Tail = Callable[[Tensor], Tensor]
OPTIONS = {"beta": 3.0, "p": 2.0, "k1": 0.7, "k2": 0.4, "k2_prime": 0.25, "k3_prime": 1.3}


def layers_of(name: str, model: nn.Module, data: Data) -> list[tuple[Tensor, Tail]]:
    """For each layer: its input, and the rest of the model as a function of that input."""
    edges = data.edge_index
    if name == "gcnii":
        first, second = model.convs
        h0 = model.lin_in(data.x).relu()
        h1 = first(h0, h0, edges).relu()

        def rest(h: Tensor, start: Tensor) -> Tensor:
            return model.lin_out(second(h, start, edges).relu())

        return [
            (h0, lambda h: rest(first(h, h, edges).relu(), h)),
            (h1, lambda h: rest(h, h0)),
        ]
    first, second = model.convs
    return [
        (data.x, lambda h: second(first(h, edges).relu(), edges)),
        (first(data.x, edges).relu(), lambda h: second(h, edges)),
    ]


def shares(task: Task, output: Tensor, num_nodes: int) -> list[list[float]]:
    """What each node contributes to f: its probabilities, or the links it is an end of."""
    if isinstance(task, NodeClassification):
        return [row.softmax(dim=0).tolist() for row in output]
    credited = [[0.0] for _ in range(num_nodes)]
    for i, j in task.pairs.t().tolist():
        link = 1 / (1 + math.exp(-float(output[i] @ output[j])))
        credited[i][0] += link
        credited[j][0] += link
    return credited


def weighted_sum(weights: list[list[float]], values: list[list[float]]) -> float:
    return sum(
        w * v
        for weight, value in zip(weights, values, strict=True)
        for w, v in zip(weight, value, strict=True)
    )


def plain_nora(
    layers: list[tuple[Tensor, Tail]],
    data: Data,
    task: Task,
    weighting: str,
    *,
    beta: float,
    p: float,
    k1: float,
    k2: float,
    k2_prime: float,
    k3_prime: float,
) -> list[float]:
    n = data.num_nodes
    edges = [(i, j) for i, j in data.edge_index.t().tolist() if i != j]
    out = [sum(1 for i, _ in edges if i == r) for r in range(n)]
    into = [sum(1 for _, j in edges if j == r) for r in range(n)]
    mean_degree = sum(out) / n

    gradient_part = [0.0] * n
    for index, (h, tail) in enumerate(layers):
        h = h.detach()
        prediction = shares(task, tail(h), n)
        weights = prediction
        if weighting == "sum":
            total = [sum(column) for column in zip(*prediction, strict=True)]
            weights = [total] * n
        for r in range(n):
            if out[r] == 0:
                continue
            norm = 0.0
            for feature in range(h.size(1)):
                step = torch.zeros_like(h)
                step[r, feature] = 1e-5
                up = weighted_sum(weights, shares(task, tail(h + step), n))
                down = weighted_sum(weights, shares(task, tail(h - step), n))
                norm += abs((up - down) / 2e-5 * float(h[r, feature])) ** p
            d_hat = 1 - out[r] / ((n - 1) * (mean_degree + beta))
            h_hat = out[r] / (out[r] + beta) * norm ** (1 / p)
            gradient_part[r] += d_hat ** (len(layers) - 1 - index) * h_hat

    topology = [0.0] * n
    for r, i in edges:
        if into[i] == 1:
            received = 1.0
        else:
            received = k1 * (1 / math.sqrt(into[i] - 1) - 1 / math.sqrt(into[i]))
            received += (1 - k1) * (1 / (into[i] - 1) - 1 / into[i])
        for j, to in edges:
            if to == i:
                d = max(into[j], 1)
                topology[r] += received * (k2 / math.sqrt(d) + k2_prime / d + (1 - k2 - k2_prime))

    scale = sum(gradient_part) / sum(topology)
    return [g + k3_prime * scale * t for g, t in zip(gradient_part, topology, strict=True)]


def task_of(name: str, data: Data) -> Task:
    return NodeClassification() if name == "node" else LinkPrediction(some_pairs(data))


@torch.no_grad()
def both(
    name: str, data: Data, task: Task, weighting: str, **changed: float
) -> tuple[list[float], list[float]]:
    options = {**OPTIONS, **changed}
    model, data = network(name), double(data)
    scores = nora.influence(
        model, data, "nora", task, weighting=weighting, progress=False, **options
    )
    return scores.scores.tolist(), plain_nora(
        layers_of(name, model, data), data, task, weighting, **options
    )


@pytest.mark.parametrize("task", ["node", "link"])
@pytest.mark.parametrize("weighting", ["own", "sum"])
@pytest.mark.parametrize("name", ["gcn", "sage", "gat", "gcnii"])
def test_equals_the_plain_formula(name: str, weighting: str, task: str) -> None:
    data = bridge()
    scores, plain = both(name, data, task_of(task, data), weighting)
    assert scores == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize("kind", GRAPHS)
def test_equals_the_plain_formula_on_every_kind_of_graph(kind: str) -> None:
    data = GRAPHS[kind]()
    if kind == "weighted":
        del data.edge_weight  # the plain model above does not take weights
    scores, plain = both("gcn", data, NodeClassification(), "own")
    assert scores == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize(
    "changed",
    [{"p": 1.0}, {"p": 5.0}, {"beta": 0.0}, {"beta": 25.0}, {"k1": 0.0}, {"k3_prime": 0.0}],
    ids=str,
)
def test_equals_the_plain_formula_for_other_hyper_parameters(changed: dict[str, float]) -> None:
    data = star()
    scores, plain = both("sage", data, NodeClassification(), "sum", **changed)
    assert scores == pytest.approx(plain, rel=1e-6)


def test_t1_is_nora_without_the_structural_part() -> None:
    model, data = network(), double(bridge())
    whole = nora.influence(model, data, "nora", k3_prime=0.0, beta=2.0, progress=False)
    part = nora.influence(model, data, "nora-t1", beta=2.0, progress=False)
    torch.testing.assert_close(part.scores, whole.scores, rtol=1e-12, atol=0)


def test_t2_and_t1_add_up_to_nora() -> None:
    model, data = network(), double(bridge())
    t1 = nora.influence(model, data, "nora-t1", progress=False).scores
    t2 = nora.influence(model, data, "nora-t2", progress=False).scores.double()
    whole = nora.influence(model, data, "nora", k3_prime=2.0, progress=False).scores
    torch.testing.assert_close(whole, t1 + 2 * t1.mean() / t2.mean() * t2, rtol=1e-5, atol=1e-9)


def test_t2_on_a_star_is_what_hand_calculation_gives() -> None:
    # The middle: five leaves of degree 1 (bracket 1), each hears only the middle, degree 5.
    # A leaf: the middle, bracket 1/√4 − 1/√5, hears five leaves of degree 1.
    data = star()
    scores = nora.influence(network(), data, "nora-t2", k1=1.0, k2=1.0, k2_prime=0.0)
    middle, leaf = 5 / math.sqrt(5), 5 * (1 / 2 - 1 / math.sqrt(5))
    assert scores.scores.tolist() == pytest.approx([middle] + [leaf] * 5, rel=1e-6)


def test_a_node_without_edges_scores_zero_and_one_without_out_edges_too() -> None:
    apart = nora.influence(network(), double(isolated()), "nora", progress=False).scores
    assert apart[4:].tolist() == [0, 0]
    assert (apart[:4] > 0).all()
    one_way = nora.influence(network(), double(directed()), "nora", progress=False).scores
    assert one_way[5] == 0
    assert (one_way[:5] > 0).all()


def test_a_graph_without_edges_scores_zero_everywhere() -> None:
    scores = nora.influence(network(), double(graph([], 4)), "nora", progress=False).scores
    assert scores.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("name", ["gcn", "gcnii", "patchwork"])
def test_frozen_weights_give_the_same_scores(name: str) -> None:
    model, data = patchwork() if name == "patchwork" else network(name), double(bridge())
    free = nora.influence(model, data, "nora", progress=False).scores
    frozen = nora.influence(model.requires_grad_(False), data, "nora", progress=False).scores
    torch.testing.assert_close(frozen, free, rtol=1e-12, atol=0)


class Parallel(nn.Module):
    """Two convolutions side by side on the same input."""

    def __init__(self) -> None:
        super().__init__()
        with seeded(0):
            self.lin = nn.Linear(3, 3)
            self.left, self.right = SAGEConv(3, 3), SAGEConv(3, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.lin(x)
        return self.left(h, edge_index) + self.right(h, edge_index)


def test_layers_side_by_side_on_one_input_are_one_layer() -> None:
    model, data = Parallel().double(), double(bridge())
    layer = model.lin(data.x)
    plain = plain_nora(
        [(layer, lambda h: model.left(h, data.edge_index) + model.right(h, data.edge_index))],
        data,
        NodeClassification(),
        "own",
        **OPTIONS,
    )
    scores = nora.influence(model, data, "nora", progress=False, **OPTIONS)
    assert scores.scores.tolist() == pytest.approx(plain, rel=1e-6)


class Named(nn.Module):
    """Calls its layers with keyword arguments and with a (source, target) pair."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.first, self.second = inner.convs

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.first(x=x, edge_index=edge_index).relu()
        return self.second((h, h), edge_index)


def test_how_a_layer_is_called_does_not_matter() -> None:
    model, data = network("sage"), double(bridge())
    usual = nora.influence(model, data, "nora", progress=False).scores
    named = nora.influence(Named(model), data, "nora", progress=False).scores
    torch.testing.assert_close(named, usual, rtol=1e-12, atol=0)


def test_targets_in_one_component_leave_no_gradient_in_the_other() -> None:
    model, data = network(), double(components())
    scores = nora.influence(model, data, "nora-t1", targets=[0, 1], progress=False).scores
    assert (scores[:3] > 0).all()
    assert scores[3:].tolist() == [0, 0, 0, 0]


def test_a_model_without_message_passing_is_refused_with_a_remedy() -> None:
    class Rows(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return x - x.mean(dim=0)

    with pytest.raises(ValueError, match=r"no torch_geometric MessagePassing.*'brute'"):
        nora.influence(Rows(), bridge(), "nora", progress=False)


def test_a_layer_on_something_else_than_nodes_is_refused() -> None:
    class Halves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = GCNConv(3, 3)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            half = edge_index[:, (edge_index < 3).all(dim=0)]
            return torch.cat([self.conv(x[:3], half), x[3:]])

    with pytest.raises(ValueError, match=r"node tensor \[7, F\]"):
        nora.influence(Halves(), bridge(), "nora", progress=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beta": -1}, r"beta=-1 is out of range.*\[0, inf\]"),
        ({"k1": 1.5}, r"k1=1.5 is out of range.*lie in \[0, 1\]"),
        ({"k2": -0.1}, "k2=-0.1 is out of range"),
        ({"k2_prime": 2}, "k2_prime=2 is out of range"),
        ({"k3_prime": -3}, "k3_prime=-3 is out of range"),
        ({"p": float("nan")}, "p=nan is out of range"),
        ({"weighting": "mean"}, "weighting is 'mean'.*'sum' or 'own'"),
    ],
)
def test_hyper_parameters_out_of_range_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nora.influence(network(), double(bridge()), "nora", progress=False, **options)


def test_looked_up_rows_are_one_hot_features() -> None:
    """A table of rows and a linear map of one-hot features are the same model, and score the same."""

    class LookedUp(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            with seeded(0):
                self.table = torch.nn.Embedding(6, 4).double()
                self.conv = SAGEConv(4, 3).double()

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            rows = self.table(x) if not x.is_floating_point() else x @ self.table.weight
            return self.conv(rows, edge_index)

    data = star()
    data.x = torch.arange(6)
    problem = build_problem(LookedUp(), data)
    (term,) = layer_terms(problem, "own")
    looked_up = term[0][1]
    assert looked_up.shape == (6, 1)

    model = LookedUp()
    one_hot = star()
    one_hot.x = torch.eye(6, dtype=torch.double).requires_grad_()
    prediction = model(one_hot.x, one_hot.edge_index).softmax(dim=-1)
    (gradient,) = torch.autograd.grad((prediction.detach() * prediction).sum(), one_hot.x)
    expected = (gradient * one_hot.x).detach().norm(p=5, dim=1)
    torch.testing.assert_close(norms_of([term], 5.0, 6)[0], expected)
