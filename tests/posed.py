"""Questions asked on every graph, of every task, both ways."""

from __future__ import annotations

import pytest
from torch_geometric.data import Data

from graphs import GRAPHS, double, some_pairs
from nora import LinkPrediction, NodeClassification
from nora.model.task import Task

every_graph = pytest.mark.parametrize("kind", GRAPHS)
every_task = pytest.mark.parametrize("name", ["node", "link"])
both_ways = pytest.mark.parametrize("method", ["exact", "brute"])
CLOSE = {"rel": 1e-9, "abs": 1e-11}


def posed(kind: str, name: str = "node") -> tuple[Data, Task]:
    data = double(GRAPHS[kind]())
    return data, NodeClassification() if name == "node" else LinkPrediction(some_pairs(data))
