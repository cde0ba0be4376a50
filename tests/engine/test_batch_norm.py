"""Batch norms by learnt statistics are a product and a sum in the engine; others are not taken for them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data

import nora
from by_hand import total


class Normed(nn.Module):
    """A convolution, a norm, a convolution."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.first, self.norm, self.second = pyg.GCNConv(5, 6), norm, pyg.GCNConv(6, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.norm(self.first(x, edge_index)).relu(), edge_index)


NORMS = {
    "learnt": nn.BatchNorm1d(6),
    "plain": nn.BatchNorm1d(6, affine=False),
    "of PyG": pyg.BatchNorm(6),
    "careful": nn.BatchNorm1d(6, eps=0.5),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["single", "double"])
@pytest.mark.parametrize("name", NORMS)
def test_a_norm_by_learnt_statistics_is_followed(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    data = Data(x=torch.randn(14, 5, dtype=dtype), edge_index=torch.randint(14, (2, 40)))
    model = Normed(NORMS[name]).to(dtype).train()
    for _ in range(5):  # statistics that are not those of one who knows nothing
        model(3 * data.x + 1, data.edge_index)
    found = nora.influence(model.eval(), data, "exact", progress=False)
    assert "fallback" not in found.details
    expected = [total(model, data, [node]) for node in range(14)]
    digits = 1e-5 if dtype == torch.float32 else 1e-11
    assert torch.allclose(found.scores.double(), torch.tensor(expected).double(), atol=digits)


def test_a_norm_over_the_nodes_at_hand_is_not_taken_for_one_by_statistics() -> None:
    torch.manual_seed(1)
    data = Data(x=torch.randn(14, 5).double(), edge_index=torch.randint(14, (2, 40)))
    model = Normed(nn.BatchNorm1d(6, track_running_stats=False)).double().eval()
    found = nora.influence(model, data, "exact", progress=False)
    expected = torch.tensor([total(model, data, [node]) for node in range(14)])
    assert torch.allclose(found.scores.double(), expected.double(), atol=1e-10)
