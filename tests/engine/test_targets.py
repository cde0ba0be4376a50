"""Predictions that do not count do not count, whatever becomes of them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

import nora


class Ratio(nn.Module):
    """What a node hears from its neighbours, over how many they are: no number where it has none."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        received = torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]])
        ones = torch.ones_like(edge_index[0], dtype=x.dtype)
        return received / torch.zeros_like(x[:, 0]).index_add(0, edge_index[1], ones).unsqueeze(1)


@pytest.mark.parametrize("backend", ["vectorised", "compiled"])
def test_a_prediction_that_becomes_no_number_counts_only_where_it_is_asked_for(
    backend: str,
) -> None:
    torch.manual_seed(0)
    # Without node 0 its follower 1 has no neighbours.
    edges = torch.tensor([[0, 0, 2, 3, 4, 2], [1, 2, 3, 2, 2, 4]])
    data = Data(x=torch.randn(5, 3, dtype=torch.double), edge_index=edges)
    data.x = torch.cat([data.x, data.x.flip(0)])
    data.edge_index = torch.cat([edges, edges + 5, torch.tensor([[5, 7], [0, 0]])], dim=1)
    data.edge_index = torch.cat([data.edge_index, torch.tensor([[1, 8], [5, 5]])], dim=1)
    ask = {"nodes": [0], "progress": False}
    for targets in ([2, 3], [1, 2]):
        truth = nora.influence(Ratio(), data, "brute", targets=targets, **ask).scores[0]
        found = nora.influence(Ratio(), data, "exact", targets=targets, backend=backend, **ask)
        assert "fallback" not in found.details
        torch.testing.assert_close(found.scores[0], truth, equal_nan=True)
        assert bool(truth.isnan()) == (1 in targets)
