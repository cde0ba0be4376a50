"""TIMME: relations averaged, mixed by attention, looked up by number, decoded by relation."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, fx, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import MessagePassing

import nora
from nora import build_model
from nora.model.preserve import seeded
from nora.models.timme import DENSE_BELOW, TIMME, RelationDecoder, TIMMEConv, both_ways

RELATIONS = ["friend", "reply"]
# 0 follows 1, 2 and 3; 1 follows 0; 4 follows 0. Replies: 2 to herself and to 3, 3 to 2.
FRIEND = [(0, 1), (0, 2), (0, 3), (1, 0), (4, 0)]
REPLY = [(2, 2), (2, 3), (3, 2)]
third, half = 1 / 3, 1 / 2
ADJACENCIES = [
    # Those whom 0 … 4 follow, averaged.
    [[0, third, third, third, 0], [1, 0, 0, 0, 0], [0] * 5, [0] * 5, [1, 0, 0, 0, 0]],
    # Those who follow 0 … 4.
    [[0, half, 0, 0, half], [1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0] * 5],
    # Those whom 0 … 4 reply to.
    [[0] * 5, [0] * 5, [0, 0, half, half, 0], [0, 0, 1, 0, 0], [0] * 5],
    # Those who reply to 0 … 4.
    [[0] * 5, [0] * 5, [0, 0, half, half, 0], [0, 0, 1, 0, 0], [0] * 5],
    # Themselves.
    torch.eye(5).tolist(),
]


def five() -> HeteroData:
    data = HeteroData()
    data["user"].x = torch.arange(5)
    data["user"].y = torch.tensor([0, 1, 0, 1, -1])
    data["user"].num_nodes = 5
    data["user", "friend", "user"].edge_index = torch.tensor(FRIEND).t().contiguous()
    data["user", "reply", "user"].edge_index = torch.tensor(REPLY).t().contiguous()
    return data


def edges(data: HeteroData) -> list[Tensor]:
    return list(data.edge_index_dict.values())


def network(task: str = "node", **sizes: float) -> TIMME:
    with seeded(0):
        sizes = {"hidden_channels": 6, **sizes}
        return TIMME(5, 2, relations=RELATIONS, task=task, **sizes).double().eval()


def output(model: nn.Module, data: HeteroData) -> Tensor:
    return model(data.x_dict, data.edge_index_dict)["user"]


def mixed(results: list[Tensor]) -> tuple[Tensor, list[float]]:
    """The attention as the formula has it, number by number."""
    means = [[float(column.detach().mean()) for column in z.t()] for z in results]
    width = len(means[0])
    scores = [
        sum(sum(q * k for q, k in zip(query, key, strict=True)) for query in means)
        / math.sqrt(width)
        for key in means
    ]
    total = sum(math.exp(score) for score in scores)
    weights = [math.exp(score) / total for score in scores]
    return sum(a * z for a, z in zip(weights, results, strict=True)), weights


def test_a_layer_is_what_it_is_by_hand() -> None:
    with seeded(1):
        x = torch.randn(5, 5, 3).double()
    conv = TIMMEConv(None, 3, num_relations=2)
    results = [torch.tensor(A).double() @ x[:, k] for k, A in enumerate(ADJACENCIES)]
    expected, weights = mixed(results)
    torch.testing.assert_close(conv.results(x, edges(five())), torch.stack(results, dim=1))
    torch.testing.assert_close(conv(x, edges(five())), expected)
    found = conv.attention(torch.stack(results, dim=1))
    torch.testing.assert_close(found, torch.tensor(weights).double())
    assert len(set(weights)) == 5, "the attention should not be uniform here"


def test_a_layer_with_a_width_of_input_maps_before_it_averages() -> None:
    with seeded(2):
        x = torch.randn(5, 4).double()
        conv = TIMMEConv(4, 3, num_relations=2).double()
    maps = conv.lin.weight.view(5, 3, 4)
    results = [torch.tensor(A).double() @ x @ W.t() for A, W in zip(ADJACENCIES, maps, strict=True)]
    torch.testing.assert_close(conv(x, edges(five())), mixed(results)[0])
    by_name = conv(x, five().edge_index_dict)
    torch.testing.assert_close(by_name, mixed(results)[0])


def test_rows_are_means_so_that_a_constant_stays_and_a_node_without_edges_gets_zero() -> None:
    conv = TIMMEConv(None, 1, num_relations=2)
    results = conv.results(torch.full((5, 5, 1), 7.0), edges(five())).squeeze(-1)
    has = torch.tensor([[any(row) for row in A] for A in ADJACENCIES]).t()
    torch.testing.assert_close(results, torch.where(has, 7.0, 0.0))


def test_edges_prepared_for_training_give_the_same_with_the_same_gradients() -> None:
    with seeded(3):
        x = torch.randn(5, 4).double().requires_grad_()
        conv = TIMMEConv(4, 3, num_relations=2).double()
    plain = conv(x, edges(five()))
    ready = conv(x, [both_ways(edge_index, 5) for edge_index in edges(five())])
    torch.testing.assert_close(ready, plain)
    weights = torch.arange(15.0).view(5, 3)
    for a, b in zip(
        torch.autograd.grad((plain * weights).sum(), [x, conv.lin.weight]),
        torch.autograd.grad((ready * weights).sum(), [x, conv.lin.weight]),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_the_edges_of_another_number_of_relations_are_refused() -> None:
    conv = TIMMEConv(None, 3, num_relations=2)
    with pytest.raises(ValueError, match="2 relations, got 1"):
        conv(torch.zeros(5, 5, 3), edges(five())[:1])


def test_the_model_adds_its_first_layer_to_its_second() -> None:
    model, data = network("link"), five()
    table = model.table.weight.view(5, 5, 6)
    first = model.first(table, edges(data)).relu()
    second = model.second(first, edges(data)).relu()
    torch.testing.assert_close(output(model, data), first + second)
    torch.testing.assert_close(output(network(), data), model.party(first + second))


def test_both_tasks_have_the_same_weights() -> None:
    node, link = network("node"), network("link", hidden_channels=6)
    link.load_state_dict(node.state_dict())
    assert output(node, five()).shape == (5, 2)
    assert output(link, five()).shape == (5, 6)
    torch.testing.assert_close(node.party(output(link, five())), output(node, five()))


def test_features_are_numbers_that_stay_with_the_user() -> None:
    model, data = network(), five()
    turned = torch.tensor([3, 0, 4, 1, 2])
    place = turned.argsort()
    moved = HeteroData()
    moved["user"].x = data["user"].x[turned]
    for kind in data.edge_types:
        moved[kind].edge_index = place[data[kind].edge_index]
    torch.testing.assert_close(output(model, moved), output(model, data)[turned])


# Without user 2: 0 follows 1 and 3 alone, and there are no replies.
WITHOUT_2 = [
    [[0, half, half, 0], [1, 0, 0, 0], [0] * 4, [1, 0, 0, 0]],
    [[0, half, 0, half], [1, 0, 0, 0], [1, 0, 0, 0], [0] * 4],
    [[0] * 4] * 4,
    [[0] * 4] * 4,
    torch.eye(4).tolist(),
]


def by_hand(model: TIMME, adjacencies: list, users: list[int]) -> Tensor:
    """The whole model from written-out adjacencies: the users' embeddings."""

    def layer(sent: Tensor) -> Tensor:
        results = [torch.tensor(A).double() @ sent[:, k] for k, A in enumerate(adjacencies)]
        return mixed(results)[0].relu()

    first = layer(model.table.weight.view(5, 5, 6)[users])
    return first + layer(model.second.lin(first).view(len(users), 5, 6))


