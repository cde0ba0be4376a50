"""`Influence`: one score per node, with how it was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from nora.results.tables import read_table, split_node_ids, write_table

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.figure import Figure

    from nora.problem.node_index import Graph


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
        from nora.results.plots.notebook import influence_html

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
        frame = split_node_ids(frame, self.node_types)
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
        from nora.results.export import to_networkx

        return to_networkx(data, self, **known)

    def plot(self, k: int = 15, data: Graph | None = None) -> Figure:
        """The `k` most influential nodes beside a Lorenz curve or, with `data`, their degrees."""
        from nora.results.plots.influence import influence_plot

        return influence_plot(self, k, data)

    def compare(self, other: Influence) -> dict[str, float]:
        """Agreement with `other` on the nodes both scored: see `nora.results.agreement.agreement`."""
        from nora.results.agreement import agreement

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
