"""Training: full-batch Adam with early stopping, on one cyclic split."""

from __future__ import annotations

import copy
import importlib
import time
from collections.abc import Callable
from math import isnan
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import rankdata
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData

from nora.datasets import Dataset, load_dataset
from nora.models import MODELS, build_model
from nora.problem.calling import Forward, default_forward
from nora.problem.preserve import evaluating, seeded
from nora.problem.tasks.link_prediction import dot_product
from nora.progress import progress_bar
from nora.sparse import sparse_where_sparse
from nora.training.runs import Run, posed_data, posed_task, split_of
from nora.training.splits import LinkSplit, NodeSplit


def train(
    model: str,
    dataset: str | Dataset,
    task: str = "node",
    *,
    cycle: int = 0,
    seed: int = 0,
    epochs: int = 200,
    patience: int = 50,
    lr: float = 0.01,
    weight_decay: float = 1e-5,
    progress: bool = True,
    **sizes: Any,
) -> Run:
    """Train a model and return the run: the model, what it was trained on, and how well it does.

    Args:
        model: A name from `nora models`.
        dataset: A name from `nora datasets`, or a `Dataset`.
        task: `node` (classify nodes) or `link` (predict edges).
        cycle: Which of the five cyclic splits.
        seed: Seed of the split, the weights and dropout: the same seed gives the same run.
        epochs: Most passes over the data.
        patience: Stop when the validation metric has not improved for so many epochs.
        lr: Adam's learning rate.
        weight_decay: Adam's weight decay.
        progress: Show a progress bar.
        **sizes: Passed to `build_model`.

    Example:
        >>> train("gcn", "karate", epochs=5, progress=False).metrics["epochs"]
        5
    """
    dataset = load_dataset(dataset) if isinstance(dataset, str) else dataset
    if task not in ("node", "link"):
        raise ValueError(f"task is {task!r}; it must be 'node' or 'link'")
    if epochs < 1:
        raise ValueError(f"epochs must be at least 1, got {epochs}")
    _check_kind(model, dataset)
    if task == "node" and (_labels(dataset) is None or dataset.num_classes < 2):
        raise ValueError(f"dataset {dataset.name!r} has no labels; train with task='link'")
    split = split_of(dataset, task, cycle, seed)
    data = posed_data(dataset, split)
    inputs, width = _channels(dataset, task, sizes)
    sizes = {**_needed(model, dataset, task), **sizes}
    start = time.perf_counter()
    with seeded(seed * 5 + cycle):
        network = build_model(model, inputs, width, **sizes)
        metrics = _fit_of(model)(network, data, split, epochs, patience, lr, weight_decay, progress)
    metrics["seconds"] = time.perf_counter() - start
    return Run(
        model=network.eval(),
        architecture={
            "name": model,
            "in_channels": inputs,
            "out_channels": width,
            "sizes": sizes,
        },
        dataset=dataset,
        data=data,
        task=posed_task(task, split, network),
        cycle=cycle,
        seed=seed,
        training={
            "epochs": epochs,
            "patience": patience,
            "lr": lr,
            "weight_decay": weight_decay,
        },
        metrics=metrics,
    )


def _check_kind(model: str, dataset: Dataset) -> None:
    """Raise when model and graph are not both with relations, or both without."""
    for_relations = [e.name for e in MODELS if "relations" in e.facts.needs]
    relational = isinstance(dataset.data, HeteroData)
    if (MODELS[model].name in for_relations) == relational:
        labels = _labels(dataset)
        if relational and (labels is None or not bool((labels >= 0).any())):
            raise ValueError(
                f"dataset {dataset.name!r} has no labels, and {model} is trained on labels and links "
                "together"
            )
        return
    if relational:
        raise ValueError(
            f"dataset {dataset.name!r} has several relations, which {model} cannot tell apart; train "
            f"a model made for them: {', '.join(for_relations)}"
        )
    raise ValueError(
        f"{model} is for graphs with several relations (HeteroData), which {dataset.name!r} is not; "
        "e.g. train it on 'pure-p'"
    )


def _labels(dataset: Dataset) -> Tensor | None:
    if isinstance(dataset.data, HeteroData):
        return dataset.data.node_stores[0].get("y")
    return dataset.data.y


def _channels(dataset: Dataset, task: str, sizes: dict[str, Any]) -> tuple[int, int]:
    """Widths of the input and the output, as `build_model` takes them.

    Relational models look nodes up by their numbers, and know the classes whatever the task.
    """
    if isinstance(dataset.data, HeteroData):
        return int(dataset.data.num_nodes or 0), dataset.num_classes
    width = dataset.num_classes if task == "node" else sizes.get("hidden_channels", 64)
    return dataset.data.x.size(1), width


def _needed(model: str, dataset: Dataset, task: str) -> dict[str, Any]:
    """Sizes that follow from data and task, as far as the model asks for them on registration."""
    needs = MODELS[model].facts.needs
    if "relations" in needs:
        return {"relations": [kind[1] for kind in dataset.data.edge_types], "task": task}
    if "num_relations" not in needs:
        return {}
    kind = dataset.data.get("edge_type")
    used = 0 if kind is None or not kind.numel() else int(kind.max()) + 1
    return {"num_relations": max(1, used, len(dataset.edge_type_names or ()))}


def _fit_of(model: str) -> Callable[..., dict[str, float]]:
    """How a model is fitted: its own way, named on registration as `fit="module:function"`, or ours."""
    own = MODELS[model].facts.fit
    if own is None:
        return fit
    module, _, function = own.partition(":")
    return getattr(importlib.import_module(module), function)


def fit(
    network: nn.Module,
    data: Data,
    split: NodeSplit | LinkSplit,
    epochs: int,
    patience: int,
    lr: float,
    weight_decay: float,
    progress: bool,
    objective: Callable[[Tensor], Tensor] | None = None,
) -> dict[str, float]:
    """Fit `network` in place on one split, with early stopping; returns epochs and metrics.

    `objective` is what to minimise, given the output on all nodes; by default the task's own loss.
    """
    objective = objective or (lambda output: _loss(output, data, split))
    forward = default_forward(network, data)
    seen = copy.copy(data)
    seen.x = _sparse_where_sparse(data.x, network)
    optimizer = torch.optim.Adam(network.parameters(), lr=lr, weight_decay=weight_decay)
    best, best_epoch, weights = -1.0, 0, copy.deepcopy(network.state_dict())
    metric = "accuracy" if isinstance(split, NodeSplit) else "auc"
    with progress_bar(
        "training", epochs, progress, "loss {task.fields[loss]}  {task.fields[metric]}"
    ) as advance:
        epoch = 0
        for epoch in range(1, epochs + 1):
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
            if epoch - best_epoch >= patience:
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


def roc_auc(score: Tensor, label: Tensor) -> float:
    """Probability that a random positive scores above a random negative (ties count half).

    >>> roc_auc(torch.tensor([0.9, 0.8, 0.1]), torch.tensor([1.0, 0.0, 0.0]))
    1.0
    """
    positive = label.cpu().numpy() > 0.5
    ranks = rankdata(score.detach().cpu().numpy())
    count, rest = int(positive.sum()), int((~positive).sum())
    if count == 0 or rest == 0:
        return float("nan")
    return float((np.sum(ranks[positive]) - count * (count + 1) / 2) / (count * rest))