def test_without_a_user_adjacencies_and_attention_are_those_of_the_rest() -> None:
    model, data = network("link"), five()
    rest = data.subgraph({"user": torch.tensor([True, True, False, True, True])})
    assert rest["user"].x.tolist() == [0, 1, 3, 4]
    torch.testing.assert_close(output(model, rest), by_hand(model, WITHOUT_2, [0, 1, 3, 4]))
    # 4 is not near 2 in any relation: it changes by the attention alone.
    assert not torch.allclose(output(model, rest)[3], output(model, data)[4], atol=1e-9)


@pytest.mark.parametrize("method", ["brute", "exact"])
def test_influence_is_what_it_is_by_hand(method: str) -> None:
    model, data = network(), five()
    with torch.no_grad():
        before = model.party(by_hand(model, ADJACENCIES, [0, 1, 2, 3, 4])).softmax(dim=-1)
        after = model.party(by_hand(model, WITHOUT_2, [0, 1, 3, 4])).softmax(dim=-1)
    expected = float((before[[0, 1, 3, 4]] - after).abs().sum())
    assert expected > 1e-3
    scores = nora.influence(model, data, method, nodes=[2], progress=False)
    assert scores[2] == pytest.approx(expected, abs=1e-9)


def test_dropout_acts_in_training_only() -> None:
    model, data = network(hidden_channels=40, dropout=0.5), five()
    assert torch.equal(output(model, data), output(model, data))
    model.train()
    with seeded(0):
        assert not torch.equal(output(model, data), output(model, data))


