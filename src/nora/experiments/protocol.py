"""How an experiment is run: ours, and as the paper's scripts do it.

`CLEAN` is what a user should trust: no test link carries messages, the labelled nodes are a random sample,
the epoch is chosen without dropout, and options are found on the labelled nodes. `PUBLISHED` does what the
paper's published scripts do, which is more than its text describes, so that its figures can be compared with.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from nora.datasets import Dataset
from nora.experiments.cells import Cell
from nora.methods.predict import divided_by_row_sums
from nora.training.fits import Selection
from nora.training.run_split import Split
from nora.training.runs import split_of
from nora.training.splits import few_shot, split_links, split_nodes
from nora.tuning.published import published_options


@dataclass(frozen=True)
class Protocol:
    """The choices by which two protocols of the same experiment differ.

    Attributes:
        name: Its name.
        features: As the dataset has them, or each row divided by its sum.
        self_loops: Whether GCN, GAT and GCNII add them.
        linear_ends: Whether GCNII has ReLU and dropout between its convolutions only.
        selection: How the epoch is chosen, as in `nora.train`.
        epochs: All are trained, at most so many; None leaves it to the profile, with early stopping.
        shuffle: Whether splits go through nodes and edges in a random order, or in the file's.
        message_edges: Along which edges a link model passes messages.
        labels: Which nodes methods may see the truth of.
        predictor_target: Predictors learn the truth of their `own` model, or the `mean` over all cycles.
        options: Methods' options are `tuned` on the labelled nodes, or those `published`.
    """

    name: str
    features: Literal["raw", "row-normalised"] = "raw"
    self_loops: bool = True
    linear_ends: bool = False
    selection: Selection = "eval"
    epochs: int | None = None
    shuffle: bool = True
    message_edges: Literal["training", "all"] = "training"
    labels: Literal["random", "first"] = "random"
    predictor_target: Literal["own", "mean"] = "own"
    options: Literal["tuned", "published"] = "tuned"

    def prepared(self, dataset: Dataset) -> Dataset:
        """The dataset with this protocol's features."""
        if self.features == "raw":
            return dataset
        data = copy.copy(dataset.data)
        data.x = divided_by_row_sums(data.x)
        return replace(dataset, data=data, own=True)

    def split(self, dataset: Dataset, task: str, cycle: int, seed: int) -> Split:
        """The split of a cycle."""
        if self.shuffle and self.message_edges == "training":
            return split_of(dataset, task, cycle, seed)
        data, shuffle = dataset.data, self.shuffle
        if task == "node":
            return split_nodes(data.y, dataset.node_ratios, cycle, seed, shuffle=shuffle)
        ratios, negatives = dataset.link_ratios, dataset.negatives
        found = split_links(data, ratios, cycle, seed, negatives, shuffle=shuffle)
        if self.message_edges == "training":
            return found
        return replace(found, data=data, message=torch.ones_like(found.message))

    def training(self, cell: Cell, settings: dict[str, Any]) -> dict[str, Any]:
        """Arguments for `nora.train`, from those of a profile."""
        found = dict(settings)
        if self.selection != "eval":
            found["selection"] = self.selection
        if self.epochs is not None:
            found["epochs"] = found["patience"] = min(self.epochs, settings["epochs"])
        if not self.self_loops and cell.model in ("gcn", "gat", "gcnii"):
            found["self_loops"] = False
        if self.linear_ends and cell.model == "gcnii":
            found["linear_ends"] = True
        return found

    def labelled(self, num_nodes: int, share: float, seed: int) -> Tensor:
        """The nodes whose truth methods may see, sorted."""
        if self.labels == "random":
            return few_shot(num_nodes, share, seed)
        return torch.arange(max(1, round(share * num_nodes)))

    def published_options(self, cell: Cell, method: str) -> dict[str, Any]:
        """A method's options in the paper; those of the node task where it has none for links."""
        try:
            return published_options(method, cell.model, cell.dataset, cell.task)
        except ValueError:
            if cell.task == "node":
                raise
            return published_options(method, cell.model, cell.dataset, "node")

    def check(self, cells: Sequence[Cell]) -> None:
        """Raise for cells of which the paper publishes no options, where they are needed."""
        if self.options == "published":
            for cell in cells:
                self.published_options(cell, "nora")

    @property
    def caption(self) -> str:
        """A sentence for what was made by it."""
        if self == CLEAN:
            return "Protocol clean."
        return (
            f"Protocol {self.name}: as the paper's scripts do it, with test links in message passing, the "
            "first nodes as the labelled ones, and the paper's options."
        )


CLEAN = Protocol("clean")
PUBLISHED = Protocol(
    "published",
    features="row-normalised",
    self_loops=False,
    linear_ends=True,
    selection="dropout",
    epochs=300,
    shuffle=False,
    message_edges="all",
    labels="first",
    predictor_target="mean",
    options="published",
)
PROTOCOLS = {protocol.name: protocol for protocol in (CLEAN, PUBLISHED)}
