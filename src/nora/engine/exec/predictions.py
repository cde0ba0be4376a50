"""From changed rows of a model's output to changed predictions."""

from __future__ import annotations

import torch
from torch import Tensor

from nora.engine.exec.kernels.backend import Backend
from nora.engine.ir.changed_rows import ChangedRows
from nora.engine.ir.op import BLOCK_BYTES
from nora.model import Problem
from nora.model.task import Task, item_change
from nora.model.tasks.link_prediction import LinkPrediction

# What a sure prediction is worth, beside one between two classes (0.5).
LEAST_IMPORTANCE = 0.05


def prediction_changes(
    backend: Backend, task: Task, before: Tensor, changed: ChangedRows
) -> Tensor:
    """L1 change of the prediction that each changed row is `[T]`.

    Args:
        backend: What compares them.
        task: Any but link prediction.
        before: Predictions on `G`, `[items, …]`.
        changed: ChangedRows rows of the output, one for each item that changes.
    """
    rows, node = changed.rows, changed.node
    if not len(rows):
        return item_change(before[:0], before[:0])
    # Block by block, while rows and predictions are in cache.
    block = max(64, BLOCK_BYTES // max(rows[:1].nbytes, 1))
    parts = [
        backend.item_changes(before, some, task.predict(new))
        for some, new in zip(node.split(block), rows.split(block), strict=True)
    ]
    return torch.cat(parts)


def importance_of_predictions(problem: Problem, before: Tensor, num_nodes: int) -> Tensor:
    """How much a change of each node's output matters for the predictions that count `[N]`, float64."""
    task, targets = problem.task, problem.targets
    if isinstance(task, LinkPrediction):
        pairs = task.pairs if targets is None else task.pairs[:, targets]
        return torch.bincount(pairs.flatten(), minlength=num_nodes).double()
    importance = torch.ones(num_nodes, dtype=torch.double, device=before.device)
    if task.predicts in ("classes", "labels") and before.dim() == 2:
        # A sure prediction moves less than an unsure one; but a large change may still turn it.
        sure = before.double()
        importance = (sure * (1 - sure)).sum(dim=1) + LEAST_IMPORTANCE
    return importance if targets is None else importance * targets
