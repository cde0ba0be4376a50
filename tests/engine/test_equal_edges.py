"""Edges that a model puts together or orders in `forward`: followed, and right; the oracle counts by hand."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric import utils
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, to_undirected

import nora
from nora.engine.trace.stand_ins import stand_ins_installed

FEATURES, CLASSES = 5, 3
Body = Callable[[Any, Tensor, Tensor, Tensor], Tensor]


class Model(nn.Module):
    """A function of layers, features, edges and weights."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body
        self.inner, self.sage = pyg.SAGEConv(FEATURES, FEATURES), pyg.SAGEConv(FEATURES, CLASSES)
        self.weighed, self.gcn = pyg.GraphConv(FEATURES, CLASSES), pyg.GCNConv(FEATURES, CLASSES)
        self.gat, self.lin = pyg.GATv2Conv(FEATURES, CLASSES), nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
        return self.body(self, x, edge_index, weight)


def coalesced(m: Any, x: Tensor, e: Tensor, w: Tensor, **options: Any) -> Tensor:
    e, w = coalesce(e, w, **options)
    return m.weighed(x, e, w)


def several(m: Any, x: Tensor, e: Tensor, w: Tensor) -> Tensor:
    e, (one, two) = coalesce(e, [w, 2 * w])
    return m.weighed(x, e, one * two)


def both_ways(m: Any, x: Tensor, e: Tensor, w: Tensor) -> Tensor:
    e, w = to_undirected(e, w, num_nodes=x.size(0), reduce="mean")
    return m.gcn(x, e, w.abs())


def from_hidden(m: Any, x: Tensor, e: Tensor, w: Tensor) -> Tensor:
    h = m.inner(x, e)
    e, w = coalesce(e, (h[e[0]] * h[e[1]]).sum(dim=-1))
    return m.weighed(x, e, w)


def with_loops(m: Any, x: Tensor, e: Tensor, w: Tensor) -> Tensor:
    e, _ = utils.add_self_loops(to_undirected(e), num_nodes=x.size(0))
    return m.sage(m.inner(x, e).relu(), coalesce(e))


def as_matrix(m: Any, x: Tensor, e: Tensor, w: Tensor) -> Tensor:
    a = utils.to_torch_csr_tensor(e.flip(0), w, size=x.size(0))
    return m.lin(a @ (a @ x).relu())


def there_and_back(m: Any, x: Tensor, e: Tensor, w: Tensor) -> Tensor:
    a = utils.to_torch_coo_tensor(e.flip(0), w, size=(x.size(0), x.size(0)))
    where, w = utils.to_edge_index(a)
    return m.weighed(x, where.flip(0), w)


BODIES: dict[str, Body] = {
    "once": lambda m, x, e, w: m.sage(x, coalesce(e)),
    "sum": coalesced,
    "max": lambda m, x, e, w: coalesced(m, x, e, w, reduce="max"),
    "mul": lambda m, x, e, w: coalesced(m, x, e, w, reduce="mul", num_nodes=x.size(0)),
    "by column": lambda m, x, e, w: coalesced(m, x, e, w, sort_by_row=False),
    "several": several,
    "from hidden rows": from_hidden,
    "undirected": lambda m, x, e, w: m.sage(x, to_undirected(e)),
    "undirected attention": lambda m, x, e, w: m.gat(m.inner(x, e), to_undirected(e)),
    "undirected weights": both_ways,
    "undirected, loops": with_loops,
    "matrix": as_matrix,
    "matrix and back": there_and_back,
}


def edges(name: str) -> tuple[int, Tensor]:
    random = torch.Generator().manual_seed(3)
    if name == "duplicates":
        some = torch.randint(14, (2, 60), generator=random)
        return 15, torch.cat([some, some[:, :11]], dim=1)
    if name == "followers":
        return 40, torch.stack([torch.arange(1, 40), torch.zeros(39, dtype=torch.long)])
    both = to_undirected(torch.randint(20, (2, 50), generator=random))
    return 20, both if name == "undirected" else utils.sort_edge_index(both, sort_by_row=False)


