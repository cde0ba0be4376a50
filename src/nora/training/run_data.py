"""A dataset of the user's own as files, so that a run can carry it: nothing in them can execute.

`dataset.safetensors` holds the graph's tensors, `dataset.json` the names and everything else.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from nora.datasets import DATASETS, Dataset
from nora.files import written_atomically

TENSORS, FACTS = "dataset.safetensors", "dataset.json"


def is_carried(dataset: Dataset) -> bool:
    """Whether a run must carry the graph: `load_dataset` could not give it again.

    >>> from nora.datasets import load_dataset
    >>> is_carried(load_dataset("karate"))
    False
    """
    known = dataset.name in {entry.name for entry in DATASETS}
    return isinstance(dataset.data, Data) and (dataset.own or not known)


def write_dataset(dataset: Dataset, folder: Path) -> None:
    """Write the tensors of the graph and the facts about it into `folder`."""
    from safetensors.torch import save_file

    # Copies: safetensors refuses tensors that share their memory.
    tensors = {
        key: value.detach().cpu().contiguous().clone()
        for key, value in dataset.data.to_dict().items()
        if isinstance(value, Tensor)
    }
    # By itself, safetensors writes files that nobody else can read.
    with written_atomically(folder / TENSORS) as temporary:
        save_file(tensors, temporary)
    facts = {
        field.name: getattr(dataset, field.name)
        for field in fields(dataset)
        if field.name not in ("data", "own")
    }
    facts["num_nodes"] = int(dataset.data.num_nodes or 0)
    text = json.dumps(facts, ensure_ascii=False)
    (folder / FACTS).write_text(text + "\n", encoding="utf-8")


def read_dataset(folder: Path) -> Dataset:
    """Read what `write_dataset` wrote."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        num_nodes = facts.pop("num_nodes")
        dataset = Dataset(data=Data(), own=True, **{key: _tuple(v) for key, v in facts.items()})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{folder / FACTS} is not readable as a dataset: {error!r}") from error
    (folder / TENSORS).open("rb").close()  # "Permission denied" is not "does not hold a graph"
    try:
        tensors = load_file(folder / TENSORS)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{folder / TENSORS} does not hold a graph: {error}") from error
    for key, value in tensors.items():
        dataset.data[key] = value
    if "x" not in tensors:
        dataset.data.num_nodes = num_nodes
    if dataset.node_names is not None and len(dataset.node_names) != num_nodes:
        raise ValueError(f"{folder / FACTS} names {len(dataset.node_names)} of {num_nodes} nodes")
    return dataset


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
