"""Properties of a graph's tensors before a model runs."""

from __future__ import annotations

import gc

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data, HeteroData

import by_hand
import nora
from hetero_graphs import library


class Scored(nn.Module):
    """A decoder with weights, as people write it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 3).double())

    def forward(self, z: Tensor, pairs: Tensor) -> Tensor:
        return (z[pairs[0]] * self.weight.exp() * z[pairs[1]]).sum(-1)


def test_pairs_that_are_the_graphs_own_edges_are_followed(gcn: nn.Module, hubs: Data) -> None:
    decoder = Scored()
    pairs = hubs.edge_index
    nodes = [0, 1, 70, 149]
    found = nora.influence(
        gcn,
        hubs,
        "exact",
        nora.LinkPrediction(pairs, decoder, return_type="raw"),
        nodes=nodes,
        progress=False,
    )
    gcn.eval()
    truth = by_hand.link_influence(
        hubs, pairs, nodes, lambda d, p: decoder(gcn(d.x, d.edge_index), p).sigmoid()
    )
    assert "fallback" not in found.details
    torch.testing.assert_close(found.scores[nodes], truth, rtol=1e-9, atol=1e-9)


def test_edge_types_that_share_one_tensor_are_followed() -> None:
    data = library()
    kinds = [key for key in data.edge_types if key[0] == "author" and key[2] == "paper"]
    data["author", "praises", "paper"].edge_index = data[kinds[0]].edge_index
    torch.manual_seed(0)
    layer = {
        key: pyg.SAGEConv((data[key[0]].num_features, data[key[2]].num_features), 3)
        for key in data.edge_types
        if key[2] == "paper"
    }
    model = Papers(pyg.HeteroConv(layer, aggr="sum")).double().eval()
    papers = nora.NodeClassification(node_type="paper")
    found = nora.influence(model, data, "exact", papers, progress=False)
    truth = [
        by_hand.typed_influence(model, data, "paper", kind, called) for kind in data.node_types
    ]
    assert "fallback" not in found.details
    torch.testing.assert_close(found.scores, torch.cat(truth), rtol=1e-9, atol=1e-9)


class Papers(nn.Module):
    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x_dict: dict, edge_index_dict: dict) -> Tensor:
        return self.conv(x_dict, edge_index_dict)["paper"]


def called(model: nn.Module, data: HeteroData) -> Tensor:
    return model(data.x_dict, data.edge_index_dict)


def test_a_prepared_engine_keeps_one_copy_of_the_features(gcn: nn.Module, hubs: Data) -> None:
    session = nora.Session(gcn, hubs)
    session.influence("exact", backend="vectorised", progress=False)
    assert session.prepared.ready
    gc.collect()
    kept = [
        one
        for one in gc.get_objects()
        if type(one) is Tensor and one.shape == (hubs.num_nodes - 1, hubs.num_features)
    ]
    assert not kept
