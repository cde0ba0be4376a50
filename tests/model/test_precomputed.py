"""Structure that was computed before the model sees the graph is named, with the transform to pass."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import networkx
import pytest
import torch
import torch_geometric.transforms as T
from torch import Tensor, nn
from torch_geometric import EdgeIndex
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, SAGEConv
from torch_geometric.utils import (
    barabasi_albert_graph,
    erdos_renyi_graph,
    get_laplacian,
    to_dense_adj,
    to_networkx,
)

import nora
from nora.datasets.karate import karate
from nora.datasets.polarised import polarised
from nora.model.misfit import message_of
from nora.model.precomputed import precomputed

FEATURES = 5


def graph() -> Data:
    torch.manual_seed(0)
    return Data(x=torch.randn(40, FEATURES), edge_index=erdos_renyi_graph(40, 0.12))


class Model(nn.Module):
    """One convolution over some of the data's tensors."""

    def __init__(self, width: int = FEATURES, normalize: bool = False, *more: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = GCNConv(width, 3, normalize=normalize, add_self_loops=normalize)
        self.more = more

    def forward(self, data: Data) -> Tensor:
        x = torch.cat([data.x, *(data[name] for name in self.more)], dim=1)
        if data.get("adj_t") is not None:
            return self.conv(x, data.adj_t)
        return self.conv(x, data.edge_index, data.get("edge_weight"))


def call(model: Any, data: Any) -> Tensor:
    return model(data)


def row_normalised(data: Data) -> Data:
    degree = torch.bincount(data.edge_index[1], minlength=40).clamp(min=1)
    data.edge_weight = 1 / degree[data.edge_index[1]].float()
    return data


def appended(values: Any) -> Any:
    """A transform that appends columns to the features."""

    def transform(data: Data) -> Data:
        data.x = torch.cat([data.x, values(data).float().view(data.num_nodes, -1)], dim=1)
        return data

    return transform


def degrees(data: Data) -> Tensor:
    return torch.bincount(data.edge_index[1], minlength=data.num_nodes).float()


def named(name: str, values: Any) -> Any:
    """A transform that puts values into an attribute."""

    def transform(data: Data) -> Data:
        data[name] = values(data).float().view(data.num_nodes, -1)
        return data

    return transform


def propagated(data: Data) -> Data:
    data.feat, data.x = data.x, T.SIGN(2)(copy.copy(data)).x2
    return data


def eigenvectors(data: Data) -> Tensor:
    edges, weights = get_laplacian(data.edge_index, normalization="sym", num_nodes=data.num_nodes)
    return torch.linalg.eigh(to_dense_adj(edges, edge_attr=weights)[0])[1][:, 1:3]


def returns(data: Data) -> Tensor:
    return T.AddRandomWalkPE(3)(data.clone()).random_walk_pe


def pageranks(data: Data) -> Tensor:
    ranks = networkx.pagerank(to_networkx(data), tol=1e-10)
    return torch.tensor([ranks[node] for node in range(data.num_nodes)])


APPENDED = {
    "scaled degrees": (lambda data: 3 + degrees(data) / degrees(data).std(), "degrees"),
    "logarithms of degrees": (lambda data: (1 + degrees(data)).log(), "degrees"),
    "inverse roots of degrees": (lambda data: (1 + degrees(data)).rsqrt(), "degrees"),
    "bins of degrees": (lambda data: torch.bucketize(degrees(data), torch.tensor([3, 5, 7])), "degrees"),
    "eigenvectors": (eigenvectors, "eigenvector"),
    "return probabilities": (returns, "random walks"),
    "PageRank": (pageranks, "PageRank"),
}  # fmt: skip


@pytest.mark.parametrize("place", ["x", "pe", "centrality"])
@pytest.mark.parametrize("name", APPENDED)
def test_structure_is_found_under_any_name_and_among_features(name: str, place: str) -> None:
    values, what = APPENDED[name]
    data = graph()
    columns = values(data).view(40, -1).size(1)
    transform = appended(values) if place == "x" else named(place, values)
    more = () if place == "x" else (place,)
    model = Model(FEATURES + columns, True, *more)
    with pytest.warns(RuntimeWarning, match=rf"data\.{place} .*{what}.*transform="):
        nora.influence(model, transform(data), "brute", nodes=[3], forward=call, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        nora.influence(
            model, graph(), "brute", nodes=[3], forward=call, transform=transform, strict=True,
            progress=False,
        )  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_features_that_are_no_structure_raise_no_alarm(seed: int) -> None:
    torch.manual_seed(seed)
    for edges in (erdos_renyi_graph(60, 0.1), barabasi_albert_graph(60, 2)):
        for x in (torch.randn(60, 40), torch.rand(60, 40).round(), torch.eye(60)):
            assert not list(precomputed(Data(x=x, edge_index=edges), {"data.x"}))


def test_real_features_raise_no_alarm() -> None:
    for data in (karate().data, polarised().data):
        assert not list(precomputed(data, {"data.x"}))


CASES = {
    "weights": (T.GCNNorm(), Model(), "edge_weight holds GCN's normalisation", "GCNNorm"),
    "adjacency": (
        T.Compose([T.GCNNorm(), T.ToSparseTensor()]), Model(), "adj_t holds GCN's", "GCNNorm",
    ),
    "rows": (row_normalised, Model(), "edge_weight sums to 1 over the incoming", "normalises"),
    "random walks": (
        T.AddRandomWalkPE(4), Model(FEATURES + 4, True, "random_walk_pe"), "positional", "RandomWalk",
    ),
    "one-hot degrees": (T.OneHotDegree(30), Model(FEATURES + 31, True), "one-hot degrees", "OneHot"),
    "SGC beside the features": (propagated, Model(FEATURES, True), "those of feat, 2 times", "SIGN"),
    "SIGN": (T.SIGN(1), Model(2 * FEATURES, True, "x1"), "propagated features", r"T\.SIGN\(1\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_was_computed_beforehand_is_named_with_its_transform(name: str) -> None:
    transform, model, what, remedy = CASES[name]
    data = transform(graph())
    with pytest.warns(RuntimeWarning, match=f"{what}.*transform=.*{remedy}"):
        nora.influence(model, data, "brute", nodes=[3], forward=call, progress=False)
    with pytest.raises(ValueError, match=what):
        nora.influence(model, data, "brute", forward=call, strict=True, progress=False)


@pytest.mark.parametrize("name", CASES)
def test_with_the_transform_nothing_is_said(name: str) -> None:
    transform, model, _, _ = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        nora.influence(
            model, graph(), "brute", nodes=[3], forward=call, transform=transform, strict=True,
            progress=False,
        )  # fmt: skip


def test_what_the_model_does_not_read_does_not_matter() -> None:
    data = T.AddRandomWalkPE(4)(graph())
    data.edge_weight = torch.rand(data.num_edges)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        nora.influence(
            Model(FEATURES, True), data, "brute", nodes=[3], forward=call, progress=False
        )


class Plain(nn.Module):
    """A convolution and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.lin = SAGEConv(FEATURES, 3), nn.Linear(FEATURES, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index) + self.lin(x)


class Multiplied(Plain):
    """Needs the methods of an `EdgeIndex`."""

    def forward(self, x: Tensor, edge_index: EdgeIndex) -> Tensor:
        return edge_index.matmul(self.lin(x), transpose=True)


@pytest.mark.parametrize("kind", [Plain, Multiplied])
def test_an_edge_index_of_pyg_is_answered_like_a_tensor(kind: type) -> None:
    data = graph()
    plain = nora.influence(Plain(), data, "brute", progress=False).scores
    data.edge_index = EdgeIndex(data.edge_index, sparse_size=(40, 40)).sort_by("col").values
    model = kind()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if kind is Multiplied else "error", RuntimeWarning)
        found = nora.influence(model, data, "exact", backend="vectorised", progress=False)
    truth = nora.influence(model, data, "brute", progress=False)
    torch.testing.assert_close(found.scores, truth.scores, rtol=1e-4, atol=1e-5)
    if kind is Plain:
        assert "fallback" not in found.details
        torch.testing.assert_close(found.scores, plain, rtol=1e-4, atol=1e-5)


def test_a_quantised_model_is_answered_by_full_passes() -> None:
    model = torch.ao.quantization.quantize_dynamic(Plain().eval(), {nn.Linear}, dtype=torch.qint8)
    with pytest.warns(RuntimeWarning, match="linear_dynamic"):
        found = nora.influence(model, graph(), "exact", backend="vectorised", progress=False)
    assert bool((found.scores > 0).any())


def test_features_on_a_complete_graph_are_no_eigenvectors() -> None:
    """Every vector solves their equation there, up to a constant."""
    pairs = torch.cartesian_prod(torch.arange(12), torch.arange(12)).t()
    data = Data(x=torch.randn(12, FEATURES), edge_index=pairs[:, pairs[0] != pairs[1]])
    assert not list(precomputed(data, {"data.x"}))


def test_rows_that_may_be_of_nodes_or_of_edges_are_refused() -> None:
    torch.manual_seed(0)
    data = Data(x=torch.randn(40, FEATURES), edge_index=torch.randint(40, (2, 40)))
    data.strength = torch.rand(40)
    model = GCNConv(FEATURES, 3)

    def forward(model: Any, data: Data) -> Tensor:
        return model(data.x, data.edge_index, data.strength)

    with pytest.raises(ValueError, match=r"data\.strength.*or edge_strength"):
        nora.influence(model, data, "brute", forward=forward, progress=False)


class Insists(Plain):
    """Asserts that there are nodes enough."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        assert len(x) > 35
        return super().forward(x, edge_index)


def test_a_model_that_asserts_can_be_asked_for_a_flip() -> None:
    found = nora.flip(Insists(), graph(), 3, at_most=2, progress=False)
    assert found.size <= 2


def test_an_error_without_words_is_named() -> None:
    assert message_of(AssertionError()) == "AssertionError"
