"""Every node's class: one of several, one of two, or any of several labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import Literal

import torch
from torch import Tensor

from nora.model.return_types import (
    DefaultReturnType,
    ReturnType,
    by_itself,
    check_range,
    checked_return_type,
    reject_rows_that_sum_to_one,
    reject_unit_interval,
)
from nora.model.task import NodeTask, Predicts

Mode = Literal["multiclass", "binary", "multilabel"]
MODES = ("multiclass", "binary", "multilabel")


@dataclass(frozen=True)
class NodeClassification(NodeTask):
    """Every node's class probabilities.

    Args:
        return_type: What the model returns: `raw` logits, `probs` or `log_probs`. Default: logits, with an
            error if the output looks like probabilities.
        classes: Count only the change of these classes' probabilities. Default: all classes. Stored sorted
            and without duplicates.
        node_type: The node type that is classified, in a `HeteroData`.
        mode: `multiclass`: one of several classes, from an output `[N, C]`. `binary`: one of two classes,
            from an output `[N]` or `[N, 1]` for the second class. `multilabel`: any number of labels, from an
            output `[N, C]`. Default: `multiclass` or `binary`, depending on the shape of the output.

    Example:
        >>> output = torch.tensor([[0.0, 0.0]])
        >>> NodeClassification().predict(output)
        tensor([[0.5000, 0.5000]])
        >>> NodeClassification(classes=[1]).predict(output)
        tensor([[0.5000]])
    """

    return_type: ReturnType | None = None
    classes: Sequence[int] | None = None
    node_type: str | None = None
    mode: Mode | None = None
    name = "node"

    def __post_init__(self) -> None:
        object.__setattr__(self, "return_type", checked_return_type(self.return_type))
        if self.mode is not None and self.mode not in MODES:
            raise ValueError(f"mode is {self.mode!r}; it must be one of {MODES}")
        if self.classes is not None:
            object.__setattr__(self, "classes", _class_ids(self.classes))

    @property
    def predicts(self) -> Predicts:
        """`classes`, or `labels` if each is decided independently."""
        return "labels" if self.mode == "multilabel" else "classes"

    @property
    def counted_classes(self) -> tuple[int, ...] | None:
        """The classes whose change alone counts; None for all."""
        return None if self.classes is None else tuple(self.classes)

    def predict(self, output: Tensor) -> Tensor:
        """Probabilities of the classes that count `[N, K]` from the model's output `[N, C]`."""
        found = self.probabilities(output)
        return found if self.classes is None else found[:, list(self.classes)]

    def probabilities(self, output: Tensor) -> Tensor:
        """Probabilities of all classes `[N, C]`; of two where the output is one number per node."""
        if _one_number(output) and self.mode != "multilabel":
            second = by_itself(output.reshape(len(output)), self.return_type)
            return torch.stack([1 - second, second], dim=-1)
        if self.mode == "multilabel":
            return by_itself(output, self.return_type)
        if self.return_type == "raw":
            return output.softmax(dim=-1)
        return output.exp() if self.return_type == "log_probs" else output

    def on_every_class(self) -> NodeClassification:
        """The same task with all classes counted."""
        return self if self.classes is None else replace(self, classes=None)

    def largest_change(self, columns: int) -> float:
        """The most by which a removal can change a prediction of this many classes, in L1 norm.

        Probabilities that sum to one change by at most 2; others by at most 1 in every class.
        """
        sums_to_one = self.mode != "multilabel" and self.return_type == "raw"
        return min(2.0, columns) if sums_to_one else float(columns)

    def check(self, output: Tensor, num_nodes: int, rows: Tensor | None = None) -> None:
        """Raise when `output` is not one row of classes per node, or of another return type."""
        _check_shape(self.mode, output, num_nodes)
        classes = self.probabilities(output[:1]).size(1)
        if self.classes is not None and self.classes[-1] >= classes:
            raise ValueError(
                f"classes name class {self.classes[-1]}: the model predicts {classes} classes "
                f"(0 … {classes - 1})"
            )
        counted = output if rows is None else output[rows]
        if isinstance(self.return_type, DefaultReturnType):
            if _one_number(output) or self.mode == "multilabel":
                reject_unit_interval(counted, "the model", "NodeClassification")
            else:
                reject_rows_that_sum_to_one(counted)
        check_range(self.probabilities(counted), str(self.return_type))

    def check_labels(self, labels: Tensor, output: Tensor) -> None:
        """Raise when the labels `[N, C]` give nodes several classes, and the task does not."""
        if self.mode is not None or output.dim() != 2 or labels.dim() != 2:
            return
        if labels.size(1) != output.size(1) or labels.size(1) < 2:
            return
        known = labels[~labels.isnan().any(dim=1)] if labels.is_floating_point() else labels
        if bool(((known == 0) | (known == 1)).all()) and bool((known.sum(dim=1) != 1).any()):
            raise ValueError(
                f"data.y gives a node several of {labels.size(1)} labels or none: pass "
                "task=nora.NodeClassification(mode='multilabel') to take each label by itself, or "
                "mode='multiclass' if the classes exclude each other"
            )


def _one_number(output: Tensor) -> bool:
    """Whether an output has one number per node."""
    return output.dim() == 1 or (output.dim() == 2 and output.size(1) == 1)


def _check_shape(mode: str | None, output: Tensor, num_nodes: int) -> None:
    """Raise unless an output is one row per node of the width that the mode needs."""
    one = f"[{num_nodes}] or [{num_nodes}, 1]"
    many = f"[{num_nodes}, classes ≥ 2]"
    wanted = {None: f"{many}, or {one} for two classes", "binary": one}.get(mode, many)
    fits = output.dim() in (1, 2) and output.size(0) == num_nodes
    single = fits and _one_number(output)
    if not fits or (mode == "binary" and not single) or (mode == "multiclass" and single):
        raise ValueError(
            f"node classification needs a model output of shape {wanted}; "
            f"the model returned {list(output.shape)}"
        )
    if mode == "multilabel" and output.dim() != 2:
        raise ValueError(
            f"with mode='multilabel' the model must return [{num_nodes}, labels]; it returned "
            f"{list(output.shape)}"
        )


def _class_ids(classes: Iterable[int]) -> tuple[int, ...]:
    """Sorted distinct class ids.

    >>> _class_ids([2, 0, 2])
    (0, 2)
    """
    given = classes.tolist() if hasattr(classes, "tolist") else classes
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"classes must be a list of class ids, e.g. classes=[2]; got {given!r}")
    given = list(given)
    # A mask would read as classes 0 and 1.
    if any(isinstance(one, bool) or not hasattr(one, "__index__") for one in given):
        raise TypeError(f"classes must hold class ids, which are whole numbers; got {given!r}")
    ids = sorted({index(one) for one in given})
    if not ids:
        raise ValueError("classes is empty: name at least one class, or leave it out for all")
    if ids[0] < 0:
        raise ValueError(f"classes name class {ids[0]}: classes are counted from 0")
    return tuple(ids)
