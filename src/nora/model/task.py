"""Tasks: what a model predicts, and how a change of its predictions is measured.

A task turns the model's output into *items*: one row per node (`NodeTask`) or one number per pair of
nodes. The effect of a removal is the change of every item that survives it, and the influence its L1
norm:

    F(r) = Σ_{i≠r} ‖p_i(G) − p_i(G−r)‖₁               nodes
    F(r) = Σ_{(i,j)∈D, i,j≠r} |q_ij(G) − q_ij(G−r)|   pairs

The tasks are in `nora.model.tasks`, one file each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

from torch import Tensor

Predicts = Literal["classes", "labels", "links", "values"]


class Task(ABC):
    """The base class of tasks.

    Attributes:
        name: How results name it.
        item: What a prediction is of: a `node`, or a `pair`.
    """

    name: ClassVar[str]
    item: ClassVar[Literal["node", "pair"]]

    @property
    @abstractmethod
    def predicts(self) -> Predicts:
        """One of several classes, any of several labels, links, or values."""

    @abstractmethod
    def predict(self, output: Tensor) -> Tensor:
        """Predictions of all items `[items]` or `[items, K]` from the model's output."""

    @abstractmethod
    def check(self, output: Tensor, num_nodes: int, rows: Tensor | None = None) -> None:
        """Raise when `output` is not what the task needs.

        Args:
            output: The model's output.
            num_nodes: How many nodes there are.
            rows: Mask `[N]` of the rows that are predictions; all by default.
        """

    @abstractmethod
    def num_items(self, num_nodes: int) -> int:
        """How many predictions there are."""

    @abstractmethod
    def survivors(self, keep: Tensor) -> tuple[Any, Tensor]:
        """The task on the reduced graph, and which items survive.

        Args:
            keep: Mask `[N]` of the nodes that stay.

        Returns:
            The task whose items are those of the reduced graph, and the mask `[items]` over this
            task's items that selects them, in the same order.
        """

    @abstractmethod
    def credit(self, prediction: Tensor, num_nodes: int) -> Tensor:
        """Each node's own share of the prediction `[N, K]`."""

    @abstractmethod
    def largest_change(self, columns: int) -> float:
        """The most by which a removal can change a prediction with this many columns; infinity if
        unbounded."""

    def scale(self, prediction: Tensor) -> float:
        """How large predictions are, beside which rounding is judged: 1 for probabilities."""
        return 1.0

    def check_labels(self, labels: Tensor, output: Tensor) -> None:  # noqa: B027 (most check nothing)
        """Raise when the graph's labels contradict the task."""

    def on_every_class(self) -> Task:
        """The same task with all classes counted."""
        return self

    @property
    def counted_classes(self) -> tuple[int, ...] | None:
        """The classes whose change alone counts; None for all."""
        return None


class NodeTask(Task):
    """A prediction for every node, or for every node of a type.

    Attributes:
        node_type: Which nodes have one, in a graph with several node types.
    """

    item = "node"
    node_type: str | None

    def num_items(self, num_nodes: int) -> int:
        """One per node."""
        return num_nodes

    def survivors(self, keep: Tensor) -> tuple[Any, Tensor]:
        """See `Task.survivors`: every node that stays keeps its prediction."""
        return self, keep

    def credit(self, prediction: Tensor, num_nodes: int) -> Tensor:
        """Its own prediction `[N, K]`."""
        return prediction


def item_change(before: Tensor, after: Tensor) -> Tensor:
    """L1 change of each item `[items]`, from predictions `[items]` or `[items, C]`.

    Predictions of half precision are subtracted and summed in single precision.
    """
    if before.element_size() < 4:
        before, after = before.float(), after.float()
    difference = (before - after).abs()
    return difference.sum(dim=-1) if difference.dim() > 1 else difference
