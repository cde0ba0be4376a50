"""A trained run: a model together with the data, split and seed it came from, as a folder.

The folder is an artefact (`nora.artefact`): `model.safetensors` (weights), `split.safetensors` (`run_split`),
for a graph of the user's own also the graph (`run_data`), and a manifest with architecture, dataset, task,
seed and metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData

from nora import __version__, artefact
from nora.arguments import path_of
from nora.datasets import (
    DATASETS,
    Dataset,
    DatasetUnavailableError,
    given_folder,
    load_dataset,
)
from nora.files import write_tensors
from nora.model.fingerprint import graph_fingerprint
from nora.model.task import Task
from nora.model.tasks.link_prediction import LinkPrediction
from nora.model.tasks.node_classification import NodeClassification
from nora.models import build_model
from nora.results.effect import Effect
from nora.results.influence import Influence
from nora.training.relational_splits import RelationalSplit, split_relations
from nora.training.run_data import keeps_its_graph, read_dataset, write_dataset
from nora.training.run_folder import (
    GRAPH,
    KIND,
    REMEDY,
    SPLIT,
    VERSION,
    WEIGHTS,
    open_run,
    read_tensors,
)
from nora.training.run_split import Split, read_split, write_split
from nora.training.splits import NodeSplit, split_links, split_nodes
from nora.wording import short

if TYPE_CHECKING:
    from nora.questions.session import Session


@dataclass(frozen=True, eq=False)
class Run:
    """A trained model, with everything that questions about it need.

    Attributes:
        model: The trained model, in eval mode.
        architecture: Name and sizes, the arguments of `build_model`.
        dataset: The dataset.
        data: The graph that the model sees; for links, with training edges only.
        task: The task of questions; for links, over all positive and negative pairs.
        split: The nodes or links for training, validation and test.
        cycle: Which cyclic split.
        seed: The seed.
        training: Training settings.
        metrics: Epochs, accuracy or AUC on train, validation and test.
        inputs: The files that the graph was read from: role, path, size and SHA-256.
        data_folder: The value of `NORA_DATA` in training, for a dataset that is not saved with the run. NORA
            does not read from this folder, because a run may come from an untrusted source.

    Example:
        >>> import nora
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> run.influence(progress=False).method, run.what_if(0).removed
        ('exact', (0,))
    """

    model: nn.Module
    architecture: dict[str, Any]
    dataset: Dataset
    data: Data
    task: Task
    split: Split
    cycle: int = 0
    seed: int = 0
    training: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    inputs: tuple[Mapping[str, Any], ...] = ()
    data_folder: Path | None = None

    def __repr__(self) -> str:
        name = self.architecture["name"]
        return f"Run({name} on {self.dataset.name}, task={self.task.name!r}, cycle={self.cycle})"

    def describe(self) -> dict[str, Any]:
        """The content of the manifest."""
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
            "inputs": list(self.inputs),
        }

    def session(self, *, targets: Any = None, engine: str | Path | None = None) -> Session:
        """A session about this run's model, graph and task, which knows the names of nodes and classes.

        Measures of some nodes only may name those of the split, e.g. `loss:test`. `engine` is a folder that
        `nora.prepare` made for this run's model, graph and task.

        Example:
            >>> import nora
            >>> session = nora.train("gcn", "karate", epochs=5, progress=False).session()
            >>> session.what_if(["member 1", 33]).removed
            (0, 33)
        """
        from nora.questions.session import Session

        about: dict[str, Any] = {
            "targets": targets,
            "names": self.dataset.node_names,
            "class_names": self.dataset.class_names,
            "masks": self._masks(),
        }
        if engine is not None:
            return Session.open(engine, self.model, self.task, data=self.data, **about)
        return Session(self.model, self.data, self.task, **about)

    def _masks(self) -> dict[str, Tensor]:
        """Masks of the split's nodes, where it is one of nodes."""
        if not isinstance(self.split, NodeSplit):
            return {}
        found = {}
        for part in ("train", "val", "test"):
            found[part] = torch.zeros(int(self.data.num_nodes or 0), dtype=torch.bool)
            found[part][getattr(self.split, part)] = True
        return found

    def influence(self, method: str = "auto", *, targets: Any = None, **asked: Any) -> Influence:
        """`Session.influence` of a session of its own."""
        return self.session(targets=targets).influence(method, **asked)

    def what_if(self, remove: Any = (), *, targets: Any = None, **asked: Any) -> Effect:
        """`Session.what_if` of a session of its own."""
        return self.session(targets=targets).what_if(remove, **asked)

    def save(self, folder: str | Path, replace: bool = False) -> Path:
        """Write the run to `folder`; an existing folder is an error unless `replace`."""
        about = self.describe()
        with artefact.write_artefact(Path(folder), KIND, VERSION, replace=replace) as new:
            write_tensors(self.model.state_dict(), new.folder / WEIGHTS)
            write_split(self.split, new.folder)
            if keeps_its_graph(self.dataset):
                write_dataset(self.dataset, new.folder)
            elif place := self.data_folder or given_folder():
                about["data_folder"] = str(place.absolute())
            new.facts |= about
        return Path(folder)


