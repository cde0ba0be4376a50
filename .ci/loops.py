"""Have Numba compile the engine's loops once, before several test workers would each do it."""

from __future__ import annotations

import warnings

import torch
from torch_geometric.nn import GAT, GCN, GraphSAGE

import nora

warnings.simplefilter("ignore")
torch.manual_seed(0)
data = nora.load_dataset("karate").data
for dtype in (torch.float32, torch.float64):
    graph = data.clone()
    graph.x = graph.x.to(dtype)
    for network in (GCN, GAT, GraphSAGE):
        model = network(data.num_features, 8, 2, 4).to(dtype)
        for tolerance in (0.0, 0.1):
            nora.influence(
                model, graph, "exact", backend="compiled", tolerance=tolerance, progress=False
            )
