"""Measures of changed predictions: one file per measure.

A measure gives every prediction that changes a number, and an influence is the sum of these numbers. It is
made for the predictions at hand, by a function `(items, argument) -> Measure`: `argument` is the
part after the colon of `class:2` or `loss:test`, or empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

from nora.model.task import Predicts
from nora.registry import NoFacts, Registry, nearest

# (before [Q, …], after [Q, …], items [Q]) -> value of each [Q].
MeasureValue = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Items:
    """Facts about the predictions that are measured.

    Attributes:
        predicts: What a prediction is.
        count: How many there are.
        columns: How many numbers a prediction has; 0 where it is one number without an axis.
        counted: Mask `[count]` of those that count; None for all.
        classes: The classes whose change alone counts; None for all.
        labels: What they should be `[count]` or `[count, C]`; unknown ones are negative or NaN.
        masks: Masks `[count]` by name, e.g. of the test nodes.
        class_names: The classes' names.
    """

    predicts: Predicts
    count: int
    columns: int
    counted: Tensor | None = None
    classes: tuple[int, ...] | None = None
    labels: Tensor | None = None
    masks: Mapping[str, Tensor] = field(default_factory=dict)
    class_names: tuple[str, ...] | None = None

    def reject(self, measure: str, wanted: str) -> None:
        """Raise, because the predictions are not what a measure is of."""
        raise ValueError(f"measure {measure!r} is for {wanted}; the task predicts {self.predicts}")

    def labelled(self, measure: str, mask: str) -> Tensor:
        """Mask `[count]` of the items whose truth is known, that count, and that `mask` names.

        Args:
            measure: The measure that needs them, for messages.
            mask: `test` for `data.test_mask`; empty for all.
        """
        labels = self.labels
        if self.predicts == "links":
            raise ValueError(
                f"measure {measure!r} compares nodes with data.y; the task predicts links"
            )
        if labels is None:
            raise ValueError(f"measure {measure!r} compares with labels, but data has no y")
        known = ~labels.isnan() if labels.is_floating_point() else labels >= 0
        known = known.reshape(len(known), -1).all(dim=1)
        if self.counted is not None:
            known = known & self.counted.to(known.device)
        if mask:
            name = mask.removesuffix("_mask")
            if name not in self.masks:
                there = ", ".join(self.masks) or "none"
                hint = nearest(name, list(self.masks))
                raise ValueError(
                    f"measure '{measure}:{mask}' needs data.{name}_mask.{hint} Masks there are: {there}"
                )
            known = known & self.masks[name].to(known.device)
        if not bool(known.any()):
            raise ValueError(
                f"measure {measure!r}: no prediction that counts has a label to compare"
            )
        return known

    def class_labels(self, measure: str, mask: str) -> tuple[Tensor, Tensor]:
        """True classes `[count]` and the mask of those that are known, see `labelled`."""
        known = self.labelled(measure, mask)
        assert self.labels is not None
        labels = self.labels.squeeze(1) if self.labels.dim() == 2 else self.labels
        if labels.dim() != 1:
            raise ValueError(
                f"measure {measure!r} needs one class per node in data.y, got {list(labels.shape)}"
            )
        largest = int(labels[known].max())
        if largest >= self.columns:
            raise ValueError(
                f"measure {measure!r}: data.y names class {largest}, the model predicts {self.columns} "
                "classes"
            )
        return labels.long(), known

    def class_id(self, name: str, measure: str = "class") -> int:
        """A class by its number or name."""
        names = self.class_names or ()
        if name in names:
            return names.index(name)
        if name.isdecimal() and int(name) < self.columns:
            return int(name)
        known = (
            f"{', '.join(names)} or 0 … {self.columns - 1}" if names else f"0 … {self.columns - 1}"
        )
        hint = nearest(name, list(names)) if names else ""
        raise ValueError(f"{measure} {name!r} is not a class of this model.{hint} It has: {known}")


@dataclass(frozen=True, eq=False)
class Measure:
    """One measure of the predictions at hand.

    Attributes:
        value: `(before, after, items) -> value of each item`.
        largest: No prediction's value is larger than this, whatever changes.
        signed: Whether values may be negative: then they are ranked by size.
    """

    value: MeasureValue
    largest: float = float("inf")
    signed: bool = True


MEASURES: Registry[Callable[[Items, str], Measure], NoFacts] = Registry(
    "measure", __name__, NoFacts()
)


def takes_no_argument(name: str, argument: str) -> None:
    """Raise when a measure without an argument has one."""
    if argument:
        raise ValueError(f"measure {name!r} takes no argument, got '{name}:{argument}'")


def in_full(values: Tensor) -> Tensor:
    """Predictions in single precision at least."""
    return values.float() if values.element_size() < 4 else values


def flipped(predicts: Predicts, before: Tensor, after: Tensor) -> Tensor:
    """Which predictions name another class, other labels or another link `[Q]`."""
    if predicts == "classes":
        return before.argmax(dim=-1) != after.argmax(dim=-1)
    crosses = (before > 0.5) != (after > 0.5)
    return crosses.any(dim=-1) if crosses.dim() > 1 else crosses
