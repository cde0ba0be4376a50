"""`mask` against the same descent written with edge weights, and what it must leave behind."""

from __future__ import annotations

from functools import cache

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, GraphConv, SimpleConv
from torch_geometric.utils import to_torch_csr_tensor

import nora
from graphs import GRAPHS, bridge, components, directed, double, graph, isolated
from networks import network, patchwork
from nora import Influence
from nora.model.preserve import seeded

FREE = {"alpha": 0.0, "beta": 0.0}


def masked(model: nn.Module, data: Data, **options: object) -> Tensor:
    return nora.influence(model, data, "mask", progress=False, **options).scores


class Weighed(nn.Module):
    """Two layers whose messages are multiplied by the edge's weight, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        with seeded(3):
            self.first, self.last = GraphConv(3, 4).double(), GraphConv(4, 3).double()

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor | None = None) -> Tensor:
        return self.last(self.first(x, edge_index, weight).tanh(), edge_index, weight)


def plain_mask(
    model: Weighed, data: Data, lr: float, alpha: float, beta: float, epochs: int, counted: Tensor
) -> Tensor:
    """The descent with the mask as edge weights: no hooks."""
    source, target = data.edge_index
    before = model(data.x, data.edge_index).softmax(dim=-1).detach()
    m = torch.full((data.num_nodes,), 0.999, dtype=torch.float64)
    tried = []
    for _ in range(epochs + 1):
        m.requires_grad_()
        weight = torch.where(source == target, torch.ones_like(m[source]), m[source])
        after = model(data.x, data.edge_index, weight).softmax(dim=-1)
        change = (before - after)[counted].abs().sum()
        penalty = alpha * m.sum() + beta * (1 - m).abs().sum()
        (slope,) = torch.autograd.grad(penalty - change, m)
        m = m.detach()
        tried.append((change.item(), m, slope.abs().max()))
        m = (m - lr / tried[0][2] * slope).clamp(0, 1)
    best = max(tried, key=lambda one: one[0])[1]
    received = [bool(((source == node) & (target != node)).any()) for node in range(data.num_nodes)]
    return torch.where(torch.tensor(received), 1 - best, torch.zeros_like(best))


@pytest.mark.parametrize("kind", [kind for kind in GRAPHS if kind != "weighted"])
def test_equals_the_same_descent_on_edge_weights(kind: str) -> None:
    model, data = Weighed(), double(GRAPHS[kind]())
    how = {"lr": 0.02, "alpha": 0.05, "beta": 0.2, "epochs": 12}
    plain = plain_mask(model, data, **how, counted=torch.ones(data.num_nodes, dtype=torch.bool))
    found = masked(model, data, **how)
    assert len(found.unique()) > 2
    torch.testing.assert_close(found, plain, rtol=1e-9, atol=1e-12)


def test_the_mask_that_changes_most_is_kept_and_not_the_last() -> None:
    model, data = Weighed(), double(bridge())
    how = {"lr": 0.9, "alpha": 0.0, "beta": 0.8}
    every = torch.ones(7, dtype=torch.bool)
    best = masked(model, data, epochs=2, **how)
    torch.testing.assert_close(best, plain_mask(model, data, **how, epochs=2, counted=every))
    torch.testing.assert_close(masked(model, data, epochs=3, **how), best, rtol=0, atol=0)


def test_equals_the_same_descent_when_targets_count_alone() -> None:
    model, data = Weighed(), double(bridge())
    how = {"lr": 0.05, "alpha": 0.0, "beta": 0.01, "epochs": 8}
    plain = plain_mask(model, data, **how, counted=torch.arange(7) == 5)
    found = masked(model, data, targets=[5], **how)
    torch.testing.assert_close(found, plain, rtol=1e-9, atol=1e-12)
    assert not torch.allclose(found, masked(model, data, **how))


def test_adam_moves_every_node_equally() -> None:
    scores = masked(Weighed(), double(bridge()), optimizer="adam", lr=0.05, epochs=1, **FREE)
    moved = scores[scores > 0]
    assert len(moved) >= 3
    torch.testing.assert_close(moved, torch.full_like(moved, 0.051), rtol=1e-4, atol=0)


class Sum(nn.Module):
    """Second class's logit: the sum over the neighbours, less a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.sum = SimpleConv(aggr="sum")

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        received = self.sum(x, edge_index)
        return torch.cat([torch.zeros_like(received), received - 1], dim=1)


