"""Attention on a fixed graph: the same numbers as PyG's messages, without the messages."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch_geometric.data import Data
from torch_geometric.nn import GATConv
from torch_geometric.utils import add_self_loops, remove_self_loops

import nora
from graphs import GRAPHS
from nora.training import fixed_graph as fixed
from nora.training.attention import FixedAttention, is_plain
from nora.training.fixed_graph import fixed_graph

KINDS = ["two_camps", "directed", "looped", "duplicated", "isolated"]
PLAIN = [
    {},
    {"heads": 3},
    {"heads": 3, "concat": False},
    {"heads": 2, "add_self_loops": False, "bias": False, "negative_slope": 0.4},
]
OTHER = [
    {"edge_dim": 2},
    {"residual": True},
    {"aggr": "mean"},
    {"flow": "target_to_source", "add_self_loops": False},
]


def graph(kind: str) -> Data:
    data = GRAPHS[kind]()
    random = torch.Generator().manual_seed(0)
    return Data(
        x=torch.randn(int(data.num_nodes or 0), 6, generator=random, dtype=torch.float64),
        edge_index=data.edge_index,
    )


def layer(**options: object) -> GATConv:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return GATConv(6, 4, **options).double()


def passed(conv: nn.Module, data: Data) -> list[Tensor]:
    """Output, and gradients of weights and features; the same numbers are drawn each time."""
    x = data.x.clone().requires_grad_()
    conv.zero_grad()
    with torch.random.fork_rng():
        torch.manual_seed(7)
        out = conv(x, data.edge_index)
    out.square().sum().backward()
    grads = [x.grad, *(p.grad for p in conv.parameters())]
    return [out.detach(), *(grad for grad in grads if grad is not None)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("options", PLAIN)
def test_outputs_gradients_and_what_is_dropped_are_those_of_pyg(
    options: dict, dropout: float, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, conv = graph(kind), layer(dropout=dropout, **options).train()
    expected = passed(conv, data)
    monkeypatch.setattr(GATConv, "message", lambda *_, **__: pytest.fail("messages were made"))
    with fixed_graph(conv, data):
        found = passed(conv, data)
    for mine, own in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, own, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("options", OTHER)
def test_a_layer_with_other_settings_stays_as_it_is(options: dict) -> None:
    data, conv = graph("two_camps"), layer(**options)
    assert not is_plain(conv)
    expected = passed(conv, data)
    with fixed_graph(conv, data):
        for mine, own in zip(passed(conv, data), expected, strict=True):
            torch.testing.assert_close(mine, own)


def test_a_call_that_asks_for_more_is_left_to_pyg() -> None:
    data, conv = graph("two_camps"), layer(heads=2)
    out, (edges, attention) = conv(data.x, data.edge_index, return_attention_weights=True)
    with fixed_graph(conv, data):
        again, (same, theirs) = conv(data.x, data.edge_index, return_attention_weights=True)
        torch.testing.assert_close(conv(data.x, data.edge_index, None, size=None), out)
    for mine, own in ((again, out), (same, edges), (theirs, attention)):
        torch.testing.assert_close(mine, own)


def test_the_edges_are_those_of_pyg_in_its_order() -> None:
    data = graph("looped")
    bare, _ = remove_self_loops(data.edge_index)
    whole, _ = add_self_loops(bare, num_nodes=data.num_nodes)
    assert torch.equal(FixedAttention(data.edge_index, data.num_nodes, 2, True).index, whole)


@pytest.mark.parametrize(
    "edges", [torch.zeros(2, 0, dtype=torch.long), torch.tensor([[0, 2], [1, 1]])]
)
def test_both_gradients_are_those_of_differences(edges: Tensor) -> None:
    matrices = FixedAttention(edges, 3, 2, loops=False)
    attention = torch.rand(edges.size(1), 2, dtype=torch.float64, requires_grad=True)
    rows = torch.rand(3, 2, 4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(matrices.attend, (attention, rows))


@pytest.mark.parametrize("task", ["node", "link"])
def test_training_goes_the_same_way(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for known in (True, False):
        if not known:
            monkeypatch.setattr(fixed, "is_plain", lambda _: False)
        run = nora.train("gat", "karate", task, epochs=8, progress=False)
        found.append((run.metrics, run.model.state_dict()))
    (mine, weights), (own, theirs) = found
    assert mine["best_epoch"] == own["best_epoch"]
    for name, weight in weights.items():
        torch.testing.assert_close(weight, theirs[name], rtol=1e-3, atol=1e-4)


def test_losses_of_some_epochs_are_equal_up_to_rounding() -> None:
    dataset = nora.load_dataset("karate")
    data, losses = dataset.data, []
    for known in (True, False):
        torch.manual_seed(0)
        network = nora.build_model("gat", data.x.size(1), dataset.num_classes, dropout=0.0)
        optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
        reply = []
        with fixed_graph(network if known else nn.Identity(), data) as seen:
            for _ in range(6):
                optimizer.zero_grad()
                loss = F.cross_entropy(
                    network(seen.x if known else data.x, data.edge_index), data.y
                )
                loss.backward()
                optimizer.step()
                reply.append(loss.item())
        losses.append(reply)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0][-1] < losses[0][0]
