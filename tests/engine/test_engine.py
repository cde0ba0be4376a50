"""`exact` against `brute` on random graphs, models and removals, in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data

import nora

FEATURES, CLASSES = 5, 3
EXACT = {"progress": False, "verify": 0}


@st.composite
def graphs(draw: st.DrawFn, weighted: bool = False, attributed: bool = False) -> Data:
    """Directed or not, with self-loops, duplicates, isolated nodes and several components."""
    num_nodes = draw(st.integers(2, 24))
    seed = draw(st.integers(0, 10_000))
    generator = torch.Generator().manual_seed(seed)
    count = draw(st.integers(0, 3 * num_nodes))
    # Drawing ends from half of the nodes leaves isolated ones and makes duplicates and loops.
    reach = draw(st.sampled_from([num_nodes, max(1, num_nodes // 2)]))
    edge_index = torch.randint(reach, (2, count), generator=generator)
    if draw(st.booleans()):
        edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    data = Data(
        x=torch.randn(num_nodes, FEATURES, generator=generator, dtype=torch.double),
        edge_index=edge_index,
    )
    if weighted:
        data.edge_weight = torch.rand(edge_index.size(1), generator=generator).double()
    if attributed:
        data.edge_attr = torch.randn(edge_index.size(1), 4, generator=generator).double()
    return data


def mlp(width: int = FEATURES) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 6), nn.ReLU(), nn.Linear(6, CLASSES))


DEGREES = torch.tensor([1, 4, 5, 3, 2, 1])
CONVOLUTIONS = {
    "gcn": lambda: pyg.GCNConv(FEATURES, CLASSES),
    "gcn-improved": lambda: pyg.GCNConv(FEATURES, CLASSES, improved=True),
    "gcn-without-loops": lambda: pyg.GCNConv(FEATURES, CLASSES, add_self_loops=False),
    "gcn-plain": lambda: pyg.GCNConv(FEATURES, CLASSES, normalize=False, bias=False),
    "sage-mean": lambda: pyg.SAGEConv(FEATURES, CLASSES),
    "sage-sum": lambda: pyg.SAGEConv(FEATURES, CLASSES, aggr="sum", root_weight=False),
    "sage-max": lambda: pyg.SAGEConv(FEATURES, CLASSES, aggr="max"),
    "sage-projected": lambda: pyg.SAGEConv(FEATURES, CLASSES, project=True, normalize=True),
    "gat": lambda: pyg.GATConv(FEATURES, CLASSES, heads=2, concat=False),
    "gat-without-loops": lambda: pyg.GATConv(FEATURES, CLASSES, add_self_loops=False),
    "gat-residual": lambda: pyg.GATConv(FEATURES, CLASSES, residual=True),
    "gatv2": lambda: pyg.GATv2Conv(FEATURES, CLASSES, heads=2, concat=False),
    "gatv2-shared": lambda: pyg.GATv2Conv(FEATURES, CLASSES, share_weights=True),
    "gin": lambda: pyg.GINConv(mlp(), train_eps=True),
    "graph-conv": lambda: pyg.GraphConv(FEATURES, CLASSES),
    "graph-conv-mean": lambda: pyg.GraphConv(FEATURES, CLASSES, aggr="mean"),
    "graph-conv-max": lambda: pyg.GraphConv(FEATURES, CLASSES, aggr="max"),
    "sgc": lambda: pyg.SGConv(FEATURES, CLASSES, K=3),
    "tag": lambda: pyg.TAGConv(FEATURES, CLASSES, K=2),
    "tag-plain": lambda: pyg.TAGConv(FEATURES, CLASSES, K=2, normalize=False),
    "transformer": lambda: pyg.TransformerConv(FEATURES, CLASSES, heads=2, concat=False),
    "edge-conv": lambda: pyg.EdgeConv(mlp(2 * FEATURES)),
    "res-gated": lambda: pyg.ResGatedGraphConv(FEATURES, CLASSES),
    "pna": lambda: pyg.PNAConv(
        FEATURES, CLASSES, ["mean", "max", "std"], ["identity", "amplification"], DEGREES
    ),
    "general": lambda: pyg.GeneralConv(FEATURES, CLASSES),
    "feast": lambda: pyg.FeaStConv(FEATURES, CLASSES, heads=2),
}  # fmt: skip
WEIGHTED = [
    "gcn",
    "gcn-improved",
    "gcn-without-loops",
    "graph-conv",
    "graph-conv-mean",
    "sgc",
    "tag",
]
ATTRIBUTED = {
    "gat-edges": lambda: pyg.GATConv(FEATURES, CLASSES, edge_dim=4),
    "gatv2-edges": lambda: pyg.GATv2Conv(FEATURES, CLASSES, edge_dim=4),
    "gine": lambda: pyg.GINEConv(mlp(), edge_dim=4),
    "transformer-edges": lambda: pyg.TransformerConv(FEATURES, CLASSES, edge_dim=4),
    "nn-conv": lambda: pyg.NNConv(FEATURES, CLASSES, nn.Linear(4, FEATURES * CLASSES)),
}  # fmt: skip


class TwoLayers(nn.Module):
    """A convolution on hidden rows, so that changed rows meet changed neighbourhoods."""

    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.first = pyg.GraphConv(FEATURES, FEATURES)
        self.conv = conv

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None):
        extra = [e for e in (edge_weight, edge_attr) if e is not None]
        hidden = self.first(x, edge_index).tanh()
        return self.conv(hidden, edge_index, *extra) + x[:, :CLASSES]


def agree(model: nn.Module, data: Data, task=None, **options) -> None:
    model = model.double()
    truth = nora.influence(model, data, "brute", task, progress=False)
    for backend in ("vectorised", "compiled"):
        found = nora.influence(model, data, "exact", task, backend=backend, **EXACT, **options)
        assert "fallback" not in found.details
        assert torch.allclose(found.scores, truth.scores, rtol=1e-9, atol=1e-9), backend


def tried(examples: int) -> settings:
    """So many random examples, the same in every run."""
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )


@pytest.mark.parametrize("name", CONVOLUTIONS)
@tried(3)
@given(data=graphs(), seed=st.integers(0, 99))
def test_every_convolution_gives_what_brute_gives(name, data, seed):
    torch.manual_seed(seed)
    agree(TwoLayers(CONVOLUTIONS[name]()), data)


@pytest.mark.parametrize("name", WEIGHTED)
@tried(3)
@given(data=graphs(weighted=True), seed=st.integers(0, 99))
def test_edge_weights_are_respected(name, data, seed):
    torch.manual_seed(seed)
    agree(TwoLayers(CONVOLUTIONS[name]()), data)


@pytest.mark.parametrize("name", ATTRIBUTED)
@tried(3)
@given(data=graphs(attributed=True), seed=st.integers(0, 99))
def test_edge_features_are_respected(name, data, seed):
    torch.manual_seed(seed)
    agree(TwoLayers(ATTRIBUTED[name]()), data)


ZOO = [pyg.GCN, pyg.GraphSAGE, pyg.GAT, pyg.GIN, pyg.PNA]


@tried(6)
@given(
    data=graphs(),
    seed=st.integers(0, 99),
    kind=st.sampled_from(ZOO),
    layers=st.integers(1, 3),
    knowledge=st.sampled_from([None, "last", "cat", "max", "lstm"]),
    norm=st.sampled_from([None, "batch_norm", "layer_norm"]),
    act=st.sampled_from(["relu", "elu"]),
)
def test_models_from_the_zoo_give_what_brute_gives(data, seed, kind, layers, knowledge, norm, act):
    torch.manual_seed(seed)
    extra = {"aggregators": ["mean", "max"], "scalers": ["identity"], "deg": DEGREES}
    norms = {"norm_kwargs": {"mode": "node"}} if norm == "layer_norm" else {}
    model = kind(
        FEATURES, 6, layers, CLASSES, jk=knowledge, norm=norm, act=act, **norms,
        **(extra if kind is pyg.PNA else {}),
    )  # fmt: skip
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    agree(model, data)


@tried(4)
@given(data=graphs(), seed=st.integers(0, 99), count=st.integers(1, 30))
def test_link_influence_is_exact_for_any_pairs(data, seed, count):
    torch.manual_seed(seed)
    pairs = torch.randint(data.num_nodes, (2, count))
    model = pyg.GCN(FEATURES, 6, 2, 4)
    agree(model, data, nora.LinkPrediction(pairs))
    weight = torch.rand(4).double()
    bilinear = nora.LinkPrediction(
        pairs,
        decoder=lambda z, p: ((z[p[0]] * weight * z[p[1]]).sum(-1)).sigmoid(),
        return_type="probs",
    )
    agree(model, data, bilinear)


@tried(8)
@given(
    data=graphs(), seed=st.integers(0, 99), size=st.integers(1, 6), kind=st.sampled_from(ZOO[:4])
)
def test_groups_are_removed_together(data, seed, size, kind):
    torch.manual_seed(seed)
    # A node is left, unless there is only one.
    group = torch.randperm(data.num_nodes)[: min(size, data.num_nodes - 1)].tolist()
    if not group:
        return
    model = kind(FEATURES, 6, 2, CLASSES).double()
    exact = nora.what_if(model, data, group)
    brute = nora.what_if(model, data, group, method="brute")
    assert torch.equal(exact.counted, brute.counted)
    assert torch.allclose(exact.after, brute.after, equal_nan=True, atol=1e-10)


@tried(8)
@given(data=graphs(), seed=st.integers(0, 99))
def test_targets_restrict_what_counts(data, seed):
    torch.manual_seed(seed)
    model = pyg.GAT(FEATURES, 6, 2, CLASSES).double()
    targets = torch.randperm(data.num_nodes)[: max(1, data.num_nodes // 3)]
    truth = nora.influence(model, data, "brute", targets=targets, progress=False)
    found = nora.influence(model, data, "exact", targets=targets, **EXACT)
    assert torch.allclose(found.scores, truth.scores, atol=1e-10)