def hub() -> Data:
    """Node 4 points to eight others, which form a ring."""
    ring = [0, 1, 2, 3, 5, 6, 7, 8]
    edges = [(4, node) for node in ring] + list(zip(ring, ring[1:] + ring[:1], strict=True))
    data = graph(edges, 9)
    data.x = torch.ones(9, 1, dtype=torch.float64)
    return data


@pytest.mark.parametrize("where", ["messages", "inputs"])
@pytest.mark.parametrize("options", [{}, FREE, {"epochs": 1}, {"lr": 0.1}], ids=str)
def test_the_hub_scores_highest(where: str, options: dict) -> None:
    scores = masked(Sum(), hub(), where=where, **options)
    others = scores[torch.arange(9) != 4]
    assert scores[4] > others.max() + 1e-4
    assert scores.max() <= 1


@cache
def trained() -> tuple[nora.Run, Influence]:
    run = nora.train("gcn", "polarised", epochs=30, hidden_channels=16, progress=False)
    return run, nora.influence(run.model, run.data, "exact", progress=False)


@pytest.mark.parametrize("where", ["messages", "inputs"])
def test_agrees_with_the_definition_on_a_trained_model(where: str) -> None:
    run, truth = trained()
    found = nora.influence(run.model, run.data, "mask", where=where, progress=False)
    agreement = found.compare(truth)
    assert agreement["pearson"] > 0.7
    assert agreement["spearman"] > 0.25


def test_targets_in_one_component_leave_the_other_alone() -> None:
    scores = masked(network(), double(components()), targets=[0, 1], **FREE)
    assert (scores[:3] > 0.0011).any()
    torch.testing.assert_close(scores[3:], torch.full((4,), 1e-3).double(), rtol=0, atol=1e-9)


def test_nodes_without_out_edges_score_zero() -> None:
    assert masked(network(), double(isolated()), **FREE)[4:].tolist() == [0, 0]
    assert masked(network(), double(directed()), **FREE)[5] == 0


class Flowing(nn.Module):
    """Two convolutions whose messages flow the given way."""

    def __init__(self, flow: str) -> None:
        super().__init__()
        with seeded(0):
            self.first, self.last = GCNConv(3, 4, flow=flow), GCNConv(4, 3, flow=flow)
        self.double()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(self.first(x, edge_index).relu(), edge_index)


@pytest.mark.parametrize("where", ["messages", "inputs"])
@pytest.mark.parametrize(
    "kind",
    [
        "bridge",
        "directed",
    ],
)
def test_a_model_that_flows_backwards_is_masked_at_the_sender(kind: str, where: str) -> None:
    data = double(GRAPHS[kind]())
    turned = data.clone()
    turned.edge_index = data.edge_index.flip(0)
    forwards = masked(Flowing("source_to_target"), data, where=where, **FREE)
    backwards = masked(Flowing("target_to_source"), turned, where=where, **FREE)
    torch.testing.assert_close(backwards, forwards, rtol=1e-9, atol=1e-12)


HOOKS = ["_propagate_forward_pre_hooks", "_message_forward_hooks", "_forward_hooks"]
HOOKS += ["_forward_pre_hooks", "_propagate_forward_hooks", "_message_forward_pre_hooks"]


def hooks(model: nn.Module) -> int:
    return sum(len(getattr(module, kind, ())) for module in model.modules() for kind in HOOKS)


def assert_untouched(model: nn.Module) -> None:
    assert hooks(model) == 0
    assert [p.requires_grad for p in model.first.parameters()] == [False, False]
    rest = [p for name, p in model.named_parameters() if not name.startswith("first.")]
    assert all(p.requires_grad for p in rest)
    assert all(p.grad is None for p in model.parameters())
    assert model.training
    assert not model.norm.training


def in_use() -> nn.Module:
    model = patchwork().train()
    model.norm.eval()
    model.first.requires_grad_(False)
    return model


@pytest.mark.parametrize("where", ["messages", "inputs"])
def test_nothing_is_left_on_the_model(where: str) -> None:
    model = in_use()
    masked(model, double(bridge()), where=where)
    assert_untouched(model)


