"""Models of the shape of PyG's own examples, in our words: nearly all are followed, none is wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data, HeteroData

import by_hand
import nora
from hetero_graphs import CLASSES as TYPED_CLASSES
from hetero_graphs import HIDDEN, WIDTHS, library
from written_models import IN, MID, NODES, RELATIONAL, WEIGHTED


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = pyg.GCNConv(IN, MID), pyg.GCNConv(MID, 4)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


class Variational(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = pyg.GCNConv(IN, MID)
        self.mu, self.logstd = pyg.GCNConv(MID, 4), pyg.GCNConv(MID, 4)

    def forward(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        x = self.conv1(x, edge_index).relu()
        return self.mu(x, edge_index), self.logstd(x, edge_index)


class LinkNet(Encoder):
    """`encode` and `decode`, as in the example of link prediction."""

    def encode(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return Encoder.forward(self, x, edge_index)

    def decode(self, z: Tensor, edge_label_index: Tensor) -> Tensor:
        return (z[edge_label_index[0]] * z[edge_label_index[1]]).sum(dim=-1)


class Unsupervised(nn.Module):
    """The unsupervised bipartite shape: embeddings whose dot products are links."""

    def __init__(self) -> None:
        super().__init__()
        self.sage = pyg.GraphSAGE(IN, MID, 2, 4)

    def forward(self, x: Tensor, edge_index: Tensor, edge_label_index: Tensor) -> Tensor:
        z = self.sage(x, edge_index)
        source, target = z[edge_label_index[0]], z[edge_label_index[1]]
        return (source * target).sum(dim=-1)


def coded(model: Any, data: Data, pairs: Tensor) -> Tensor:
    z = model.encode(data.x, data.edge_index)
    return (z[pairs[0]] * z[pairs[1]]).sum(-1).sigmoid()


LINKS: dict[str, tuple[Callable[[], Any], Callable[..., Tensor]]] = {
    "gae": (lambda: pyg.GAE(Encoder()), coded),
    "vgae": (lambda: pyg.VGAE(Variational()), coded),
    "argva": (lambda: pyg.ARGVA(Variational(), nn.Linear(4, 1)), coded),
    "link-pred": (LinkNet, coded),
    "bipartite-sage-unsup": (
        Unsupervised,
        lambda m, d, p: m(d.x, d.edge_index, p).sigmoid(),
    ),
}


class Dblp(nn.Module):
    """`HeteroConv` with a convolution for each edge type, as for DBLP."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            pyg.HeteroConv(
                {kind: pyg.SAGEConv(widths(layer, kind), HIDDEN) for kind in KINDS[1]}, aggr="sum"
            )
            for layer in range(2)
        )
        self.lin = nn.Linear(HIDDEN, TYPED_CLASSES)

    def forward(self, x_dict: dict, edge_index_dict: dict) -> Tensor:
        for conv in self.convs:
            x_dict = conv(x_dict, edge_index_dict)
            x_dict = {key: F.leaky_relu(x) for key, x in x_dict.items()}
        return self.lin(x_dict["paper"])


class Hgt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lins = nn.ModuleDict({k: nn.Linear(w, 6) for k, w in WIDTHS.items()})
        self.convs = nn.ModuleList(pyg.HGTConv(6, 6, KINDS, 2) for _ in range(2))
        self.lin = nn.Linear(6, TYPED_CLASSES)

    def forward(self, x_dict: dict, edge_index_dict: dict) -> Tensor:
        x_dict = {kind: self.lins[kind](x).relu_() for kind, x in x_dict.items()}
        for conv in self.convs:
            x_dict = conv(x_dict, edge_index_dict)
        return self.lin(x_dict["paper"])


class Han(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.HANConv(WIDTHS, 8, heads=4, dropout=0.6, metadata=KINDS)
        self.lin = nn.Linear(8, TYPED_CLASSES)

    def forward(self, x_dict: dict, edge_index_dict: dict) -> Tensor:
        return self.lin(self.conv(x_dict, edge_index_dict)["paper"])


KINDS = library().metadata()


def widths(layer: int, kind: tuple[str, str, str]) -> tuple[int, int]:
    return (WIDTHS[kind[0]], WIDTHS[kind[2]]) if layer == 0 else (HIDDEN, HIDDEN)


TYPED: dict[str, Callable[[], nn.Module]] = {"dblp": Dblp, "hgt-dblp": Hgt, "han-imdb": Han}


def six() -> Data:
    """Six nodes: a triangle with a tail and a node on its own edge."""
    ends = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (0, 5)]
    edges = torch.tensor(ends + [(j, i) for i, j in ends]).t().contiguous()
    random = torch.Generator().manual_seed(3)
    return Data(x=torch.randn(6, IN, generator=random).double(), edge_index=edges)


