"""A run's split as a file, so that it is what it was in training, whatever made it.

`split.safetensors` holds the parts and, for links, which edges messages pass along.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from nora.datasets import Dataset
from nora.files import write_tensors
from nora.training.relational_splits import RelationalSplit, message_graph
from nora.training.run_folder import SPLIT, read_tensors
from nora.training.splits import LinkSplit, NodeSplit

PARTS = ("train", "val", "test")
LABELS = tuple(f"{part}_labels" for part in PARTS)
RELATION = tuple(f"{part}_relation" for part in PARTS)

Split = NodeSplit | LinkSplit | RelationalSplit


def write_split(split: Split, folder: Path) -> None:
    """Write the parts of a split into `folder`; the graph itself is the dataset's matter."""
    names = {NodeSplit: PARTS, LinkSplit: (*PARTS, *LABELS, "message")}.get(
        type(split), (*PARTS, *LABELS, *RELATION)
    )
    tensors = {name: getattr(split, name) for name in names}
    if isinstance(split, RelationalSplit):
        tensors |= {f"nodes/{part}": getattr(split.nodes, part) for part in PARTS}
        tensors |= {f"message/{number}": one for number, one in enumerate(split.message)}
    write_tensors(tensors, folder / SPLIT)


def read_split(dataset: Dataset, task: str, folder: Path) -> Split:
    """Read what `write_split` wrote of a split of `dataset` for `task`."""
    tensors = read_tensors(folder / SPLIT, "a split")
    data = dataset.data
    for name, value in tensors.items():
        _check_part(folder, name, value, int(data.num_nodes or 0))
    try:
        if isinstance(data, HeteroData):
            stores = data.edge_stores
            message = tuple(tensors[f"message/{number}"] for number in range(len(stores)))
            _check_fits(folder, message, [store.edge_index for store in stores])
            return RelationalSplit(
                data=message_graph(data, message),
                nodes=NodeSplit(*(tensors[f"nodes/{part}"] for part in PARTS)),
                message=message,
                **{name: tensors[name] for name in (*PARTS, *LABELS, *RELATION)},
            )
        parts = [tensors[part] for part in PARTS]
        ends = {part.size(0) if part.dim() == 2 else 0 for part in parts}
        if ends != ({0} if task == "node" else {2}):
            raise KeyError(f"ids of a {task} task in {', '.join(PARTS)}")
        if task == "node":
            return NodeSplit(*parts)
        stays = tensors["message"]
        _check_fits(folder, [stays], [data.edge_index])
        labels = [tensors[name] for name in LABELS]
        if any(part.size(1) != len(own) for part, own in zip(parts, labels, strict=True)):
            raise KeyError("label for every pair")
        return LinkSplit(data.edge_subgraph(stays), stays, *parts, *labels)
    except KeyError as error:
        raise ValueError(
            f"{folder / SPLIT} is not the split of a {task} task: no {error}"
        ) from error


def _check_part(folder: Path, name: str, value: Tensor, num_nodes: int) -> None:
    """Raise for node ids that are none of this graph; whatever else a split holds is compared with these."""
    part = name.removeprefix("nodes/")
    if name.startswith("message"):
        fits = value.dtype == torch.bool and value.dim() == 1
    elif part in PARTS:
        fits = value.dtype == torch.long and value.dim() in (1, 2)
        fits = fits and not (
            value.numel() and not 0 <= int(value.min()) <= int(value.max()) < num_nodes
        )
    else:
        fits = value.dim() == 1
    if not fits:
        raise ValueError(
            f"{folder / SPLIT} is not the split of a graph of {num_nodes:,} nodes: {name} is "
            f"{list(value.shape)} of {value.dtype}, or names other nodes; train the run again"
        )


def _check_fits(folder: Path, message: Sequence[Tensor], edges: Sequence[Tensor]) -> None:
    for stays, edge_index in zip(message, edges, strict=True):
        if stays.shape != (edge_index.size(1),):
            raise ValueError(
                f"{folder / SPLIT} is the split of a graph of {stays.numel():,} edges, this one has "
                f"{edge_index.size(1):,}; train the run again"
            )
