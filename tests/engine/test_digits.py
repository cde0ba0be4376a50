"""Corrected sums keep their digits, whatever is taken out of them; the truth is in double precision."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data

import by_hand
import nora

WIDTH, NODES = 8, 120
SCALE = torch.tensor([1e9] * 4 + [1.0] * 4)


def identity(conv: nn.Module) -> nn.Module:
    """A convolution that leaves columns alone."""
    with torch.no_grad():
        for name, parameter in conv.named_parameters():
            square = parameter.dim() == 2 and parameter.size(0) == parameter.size(1)
            parameter.copy_(torch.eye(WIDTH)) if square else parameter.zero_()
            if "root" in name:
                parameter.zero_()
    return conv


LAYERS = {
    "by a rule": lambda: pyg.GraphConv(WIDTH, WIDTH, aggr="add"),
    "by attention": lambda: pyg.GATConv(WIDTH, WIDTH, add_self_loops=False),
    "along the tape": lambda: pyg.SimpleConv("sum"),
    "with weights": lambda: pyg.LGConv(),
    "by groups": lambda: pyg.TransformerConv(WIDTH, WIDTH, root_weight=False),
}


class Levelled(nn.Module):
    """Sums of columns that are far apart, brought to one level afterwards."""

    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv, self.out = conv, nn.Linear(WIDTH, 3)
        self.register_buffer("scale", SCALE)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.out(self.conv(x, edge_index) / self.scale)


@pytest.mark.parametrize("backend", ["compiled", "vectorised"])
@pytest.mark.parametrize("name", LAYERS)
def test_a_column_beside_far_larger_ones_keeps_its_digits(name: str, backend: str) -> None:
    random = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    x = torch.rand(NODES, WIDTH, generator=random) + 0.5
    x[0, 4:] = 1e7  # one node sends far more in the small columns than all others
    received = torch.stack([torch.zeros(60, dtype=torch.long), torch.arange(1, 61)])
    edges = torch.cat([torch.randint(1, NODES, (2, 900), generator=random), received], dim=1)
    data = Data(x=x * SCALE, edge_index=edges)
    model = Levelled(identity(LAYERS[name]()))
    found = nora.influence(model, data, "exact", progress=False, backend=backend)
    precise = copy.copy(data)
    precise.x = data.x.double()
    truth = by_hand.influence(copy.deepcopy(model).double(), precise, [0, 5])
    assert "fallback" not in found.details
    torch.testing.assert_close(found.scores[[0, 5]].double(), truth, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["by a rule", "along the tape"])
def test_huge_messages_that_cancel_leave_nothing_behind_when_they_go_together(name: str) -> None:
    random = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    x = torch.rand(NODES, WIDTH, generator=random)
    x[0], x[1] = 1e7, -1e7
    both = torch.arange(2).repeat_interleave(50)
    received = torch.stack([both, torch.arange(2, 52).repeat(2)])
    edges = torch.cat([torch.randint(2, NODES, (2, 900), generator=random), received], dim=1)
    data = Data(x=x, edge_index=edges)
    model = nn.ModuleList([identity(LAYERS[name]()), nn.Linear(WIDTH, 3)])

    def call(model: nn.Module, data: Data) -> Tensor:
        return model[1](model[0](data.x, data.edge_index) / 10)

    found = nora.what_if(model, data, [0, 1], forward=call)
    precise = copy.copy(data)
    precise.x = data.x.double()
    before = call(model.eval(), data).softmax(-1).double()[2:]
    after = call(copy.deepcopy(model).double(), by_hand.without(precise, [0, 1])[0]).softmax(-1)
    truth = float((before - after).abs().sum())
    assert found.total == pytest.approx(truth, rel=1e-4)


class Read(nn.Module):
    """Sums that are read with the same weight in every column."""

    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv, self.out = conv, nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.out(self.conv(x, edge_index) / 10)


@pytest.mark.parametrize("backend", ["compiled", "vectorised"])
@pytest.mark.parametrize("name", ["by a rule", "along the tape", "with weights"])
def test_a_sum_that_loses_what_was_huge_in_a_column_of_huge_numbers(
    name: str, backend: str
) -> None:
    torch.manual_seed(0)
    nodes, few = 400, 20
    x = torch.randn(nodes, WIDTH)
    x[few:, 0] = 1e7  # as usual: only a small group has no such numbers
    group = torch.combinations(torch.arange(few)).t()
    rest = torch.randint(few, nodes, (2, 1600))
    received = torch.tensor([[50] * 5, [3, 4, 5, 6, 7]])
    data = Data(x=x, edge_index=torch.cat([group, group.flip(0), rest, received], dim=1))
    model = Read(identity(LAYERS[name]())).eval()
    targets = torch.arange(nodes) < few
    found = nora.influence(model, data, "exact", targets=targets, progress=False, backend=backend)
    assert "fallback" not in found.details
    without, _ = by_hand.without(data, [50])
    with torch.no_grad():
        before = model(data.x, data.edge_index).softmax(-1)[:few]
        after = model(without.x, without.edge_index).softmax(-1)[:few]
    truth = float((before - after).abs().sum())
    assert float(found.scores[50]) == pytest.approx(truth, abs=1e-5)
