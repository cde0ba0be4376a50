"""From options (`measure=["flips", "class:2"], by="camp"`) to sums over predictions that change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from nora.arguments import shown
from nora.graph.node_index import Graph, NodeIndex, node_index_of
from nora.model.measures import MEASURES, Items, Measure
from nora.model.problem import Problem
from nora.options import option
from nora.registry import nearest

# A name from `nora.model.measures`, a function, several of them, or functions by name.
MeasureNames = str | Callable[..., Any] | Sequence[Any] | Mapping[str, Any]
# Groups of predictions: an attribute of the nodes, or one value per node.
By = str | Sequence[Any] | Tensor | np.ndarray
MOST_GROUPS = 100


@dataclass(frozen=True, eq=False)
class Groups:
    """Predictions in groups.

    Attributes:
        names: The groups' names.
        group: The group of each prediction `[items]`, −1 where it has none.
    """

    names: tuple[str, ...]
    group: Tensor


@dataclass(frozen=True, eq=False)
class Measuring:
    """Measures of the same predictions, summed over all of them and over each group.

    Attributes:
        measures: Each measure by the name of its column.
        counted: Mask `[items]` of the predictions that count; None for all.
        groups: Groups whose sums are reported, too; None for none.
        definition: Whether this is the change of all that is predicted, and nothing else.
    """

    measures: dict[str, Measure]
    counted: Tensor | None = None
    groups: Groups | None = None
    definition: bool = False

    @property
    def first(self) -> str:
        """The measure by which results are sorted."""
        return next(iter(self.measures))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns: each measure, then each of its groups, `flips of left`."""
        found: list[str] = []
        for name in self.measures:
            found.append(name)
            if self.groups is not None:
                found += [f"{name} of {group}" for group in self.groups.names]
        return tuple(found)

    def sums(
        self,
        before: Tensor,
        after: Tensor,
        items: Tensor,
        removal: Tensor,
        count: int,
        weight: Tensor | None = None,
    ) -> Tensor:
        """Every column of every removal `[count, columns]`, in double precision.

        Args:
            before: The changed predictions as they were `[Q, …]`.
            after: As they are after their removal `[Q, …]`.
            items: Which predictions they are `[Q]`.
            removal: Which removal each belongs to `[Q]`.
            count: How many removals there are.
            weight: How often each counts `[Q]`; None: once.
        """
        found = []
        groups = None if self.groups is None else self.groups.group.to(items.device)[items]
        for name, measure in self.measures.items():
            value = torch.as_tensor(measure.value(before, after, items), device=items.device)
            if value.shape != items.shape:
                raise ValueError(
                    f"the measure {name!r} must give one value per item, {list(items.shape)}; it gave "
                    f"{list(value.shape)}"
                )
            value = value.double() if weight is None else value.double() * weight
            if self.counted is not None:
                value = torch.where(self.counted[items], value, torch.zeros_like(value))
            found.append(_summed(value, removal, count))
            if groups is not None and self.groups is not None:
                for at in range(len(self.groups.names)):
                    here = groups == at
                    found.append(_summed(value[here], removal[here], count))
        return torch.stack(found, dim=1)


def _summed(value: Tensor, removal: Tensor, count: int) -> Tensor:
    zeros = torch.zeros(count, dtype=torch.double, device=value.device)
    return zeros.index_add(0, removal, value)


def measures_of(asked: MeasureNames, items: Items) -> dict[str, Measure]:
    """The measures that are asked for, by the names of their columns.

    Raises:
        ValueError: When there is no such measure, or it does not fit the predictions.
    """
    if isinstance(asked, Mapping):
        given = [(str(name), one) for name, one in asked.items()]
    elif isinstance(asked, str) or callable(asked):
        given = [(_name(asked), asked)]
    elif isinstance(asked, Sequence):
        given = [(_name(one), one) for one in asked]
    else:
        raise TypeError(
            "measure must be a name, a function (before, after, items) -> values, or several of them; "
            f"got {type(asked).__name__}"
        )
    if not given:
        raise ValueError(f"measure is empty: name at least one, e.g. {option('measure', 'flips')}")
    found: dict[str, Measure] = {}
    for name, one in given:
        if name in found:
            raise ValueError(f"measure names {name!r} twice")
        found[name] = _made(one, items)
    return found


def _name(one: Any) -> str:
    if isinstance(one, str):
        return one
    name = str(getattr(one, "__name__", type(one).__name__))
    return "custom" if name == "<lambda>" else name


def _made(one: Any, items: Items) -> Measure:
    if isinstance(one, str):
        name, _, argument = one.partition(":")
        return MEASURES[name].value(items, argument)
    if not callable(one):
        raise TypeError(
            "a measure is a name or a function (before, after, items) -> values, got "
            f"{type(one).__name__}"
        )
    return Measure(one)


