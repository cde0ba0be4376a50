"""What comes out: `Influence` (one score per node) and `Effect` (who changes, and how).

Both are values: they can be sliced, compared, merged, turned into a pandas frame, saved and loaded.
Parquet files carry their provenance inside; a CSV file has it beside it, in `<name>.meta.json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from nora.tables import read_table, typed_columns, write_table
from nora.task import item_change

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.figure import Figure

    from nora.numbering import Graph


@dataclass(frozen=True, eq=False)
class Influence:
    """One influence score per node, with how it was made.

    Attributes:
        scores: `[num_nodes]`, NaN for nodes that were not asked for.
        method: The method's name.
        task: `node` or `link`.
        options: The options it ran with.
        seconds: How long it took.
        details: Facts the method reports about its run.
        names: The nodes' names, when they have any.
        node_types: How many nodes of each type there are, one type after the other in `scores`; None
            in a graph of one type.

    Example:
        >>> scores = Influence(torch.tensor([0.5, 2.0, 1.0]), "brute")
        >>> scores.top(2)["node"].tolist()
        [1, 2]
        >>> scores = replace(scores, node_types={"author": 1, "paper": 2})
        >>> scores["paper", 0], scores.of("author").scores.tolist()
        (2.0, [0.5])
    """

    scores: Tensor
    method: str
    task: str = "node"
    options: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] | None = None
    node_types: Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        if self.names is not None and len(self.names) != len(self.scores):
            raise ValueError(f"{len(self.names)} names for {len(self.scores)} nodes")
        if self.node_types is not None and sum(self.node_types.values()) != len(self.scores):
            raise ValueError(f"node types {dict(self.node_types)} for {len(self.scores)} nodes")

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, node: int | tuple[str, int]) -> float:
        if isinstance(node, tuple):
            return self.of(node[0])[node[1]]
        if self.node_types is not None:
            example = (next(iter(self.node_types)), int(node))
            raise KeyError(f"nodes have types here: give e.g. {example}")
        return float(self.scores[node])

    def of(self, node_type: str) -> Influence:
        """The scores of one node type alone, numbered as the graph numbers them."""
        start = 0
        for name, count in (self.node_types or {}).items():
            if name == node_type:
                span = slice(start, start + count)
                names = None if self.names is None else self.names[span]
                return replace(self, scores=self.scores[span], names=names, node_types=None)
            start += count
        raise KeyError(f"no node type {node_type!r}; there are {list(self.node_types or ())}")

    def __repr__(self) -> str:
        scored = int((~self.scores.isnan()).sum())
        return (
            f"Influence(method={self.method!r}, task={self.task!r}, scored={scored} of "
            f"{len(self)} nodes, seconds={self.seconds:.3g})"
        )

    def _repr_html_(self) -> str:
        from nora.report.notebook import influence_html

        return influence_html(self)

    def to_frame(self) -> pd.DataFrame:
        """One row per scored node: `node`, `name` if there are names, `influence`, `rank`.

        In a graph with several node types `type` comes first, and `node` counts within it.
        """
        values = self.scores.detach().cpu().double().numpy()
        scored = np.flatnonzero(~np.isnan(values))
        frame = pd.DataFrame({"node": scored, "influence": values[scored]})
        if self.names is not None:
            frame.insert(1, "name", [self.names[node] for node in scored])
        frame = typed_columns(frame, self.node_types)
        frame["rank"] = frame["influence"].rank(ascending=False, method="first").astype(int)
        return frame

    def top(self, k: int = 10) -> pd.DataFrame:
        """The `k` most influential nodes, the first first; equal scores in order of node id."""
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        frame = self.to_frame().sort_values("rank").head(k)
        return frame.reset_index(drop=True)

    def to_networkx(self, data: Graph, **known: Any) -> nx.Graph | nx.DiGraph:
        """The graph with these scores on its nodes: see `nora.to_networkx`."""
        from nora.export import to_networkx

        return to_networkx(data, self, **known)

    def plot(self, k: int = 15, data: Graph | None = None) -> Figure:
        """The `k` most influential nodes beside a Lorenz curve or, with `data`, their degrees."""
        from nora.report.influence_plot import influence_plot

        return influence_plot(self, k, data)

    def compare(self, other: Influence) -> dict[str, float]:
        """Agreement with `other` on the nodes both scored: see `nora.evaluation.agreement`."""
        from nora.evaluation import agreement

        if len(self) != len(other):
            raise ValueError(f"cannot compare scores of {len(self)} and {len(other)} nodes")
        both = ~(self.scores.isnan() | other.scores.isnan())
        return agreement(self.scores[both], other.scores[both])

    @staticmethod
    def merge(parts: Iterable[Influence]) -> Influence:
        """Join partial runs of the same method on the same graph into one.

        Raises:
            ValueError: When the parts differ in method, task, options or size, or disagree.
        """
        parts = list(parts)
        if not parts:
            raise ValueError("nothing to merge")
        first = parts[0]
        scores = first.scores.clone()
        for part in parts[1:]:
            for what in ("method", "task", "options"):
                if getattr(part, what) != getattr(first, what):
                    raise ValueError(
                        f"parts differ in {what}: {getattr(first, what)} and {getattr(part, what)}"
                    )
            if part.details.get("classes") != first.details.get("classes"):
                raise ValueError("parts differ in the classes that count")
            if part.node_types != first.node_types:
                raise ValueError("parts differ in the graph's node types")
            if len(part) != len(first):
                raise ValueError(f"parts have {len(first)} and {len(part)} nodes")
            new, both = ~part.scores.isnan(), ~(part.scores.isnan() | scores.isnan())
            if not torch.allclose(part.scores[both], scores[both], rtol=1e-3, atol=1e-5):
                raise ValueError("parts give different scores to the same node")
            scores[new] = part.scores[new]
        return replace(first, scores=scores, seconds=sum(part.seconds for part in parts))

    def save(self, path: str | Path) -> Path:
        """Write all scored nodes to a `.parquet` or `.csv` file; provenance is kept."""
        return write_table(self.to_frame(), self.provenance(), Path(path))

    def provenance(self) -> dict[str, Any]:
        """How the scores were made, as it is kept beside them."""
        return {
            "kind": "influence",
            "method": self.method,
            "task": self.task,
            "options": dict(self.options),
            "seconds": self.seconds,
            "details": dict(self.details),
            "num_nodes": len(self),
            "node_types": None if self.node_types is None else dict(self.node_types),
            "dtype": str(self.scores.dtype).removeprefix("torch."),
        }

    @staticmethod
    def load(path: str | Path) -> Influence:
        """Read what `save` wrote."""
        frame, provenance = read_table(Path(path), "influence")
        dtype = getattr(torch, provenance["dtype"])
        scores = torch.full((provenance["num_nodes"],), float("nan"), dtype=dtype)
        types = provenance.get("node_types")
        if types is not None:
            starts = dict(zip(types, np.cumsum([0, *types.values()]), strict=False))
            frame["node"] += frame["type"].map(starts).astype("int64")
        nodes = torch.as_tensor(frame["node"].to_numpy(copy=True))
        scores[nodes] = torch.as_tensor(frame["influence"].to_numpy(copy=True)).to(dtype)
        names: tuple[str, ...] | None = None
        if "name" in frame:
            named = [""] * len(scores)
            for node, name in zip(frame["node"], frame["name"], strict=True):
                named[node] = str(name)
            names = tuple(named)
        return Influence(
            scores=scores,
            names=names,
            node_types=types,
            **{key: provenance[key] for key in ("method", "task", "options", "seconds", "details")},
        )


@dataclass(frozen=True, eq=False)
class Effect:
    """What happens to every prediction when some nodes or edges are removed together.

    Attributes:
        removed: The removed nodes.
        before: Predictions on `G`: probabilities of all classes `[N, C]`, or of links `[P]`.
        after: Predictions on `G − removed`, NaN for items that went with the removed nodes.
        counted: Mask `[items]`: items that survive and, if targets were given, are targets.
        task: `node` or `link`.
        pairs: The node pairs `[2, P]` of a link task.
        names: The nodes' names, when they have any.
        classes: The classes whose change counts; None for all.
        removed_edges: The removed edges; in an undirected graph each is both directions.
        node_types: As in `Influence`; items and pairs then count all nodes, type after type.
        multilabel: Whether a node may have any of the classes, each decided by itself.
        removal: What became of the removed nodes: `deleted`, or `isolated` where the model has weights
            by node id.
    """

    removed: tuple[Any, ...]
    before: Tensor
    after: Tensor
    counted: Tensor
    task: str = "node"
    pairs: Tensor | None = None
    names: tuple[str, ...] | None = None
    classes: tuple[int, ...] | None = None
    removed_edges: tuple[tuple[int, int], ...] = ()
    node_types: Mapping[str, int] | None = None
    multilabel: bool = False
    removal: str = "deleted"

    @property
    def change(self) -> Tensor:
        """L1 change of each item `[items]` on the classes that count; 0 for items that do not."""
        before, after = self.before, self.after
        if self.classes is not None:
            before, after = before[:, list(self.classes)], after[:, list(self.classes)]
        change = item_change(before, after)
        return torch.where(self.counted, change, torch.zeros_like(change))

    @property
    def total(self) -> float:
        """`F(removed)`: the summed change."""
        return float(self.change.sum())

    def __repr__(self) -> str:
        what = "nodes" if self.task == "node" else "pairs"
        changed = int((self.change > 0).sum())
        edges = f"removed_edges={list(self.removed_edges)}, " if self.removed_edges else ""
        classes = "" if self.classes is None else f"classes={list(self.classes)}, "
        return (
            f"Effect(removed={list(self.removed)}, {edges}{classes}total={self.total:.6g}, "
            f"{what} changed={changed}, flipped={len(self.flips())})"
        )

    def _repr_html_(self) -> str:
        from nora.report.notebook import effect_html

        return effect_html(self)

    def to_frame(self) -> pd.DataFrame:
        """One row per counted item.

        Nodes: `node`, `change`, `from_class`, `to_class`, `flipped`. Pairs: `source`, `target`,
        `change`, `before`, `after`, `flipped` (the probability crosses one half). Nodes with any of
        several labels: `node`, `change`, `label` (the one that moves most), its probability `before`
        and `after`, `flipped` (another set of labels is predicted).
        """
        items = self.counted.nonzero().flatten()
        before, after = self.before[items], self.after[items]
        # NumPy has no bfloat16, and half precision is hard to read.
        if before.element_size() < 4:
            before, after = before.float(), after.float()
        columns: dict[str, Any] = {"node": items}
        if self.multilabel:
            moved, flipped = self.labels_moved(before, after)
            each = torch.arange(len(items), device=items.device)
            rest = {"label": moved, "before": before[each, moved], "after": after[each, moved]}
            rest |= {"flipped": flipped}
        elif self.task == "node":
            start, end = before.argmax(dim=-1), after.argmax(dim=-1)
            rest = {"from_class": start, "to_class": end, "flipped": start != end}
        else:
            assert self.pairs is not None
            source, target = self.pairs[:, items]
            columns = {"source": source, "target": target}
            rest = {"before": before, "after": after, "flipped": (before > 0.5) != (after > 0.5)}
        columns = {**columns, "change": self.change[items], **rest}
        frame = pd.DataFrame({key: value.cpu().numpy() for key, value in columns.items()})
        if self.names is not None:
            for key in ("node", "source", "target"):
                if key in frame:
                    at = list(frame.columns).index(key) + 1
                    label = "name" if key == "node" else f"{key}_name"
                    frame.insert(at, label, [self.names[node] for node in frame[key]])
        return typed_columns(frame, self.node_types)

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
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        frame = self.to_frame().sort_values("change", ascending=False, kind="stable")
        return frame.head(k).reset_index(drop=True)

    def flips(self) -> pd.DataFrame:
        """The items whose predicted class (or link decision) changes, largest change first."""
        frame = self.to_frame()
        frame = frame[frame["flipped"]].sort_values("change", ascending=False, kind="stable")
        return frame.reset_index(drop=True)

    def plot(self, k: int = 15, class_names: Sequence[str] | None = None) -> Figure:
        """The `k` items that change most, each from before to after; flips stand out."""
        from nora.report.effect_plot import effect_plot

        return effect_plot(self, k, class_names)

    def save(self, path: str | Path) -> Path:
        """Write `to_frame()` to a `.parquet` or `.csv` file, with what was removed."""
        provenance = {
            "kind": "effect",
            "removed": list(self.removed),
            "removed_edges": [list(edge) for edge in self.removed_edges],
            "classes": None if self.classes is None else list(self.classes),
            "task": self.task,
            "total": self.total,
        }
        return write_table(self.to_frame(), provenance, Path(path))