@pytest.mark.parametrize("where", ["messages", "inputs"])
@pytest.mark.parametrize("inside", [True, False], ids=["in a layer", "after the layers"])
def test_nothing_is_left_on_the_model_when_it_breaks_off(where: str, inside: bool) -> None:
    model, data, hooked = in_use(), double(bridge()), []

    def breaks_later(model: nn.Module, data: Data) -> Tensor:
        hooked.append(hooks(model))
        broken = len(hooked) > 4
        edges = data.edge_index + 100 if broken and inside else data.edge_index
        output = model(data.x, edges)
        if broken:
            raise IndexError("index out of range")
        return output

    with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
        masked(model, data, where=where, forward=breaks_later)
    assert hooked[0] == 0 < hooked[-1]
    assert_untouched(model)


def sparse(model: nn.Module, data: Data) -> Tensor:
    ones = torch.ones(data.num_edges, dtype=torch.float64)
    return model(data.x, to_torch_csr_tensor(data.edge_index, ones, (data.num_nodes,) * 2))


@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_model_called_with_a_sparse_matrix_is_refused_unless_inputs_are_masked() -> None:
    model, data = network(), double(bridge())
    with pytest.raises(ValueError, match=r"mask needs GCNConv .* edge_index \[2, E\].*sparse"):
        masked(model, data, forward=sparse)
    assert hooks(model) == 0
    found = masked(model, data, where="inputs", forward=sparse)
    torch.testing.assert_close(found, masked(model, data, where="inputs"), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("where", ["messages", "inputs"])
def test_a_model_without_message_passing_is_refused_with_a_remedy(where: str) -> None:
    class Rows(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return x - x.mean(dim=0)

    with pytest.raises(ValueError, match=r"no torch_geometric MessagePassing.*'brute'"):
        masked(Rows(), bridge(), where=where)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"where": "edges"}, "where is 'edges'.*'messages' or 'inputs'"),
        ({"optimizer": "sgd"}, "optimizer is 'sgd'.*'gradient' or 'adam'"),
        ({"lr": 0.0}, "lr must be positive"),
        ({"lr": -0.1}, "lr must be positive"),
        ({"epochs": 0}, "epochs at least 1, got 0.01 and 0"),
    ],
)
def test_options_out_of_range_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        masked(network(), double(bridge()), **options)


class Dropping(Weighed):
    """The same with dropout in between, which is off in eval mode."""

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor | None = None) -> Tensor:
        hidden = F.dropout(self.first(x, edge_index, weight).tanh(), 0.5, self.training)
        return self.last(hidden, edge_index, weight)


def published_mask(
    model: Dropping, data: Data, lr: float, alpha: float, beta: float, epochs: int
) -> tuple[Tensor, Tensor]:
    """What the paper's scripts do, with the mask as edge weights: the score, and that of the last step."""
    source, _ = data.edge_index
    before = model.eval()(data.x, data.edge_index).softmax(dim=-1).detach()
    m = torch.ones(data.num_nodes, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([m], lr=lr, weight_decay=alpha)
    tried = []
    model.train()
    for _ in range(epochs):
        adam.zero_grad()
        after = model(data.x, data.edge_index, m[source]).softmax(dim=-1)
        change = (after - before).abs()
        (-change.mean() + beta * (1 - m.mean())).backward()
        adam.step()
        m.data.clamp_(0, 1)
        tried.append((-change[: round(0.1 * data.num_nodes)].mean().item(), m.detach().clone()))
    return 1 - min(tried, key=lambda one: one[0])[1], 1 - tried[-1][1]


@pytest.mark.parametrize("beta", [0.0, 0.2])
def test_as_published_it_is_what_the_papers_scripts_do(beta: float) -> None:
    data = double(bridge())
    options = {"lr": 0.02, "alpha": 0.05, "beta": beta, "epochs": 12}
    with seeded(4):
        expected, last = published_mask(Dropping(), data, **options)
    found = masked(Dropping(), data, as_published=True, seed=4, **options)
    assert torch.allclose(found, expected, atol=1e-12)
    assert found.std() > 0
    assert not torch.allclose(expected, last)  # the kept mask is not just the last one


def test_as_published_the_model_is_left_in_the_mode_it_was_found_in() -> None:
    model = Dropping()
    for training in (True, False):
        model.train(training)
        masked(model, double(bridge()), as_published=True, epochs=2)
        assert model.training is training
        assert all(weight.requires_grad for weight in model.parameters())
