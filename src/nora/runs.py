"""A trained run: a model together with the data, split and seed it came from, as a folder.

The folder holds `model.safetensors` (weights; nothing in it can execute) and `run.json` (architecture,
dataset, task, split, seed, metrics). It is written under another name first, so that it is complete
or not there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn
from torch_geometric.data import Data

from nora import __version__
from nora.datasets import Dataset, load_dataset
from nora.files import folder_written_atomically
from nora.fingerprint import graph_fingerprint
from nora.models import build_model
from nora.splits import LinkSplit, NodeSplit, split_links, split_nodes
from nora.task import LinkPrediction, NodeClassification, Task


@dataclass(frozen=True, eq=False)
class Run:
    """A trained model and everything needed to ask about it.

    Attributes:
        model: The trained model, in eval mode.
        architecture: Name and sizes, as `build_model` takes them.
        dataset: The dataset.
        data: The graph the model sees: for links, with training edges only.
        task: The task to ask about; for links, over all positives and negatives.
        cycle: Which cyclic split.
        seed: The seed.
        training: Training settings.
        metrics: Epochs, accuracy or AUC on train, validation and test.
    """

    model: nn.Module
    architecture: dict[str, Any]
    dataset: Dataset
    data: Data
    task: Task
    cycle: int = 0
    seed: int = 0
    training: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        name = self.architecture["name"]
        return f"Run({name} on {self.dataset.name}, task={self.task.name!r}, cycle={self.cycle})"

    def describe(self) -> dict[str, Any]:
        """What `run.json` holds."""
        return {
            "nora": __version__,
            "architecture": self.architecture,
            "dataset": self.dataset.name,
            "graph": graph_fingerprint(self.data),
            "task": self.task.name,
            "cycle": self.cycle,
            "seed": self.seed,
            "training": self.training,
            "metrics": self.metrics,
        }

    def save(self, folder: str | Path, replace: bool = False) -> Path:
        """Write the run to `folder`; an existing folder is an error unless `replace`."""
        from safetensors.torch import save_file

        with folder_written_atomically(Path(folder), replace) as temporary:
            weights = {key: value.contiguous() for key, value in self.model.state_dict().items()}
            save_file(weights, temporary / "model.safetensors")
            text = json.dumps(self.describe(), indent=2)
            (temporary / "run.json").write_text(text + "\n", encoding="utf-8")
        return Path(folder)


def load_run(folder: str | Path) -> Run:
    """Read a run back: builds the model, loads weights, data and split."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = Path(folder)
    if not (path / "run.json").exists():
        raise FileNotFoundError(
            f"{path} is not a trained run (no run.json); make one with 'nora train --out {path}'"
        )
    try:
        about = json.loads((path / "run.json").read_text(encoding="utf-8"))
        made = about["architecture"]
        where = {"cycle": about["cycle"], "seed": about["seed"]}
        name, task = about["dataset"], about["task"]
        model = build_model(
            made["name"], made["in_channels"], made["out_channels"], **made["sizes"]
        )
    except (json.JSONDecodeError, KeyError, UnicodeDecodeError, TypeError) as error:
        raise ValueError(f"{path / 'run.json'} is not readable as a run: {error!r}") from error
    try:
        model.load_state_dict(load_file(path / "model.safetensors"))
    except (SafetensorError, RuntimeError, OSError) as error:
        raise ValueError(
            f"{path / 'model.safetensors'} does not hold this model's weights: {error}"
        ) from error
    dataset = load_dataset(name)
    split = split_of(dataset, task, **where)
    data = posed_data(dataset, split)
    if about.get("graph") != graph_fingerprint(data):
        raise ValueError(
            f"the run in {path} was trained on another version of {name!r}; train it again"
        )
    return Run(
        model=model.eval(),
        architecture=made,
        dataset=dataset,
        data=data,
        task=posed_task(task, split),
        training=about.get("training", {}),
        metrics=about.get("metrics", {}),
        **where,
    )


def split_of(dataset: Dataset, task: str, cycle: int, seed: int) -> NodeSplit | LinkSplit:
    """The dataset's cyclic split for a task."""
    if task == "node":
        return split_nodes(dataset.data.y, dataset.node_ratios, cycle, seed)
    return split_links(dataset.data, dataset.link_ratios, cycle, seed, dataset.negatives)


def posed_data(dataset: Dataset, split: NodeSplit | LinkSplit) -> Data:
    """The graph the model may see."""
    return split.data if isinstance(split, LinkSplit) else dataset.data


def posed_task(task: str, split: NodeSplit | LinkSplit) -> Task:
    """The task to ask about: all nodes, or all positive and negative pairs."""
    return LinkPrediction(split.pairs) if isinstance(split, LinkSplit) else NodeClassification()
