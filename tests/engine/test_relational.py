"""`exact` against `brute` where graphs have relations or node types, in float64."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data, HeteroData

import nora
from hetero_graphs import MODELS, Mixed, library, network
from nora.models.timme import TIMME

PAPERS = nora.NodeClassification(node_type="paper")
RELATIONS = ("friend", "reply")
QUIET = {"progress": False, "verify": 0}


@pytest.fixture(autouse=True)
def in_double() -> Iterator[None]:
    """`RGCNConv` makes its sums in the default precision."""
    torch.set_default_dtype(torch.double)
    yield
    torch.set_default_dtype(torch.float)


def agree(
    model: nn.Module,
    data: Data | HeteroData,
    task: nora.model.task.Task,
    backend: str,
    followed: bool = True,
) -> None:
    """Both give the same; on graphs of a handful of nodes a model may do something else on a part."""
    brute = nora.influence(model, data, "brute", task, progress=False)
    exact = nora.influence(model, data, "exact", task, backend=backend, **QUIET)
    if followed:
        assert "fallback" not in exact.details
    assert torch.allclose(exact.scores, brute.scores, rtol=1e-9, atol=1e-10)


@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(sorted(MODELS)),
    counts=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4)),
    edges=st.integers(0, 20),
    seed=st.integers(0, 10_000),
    reach=st.sampled_from([1.0, 0.5]),
    backend=st.sampled_from(["vectorised", "compiled"]),
)
def test_any_model_over_node_types(
    name: str, counts: tuple, edges: int, seed: int, reach: float, backend: str
) -> None:
    graph = library(counts, edges, seed, reach)
    agree(network(name, seed), graph, PAPERS, backend, followed=min(counts) > 3 and edges > 8)


@settings(max_examples=3, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10_000), counts=st.tuples(*[st.integers(2, 9)] * 3))
def test_links_between_node_types(seed: int, counts: tuple) -> None:
    data = library(counts, 15, seed)
    random = torch.Generator().manual_seed(seed)
    pairs = torch.stack([torch.randint(n, (8,), generator=random) for n in counts[:2]])
    task = nora.LinkPrediction(pairs, node_types=("author", "paper"))
    agree(network("mixed", seed), data, task, "compiled", followed=min(counts) > 3)


class Relational(nn.Module):
    """Two `RGCNConv`-like layers."""

    def __init__(self, conv: type[nn.Module], **options: object) -> None:
        super().__init__()
        self.first = conv(4, 6, 3, **options)
        self.second = conv(6, 2, 3, **{**options, "num_blocks": None})

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index, edge_type).relu(), edge_index, edge_type)


RGCN = {
    "plain": lambda: Relational(pyg.RGCNConv),
    "bases": lambda: Relational(pyg.RGCNConv, num_bases=2),
    "blocks": lambda: Relational(pyg.RGCNConv, num_blocks=2),
    "sum": lambda: Relational(pyg.RGCNConv, aggr="add", root_weight=False),
    "bare": lambda: Relational(pyg.RGCNConv, root_weight=False, bias=False),
    "max": lambda: Relational(pyg.RGCNConv, aggr="max"),
    "fast": lambda: Relational(pyg.FastRGCNConv),
}


@settings(max_examples=9, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(sorted(RGCN)),
    num_nodes=st.integers(2, 20),
    edges=st.integers(0, 50),
    seed=st.integers(0, 10_000),
    backend=st.sampled_from(["vectorised", "compiled"]),
)
def test_relational_convolutions(
    name: str, num_nodes: int, edges: int, seed: int, backend: str
) -> None:
    torch.manual_seed(seed)
    data = Data(
        x=torch.randn(num_nodes, 4),
        edge_index=torch.randint(num_nodes, (2, edges)),
        # The last relation has no edges.
        edge_type=torch.randint(2, (edges,)),
    )
    agree(RGCN[name](), data, nora.NodeClassification(), backend)


def twitter(num_nodes: int, edges: int, seed: int) -> HeteroData:
    torch.manual_seed(seed)
    data = HeteroData()
    data["user"].x = torch.arange(num_nodes)
    for relation in RELATIONS:
        data["user", relation, "user"].edge_index = torch.randint(num_nodes, (2, edges))
    return data


def timme(num_nodes: int, task: str) -> TIMME:
    model = TIMME(num_nodes, 2, relations=RELATIONS, hidden_channels=5, task=task)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    return model


@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    num_nodes=st.integers(2, 20),
    edges=st.integers(1, 50),
    seed=st.integers(0, 10_000),
    backend=st.sampled_from(["vectorised", "compiled"]),
    kind=st.sampled_from(["node", "link"]),
)
def test_timme_whose_attention_changes_everybody(
    num_nodes: int, edges: int, seed: int, backend: str, kind: str
) -> None:
    data, model = twitter(num_nodes, edges, seed), timme(num_nodes, kind)
    task: nora.model.task.Task = nora.NodeClassification()
    if kind == "link":
        pairs = torch.randint(num_nodes, (2, 30))
        task = nora.LinkPrediction(pairs, model.decoder, relation=torch.randint(2, (30,)))
    agree(model, data, task, backend, followed=num_nodes > 8 and edges > 20)


def test_a_group_of_users_is_removed_at_once() -> None:
    data, model = twitter(20, 50, 0), timme(20, "node")
    exact = nora.what_if(model, data, [3, 7, 11])
    brute = nora.what_if(model, data, [3, 7, 11], method="brute")
    assert exact.total == pytest.approx(brute.total, abs=1e-10)
    assert exact.removed == (3, 7, 11)


def test_the_reach_of_a_global_attention_is_everybody() -> None:
    data, model = twitter(20, 50, 0), timme(20, "node")
    scores = nora.influence(model, data, "exact", **QUIET)
    best = nora.top(model, data, 3, progress=False)
    assert [best.nodes[0], best.certified] == [int(scores.scores.argmax()), 3]
    who = nora.influencers(model, data, 5, k=20, progress=False)
    assert len(who) == 19


@pytest.mark.parametrize("aggr", ["max", "min"])
def test_the_largest_and_smallest_over_edge_types(aggr: str) -> None:
    torch.manual_seed(0)
    agree(Mixed(aggr), library(), PAPERS, "compiled")


def test_transformers_over_node_types() -> None:
    agree(network("hgt"), library(), PAPERS, "vectorised")


def test_an_attention_over_no_neighbours_has_no_share() -> None:
    """Receivers without neighbours once made the sketch of everybody else 0."""
    torch.manual_seed(0)
    data = Data(x=torch.randn(30, 4), edge_index=torch.randint(15, (2, 60)))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = pyg.GATConv(4, 6, add_self_loops=False)
            self.second = pyg.GATConv(6, 2, add_self_loops=False)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.second(self.first(x, edge_index).relu(), edge_index)

    model = Net()
    exact = nora.influence(model, data, "exact", progress=False)
    sketch = nora.influence(model, data, "cauchy", progress=False)
    assert (sketch.scores[exact.scores > 1e-3] > 0).all()


def test_cauchy_follows_a_global_attention_through_two_layers() -> None:
    data = twitter(60, 300, 3)
    model = TIMME(60, 2, relations=RELATIONS, hidden_channels=5)
    exact = nora.influence(model, data, "exact", progress=False)
    sketch = nora.influence(model, data, "cauchy", samples=500, progress=False)
    found = sketch.compare(exact)
    assert min(found["pearson"], found["spearman"]) > 0.8


class Smoothed(nn.Module):
    """A convolution behind a layer that changes everybody, with a skip connection."""

    def __init__(self, num_nodes: int, conv: nn.Module) -> None:
        super().__init__()
        self.timme = timme(num_nodes, "link")
        self.conv = conv

    def forward(self, x_dict: dict, edge_index_dict: dict) -> dict[str, Tensor]:
        h = self.timme(x_dict, edge_index_dict)["user"]
        return {"user": self.conv(h, edge_index_dict["user", "friend", "user"])}


BEHIND = {
    "gcn": lambda: pyg.GCNConv(5, 2),
    "gcn-without-loops": lambda: pyg.GCNConv(5, 2, add_self_loops=False),
    "sage": lambda: pyg.SAGEConv(5, 2),
    "gin": lambda: pyg.GINConv(nn.Linear(5, 2)),
    "gat": lambda: pyg.GATConv(5, 2),
    "max": lambda: pyg.SAGEConv(5, 2, aggr="max"),
}


@pytest.mark.parametrize("backend", ["vectorised", "compiled"])
@pytest.mark.parametrize("name", sorted(BEHIND))
def test_convolutions_behind_a_layer_that_changes_everybody(name: str, backend: str) -> None:
    data = twitter(15, 40, 5)
    agree(Smoothed(15, BEHIND[name]()), data, nora.NodeClassification(), backend)
