"""Structure that a removal would leave as it is: refused by name, or made again in every pass."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, SAGEConv

import nora
from fuzz.branches import CLASSES, FEATURES, KEEPS, Keeps, relational, with_odd_names
from fuzz.branching import Definition, call

GRAPH = relational(4, nodes=20, edges=70)
METHODS = ("brute", "exact")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("how", [how for how, answered in KEEPS.items() if not answered])
def test_edges_that_a_removal_does_not_change_are_refused(how: str, method: str) -> None:
    data = with_odd_names(GRAPH)
    with pytest.raises(ValueError, match=r"branches\.py:\d+ \(forward\)") as caught:
        nora.influence(Keeps(data, how).double(), data, method, forward=call, progress=False)
    wanted = {"an odd name": "data.follows", "an odd name in a list": "data.sets[0]"}
    assert wanted.get(how, "model.") in str(caught.value)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("how", [how for how, answered in KEEPS.items() if answered])
def test_what_an_earlier_pass_has_cached_is_made_again(how: str, warm: bool, method: str) -> None:
    torch.manual_seed(0)
    model = Keeps(GRAPH, how).double().eval()
    if warm:
        with torch.no_grad():
            model(GRAPH)
    cache, kept = model.cache, dict(model.kept)
    truth = Definition(model, GRAPH)
    found = nora.influence(model, GRAPH, method, forward=call, progress=False)
    for node in (0, 5, 9):
        assert float(found.scores[node]) == pytest.approx(truth.total((node,)), rel=1e-9, abs=1e-12)
    assert model.cache is cache
    assert model.kept == kept  # it is left as found


def test_a_cache_of_another_graph_is_refused_by_name() -> None:
    model = Keeps(GRAPH, "a cached degree").double().eval()
    other = GRAPH.clone()
    other.edge_index = other.edge_index[:, :50]
    other.edge_type = other.edge_type[:50]
    with torch.no_grad():
        model(other)
    with pytest.raises(ValueError, match=r"keeps kept from an earlier pass.*model\.kept = None"):
        nora.influence(model, GRAPH, "brute", forward=call, progress=False)


class Layer(nn.Module):
    """One convolution."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = SAGEConv(FEATURES, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index)


class Global(Layer):
    """Reads a graph of the module it is written in."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, GRAPH.edge_index)


class Parents(Layer):
    """Node ids in an attribute of the nodes."""

    def forward(self, x: Tensor, edge_index: Tensor, parent: Tensor) -> Tensor:
        return self.conv(x, edge_index) + self.conv(x[parent], edge_index)


class Made(Layer):
    """Makes its edges by NumPy, anew in every pass: slow, and right."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, torch.from_numpy(edge_index.numpy()[::-1].copy()))


class Ordered(Layer):
    """Ids of nodes that rows are read by, but no edges."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("order", torch.arange(GRAPH.num_nodes).flip(0))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x[self.order], edge_index)


@pytest.mark.parametrize("method", METHODS)
def test_a_global_graph_is_refused(method: str) -> None:
    with pytest.raises(ValueError, match=r"not in data, at test_foreign.py.*closure"):
        nora.influence(Global().double(), GRAPH, method, progress=False)


@pytest.mark.parametrize("method", METHODS)
def test_edges_in_the_closure_of_forward_are_refused(method: str) -> None:
    edges = GRAPH.edge_index.clone()

    def forward(model: Any, data: Data) -> Tensor:
        return model(data.x, edges)

    with pytest.raises(ValueError, match="reads edges that are not in data"):
        nora.influence(Layer().double(), GRAPH, method, forward=forward, progress=False)


def test_node_ids_in_an_attribute_of_nodes_are_refused() -> None:
    data = GRAPH.clone()
    data.parent = torch.arange(20).roll(1)

    def forward(model: Any, data: Data) -> Tensor:
        return model(data.x, data.edge_index, data.parent)

    with pytest.raises(ValueError, match=r"uses data\.parent as node ids"):
        nora.influence(Parents().double(), data, "brute", forward=forward, progress=False)


@pytest.mark.parametrize("kind", [Made, Ordered, Layer])
def test_nothing_else_is_refused(kind: type) -> None:
    with pytest.warns(RuntimeWarning, match="isolated") if kind is Ordered else nullcontext():
        found = nora.influence(kind().double(), GRAPH, "brute", progress=False)
    assert bool((found.scores > 0).any())


class Noisy(nn.Module):
    """Adds noise to its rows."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = GCNConv(FEATURES, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x + torch.randn_like(x), edge_index)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("nodes", [None, [3]], ids=["all", "one"])
def test_a_random_model_is_refused_for_few_nodes_too(method: str, nodes: list[int] | None) -> None:
    with pytest.raises(ValueError, match="not deterministic"):
        nora.influence(Noisy().double(), GRAPH, method, nodes=nodes, progress=False)
