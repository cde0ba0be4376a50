"""The graphs a model is recorded on tell sizes from numbers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data

import by_hand
import nora
from nora.engine.ir.space import Space
from nora.engine.trace.samples import sample_graphs
from nora.model import build_problem


class Experts(nn.Module):
    """Everybody also hears the mean of a few, whose number is read as a Python number."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = pyg.SAGEConv(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor, expert: Tensor) -> Tensor:
        h = self.conv(x, edge_index).tanh()
        chosen = h[expert]
        return self.out(h + chosen.sum(dim=0) / chosen.size(0))


def call(model: nn.Module, data: Data) -> Tensor:
    return model(data.x, data.edge_index, data.expert)


def test_a_few_nodes_that_are_equally_many_on_all_samples_are_not_taken_for_a_number(
    hubs: Data,
) -> None:
    torch.manual_seed(0)
    model = Experts().double().eval()
    hubs.expert = torch.zeros(150, dtype=torch.bool)
    hubs.n_id = torch.arange(150)
    seen = [graph.n_id for graph, _, _ in sample_graphs(build_problem(model, hubs, forward=call))]
    once = [torch.bincount(ids, minlength=150) == 1 for ids in seen]
    hubs.expert[(once[0] & once[1]).nonzero().flatten()[-2:]] = True
    assert hubs.expert.sum() == 2
    assert all(int(hubs.expert[ids].sum()) == 2 for ids in seen)
    experts = hubs.expert.nonzero().flatten().tolist()
    found = nora.influence(model, hubs, "exact", forward=call, progress=False)
    truth = by_hand.influence(model, hubs, experts, call)
    assert "fallback" not in found.details
    torch.testing.assert_close(found.scores[experts], truth, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("same", [True, False])
def test_equal_numbers_of_edges_are_one_space_if_they_are_removed_together(same: bool) -> None:
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    others = edges.flip(0, 1) if same else torch.tensor([[0, 0, 2], [1, 2, 0]])
    assert Space("edges", (3,), edges, 3).removed_equally(Space("others", (3,), others, 3)) is same


class Fickle(nn.Module):
    """Does something more where the number of edges is even."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.SAGEConv(6, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if edge_index.size(1) % 2 == 0:
            x = x.tanh()
        return self.conv(x, edge_index)


@pytest.mark.parametrize("seed", range(6))
def test_a_branch_on_even_numbers_of_edges_is_seen(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    core = torch.randint(12, (2, 36), generator=random)
    fans = torch.stack([torch.arange(12, 120), torch.zeros(108, dtype=torch.long)])
    x = torch.randn(120, 6, generator=random).double()
    data = Data(x=x, edge_index=torch.cat([fans, core], dim=1))
    torch.manual_seed(seed)
    with pytest.warns(RuntimeWarning, match="the model runs other operations"):
        nora.influence(Fickle().double(), data, "exact", progress=False)