def question(body: Body, graph: str) -> tuple[Model, Data]:
    n, edge_index = edges(graph)
    torch.manual_seed(1)
    model = Model(body).double().eval()
    weight = torch.randn(edge_index.size(1), dtype=torch.double)
    x = torch.randn(n, FEATURES, dtype=torch.double)
    return model, Data(x=x, edge_index=edge_index, weight=weight)


def call(model: nn.Module, data: Data) -> Tensor:
    return model(data.x, data.edge_index, data.weight)


@torch.no_grad()
def by_hand(model: Model, data: Data) -> Tensor:
    """Every node's influence from the definition."""
    x, edge_index, weight = data.x, data.edge_index, data.weight
    before, found = call(model, data).softmax(dim=-1), []
    for node in range(len(x)):
        keep = torch.arange(len(x)) != node
        left = keep[edge_index].all(dim=0)
        number = keep.cumsum(dim=0) - 1
        after = model(x[keep], number[edge_index[:, left]], weight[left]).softmax(dim=-1)
        found.append((before[keep] - after).abs().sum())
    return torch.stack(found)


@pytest.mark.parametrize("graph", ["duplicates", "followers", "undirected", "by column"])
@pytest.mark.parametrize("name", BODIES)
def test_edges_that_are_put_together_are_followed(name: str, graph: str) -> None:
    model, data = question(BODIES[name], graph)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = nora.influence(
            model, data, "exact", forward=call, backend="vectorised", progress=False
        )
    assert "fallback" not in found.details
    torch.testing.assert_close(found.scores, by_hand(model, data), rtol=1e-9, atol=1e-9)


def test_weights_in_another_order_than_their_edges_are_no_case_for_a_rule() -> None:
    def body(m: Any, x: Tensor, e: Tensor, w: Tensor) -> Tensor:
        return m.weighed(x, utils.sort_edge_index(e, num_nodes=x.size(0)), w)

    model, data = question(body, "duplicates")
    with pytest.warns(RuntimeWarning, match="mixes rows of edges"):
        found = nora.influence(
            model, data, "exact", forward=call, backend="vectorised", progress=False
        )
    torch.testing.assert_close(found.scores, by_hand(model, data), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("graph", ["duplicates", "undirected", "by column"])
def test_entries_that_torch_has_put_in_order_are_not_taken_for_those_before(graph: str) -> None:
    def body(m: Any, x: Tensor, e: Tensor, w: Tensor) -> Tensor:
        a = torch.sparse_coo_tensor(e, w, (x.size(0), x.size(0))).coalesce()
        return m.weighed(x, a.indices(), a.values().abs())

    model, data = question(body, graph)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = nora.influence(
            model, data, "exact", forward=call, backend="vectorised", progress=False
        )
    assert ("sorted" in found.details.get("fallback", "")) == (graph != "undirected")
    assert bool(caught) == (graph != "undirected")
    torch.testing.assert_close(found.scores, by_hand(model, data), rtol=1e-9, atol=1e-9)


@torch.no_grad()
def test_an_edge_that_stands_for_two_directions_goes_by_a_full_pass() -> None:
    model, data = question(BODIES["undirected"], "duplicates")
    for edge in data.edge_index[:, :8].t().tolist():
        edit = nora.Edits(remove_edges=[edge], undirected=False)
        found = nora.what_if(model, data, edit, forward=call)
        after = call(model, edit.apply(data)).softmax(dim=-1)
        torch.testing.assert_close(found.after, after, rtol=1e-9, atol=1e-9)


def test_pyg_has_its_own_functions_back_after_a_recording() -> None:
    code = [f.__code__ for f in (coalesce, utils.to_edge_index)]
    e = torch.tensor([[1, 0, 1, 2], [2, 1, 2, 0]])
    w = torch.tensor([1.0, 2.0, 4.0, 8.0])
    with stand_ins_installed():
        assert coalesce.__code__ is not code[0]
        during, outcome = coalesce(e), coalesce(e, w)
    assert [f.__code__ for f in (coalesce, utils.to_edge_index)] == code
    assert torch.equal(during, coalesce(e))
    assert all(torch.equal(a, b) for a, b in zip(outcome, coalesce(e, w), strict=True))
