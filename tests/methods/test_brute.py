"""`brute` against numbers worked out by hand, and against what must hold for any graph."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, SimpleConv

import nora
from graphs import directed, double, graph, two_camps
from networks import network
from nora import LinkPrediction

# On the path 0 - 1 - 2 - 3 with x = 1 everywhere, "sum of the neighbours" is 1, 2, 2, 1.
SIGMOID = {0: 0.5, 1: 0.7310585786, 2: 0.8807970780, 4: 0.9820137900}
PATH = [(0, 1), (1, 2), (2, 3)]


class Neighbours(nn.Module):
    """Second class's logit: how many neighbours there are. First class's logit: 0."""

    def __init__(self) -> None:
        super().__init__()
        self.sum = SimpleConv(aggr="sum")

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        count = self.sum(x, edge_index)
        return torch.cat([torch.zeros_like(count), count], dim=1)


def path() -> Data:
    data = graph(PATH, 4)
    data.x = torch.ones(4, 1, dtype=torch.float64)
    return data


END = 2 * (SIGMOID[2] - SIGMOID[1])
INNER = 2 * (SIGMOID[1] - SIGMOID[0]) + 2 * (SIGMOID[2] - SIGMOID[1])


def test_node_influence_on_a_path_is_what_hand_calculation_gives() -> None:
    scores = nora.influence(Neighbours(), path(), "brute", progress=False).scores
    assert scores.tolist() == pytest.approx([END, INNER, INNER, END], abs=1e-6)


def test_link_influence_on_a_path_is_what_hand_calculation_gives() -> None:
    pairs = torch.tensor([[0, 2, 0, 1], [1, 3, 3, 2]])
    scores = nora.influence(Neighbours(), path(), "brute", LinkPrediction(pairs), progress=False)
    # Without 0, (1, 2) falls from logit 2·2 to 1·2 and (2, 3) stays at 2·1.
    without_0 = SIGMOID[4] - SIGMOID[2]
    # Without 1, (2, 3) falls from 2·1 to 1·1 and (0, 3) from 1·1 to 0·1.
    without_1 = (SIGMOID[2] - SIGMOID[1]) + (SIGMOID[1] - SIGMOID[0])
    # Without 2, (0, 1) falls from 1·2 to 1·1 and (0, 3) from 1·1 to 1·0.
    assert scores.scores.tolist() == pytest.approx(
        [without_0, without_1, without_1, without_0], abs=1e-6
    )


@pytest.mark.parametrize(
    ("group", "total"),
    [
        ([0, 3], 2 * END),
        ([0, 1], END),
        ([1, 2], 4 * (SIGMOID[1] - SIGMOID[0])),
        ([0, 1, 3], 2 * (SIGMOID[2] - SIGMOID[0])),
    ],
)
def test_removing_a_group_is_what_hand_calculation_gives(group: list[int], total: float) -> None:
    assert nora.what_if(Neighbours(), path(), group).total == pytest.approx(total, abs=1e-6)


X = [[1.0, -0.5], [0.3, 2.0], [-1.2, 0.4], [0.8, 0.8]]
WEIGHT = [[0.7, -1.1], [0.2, 0.9]]
BIAS = [0.1, -0.3]
PAW = [(0, 1), (1, 2), (2, 3), (1, 3)]
PAIRS = [(0, 1), (1, 3), (0, 2), (2, 3)]


def plain_logits(gone: set[int]) -> dict[int, list[float]]:
    """One GCN layer on the paw without `gone`, in loops: D^-1/2 (A + I) D^-1/2 X Wᵀ + b."""
    alive = [node for node in range(4) if node not in gone]
    received = {node: [node] for node in alive}
    for i, j in PAW:
        if i in received and j in received:
            received[i].append(j)
            received[j].append(i)
    out = {}
    for i in alive:
        total = [0.0, 0.0]
        for j in received[i]:
            scale = 1 / math.sqrt(len(received[i]) * len(received[j]))
            for c in range(2):
                total[c] += scale * sum(WEIGHT[c][f] * X[j][f] for f in range(2))
        out[i] = [total[c] + BIAS[c] for c in range(2)]
    return out


def softmax(logits: list[float]) -> list[float]:
    total = sum(math.exp(value) for value in logits)
    return [math.exp(value) / total for value in logits]


def node_total(gone: set[int]) -> float:
    before, after = plain_logits(set()), plain_logits(gone)
    return sum(
        abs(p - q)
        for node in after
        for p, q in zip(softmax(before[node]), softmax(after[node]), strict=True)
    )


def link_total(gone: set[int]) -> float:
    def link(z: dict[int, list[float]], i: int, j: int) -> float:
        return 1 / (1 + math.exp(-sum(a * b for a, b in zip(z[i], z[j], strict=True))))

    before, after = plain_logits(set()), plain_logits(gone)
    return sum(
        abs(link(before, i, j) - link(after, i, j))
        for i, j in PAIRS
        if i not in gone and j not in gone
    )


class OneLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = GCNConv(2, 2)
        with torch.no_grad():
            self.conv.lin.weight.copy_(torch.tensor(WEIGHT))
            self.conv.bias.copy_(torch.tensor(BIAS))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index)


def paw() -> Data:
    data = graph(PAW, 4)
    data.x = torch.tensor(X)
    return data


def test_every_node_of_a_gcn_matches_the_definition_in_plain_loops() -> None:
    pairs = torch.tensor(PAIRS).t()
    nodes = nora.influence(OneLayer(), paw(), "brute", progress=False)
    links = nora.influence(OneLayer(), paw(), "brute", LinkPrediction(pairs), progress=False)
    assert nodes.scores.tolist() == pytest.approx([node_total({r}) for r in range(4)], abs=1e-6)
    assert links.scores.tolist() == pytest.approx([link_total({r}) for r in range(4)], abs=1e-6)


@pytest.mark.parametrize("group", [*combinations(range(4), 2), *combinations(range(4), 3)])
def test_every_group_of_a_gcn_matches_the_definition_in_plain_loops(group: tuple) -> None:
    pairs = torch.tensor(PAIRS).t()
    nodes = nora.what_if(OneLayer(), paw(), group)
    links = nora.what_if(OneLayer(), paw(), group, LinkPrediction(pairs))
    assert nodes.total == pytest.approx(node_total(set(group)), abs=1e-6)
    assert links.total == pytest.approx(link_total(set(group)), abs=1e-6)


def test_targets_count_only_their_own_change() -> None:
    scores = nora.influence(Neighbours(), path(), "brute", targets=[0], progress=False).scores
    assert scores.tolist() == pytest.approx([0, 2 * (SIGMOID[1] - SIGMOID[0]), 0, 0], abs=1e-6)


def test_link_targets_are_positions_among_the_pairs() -> None:
    task = LinkPrediction(torch.tensor([[0, 2], [1, 3]]))
    scores = nora.influence(
        Neighbours(), path(), "brute", task, targets=[False, True], progress=False
    ).scores
    assert scores.tolist() == pytest.approx([0, SIGMOID[2] - SIGMOID[1], 0, 0], abs=1e-6)


@given(order=st.permutations(range(8)), name=st.sampled_from(["gcn", "sage", "gat"]))
@settings(max_examples=15, deadline=None)
def test_renumbering_the_nodes_renumbers_the_scores(order: list[int], name: str) -> None:
    data, model = double(two_camps()), network(name)
    new = torch.tensor(order)
    renumbered = Data(x=data.x[new.argsort()], edge_index=new[data.edge_index])
    scores = nora.influence(model, data, "brute", progress=False).scores
    moved = nora.influence(model, renumbered, "brute", progress=False).scores
    torch.testing.assert_close(moved[new], scores, rtol=0, atol=1e-12)


@given(order=st.permutations(range(7)))
@settings(max_examples=10, deadline=None)
def test_the_order_of_the_edges_does_not_matter(order: list[int]) -> None:
    data, model = double(directed()), network()
    shuffled = Data(x=data.x, edge_index=data.edge_index[:, order])
    torch.testing.assert_close(
        nora.influence(model, shuffled, "brute", progress=False).scores,
        nora.influence(model, data, "brute", progress=False).scores,
        rtol=0,
        atol=1e-12,
    )


def test_the_influence_of_a_node_is_the_total_of_its_effect() -> None:
    data, model = double(two_camps()), network()
    scores = nora.influence(model, data, "brute", progress=False)
    assert [nora.what_if(model, data, node).total for node in range(8)] == pytest.approx(
        scores.scores.tolist(), abs=1e-12
    )


def test_on_a_directed_graph_a_node_without_out_edges_has_no_influence() -> None:
    scores = nora.influence(network("sage"), double(directed()), "brute", progress=False)
    assert scores[5] == 0
    assert (scores.scores[:5] > 1e-6).all()