def load_run(folder: str | Path) -> Run:
    """Load a run: build the model, and load weights, data and split.

    NORA first compares every file with its digest; an error names the file that differs. A dataset that is
    not saved with the run is looked up as in `nora.load_dataset`: in the folder that `NORA_DATA` names and in
    the cache, never in a folder that the run names.

    Args:
        folder: A folder that `Run.save` or `nora train` wrote; no code in it is executed.

    Returns:
        The run, as it was saved.

    Raises:
        FileNotFoundError: When the folder holds no run.
        ValueError: When a file cannot be read, or was changed after it was saved.

    Example:
        >>> import nora, tempfile
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = nora.load_run(run.save(folder + "/run"))
        >>> again.metrics["epochs"]
        5
    """
    path = path_of(folder, "folder")
    found = open_run(path)
    about = found.facts
    try:
        _check_facts(about)
        model = _model_of(path, about["architecture"])
        where = {"cycle": about["cycle"], "seed": about["seed"]}
        name, task = about["dataset"], about["task"]
    except (KeyError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(
            f"the settings in {path} are not readable as a run: {_reason(error)}; {REMEDY}"
        ) from error
    place = Path(str(about["data_folder"])) if "data_folder" in about else None
    carried = GRAPH in found.files
    dataset = read_dataset(path) if carried else _found_dataset(path, name, place)
    # Runs saved before they carried their split have the one of their cycle and seed.
    has_split = SPLIT in found.files
    split = read_split(dataset, task, path) if has_split else split_of(dataset, task, **where)
    data = graph_for(dataset, split)
    if about.get("graph") != graph_fingerprint(data):
        raise ValueError(
            f"{path / GRAPH} is not the graph that the run was trained on; {REMEDY}"
            if carried
            else f"the run in {path} was trained on another version of {name!r}; train it again"
        )
    return Run(
        model=model.eval(),
        architecture=about["architecture"],
        dataset=dataset,
        data=data,
        task=task_for(task, split, model),
        split=split,
        training=about.get("training", {}),
        metrics=about.get("metrics", {}),
        inputs=tuple(about.get("inputs", ())),
        data_folder=place,
        **where,
    )


def _model_of(path: Path, made: dict[str, Any]) -> nn.Module:
    """The model of an architecture, with the weights in a folder."""
    weights = read_tensors(path / WEIGHTS, "this model's weights")
    _check_sizes(made, weights)
    model = build_model(made["name"], made["in_channels"], made["out_channels"], **made["sizes"])
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(
            f"{path / WEIGHTS} does not hold this model's weights: {short(error)}"
        ) from error
    return model


def _check_facts(about: dict[str, Any]) -> None:
    """Raise for settings that are not of the type that was saved."""
    if about["task"] not in ("node", "link"):
        raise TypeError(f"the task is {about['task']!r}, expected 'node' or 'link'")
    for key in ("training", "metrics"):
        if not isinstance(about.get(key, {}), dict):
            raise TypeError(f"{key} is {about[key]!r}, expected a table")
    inputs = about.get("inputs", [])
    if not isinstance(inputs, list) or not all(isinstance(one, dict) for one in inputs):
        raise TypeError("inputs is not a list of files")


def _reason(error: Exception) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)


def _check_sizes(made: dict[str, Any], weights: dict[str, Tensor]) -> None:
    """Raise if the described model is far larger than its weights, before memory is allocated."""
    total = sum(value.numel() for value in weights.values())
    sizes = {**made["sizes"], **{key: made[key] for key in ("in_channels", "out_channels")}}
    for key, size in sizes.items():
        most = len(weights) if key == "num_layers" else total
        if isinstance(size, int) and not isinstance(size, bool) and not 0 <= size <= most:
            raise ArithmeticError(f"{key} is {size}, but there are {most:,} weights")


def _found_dataset(path: Path, name: str, place: Path | None) -> Dataset:
    """The dataset of that name, from where the user has datasets; `place` is named and never opened."""
    if not isinstance(name, str) or DATASETS.get(name) is None:
        raise FileNotFoundError(
            f"{path / GRAPH} is missing, which holds the graph {name!r} of this run; {REMEDY}"
        )
    try:
        return load_dataset(name)
    except DatasetUnavailableError as error:
        if place is None:
            raise
        raise DatasetUnavailableError(
            f"{error}. The run in {path} was trained with NORA_DATA={str(place)!r}: set it to that folder if "
            "you trust it, a run does not choose what is read"
        ) from error


def about_task(run: Run, task: str) -> Run:
    """The same weights asked about another task, of a model that is trained for both at once.

    Args:
        run: A run of a model that takes its task (`needs=("task", …)` on registration).
        task: `node` or `link`.
    """
    if run.task.name == task:
        return run
    made = {**run.architecture, "sizes": {**run.architecture["sizes"], "task": task}}
    model = build_model(made["name"], made["in_channels"], made["out_channels"], **made["sizes"])
    model.load_state_dict(run.model.state_dict())
    posed = task_for(task, run.split, model)
    return replace(run, model=model.eval(), architecture=made, task=posed)


def split_of(dataset: Dataset, task: str, cycle: int, seed: int) -> Split:
    """The dataset's cyclic split for a task; of a graph with relations, the one for both tasks."""
    if isinstance(dataset.data, HeteroData):
        ratios = dataset.node_ratios, dataset.link_ratios
        return split_relations(dataset.data, *ratios, cycle, seed, dataset.negatives)
    if task == "node":
        return split_nodes(dataset.data.y, dataset.node_ratios, cycle, seed)
    return split_links(dataset.data, dataset.link_ratios, cycle, seed, dataset.negatives)


def graph_for(dataset: Dataset, split: Split) -> Data:
    """The graph the model may see."""
    return dataset.data if isinstance(split, NodeSplit) else split.data


def task_for(task: str, split: Split, model: nn.Module) -> Task:
    """The task to ask about: all nodes, or all positive and negative pairs (of all relations)."""
    if task == "node" or isinstance(split, NodeSplit):
        return NodeClassification()
    if isinstance(split, RelationalSplit):
        decoder: Any = model.decoder
        return LinkPrediction(split.pairs, decoder=decoder, relation=split.relation)
    return LinkPrediction(split.pairs)
