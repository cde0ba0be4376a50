"""Models of links that are followed without a fallback, and right; the oracle is made by hand."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg

import by_hand
import nora
from untidy import FEATURES, graph

PAIRS = torch.tensor([[0, 1, 2, 3, 13, 5], [4, 4, 7, 9, 0, 5]])


class Coder(nn.Module):
    """PyG's shape for links: `encode` and `decode`."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = pyg.GCNConv(FEATURES, 8), pyg.GCNConv(8, 4)
        self.score = nn.Linear(8, 1)

    def encode(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index).relu(), edge_index)

    def decode(self, z: Tensor, edge_label_index: Tensor) -> Tensor:
        both = [z[edge_label_index[0]], z[edge_label_index[1]]]
        return self.score(torch.cat(both, dim=-1)).view(-1)


class Labelled(Coder):
    """PyG's other shape: `forward` takes the pairs."""

    encode = None  # type: ignore[assignment]
    decode = None  # type: ignore[assignment]

    def forward(self, x: Tensor, edge_index: Tensor, edge_label_index: Tensor) -> Tensor:
        z = Coder.encode(self, x, edge_index)
        return (z[edge_label_index[0]] * z[edge_label_index[1]]).sum(dim=-1)


class Encoder(Coder):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return Coder.encode(self, x, edge_index)


class Bilinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))

    def forward(self, z: Tensor, pairs: Tensor) -> Tensor:
        return ((z[pairs[0]] @ self.weight[:4, :4]) * z[pairs[1]]).sum(-1)


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = pyg.SAGEConv(FEATURES, 8), pyg.SAGEConv(8, 4)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index).relu(), edge_index)


def links(model: nn.Module, task: nora.LinkPrediction, score: Callable[..., Tensor]) -> None:
    model = model.eval()
    data = graph()
    truth = by_hand.link_influence(
        data, PAIRS, range(14), lambda d, p: score(model, d, p).sigmoid()
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = nora.influence(model, data, "exact", task, progress=False)
    assert "fallback" not in found.details
    torch.testing.assert_close(found.scores, truth, rtol=1e-9, atol=1e-9)


def test_links_of_models_with_encode_and_decode():
    torch.manual_seed(1)
    links(
        Coder().double(),
        nora.LinkPrediction(PAIRS),
        lambda m, d, p: m.decode(m.encode(d.x, d.edge_index), p),
    )


@pytest.mark.parametrize("kind", ["gae", "vgae"])
def test_links_of_autoencoders(kind):
    torch.manual_seed(1)

    class Variational(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = pyg.GCNConv(FEATURES, 8)
            self.mu, self.logstd = pyg.GCNConv(8, 4), pyg.GCNConv(8, 4)

        def forward(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
            h = self.hidden(x, edge_index).relu()
            return self.mu(h, edge_index), self.logstd(h, edge_index)

    model = pyg.GAE(Plain()) if kind == "gae" else pyg.VGAE(Variational())
    links(
        model.double(),
        nora.LinkPrediction(PAIRS),
        lambda m, d, p: m.decode(m.encode(d.x, d.edge_index), p, sigmoid=False),
    )


def test_links_of_models_that_take_the_pairs():
    torch.manual_seed(1)
    links(
        Labelled().double(),
        nora.LinkPrediction(PAIRS),
        lambda m, d, p: m(d.x, d.edge_index, p),
    )


def test_links_with_a_decoder_of_ones_own():
    torch.manual_seed(1)
    decoder = Bilinear().double()
    links(
        Plain().double(),
        nora.LinkPrediction(PAIRS, decoder),
        lambda m, d, p: decoder(m(d.x, d.edge_index), p),
    )
