"""DrGAT: its layer against the formula written out, its gate, and what removals do to it."""

from __future__ import annotations

import warnings
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

import nora
from by_hand import changes
from graphs import FEATURES, GRAPHS, barabasi, bridge, double, graph
from networks import CLASSES, network
from nora import build_model
from nora.engine.compile import lower_model
from nora.engine.ops.aggregate import Aggregate, Attend
from nora.engine.ops.reduce import Reduce
from nora.model import build_problem
from nora.model.checks import check_model
from nora.model.preserve import seeded
from nora.models.drgat import DrGAT, DrGATConv, Reweighting
from nora.models.stack import Stack

every_graph = pytest.mark.parametrize("kind", GRAPHS)


def conv(heads: int = 2, width: int = 4) -> DrGATConv:
    with seeded(1):
        made = DrGATConv(FEATURES, width, heads=heads).double()
        nn.init.normal_(made.res.bias)
        nn.init.normal_(made.att, std=3.0)  # scores far apart, so that attention shows
    return made


def by_hand(layer: DrGATConv, data: Data) -> Tensor:
    """The layer's formula, edge by edge."""
    n = data.num_nodes
    received: list[list[int]] = [[k] for k in range(n)]
    for j, k in data.edge_index.t().tolist():
        if j != k:
            received[k].append(j)
    degree = torch.tensor([len(senders) for senders in received]).double()
    mapped = (data.x @ layer.lin.weight.t()).view(n, layer.heads, layer.out_channels)
    y = mapped * degree.view(-1, 1, 1) ** -0.5
    rows = []
    for k, senders in enumerate(received):
        score = torch.stack([(y[j] * layer.att[0]).sum(-1) for j in senders])
        alpha = torch.where(score > 0, score, 0.2 * score).softmax(0)
        total = sum(alpha[at].unsqueeze(-1) * y[j] for at, j in enumerate(senders))
        rows.append(total.flatten() * degree[k] ** 0.5)
    return torch.stack(rows) + data.x @ layer.res.weight.t() + layer.res.bias


@every_graph
def test_a_layer_computes_its_formula(kind: str) -> None:
    data, layer = double(GRAPHS[kind]()), conv()
    torch.testing.assert_close(layer(data.x, data.edge_index), by_hand(layer, data))


@pytest.mark.parametrize("kind", ["star", "bridge", "duplicated", "isolated", "directed"])
def test_without_scores_a_layer_is_a_gcn_with_a_residual(kind: str) -> None:
    data, layer = double(GRAPHS[kind]()), conv()
    nn.init.zeros_(layer.att)
    gcn = GCNConv(FEATURES, 8, bias=False).double()
    gcn.lin.weight = layer.lin.weight
    expected = gcn(data.x, data.edge_index) + layer.res(data.x)
    torch.testing.assert_close(layer(data.x, data.edge_index), expected)


def test_a_node_without_neighbours_does_not_give_nan() -> None:
    model = build_model("drgat", FEATURES, 2, hidden_channels=4)
    none = torch.empty(2, 0, dtype=torch.long)
    for rows in (torch.zeros(3, FEATURES), torch.randn(2, FEATURES)):
        model.train()
        out = model(rows, none)
        out.square().sum().backward()
        assert out.isfinite().all()
        assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    assert model.eval()(torch.randn(1, FEATURES), none).isfinite().all()


def test_three_layers_with_three_heads_and_batch_norm_are_the_default() -> None:
    model = build_model("drgat", FEATURES, 2, hidden_channels=5)
    assert isinstance(model, DrGAT)
    assert [layer.heads for layer in model.convs] == [3, 3, 1]
    assert [layer.in_channels for layer in model.convs] == [FEATURES, 15, 15]
    assert [type(norm) for norm in model.norms] == [nn.BatchNorm1d] * 2
    data = bridge()
    assert model(data.x, data.edge_index).shape == (7, 2)


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_any_number_of_layers_will_do(layers: int) -> None:
    data = double(bridge())
    model = network("drgat", layers=layers)
    assert len(model.convs) == layers
    assert model(data.x, data.edge_index).shape == (7, CLASSES)


