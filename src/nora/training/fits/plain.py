"""The plain way: full-batch Adam on the task's own loss, with early stopping."""

from __future__ import annotations

import copy
from collections.abc import Callable
from math import isnan

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data

from nora.problem.calling import Forward, default_forward
from nora.problem.preserve import evaluating
from nora.problem.tasks.link_prediction import dot_product
from nora.progress import progress_bar
from nora.sparse import sparse_where_sparse
from nora.training.auc import roc_auc
from nora.training.fits import FITS, SHOWN, Settings
from nora.training.splits import LinkSplit, NodeSplit


def fit_to_task(
    network: nn.Module,
    data: Data,
    split: NodeSplit | LinkSplit,
    settings: Settings,
    objective: Callable[[Tensor], Tensor] | None = None,
) -> dict[str, float]:
    """Fit `network` in place on one split, with early stopping; returns epochs and metrics.

    `objective` is what to minimise, given the output on all nodes; by default the task's own loss.
    """
    objective = objective or (lambda output: _loss(output, data, split))
    forward = default_forward(network, data)
    seen = copy.copy(data)
    seen.x = _sparse_where_sparse(data.x, network)
    optimizer = torch.optim.Adam(
        network.parameters(), lr=settings.lr, weight_decay=settings.weight_decay
    )
    best, best_epoch, weights = -1.0, 0, copy.deepcopy(network.state_dict())
    metric = "accuracy" if isinstance(split, NodeSplit) else "auc"
    with progress_bar("training", settings.epochs, settings.progress, SHOWN) as advance:
        epoch = 0
        for epoch in range(1, settings.epochs + 1):
            network.train()
            optimizer.zero_grad()
            loss = objective(forward(network, seen))
            loss.backward()
            optimizer.step()
            value = _metric(network, forward, seen, split, "val")
            if value > best or isnan(value):  # nothing to validate on: take the last
                best, best_epoch = value, epoch
                weights = copy.deepcopy(network.state_dict())
            advance(1, loss=f"{loss.item():.3f}", metric=f"validation {metric} {value:.3f}")
            if epoch - best_epoch >= settings.patience:
                break
    network.load_state_dict(weights)
    return {
        "epochs": epoch,
        "best_epoch": best_epoch,
        **{
            f"{part}_{metric}": _metric(network, forward, seen, split, part)
            for part in ("train", "val", "test")
        },
    }


# Not as a decorator, which would hide `objective` from the type checker.
FITS.register("plain", "the task's own loss, as most models are fitted")(fit_to_task)


def _sparse_where_sparse(x: Tensor, network: nn.Module) -> Tensor:
    """Sparse features where the model's first map is linear: much faster."""
    sparse = sparse_where_sparse(x)
    if sparse is x:
        return x
    try:
        with evaluating(network), torch.no_grad():
            network(sparse, torch.empty(2, 0, dtype=torch.long))
    except (RuntimeError, NotImplementedError, ValueError):
        return x  # aggregates before its linear map, as GraphSAGE does
    return sparse


def _loss(output: Tensor, data: Data, split: NodeSplit | LinkSplit) -> Tensor:
    if isinstance(split, NodeSplit):
        return F.cross_entropy(output[split.train], data.y[split.train])
    score = dot_product(output, split.train)
    return F.binary_cross_entropy_with_logits(score, split.train_labels)


@torch.no_grad()
def _metric(
    network: nn.Module, forward: Forward, data: Data, split: NodeSplit | LinkSplit, part: str
) -> float:
    network.eval()
    output = forward(network, data)
    if isinstance(split, NodeSplit):
        ids = getattr(split, part)
        return float((output[ids].argmax(dim=-1) == data.y[ids]).float().mean())
    score = dot_product(output, getattr(split, part))
    return roc_auc(score, getattr(split, f"{part}_labels"))
