"""Training: a model by name, on one cyclic split of a dataset."""

from __future__ import annotations

import copy
import time
from dataclasses import asdict, replace
from typing import Any, get_args

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from nora.arguments import check_number, check_seed, check_whole
from nora.datasets import Dataset, load_dataset
from nora.ingest.encodings import encoded_from
from nora.model.preserve import seeded
from nora.models import MODELS, build_model
from nora.options import option
from nora.training.fits import Selection, Settings, fit_for
from nora.training.run_split import Split
from nora.training.runs import Run, graph_for, split_of, task_for
from nora.training.splits import LinkSplit


def train(  # noqa: PLR0913
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
    selection: Selection = "eval",
    split: Split | None = None,
    balanced: bool = False,
    **sizes: Any,
) -> Run:
    """Train a model and return the run: the model, its graph and split, and its metrics.

    Args:
        model: A name from `nora models`.
        dataset: A name from `nora datasets`, or a `Dataset`.
        task: `node` (classify nodes) or `link` (predict edges).
        cycle: Which of the five cyclic splits.
        seed: Seed of the split, the weights and dropout: the same seed gives the same run.
        epochs: Maximum number of epochs.
        patience: Stop if the validation metric has not improved for this many epochs.
        lr: Adam's learning rate.
        weight_decay: Adam's weight decay.
        progress: Show a progress bar.
        selection: Choose the epoch by the validation metric in `eval` mode, or with `dropout` on.
        split: A split of the dataset to train on, instead of that of `cycle` and `seed`.
        balanced: Give every class the same weight: class weights in the loss, and balanced accuracy for the
            choice of the epoch. For `task="node"`.
        **sizes: Passed to `build_model`.

    Returns:
        The trained model with its graph, task, split and metrics.

    Example:
        >>> train("gcn", "karate", epochs=5, progress=False).metrics["epochs"]
        5
    """
    dataset = load_dataset(dataset) if isinstance(dataset, str) else dataset
    if not isinstance(dataset, Dataset):
        raise TypeError(
            f"dataset must be a name from 'nora datasets' or a Dataset, got {type(dataset).__name__}; "
            "a graph of your own is nora.datasets.Dataset(name, data, num_classes)"
        )
    settings = Settings(epochs, patience, lr, weight_decay, progress, selection, bool(balanced))
    _check_settings(settings, task, seed, cycle)
    _check_kind(model, dataset)
    if task == "node" and (_labels(dataset) is None or dataset.num_classes < 2):
        raise ValueError(
            f"dataset {dataset.name!r} has no labels; train with {option('task', 'link')}"
        )
    dataset, split = _fair(dataset, split or split_of(dataset, task, cycle, seed))
    data = graph_for(dataset, split)
    inputs, width = _channels(dataset, task, sizes)
    sizes = {**_needed(model, dataset, task), **sizes}
    start = time.perf_counter()
    with seeded(seed * 5 + cycle):
        network = build_model(model, inputs, width, **sizes)
        metrics = fit_for(network)(network, data, split, settings)
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
        task=task_for(task, split, network),
        split=split,
        cycle=cycle,
        seed=seed,
        training={key: value for key, value in asdict(settings).items() if key != "progress"},
        metrics=metrics,
    )


def _check_settings(settings: Settings, task: str, seed: int, cycle: int) -> None:
    """Raise for settings that no model can be trained with."""
    for what, number in (("epochs", settings.epochs), ("patience", settings.patience)):
        check_whole(what, number, 1)
    check_number("lr", settings.lr, 0)
    check_number("weight_decay", settings.weight_decay, 0)
    check_seed(seed)
    check_seed(seed * 5 + cycle, "seed × 5")
    if task not in ("node", "link"):
        raise ValueError(f"task is {task!r}; it must be 'node' or 'link'")
    if settings.selection not in get_args(Selection):
        raise ValueError(f"selection is {settings.selection!r}; it must be 'eval' or 'dropout'")
    if settings.balanced and task != "node":
        raise ValueError(
            f"{option('balanced', True)} gives every class the same weight, but {option('task', task)} has "
            "no classes; leave it out"
        )


def _fair(dataset: Dataset, split: Split) -> tuple[Dataset, Split]:
    """Both with features that leak nothing of held-out links: computed again from the other edges.

    The run keeps these features, so that questions use what the model was trained on.
    """
    if dataset.encoding is None or not isinstance(split, LinkSplit):
        return dataset, split
    x = encoded_from(dataset, split.data)
    whole, seen = copy.copy(dataset.data), copy.copy(split.data)
    whole.x = seen.x = x
    return replace(dataset, data=whole), replace(split, data=seen)


def _check_kind(model: str, dataset: Dataset) -> None:
    """Raise when model and graph are not both with relations, or both without."""
    for_relations = [e.name for e in MODELS if "relations" in e.facts.needs]
    relational = isinstance(dataset.data, HeteroData)
    if (MODELS[model].name in for_relations) == relational:
        if relational:
            _check_nodes(model, dataset)
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


def _check_nodes(model: str, dataset: Dataset) -> None:
    """Raise if the model does not support the nodes of a graph with relations."""
    wanted, data = MODELS[model].facts.node_type, dataset.data
    if data.node_types != [wanted]:
        found = ", ".join(map(repr, data.node_types))
        raise ValueError(
            f"{model} takes nodes of the type {wanted!r} and no others; {dataset.name!r} has the types "
            f"{found}. A single type can be renamed: data.rename('its name', {wanted!r})"
        )
    x, count = data[wanted].get("x"), int(data[wanted].num_nodes or 0)
    numbers = isinstance(x, Tensor) and x.dtype == torch.long and x.shape == (count,)
    if not numbers or not bool(((x >= 0) & (x < count)).all()):
        raise ValueError(
            f"{model} looks nodes up by id: x of {wanted!r} in {dataset.name!r} must hold the ids "
            f"0 … {count - 1}, e.g. torch.arange({count})"
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