class TestGate:
    def gate(self) -> Reweighting:
        with seeded(2):
            return Reweighting(6, 4).double()

    def test_the_cell_reads_where_both_layers_agree(self) -> None:
        gate, (h, first) = self.gate(), torch.randn(2, 5, 6).double()
        state = torch.rand(5, 1).double()
        agreement = (first / first.norm(dim=1, keepdim=True)) * (h / h.norm(dim=1, keepdim=True))
        cell = gate.cell
        read = gate.lin(agreement) @ cell.weight_ih.t() + cell.bias_ih
        expected = torch.tanh(read + state @ cell.weight_hh.t() + cell.bias_hh)
        torch.testing.assert_close(gate(h, first, state), expected)

    def test_it_starts_from_zeros(self) -> None:
        gate, (h, first) = self.gate(), torch.randn(2, 5, 6).double()
        assert torch.equal(gate(h, first), gate(h, first, torch.zeros(5, 1).double()))

    def test_rows_of_zeros_are_no_reason_for_nan(self) -> None:
        gate, h = self.gate(), torch.zeros(2, 6).double()
        assert gate(h, h).isfinite().all()

    def test_a_closed_gate_leaves_the_layers_in_a_row(self) -> None:
        model, data = network("drgat", norm=True, layers=4), double(bridge())
        for parameter in model.gate.cell.parameters():
            nn.init.zeros_(parameter)
        plain = Stack.run(model, data.x, data.edge_index)
        torch.testing.assert_close(model(data.x, data.edge_index), plain)

    @pytest.mark.parametrize("sign", [-1, 1])
    def test_an_open_gate_puts_the_first_layer_in_place_of_the_others(self, sign: int) -> None:
        model, data = network("drgat", layers=3), double(bridge())
        for parameter in model.gate.cell.parameters():
            nn.init.constant_(parameter, sign * 60.0)
        nn.init.zeros_(model.gate.cell.weight_ih)
        before = model(data.x, data.edge_index)
        nn.init.normal_(model.convs[1].lin.weight)
        torch.testing.assert_close(model(data.x, data.edge_index), before)
        nn.init.normal_(model.convs[0].lin.weight)
        assert not torch.allclose(model(data.x, data.edge_index), before)

    def test_every_layer_but_the_first_and_last_hands_its_state_on(self) -> None:
        model, data = network("drgat", layers=5), double(bridge())
        seen: list[tuple[Tensor | None, Tensor]] = []
        model.gate.register_forward_hook(lambda _, given, state: seen.append((given[2], state)))
        model(data.x, data.edge_index)
        assert len(seen) == 3
        assert seen[0][0] is None
        assert all(now[0] is before[1] for before, now in pairwise(seen))


def test_two_evaluations_are_the_same_to_the_last_bit_whatever_the_random_state() -> None:
    run = nora.train("drgat", "polarised", epochs=3, hidden_channels=8, progress=False)
    x, edge_index = run.data.x, run.data.edge_index
    torch.manual_seed(1)
    first = run.model(x, edge_index)
    torch.manual_seed(2)
    assert torch.equal(run.model(x, edge_index), first)


def random_graph(directed: bool) -> Data:
    with seeded(3):
        edge_index = barabasi(60, 2)
        if directed:
            edge_index = edge_index[:, torch.rand(edge_index.size(1)) < 0.6]
        return Data(x=torch.randn(60, FEATURES).double(), edge_index=edge_index)


class TestRemoval:
    def test_one_layer_reaches_two_hops_since_degrees_are_counted_again(self) -> None:
        """Without 0, node 1 has one neighbour less, and so speaks to 2 on another scale."""
        data = double(graph([(0, 1), (1, 2), (2, 3)], 4))
        effect = nora.what_if(network("drgat", layers=1), data, remove=0)
        assert (effect.change[[1, 2]] > 1e-4).all()
        assert effect.change[3] == 0

    def test_the_engine_follows_it_by_degrees_and_attention(self) -> None:
        problem = check_model(
            build_problem(network("drgat", norm=True, layers=3), random_graph(False))
        )
        with problem.evaluating(), torch.no_grad():
            kinds = [type(step) for step in lower_model(problem).ops]
        assert kinds.count(Attend) == kinds.count(Aggregate) == 3
        assert Reduce not in kinds

    @pytest.mark.parametrize("directed", [False, True])
    @pytest.mark.parametrize("backend", ["vectorised", "compiled"])
    def test_exact_equals_brute_force(self, backend: str, directed: bool) -> None:
        model, data = network("drgat", norm=True, layers=3), random_graph(directed)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # a fallback would warn
            found = nora.influence(model, data, "exact", backend=backend, progress=False).scores
        truth = nora.influence(model, data, "brute", progress=False).scores
        torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-10)
        assert truth.max() > 0.1

    @every_graph
    def test_a_group_goes_as_the_definition_says(self, kind: str) -> None:
        model, data = network("drgat", norm=True, layers=3), double(GRAPHS[kind]())
        effect = nora.what_if(model, data, remove=[1, 3])
        truth = changes(model, data, [1, 3])
        found = effect.change[effect.counted].tolist()
        assert found == pytest.approx([*truth.values()], rel=1e-9, abs=1e-10)
