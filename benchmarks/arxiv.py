"""The real ogbn-arxiv citation graph with stand-in features, for speed and scale only.

The official 128 features are replaced by a language model's ranked guesses of each paper's category
(the dataset `ogbn-arxiv-stand-in`), so no figure made with it is one on ogbn-arxiv. Trained weights are
kept in `benchmarks/.cache`, so that a benchmark can be repeated on the same model.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch_geometric.data import Data

import nora
from nora.datasets import given_folder
from nora.datasets.ogbn_arxiv_stand_in import CLASSES, FOLDER, read_stand_in

CATEGORIES = CLASSES
CACHE = Path(__file__).parent / ".cache"


def load() -> tuple[Data, torch.Tensor, torch.Tensor]:
    """The undirected graph, and the training and test nodes of the official split."""
    base = given_folder() or Path(__file__).parents[2] / "shared" / "data"
    found = read_stand_in(base / FOLDER)
    return found.data, found.split["train"], found.split["test"]


def arxiv_topology(model: str, epochs: int = 15, **sizes: Any) -> tuple[torch.nn.Module, Data]:
    """A model trained for a few epochs on the stand-in features, and the graph."""
    data, train, test = load()
    torch.manual_seed(0)
    network = nora.build_model(model, data.x.size(1), CATEGORIES, **sizes)
    name = "-".join([model, *(f"{key}={value}" for key, value in sorted(sizes.items()))])
    name += "" if epochs == 15 else f"-epochs={epochs}"
    path = CACHE / f"{name}.safetensors"
    if path.exists():
        network.load_state_dict(load_file(path))
        return network.eval(), data
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    start = time.perf_counter()
    for _ in range(epochs):
        network.train()
        optimizer.zero_grad()
        F.cross_entropy(network(data.x, data.edge_index)[train], data.y[train]).backward()
        optimizer.step()
    network.eval()
    with torch.no_grad():
        right = network(data.x, data.edge_index)[test].argmax(-1) == data.y[test]
    print(
        f"{name}: {right.float().mean():.3f} on the test nodes, {time.perf_counter() - start:.0f} s"
    )
    CACHE.mkdir(exist_ok=True)
    save_file(network.state_dict(), path)
    return network, data
