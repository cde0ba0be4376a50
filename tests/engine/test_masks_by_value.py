"""Rows that a mask picks by values: followed where they are written back, refused where they are counted."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.utils import degree

import by_hand
from nora.engine.engine import Engine
from nora.engine.exec.kernels import vectorised
from nora.engine.unsupported import UnsupportedError
from nora.graph.edit_batch import EditBatch
from nora.model import build_problem
from nora.model.checks import check_model
from public_shapes import graph


class Written(nn.Module):
    """Mean over neighbours, with degrees that `write` changes in place."""

    def __init__(self, write) -> None:
        super().__init__()
        self.lin, self.write = nn.Linear(4, 3), write

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        row, col = edge_index
        deg = degree(col, x.size(0), dtype=x.dtype)
        deg = self.write(deg)
        return self.lin(x + torch.zeros_like(x).index_add_(0, col, x[row] / deg[row].unsqueeze(1)))


def added(deg):
    deg[deg < 2.5] += 1
    return deg


def squared(deg):
    deg[deg > 3] = deg[deg > 3] ** 2
    return deg


def never(deg):
    deg[deg < 0.5] += 1.0
    return deg


def numbered(deg):
    index = torch.where(deg > 3)
    deg[index] = deg[index] / (deg[index] + 1)
    return deg


def counted(deg):
    chosen = deg[deg > 3]
    return deg + len(chosen)


def none_counted(deg):
    return deg + (deg < 0.5).nonzero().size(0)


def shape_read(deg):
    few = (deg < 0.5).nonzero()
    return deg * (few.shape[0] + 1)


def summed(deg):
    return deg + deg[deg > 3].sum()


def other_mask(deg):
    deg[deg > 3] = deg[deg <= 3][:1]
    return deg


def engine_of(write):
    torch.manual_seed(0)
    data = graph(50, 4)
    for key in ("edge_type", "edge_weight"):
        del data[key]
    model = Written(write).double().eval()
    problem = check_model(build_problem(model, data))
    with problem.evaluating(), torch.no_grad():
        return Engine.prepare(problem, vectorised), model, data


@pytest.mark.parametrize("write", [added, squared, never, numbered])
def test_rows_written_back_are_followed_as_the_definition_has_them(write):
    engine, model, data = engine_of(write)
    with torch.no_grad():
        found = engine.influences(EditBatch.remove_nodes(torch.arange(50)))
    assert torch.allclose(found, by_hand.influence(model, data, range(50)), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("write", [counted, none_counted, shape_read, summed, other_mask])
def test_what_depends_on_how_many_or_which_rows_are_picked_is_refused(write):
    with pytest.raises(UnsupportedError, match="mask"):
        engine_of(write)