def items_of(
    problem: Problem,
    before: Tensor,
    classes: tuple[int, ...] | None = None,
    masks: Mapping[str, Tensor] | None = None,
    class_names: Sequence[str] | None = None,
) -> Items:
    """The facts about a problem's predictions that measures use.

    Args:
        problem: The question, on every class.
        before: Predictions on `G`.
        classes: The classes whose change alone counts; None for all.
        masks: More masks than `data` has, by name.
        class_names: The classes' names.
    """
    counted = problem.targets
    return Items(
        predicts=problem.task.predicts,
        count=len(before),
        columns=before.size(1) if before.dim() > 1 else 0,
        counted=counted,
        classes=classes,
        labels=labels_in(problem.data, counted) if problem.task.item == "node" else None,
        masks={**masks_in(problem.data), **(masks or {})} if problem.task.item == "node" else {},
        class_names=None if class_names is None else tuple(map(str, class_names)),
    )


def labels_in(data: Graph, counted: Tensor | None = None) -> Tensor | None:
    """`y` of all nodes by global ids; where nodes have types, of the first type that counts and has one."""
    if not isinstance(data, HeteroData):
        y = data.get("y")
        right = isinstance(y, Tensor) and y.dim() > 0 and len(y) == int(data.num_nodes or 0)
        return y if right else None
    index = node_index_of(data)
    for kind in index.types:
        y = data[kind].get("y")
        if not isinstance(y, Tensor) or len(y) != index.counts[index.types.index(kind)]:
            continue
        if counted is not None and not bool(counted[index.span(kind)].any()):
            continue
        unknown = float("nan") if y.is_floating_point() else -1
        whole = torch.full((index.total, *y.shape[1:]), unknown, dtype=y.dtype)
        whole[index.span(kind)] = y.cpu() if y.dtype != torch.bool else y.long().cpu()
        return whole
    return None


def masks_in(data: Graph) -> dict[str, Tensor]:
    """The masks `[N]` of a graph by name, `data.test_mask` as `test`."""
    index = node_index_of(data)
    found: dict[str, Tensor] = {}
    for kind, store in zip(index.types or (None,), data.node_stores, strict=True):
        for key, value in store.items():
            fits = isinstance(value, Tensor) and value.dtype == torch.bool and value.dim() == 1
            if not (fits and str(key).endswith("_mask")):
                continue
            span = slice(0, index.total) if kind is None else index.span(kind)
            if len(value) == span.stop - span.start:
                name = str(key).removesuffix("_mask")
                mask = found.setdefault(name, torch.zeros(index.total, dtype=torch.bool))
                mask[span] = value.cpu()
    return found


def groups_of(
    by: By | None, data: Graph, items: Items, class_names: Sequence[str] | None = None
) -> Groups | None:
    """Groups of predictions by a categorical attribute of their nodes.

    Args:
        by: The attribute's name in `data`, or one value per node.
        data: The graph.
        items: The predictions.
        class_names: What the values of `y` are called.
    """
    if by is None:
        return None
    if items.predicts == "links":
        raise ValueError(f"{option('by')} groups predictions of nodes; the task predicts links")
    index = node_index_of(data)
    values = _values_by(by, data, index) if isinstance(by, str) else _listed(by)
    if len(values) != items.count:
        raise ValueError(f"by must have one value per node, {items.count}; got {len(values)}")
    named = class_names if isinstance(by, str) and by == "y" else None
    known = [value for value in dict.fromkeys(values) if not _is_unknown(value)]
    with suppress(TypeError):  # of several types: in order of appearance
        known.sort()
    if len(known) > MOST_GROUPS:
        raise ValueError(
            f"by has {len(known):,} different values: it must be categorical, with at most {MOST_GROUPS}"
        )
    if not known:
        raise ValueError("by has no known value: give at least one node a group")
    place = {value: at for at, value in enumerate(known)}
    group = torch.tensor([-1 if _is_unknown(value) else place[value] for value in values])
    names = tuple(
        str(named[value]) if named is not None and int(value) < len(named) else str(value)
        for value in known
    )
    return Groups(names, group)


def _values_by(name: str, data: Graph, index: NodeIndex) -> list[Any]:
    """The values of an attribute for all nodes by global ids, None where a type has none."""
    found: list[Any] = []
    any_has = False
    kinds: Sequence[Any] = index.types or (None,)
    for kind, count in zip(kinds, index.counts, strict=True):
        store = data if kind is None else data[kind]
        value = store.get(name)
        if value is None:
            found += [None] * count
            continue
        any_has = True
        found += _listed(value)
    if not any_has:
        there = sorted({str(key) for store in data.node_stores for key in store.to_dict()})
        raise ValueError(
            f"{option('by', name)} is not an attribute of the nodes.{nearest(name, there)}"
        )
    return found


def _listed(values: Any) -> list[Any]:
    if isinstance(values, Tensor):
        values = values.squeeze(1) if values.dim() == 2 and values.size(1) == 1 else values
        if values.dim() != 1:
            raise ValueError(f"by must be one value per node, got shape {list(values.shape)}")
        return list(values.tolist())
    values = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(values, Iterable):
        raise TypeError(
            f"by must be the name of a node attribute, or one value per node; got {shown(values)}"
        )
    return list(values)


def _is_unknown(value: Any) -> bool:
    """Whether a value means "unknown": None, NaN or −1."""
    return value is None or value != value or (isinstance(value, int) and value == -1)
