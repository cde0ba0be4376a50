"""Rows and entries that a model picks, or writes to, by numbers or masks: as the definition says."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data

import by_hand
import nora


def _several_axes(m: Any, h: Tensor, e: Tensor) -> Tensor:
    return h.view(-1, 3, 2)[:, m.first, m.second]


def _columns(m: Any, h: Tensor, e: Tensor) -> Tensor:
    return h[:, m.turned] + h.flip(1)


def _masked_rows(m: Any, h: Tensor, e: Tensor) -> Tensor:
    return h + h[h[:, 0] > 0].sum(dim=0)


def _masked_entries(m: Any, h: Tensor, e: Tensor) -> Tensor:
    return h + h[:, 0].masked_select(h[:, 1] > 0).sum()


def _without_loops(m: Any, h: Tensor, e: Tensor) -> Tensor:
    source, target = e[:, e[0] != e[1]]
    return h + torch.zeros_like(h).index_add(0, target, h[source])


def _loops_selected(m: Any, h: Tensor, e: Tensor) -> Tensor:
    alone = e[0].masked_select(e[0] == e[1])
    return h + torch.zeros_like(h).index_add(0, alone, h[alone])


def _masked_edges(m: Any, h: Tensor, e: Tensor) -> Tensor:
    source, target = e
    received = h[source, 0] > h[target, 0]
    return h + torch.zeros_like(h).index_add(0, target[received], h[source[received]])


def _table(m: Any, h: Tensor, e: Tensor) -> Tensor:
    return h + m.table((h[:, 0] > 0).long())


def _pairs_of_rows(m: Any, h: Tensor, e: Tensor) -> Tensor:
    both = h[e.t()]  # [edges, 2, columns]
    return h + torch.zeros_like(h).index_add(0, e[1], both.prod(dim=1))


def _added_to_columns(m: Any, h: Tensor, e: Tensor) -> Tensor:
    return h.index_add(1, m.first, h[:, 3:])


def _written_to_columns(m: Any, h: Tensor, e: Tensor) -> Tensor:
    out = h.clone()
    out[:, m.first] = h[:, 3:].tanh()
    return out


def _one_number_written(m: Any, h: Tensor, e: Tensor) -> Tensor:
    return h * torch.zeros_like(h).index_put((e[1],), h.new_full((), 2.0))


def _one_number_scattered(m: Any, h: Tensor, e: Tensor) -> Tensor:
    return h * torch.zeros_like(h).scatter(0, e[1].unsqueeze(1).expand(-1, 6), 2.0)


BODIES: dict[str, Callable[[Any, Tensor, Tensor], Tensor]] = {
    "several axes": _several_axes,
    "columns": _columns,
    "without loops": _without_loops,
    "loops selected": _loops_selected,
    "a table": _table,
    "pairs of rows": _pairs_of_rows,
    "added to columns": _added_to_columns,
    "written to columns": _written_to_columns,
    "one number written": _one_number_written,
    "one number scattered": _one_number_scattered,
}
BY_VALUES = {"rows": _masked_rows, "entries": _masked_entries, "edges": _masked_edges}
NODES = [0, 1, 70, 149]


class Picking(nn.Module):
    """A convolution, what is picked of it, and another behind."""

    def __init__(self, body: Callable[[Any, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.conv, self.last = body, pyg.SAGEConv(6, 6), pyg.SAGEConv(-1, 3)
        self.table = nn.Embedding(2, 6)
        self.first, self.second = torch.tensor([0, 2, 1]), torch.tensor([1, 0, 0])
        self.turned = torch.tensor([5, 4, 0, 1, 1, 2])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(self.body(self, self.conv(x, edge_index), edge_index), edge_index)


@pytest.fixture
def data(hubs: Data) -> Data:
    """With a loop at every seventh node."""
    loops = torch.arange(0, 150, 7).repeat(2, 1)
    return Data(x=hubs.x, edge_index=torch.cat([hubs.edge_index, loops], dim=1))


def model_of(body: Callable[[Any, Tensor, Tensor], Tensor], data: Data) -> nn.Module:
    torch.manual_seed(0)
    model = Picking(body).double().eval()
    model(data.x, data.edge_index)  # sizes are known from here on
    return model


@pytest.mark.parametrize("backend", ["vectorised", "compiled"])
@pytest.mark.parametrize("name", BODIES)
def test_what_is_picked_is_as_the_definition_says(name: str, backend: str, data: Data) -> None:
    model = model_of(BODIES[name], data)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # falling back is one
        found = nora.influence(model, data, "exact", backend=backend, progress=False)
    truth = by_hand.influence(model, data, NODES)
    assert bool((truth > 1e-6).all())
    torch.testing.assert_close(found.scores[NODES], truth, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", BY_VALUES)
def test_what_is_picked_by_values_falls_back_with_a_reason(name: str, data: Data) -> None:
    model = model_of(BY_VALUES[name], data)
    with pytest.warns(RuntimeWarning, match="a mask that depends on values"):
        found = nora.influence(model, data, "exact", progress=False)
    truth = by_hand.influence(model, data, NODES)
    torch.testing.assert_close(found.scores[NODES], truth, rtol=1e-9, atol=1e-9)