def restless(model: nn.Module) -> nn.Module:
    """In double precision, with statistics that are not those of a fresh batch norm."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return model.double().eval()


def asked(model: Any, data: Any, task: Any = None) -> nora.Influence:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return nora.influence(model, data, "exact", task, progress=False)


def isolated(model: nn.Module, data: Data) -> Tensor:
    """`F` where a removed node stays as a number without edges, and does not count."""
    with torch.no_grad():
        before = by_hand.plain(model, data).softmax(-1)
        found = []
        for node in range(data.num_nodes):
            bare = data.clone()
            bare.edge_index = data.edge_index[:, (data.edge_index != node).all(dim=0)]
            others = torch.arange(data.num_nodes) != node
            after = by_hand.plain(model, bare).softmax(-1)
            found.append((before - after)[others].abs().sum())
    return torch.stack(found)


def node_level() -> dict[str, tuple[nora.Influence, Tensor]]:
    made = {}
    for name, make in {**NODES, **RELATIONAL, **WEIGHTED}.items():
        torch.manual_seed(1)
        data, model = six(), restless(make())
        if name in RELATIONAL:
            data.edge_type = torch.arange(14) % 2
        if name in WEIGHTED:
            data.edge_weight = torch.linspace(0.2, 2, 14).double()
        truth = (
            isolated(model, data) if name == "linkx" else by_hand.influence(model, data, range(6))
        )
        made[name] = (asked(model, data), truth)
    return made


def link_level() -> dict[str, tuple[nora.Influence, Tensor]]:
    pairs = torch.tensor([[0, 1, 3, 5, 2], [3, 4, 5, 2, 2]])
    made = {}
    for name, (make, score) in LINKS.items():
        torch.manual_seed(1)
        data, model = six(), restless(make())
        with torch.no_grad():  # small scores of one sign could be probabilities, and are refused
            for parameter in model.parameters():
                parameter.mul_(3)
        truth = by_hand.link_influence(
            data, pairs, range(6), lambda d, p, m=model, s=score: s(m, d, p)
        )
        made[name] = (asked(model, data, nora.LinkPrediction(pairs)), truth)
    return made


def typed_level() -> dict[str, tuple[nora.Influence, Tensor]]:
    def call(model: nn.Module, data: HeteroData) -> Tensor:
        return model(data.x_dict, data.edge_index_dict)

    made = {}
    papers = nora.NodeClassification(node_type="paper")
    for name, make in TYPED.items():
        torch.manual_seed(1)
        data, model = library(), restless(make())
        truth = [by_hand.typed_influence(model, data, "paper", k, call) for k in data.node_types]
        made[name] = (asked(model, data, papers), torch.cat(truth))
    return made


# How many of each may fall back: less than one in ten of all.
ALLOWED = {node_level: 3, link_level: 1, typed_level: 1}


@pytest.mark.parametrize("level", ALLOWED, ids=lambda level: level.__name__)
def test_nearly_all_are_followed_and_none_is_wrong(level):
    made = level()
    wrong = {
        name: float((found.scores - truth).abs().max())
        for name, (found, truth) in made.items()
        if not torch.allclose(found.scores, truth, rtol=1e-9, atol=1e-9)
    }
    fell_back = {
        name: found.details["fallback"]
        for name, (found, _) in made.items()
        if "fallback" in found.details
    }
    assert not wrong
    assert len(fell_back) <= ALLOWED[level], fell_back
    assert all(float(truth.max()) > 1e-6 for _, truth in made.values())


def test_they_are_many():
    count = len({**NODES, **RELATIONAL, **WEIGHTED, **LINKS, **TYPED})
    assert count >= 50
    assert sum(ALLOWED.values()) <= 0.1 * count