def test_the_model_can_be_traced_with_its_layers_whole() -> None:
    class Tracer(fx.Tracer):
        def is_leaf_module(self, module: nn.Module, name: str) -> bool:
            return isinstance(module, MessagePassing) or super().is_leaf_module(module, name)

    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = network()

        def forward(self, x: Tensor, friend: Tensor, reply: Tensor) -> Tensor:
            kinds = five().edge_types
            return self.model({"user": x}, dict(zip(kinds, (friend, reply), strict=True)))["user"]

    flat, data = Flat(), five()
    graph = Tracer().trace(flat)
    called = [node.target for node in graph.nodes if node.op == "call_module"]
    assert called == ["model.table", "model.first", "model.second", "model.party"]
    traced = fx.GraphModule(flat, graph)
    torch.testing.assert_close(traced(data["user"].x, *edges(data)), output(flat.model, data))


def decoded(decoder: RelationDecoder, z: Tensor, pairs: Tensor, relation: Tensor) -> Tensor:
    """The score as the formula has it, pair by pair."""
    scores = []
    for (i, j), r in zip(pairs.t().tolist(), relation.tolist(), strict=True):
        source, target = decoder.maps[r](z[i]), decoder.maps[r](z[j])
        together = (decoder.diagonal[r] * source * target).sum()
        alone = decoder.source[r] @ source + decoder.target[r] @ target
        scores.append(together + alone + decoder.bias[r])
    return torch.stack(scores)


@pytest.mark.parametrize(
    ("nodes", "pairs"), [(4, 60), (9, 60), (40, 12)], ids=["dense", "sparse", "few"]
)
def test_pairs_are_scored_by_the_weights_of_their_relation(nodes: int, pairs: int) -> None:
    with seeded(4):
        decoder = RelationDecoder(3, num_relations=3).double()
        nn.init.normal_(decoder.bias)
        z = torch.randn(nodes, 3).double()
        ends = torch.randint(nodes, (2, pairs))
        relation = torch.randint(3, (pairs,))
    torch.testing.assert_close(decoder(z, ends, relation), decoded(decoder, z, ends, relation))
    # Which of the two ways is taken, is what the cases are there for.
    assert (nodes**2 <= DENSE_BELOW * pairs / 3) == (nodes < 40)


def test_sources_and_targets_are_distinguished() -> None:
    decoder = RelationDecoder(3, num_relations=1)
    z, one = torch.randn(2, 3), torch.zeros(1, dtype=torch.long)
    there, back = (decoder(z, torch.tensor(pair), one) for pair in ([[0], [1]], [[1], [0]]))
    assert not torch.allclose(there, back)


def test_a_relation_without_pairs_is_no_trouble_and_an_unknown_one_is_named() -> None:
    decoder, z = RelationDecoder(3, num_relations=2), torch.randn(4, 3)
    pairs = torch.tensor([[0, 1], [2, 3]])
    assert decoder(z, pairs, torch.ones(2, dtype=torch.long)).shape == (2,)
    assert decoder(z, pairs[:, :0], torch.empty(0, dtype=torch.long)).shape == (0,)
    with pytest.raises(ValueError, match=r"pairs name relation 2: there are 2 relations \(0 … 1\)"):
        decoder(z, pairs, torch.tensor([0, 2]))


def test_the_model_is_built_by_name() -> None:
    model = build_model("timme", 5, 2, relations=RELATIONS, task="link")
    assert model.table.weight.shape == (5, 5 * 100)
    assert model.dropout == 0.1
    with pytest.raises(ValueError, match=r"task is 'edges'.*'node' or 'link'"):
        build_model("timme", 5, 2, relations=RELATIONS, task="edges")
    with pytest.raises(ValueError, match=r"relations is empty: name.*least one"):
        build_model("timme", 5, 2, relations=[])
