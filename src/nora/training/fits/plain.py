"""The default fit: full-batch Adam on the task's own loss, with early stopping."""

from __future__ import annotations

import copy
from collections.abc import Callable
from math import isnan

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data

from nora.model.calling import Forward, default_forward
from nora.model.tasks.link_prediction import dot_product
from nora.progress import progress_bar
from nora.training.auc import roc_auc
from nora.training.fits import FITS, SHOWN, Settings
from nora.training.fixed_graph import fixed_graph
from nora.training.recall import balanced_accuracy, class_weights
from nora.training.splits import LinkSplit, NodeSplit

PARTS = ("train", "val", "test")


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
    objective = objective or (lambda output: _loss(output, data, split, settings.balanced))
    forward = default_forward(network, data)
    metric = "auc" if isinstance(split, LinkSplit) else "accuracy"
    metric = "balanced_accuracy" if settings.balanced else metric
    output: Tensor

    with fixed_graph(network, data) as seen:

        def loss() -> Tensor:
            nonlocal output
            output = forward(network, seen)
            return objective(output)

        def validated() -> tuple[float, str]:
            if settings.selection == "eval":
                found = _metrics(network, forward, seen, split, "val")
            else:
                found = _measured(output.detach(), data, split, "val")
            value = found[f"val_{metric}"]
            return value, f"validation {metric.replace('_', ' ')} {value:.3f}"

        epochs = descend(network, settings, loss, validated, lambda value: _chance(value, split))
        return {**epochs, **_metrics(network, forward, seen, split, *PARTS)}


def descend(
    network: nn.Module,
    settings: Settings,
    loss: Callable[[], Tensor],
    validated: Callable[[], tuple[float, str]],
    chance: Callable[[float], float] = lambda _: 0.0,
) -> dict[str, float]:
    """Full-batch Adam with early stopping, which leaves the weights of the best epoch.

    Args:
        network: What is fitted, in place.
        settings: How long and how fast.
        loss: What is minimised, from one pass in train mode.
        validated: The value that chooses the epoch, and what the progress bar shows of it.
        chance: From the best value so far to the largest improvement of it that may be chance.

    Returns:
        The number of epochs, the best one, and whether the value was still improving.
    """
    optimizer = torch.optim.Adam(
        network.parameters(), lr=settings.lr, weight_decay=settings.weight_decay
    )
    best, best_epoch, weights = -1.0, 0, copy.deepcopy(network.state_dict())
    clearly, clearly_at, epoch = -1.0, 0, 0
    with progress_bar("training", settings.epochs, settings.progress, SHOWN) as advance:
        for epoch in range(1, settings.epochs + 1):
            network.train()
            optimizer.zero_grad()
            now = loss()
            now.backward()
            if settings.selection == "eval":
                optimizer.step()
            value, shown = validated()
            if value > best or isnan(value):  # nothing to validate on: take the last
                best, best_epoch = value, epoch
                weights = copy.deepcopy(network.state_dict())
            if settings.selection == "dropout":
                optimizer.step()
            if value > clearly + chance(clearly) or isnan(value):
                clearly, clearly_at = value, epoch
            advance(1, loss=f"{now.item():.3f}", metric=shown)
            if epoch - clearly_at >= settings.patience:
                break
    network.load_state_dict(weights)
    still = epoch - clearly_at < epoch / 5
    return {"epochs": epoch, "best_epoch": best_epoch, "still_improving": still}


# Not as a decorator, which would hide `objective` from the type checker.
FITS.register("plain", "the task's own loss, as most models are fitted")(fit_to_task)


def _chance(value: float, split: NodeSplit | LinkSplit) -> float:
    """The largest change that counts as chance: a tenth of the standard error of a share of this many.

    On a few hundred nodes that is less than one node. On a hundred thousand, it stops a training that still
    gains a node or two per epoch.

    >>> _chance(-1.0, NodeSplit(*3 * [torch.arange(100)]))
    0.0
    """
    count = split.val.size(-1)
    return 0.1 * max(0.0, value * (1 - value) / max(1, count)) ** 0.5 if value >= 0 else 0.0


def cross_entropy(output: Tensor, labels: Tensor, balanced: bool) -> Tensor:
    """The mean loss of logits `[n, C]` over all nodes, or, if `balanced`, over classes with equal weights."""
    weights = class_weights(labels, output.size(-1)).to(output) if balanced else None
    return F.cross_entropy(output, labels, weights)


def _loss(
    output: Tensor, data: Data, split: NodeSplit | LinkSplit, balanced: bool = False
) -> Tensor:
    if isinstance(split, NodeSplit):
        return cross_entropy(output[split.train], data.y[split.train], balanced)
    score = dot_product(output, split.train)
    return F.binary_cross_entropy_with_logits(score, split.train_labels)


@torch.no_grad()
def _metrics(
    network: nn.Module, forward: Forward, data: Data, split: NodeSplit | LinkSplit, *parts: str
) -> dict[str, float]:
    """Accuracy or AUC in each part, from one pass."""
    network.eval()
    return _measured(forward(network, data), data, split, *parts)


def _measured(
    output: Tensor, data: Data, split: NodeSplit | LinkSplit, *parts: str
) -> dict[str, float]:
    """Accuracy and balanced accuracy, or AUC, in each part, from the output on all nodes."""
    found = {}
    for part in parts:
        ids = getattr(split, part)
        if isinstance(split, LinkSplit):
            score = dot_product(output, ids)
            found[f"{part}_auc"] = roc_auc(score, getattr(split, f"{part}_labels"))
            continue
        predicted, labels = output[ids].argmax(dim=-1), data.y[ids]
        found[f"{part}_accuracy"] = float((predicted == labels).float().mean())
        found[f"{part}_balanced_accuracy"] = balanced_accuracy(predicted, labels)
    return found
