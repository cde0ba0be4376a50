"""The definition, spelt out: take nodes and edges away by hand, run the model, compare."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from nora.model.task import Task
from nora.model.tasks.link_prediction import LinkPrediction
from nora.model.tasks.node_classification import NodeClassification


@torch.no_grad()
def outputs(
    model: nn.Module,
    data: Data,
    nodes: Iterable[int] = (),
    edges: Iterable[tuple[int, int]] = (),
) -> dict[int, Tensor]:
    """The model's output row of every remaining node; `edges` are directed."""
    nodes, edges = set(nodes), set(edges)
    left = [node for node in range(data.num_nodes) if node not in nodes]
    new_id = {node: at for at, node in enumerate(left)}
    ends = [(int(source), int(target)) for source, target in data.edge_index.t()]
    stay = [
        at
        for at, edge in enumerate(ends)
        if edge not in edges and edge[0] in new_id and edge[1] in new_id
    ]
    index = torch.tensor([[new_id[end] for end in ends[at]] for at in stay], dtype=torch.long)
    extra = {
        key: data[key][stay]
        for key in ("edge_weight", "edge_attr")
        if key in data and key in inspect.signature(model.forward).parameters
    }
    if not left:
        return {}
    rows = model(data.x[left], index.reshape(-1, 2).t(), **extra)
    return dict(zip(left, rows, strict=True))


def predictions(task: Task, rows: dict[int, Tensor]) -> dict[int, Tensor]:
    """What is predicted from these output rows, by item."""
    if isinstance(task, NodeClassification):
        classes = slice(None) if task.classes is None else list(task.classes)
        return {node: row.softmax(dim=-1)[classes] for node, row in rows.items()}
    assert isinstance(task, LinkPrediction)
    return {
        at: torch.stack([(rows[i] * rows[j]).sum().sigmoid()])
        for at, (i, j) in enumerate(task.pairs.t().tolist())
        if i in rows and j in rows
    }


def changes(
    model: nn.Module,
    data: Data,
    nodes: Iterable[int] = (),
    edges: Iterable[tuple[int, int]] = (),
    task: Task | None = None,
) -> dict[int, float]:
    """The L1 change of every item that survives."""
    task = task or NodeClassification()
    before = predictions(task, outputs(model, data))
    after = predictions(task, outputs(model, data, nodes, edges))
    return {item: float((before[item] - after[item]).abs().sum()) for item in after}


def total(model: nn.Module, data: Data, nodes: Iterable[int], task: Task | None = None) -> float:
    """`F(nodes)`."""
    return sum(changes(model, data, nodes, task=task).values())
