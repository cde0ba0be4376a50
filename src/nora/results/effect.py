"""`Effect`: who changes when a graph is edited, by how much, towards which class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pandas as pd
import torch
from torch import Tensor

from nora.arguments import check_whole, path_of
from nora.graph.naming import Naming
from nora.model.edited import Changes
from nora.model.measures import Items
from nora.model.task import Predicts, item_change
from nora.results.saving import Result
from nora.results.tables import (
    facts_of,
    read_table,
    read_table_tensors,
    rebuilt,
    restored,
    split_node_ids,
    with_names,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nora.graph.node_index import Graph
    from nora.model.measuring import By, MeasureNames

FLIPPING = {
    "classes": "to another class",
    "labels": "to other labels",
    "links": "across 0.5",
}
# A prediction of classes or links has *changed* when its probabilities move by at least this, added up; a
# predicted number when it moves by more than so many units in the last place of the largest one.
NOTICEABLE, ROUNDING = 0.01, 16


@dataclass(frozen=True, eq=False)
class Effect(Result):
    """How every prediction changes when nodes, edges and features are edited together.

    Attributes:
        removed: The removed nodes.
        before: Predictions on `G`: probabilities of all classes `[N, C]`, or of links `[P]`.
        after: Predictions after the edit, NaN for items that were removed.
        counted: Mask `[items]` of the items that count: not removed and, if targets were given, targets.
        task: `node` or `link`.
        pairs: The node pairs `[2, P]` of a link task.
        names: Node names, if given.
        class_names: Class names, if given.
        classes: The classes whose change counts; None for all.
        removed_edges: The removed edges; in an undirected graph, each stands for both directions. In a
            `HeteroData`, each is `(edge type, source, target)`.
        added_edges: The added edges, likewise.
        changed_features: Nodes whose features were changed.
        added: Predictions of added nodes `[k, C]`; they do not count.
        node_types: As in `Influence`; the ids of items and pairs then count all nodes, one type after the
            other.
        predicts: What is predicted: one of several `classes`, any of several `labels`, `links`, or `values`.
        removal: How nodes were removed: `deleted`, or `isolated` if the model has weights per node id.
        targets: Mask `[items]` of the predictions that counted before the edit; None for all.
        fallback: Why a full pass was used instead of the engine. Empty if the engine was used, or if it was
            skipped because a single pass is cheaper than preparing it.

    Example:
        >>> before = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
        >>> after = torch.tensor([[0.9, 0.1], [0.3, 0.7], [float("nan")] * 2])
        >>> effect = Effect((2,), before, after, counted=torch.tensor([True, True, False]))
        >>> round(effect.total, 2), effect.flips()["node"].tolist()
        (0.6, [1])
    """

    beside: ClassVar = ("before", "after", "counted", "pairs", "added", "targets")

    removed: tuple[Any, ...]
    before: Tensor
    after: Tensor
    counted: Tensor
    task: str = "node"
    pairs: Tensor | None = None
    names: tuple[str, ...] | None = None
    classes: tuple[int, ...] | None = None
    removed_edges: tuple[Any, ...] = ()
    added_edges: tuple[Any, ...] = ()
    changed_features: tuple[Any, ...] = ()
    added: Tensor | None = None
    node_types: Mapping[str, int] | None = None
    predicts: str = ""
    removal: str = "deleted"
    targets: Tensor | None = None
    fallback: str = ""
    class_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not self.predicts:
            object.__setattr__(self, "predicts", "classes" if self.pairs is None else "links")

    @staticmethod
    def of_changes(changes: Changes, before: Tensor | Callable[[], Tensor], **about: Any) -> Effect:
        """Create an effect from the changed rows; full tensors are built on first access.

        Args:
            changes: What changes.
            before: Predictions on `G`, or what makes them.
            **about: As for `Effect`.
        """
        none = torch.empty(0)
        effect = Effect(before=none, after=none, counted=none, **about)
        for name in ("before", "after", "counted"):
            del vars(effect)[name]
        vars(effect).update(_changes=changes, _make_before=before)
        if isinstance(before, Tensor):
            vars(effect)["before"] = before
        return effect

    def __getattr__(self, name: str) -> Any:
        changes: Changes | None = vars(self).get("_changes")
        if changes is None or name not in ("before", "after", "counted"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name == "before":
            made = vars(self)["_make_before"]()
        elif name == "after":
            made = changes.predictions(self.before)
        else:
            made = changes.survivors(len(self.before))
            made = made if self.targets is None else made & self.targets
        vars(self)[name] = made
        return made

    @cached_property
    def changed(self) -> Tensor:
        """The counted items whose predictions differ after the edit, ascending `[q]`."""
        changes: Changes | None = vars(self).get("_changes")
        if changes is None:
            return (self.change != 0).nonzero().flatten()
        item = changes.item
        item = item if self.targets is None else item[self.targets[item]]
        return item[self._change(item) != 0]

    def _rows(self, items: Tensor) -> tuple[Tensor, Tensor]:
        """Predictions of some counted items before and after the edit."""
        changes: Changes | None = vars(self).get("_changes")
        if changes is None or "after" in vars(self):
            return self.before[items], self.after[items]
        at = torch.searchsorted(changes.item, items).clamp(max=max(len(changes.item) - 1, 0))
        moved = changes.item[at] == items if len(changes.item) else items < 0
        if changes.before is not None and bool(moved.all()):
            return changes.before[at], changes.after[at]
        before = self.before[items]
        after = before.clone()
        after[moved] = changes.after[at[moved]]
        return before, after

    def _change(self, items: Tensor) -> Tensor:
        """L1 change of some counted items on the classes that count."""
        before, after = self._rows(items)
        if self.classes is not None:
            before, after = before[:, list(self.classes)], after[:, list(self.classes)]
        return item_change(before, after)

    @property
    def item(self) -> str:
        """The unit of a prediction: a `node` or a `pair`."""
        return "node" if self.pairs is None else "pair"

    @property
    def flipping(self) -> str:
        """The words for a flip of this task; empty if predictions cannot flip."""
        return FLIPPING.get(self.predicts, "")

    @property
    def change(self) -> Tensor:
        """L1 change of each item `[items]` over the classes that count; 0 for items that do not count."""
        before, after = self.before, self.after
        if self.classes is not None:
            before, after = before[:, list(self.classes)], after[:, list(self.classes)]
        change = item_change(before, after)
        return torch.where(self.counted, change, torch.zeros_like(change))

    @property
    def noticed(self) -> int:
        """How many items have changed noticeably, as counted in tables, plots and pages.

        For probabilities, the threshold is `NOTICEABLE`: a change of 0.01, summed over the classes that
        count. For numbers, any change beyond rounding counts.
        """
        change = self._change(self.changed)
        if self.predicts != "values":
            return int((change >= NOTICEABLE).sum())
        known = self.before[self.counted]
        largest = float(known.abs().max()) if known.numel() else 0.0
        return int((change > ROUNDING * torch.finfo(known.dtype).eps * largest).sum())

    @property
    def total(self) -> float:
        """`F(removed)`: the summed change."""
        return float(self._change(self.changed).sum())

    def measured(
        self,
        measure: MeasureNames = "change",
        data: Graph | None = None,
        *,
        by: By | None = None,
        class_names: Sequence[str] | None = None,
        masks: Mapping[str, Tensor] | None = None,
    ) -> float | dict[str, float]:
        """Measure the effect by one or several other measures.

        Args:
            measure: As in `nora.influence`.
            data: The graph before the edit, for measures that look at `y` or its masks, and for `by`.
            by: As in `nora.influence`.
            class_names: Class names, for `class:NAME`; default: those of the effect.
            masks: Masks by name that are not in `data`, such as `{"test": mask}`.

        Returns:
            A number; for several measures or groups, a dictionary of numbers by column name.
        """
        from nora.model.measuring import Measuring, groups_of, labels_in, masks_in, measures_of

        class_names = self.class_names if class_names is None else class_names
        of_nodes = self.pairs is None and data is not None
        items = Items(
            predicts=cast(Predicts, self.predicts),
            count=len(self.before),
            columns=self.before.size(1) if self.before.dim() > 1 else 0,
            counted=self.targets,
            classes=self.classes,
            labels=labels_in(data, self.targets) if of_nodes and data is not None else None,
            masks={**(masks_in(data) if data is not None else {}), **(masks or {})},
            class_names=None if class_names is None else tuple(map(str, class_names)),
        )
        if by is not None and data is None:
            raise ValueError("by= needs the graph: effect.measured(…, data, by=…)")
        groups = None if data is None else groups_of(by, data, items, class_names)
        measuring = Measuring(measures_of(measure, items), self.counted, groups)
        at = self.counted.nonzero().flatten()
        sums = measuring.sums(self.before[at], self.after[at], at, torch.zeros_like(at), 1)
        found = dict(zip(measuring.columns, sums[0].tolist(), strict=True))
        single = isinstance(measure, str) or callable(measure)
        return found[measuring.first] if single and by is None else found

    def __repr__(self) -> str:
        naming = Naming(None if self.node_types else self.names)
        edits = "".join(
            f"{name}=[{naming.shown(getattr(self, name))}], "
            for name in ("removed_edges", "added_edges", "changed_features")
            if getattr(self, name)
        )
        classes = "" if self.classes is None else f"classes={list(self.classes)}, "
        return (
            f"Effect(removed=[{naming.shown(self.removed)}], {edits}{classes}total={self.total:.6g}, "
            f"{self.item}s changed={self.noticed}, flipped={len(self.flips())})"
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per counted item.

        Classes: `node`, `change`, `from_class`, `to_class`, `flipped`. Links: `source`, `target`, `change`,
        `before`, `after`, `flipped` (the probability crosses one half). Multiple labels: `node`, `change`,
        `label` (the one that changes most), its probability `before` and `after`, `flipped` (the set of
        predicted labels differs). Numbers: `node`, `change`, `before`, `after`, and `output` (the one that
        changes most) if there are several. If nodes or classes have names, there are further columns, such as
        `name` and `from_class_name`.
        """
        return self._frame(self.counted.nonzero().flatten())

    def _frame(self, items: Tensor) -> pd.DataFrame:
        """The rows of `to_frame` of some counted items."""
        before, after = self._rows(items)
        # NumPy has no bfloat16, and half precision is hard to read.
        if before.element_size() < 4:
            before, after = before.float(), after.float()
        columns: dict[str, Any] = {"node": items}
        if self.predicts == "labels":
            moved, flipped = self.labels_moved(before, after)
            each = torch.arange(len(items), device=items.device)
            rest = {"label": moved, "before": before[each, moved], "after": after[each, moved]}
            rest |= {"flipped": flipped}
        elif self.predicts == "values":
            moved = (before - after).abs().argmax(dim=-1, keepdim=True)
            rest = {} if before.size(1) == 1 else {"output": moved.squeeze(1)}
            rest |= {"before": before.gather(1, moved)[:, 0], "after": after.gather(1, moved)[:, 0]}
        elif self.predicts == "classes":
            start, end = before.argmax(dim=-1), after.argmax(dim=-1)
            rest = {"from_class": start, "to_class": end, "flipped": start != end}
        else:
            assert self.pairs is not None
            source, target = self.pairs[:, items]
            columns = {"source": source, "target": target}
            rest = {"before": before, "after": after, "flipped": (before > 0.5) != (after > 0.5)}
        columns = {**columns, "change": self._change(items), **rest}
        frame = pd.DataFrame({key: value.cpu().numpy() for key, value in columns.items()})
        frame = with_names(frame, self.names, self.class_names)
        return split_node_ids(frame, self.node_types)

    def labels_moved(self, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        """Which label moves most `[…]`, one that is gained or lost first; and whether any is.

        Args:
            before: Probabilities of all labels `[…, C]`.
            after: The same without the removed nodes.
        """
        crosses = (before > 0.5) != (after > 0.5)
        moved = (before - after).abs()
        if self.classes is not None:
            others = torch.ones(moved.size(-1), dtype=torch.bool, device=moved.device)
            others[list(self.classes)] = False
            moved = moved.masked_fill(others, -3.0)
        return (moved + 2.0 * crosses).argmax(dim=-1), crosses.any(dim=-1)

    def top(self, k: int = 10) -> pd.DataFrame:
        """The `k` items that change most."""
        check_whole("k", k, 1)
        items = self.changed
        if len(items) < k:  # some that do not change follow
            items = self.counted.nonzero().flatten()
        frame = self._frame(items).sort_values("change", ascending=False, kind="stable")
        return frame.head(k).reset_index(drop=True)

    def flips(self) -> pd.DataFrame:
        """The items whose predicted class (or link decision) changes, largest change first."""
        frame = self._frame(self.changed)
        flipped = frame["flipped"] if "flipped" in frame else pd.Series(False, frame.index)
        frame = frame[flipped].sort_values("change", ascending=False, kind="stable")
        return frame.reset_index(drop=True)

    def plot(self, k: int = 15, class_names: Sequence[str] | None = None) -> Figure:
        """Plot the `k` items that change most, before and after, with flips highlighted."""
        from nora.results.plots.effect import effect_plot

        return effect_plot(self, k, self.class_names if class_names is None else class_names)

    def provenance(self) -> dict[str, Any]:
        """The edits and the task, as `save` stores them."""
        return {**facts_of(self, *self.beside), "total": self.total}

    @staticmethod
    @restored
    def load(path: str | Path) -> Effect:
        """Load an effect written by `save`: the table and its predictions."""
        frame, provenance = read_table(path_of(path), "effect")
        tensors = read_table_tensors(path_of(path), provenance)
        effect = rebuilt(Effect, provenance, **tensors)
        if int(effect.counted.sum()) != len(frame):
            raise ValueError(
                f"the predictions beside {path} belong to another file: keep files that were saved together"
            )
        return effect
