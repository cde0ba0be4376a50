"""`EdgeInfluence`: one score per edge, with how it was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from nora.arguments import path_of
from nora.graph.naming import Naming
from nora.results.scored import Scored, same_fields, with_ranks
from nora.results.tables import read_table, rebuilt, restored

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The columns that name an edge, in a graph without and with types.
PLAIN = ("source", "target")
TYPED = ("source_type", "source", "relation", "target_type", "target")


@dataclass(frozen=True, eq=False)
class EdgeInfluence(Scored):
    """One influence score per edge, with the method and options that computed it.

    `scores[3, 17]` is the score of an edge; in a `HeteroData`, `scores["author", "writes", "paper", 3, 17]`.
    If every edge (of the type) has its reverse, either direction works.

    Attributes:
        edges: One row per scored edge: `source`, `target`. In a `HeteroData`: `source_type`, `source`,
            `relation`, `target_type`, `target`, with ids within each type.
        scores: `[num_edges]`.
        method: `exact` or `brute`.
        task: What is predicted.
        options: The options of the method.
        seconds: Running time.
        details: Facts about the run.
        names: Node names, if given.
        measure: What the scores sum; see `nora.influence`.
        columns: Further measures and groups, `[num_edges]` each, by name.

    Example:
        >>> edges = pd.DataFrame({"source": [0, 1], "target": [1, 2]})
        >>> scores = EdgeInfluence(edges, torch.tensor([0.5, 2.0]), "exact")
        >>> scores.top(1)["target"].tolist(), scores[0, 1]
        ([2], 0.5)
    """

    edges: pd.DataFrame
    scores: Tensor
    method: str
    task: str = "node"
    options: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] | None = None
    measure: str = "change"
    columns: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, values in {"scores": self.scores, **self.columns}.items():
            if values.shape != (len(self.edges),):
                raise ValueError(
                    f"{name!r} must have one entry per edge, {len(self.edges)}; got {len(values)}"
                )

    @staticmethod
    def of_scored(
        edges: pd.DataFrame, values: Tensor, more: Sequence[str], **about: Any
    ) -> EdgeInfluence:
        """Create a result with the edges that have a score.

        Args:
            edges: All edges of a graph.
            values: The influence and further measures of each `[edges, 1 + more]`, NaN where it has none.
            more: The names of the further measures.
            **about: The other attributes.
        """
        scored = ~values[:, 0].isnan()
        return EdgeInfluence(
            edges[scored.numpy()].reset_index(drop=True),
            values[scored, 0],
            columns={name: values[scored, at + 1] for at, name in enumerate(more)},
            **about,
        )

    def __repr__(self) -> str:
        measure = "" if self.measure == "change" else f"measure={self.measure!r}, "
        return (
            f"EdgeInfluence(method={self.method!r}, task={self.task!r}, {measure}{len(self)} edges, "
            f"seconds={self.seconds:.3g})"
        )

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that name an edge."""
        return TYPED if "relation" in self.edges else PLAIN

    def __getitem__(self, edge: tuple[Any, ...]) -> float:
        given = tuple(edge)
        if self.keys == PLAIN and any(isinstance(end, str) for end in given):
            try:
                given = tuple(map(Naming(self.names).id, given))
            except ValueError as error:
                raise KeyError(str(error)) from None
        if self.keys == TYPED and len(given) == 3 and isinstance(given[0], tuple):
            given = (*given[0], *given[1:])  # as an `Effect` names it
        if len(given) != len(self.keys):
            example = "3, 17" if self.keys == PLAIN else "'author', 'writes', 'paper', 3, 17"
            raise KeyError(f"name an edge as scores[{example}], got {edge!r}")
        if self.keys == TYPED:
            given = (given[0], given[3], given[1], given[2], given[4])
        ways = [given]
        if self.keys == PLAIN and self.details.get("undirected"):
            ways.append(given[::-1])
        elif self.keys == TYPED and list(given[::2][:2]) in self.details.get("both_ways", ()):
            ways.append((given[0], given[4], given[2], given[3], given[1]))
        for way in ways:
            here = np.ones(len(self), dtype=bool)
            for key, value in zip(self.keys, way, strict=True):
                here &= (self.edges[key] == value).to_numpy()
            if here.any():
                return float(self.scores[int(here.argmax())])
        raise KeyError(f"edge {edge!r} has no score")

    def to_frame(self) -> pd.DataFrame:
        """One row per edge: `source`, `target`, names if there are any, `influence`, `rank`.

        Every further measure has a column. In a `HeteroData`, there are also `source_type`, `relation` and
        `target_type`. Rank 1 is the largest score, by absolute value if the measure can be negative.
        """
        frame = self.edges.copy()
        if self.names is not None and self.keys == PLAIN:
            for key in PLAIN:
                at = list(frame.columns).index(key) + 1
                frame.insert(at, f"{key}_name", [self.names[node] for node in frame[key]])
        frame["influence"] = self.scores.detach().cpu().double().numpy()
        for name, values in self.columns.items():
            frame[name] = values.detach().cpu().double().numpy()
        return with_ranks(frame, self.measure)

    def plot(self, k: int = 15) -> Figure:
        """The `k` most influential edges beside a Lorenz curve."""
        from nora.results.plots.influence import edge_influence_plot

        return edge_influence_plot(self, k)

    def compare(self, other: EdgeInfluence) -> dict[str, float]:
        """Agreement with `other` on the edges both scored: see `nora.results.agreement.agreement`."""
        from nora.results.agreement import agreement

        if self.keys != other.keys:
            raise ValueError("one of the graphs has edge types, the other has none")
        both = self.to_frame().merge(other.to_frame(), on=list(self.keys), suffixes=("", "_other"))
        if both.empty:
            raise ValueError("there is nothing to compare: no edge has both scores")
        return agreement(
            torch.from_numpy(both["influence"].to_numpy(copy=True)),
            torch.from_numpy(both["influence_other"].to_numpy(copy=True)),
        )

    @staticmethod
    def merge(parts: Iterable[EdgeInfluence]) -> EdgeInfluence:
        """Join scores of different edges, by the same method on the same graph, into one.

        Raises:
            ValueError: When the parts differ in method, task, options or measures, or share an edge.
        """
        given = same_fields(parts, ("method", "task", "options", "measure", "keys"), "merge")
        first = given[0]
        edges = pd.concat([part.edges for part in given], ignore_index=True)
        if bool(edges.duplicated().any()):
            raise ValueError("parts contain the same edge twice: merge parts with different edges")
        return replace(
            first,
            edges=edges,
            scores=torch.cat([part.scores for part in given]),
            seconds=sum(part.seconds for part in given),
            columns={
                name: torch.cat([part.columns[name] for part in given]) for name in first.columns
            },
        )

    def provenance(self) -> dict[str, Any]:
        """Method, options and details, as `save` stores them."""
        return self._kept("edges", num_edges=len(self))

    @staticmethod
    @restored
    def load(path: str | Path) -> EdgeInfluence:
        """Load a result written by `save`."""
        frame, provenance = read_table(path_of(path), "edgeinfluence")
        keys = TYPED if "relation" in frame else PLAIN

        def column(name: str, dtype: str) -> Tensor:
            values = frame[name].to_numpy(dtype="float64", copy=True)
            return torch.from_numpy(values).to(getattr(torch, dtype))

        return rebuilt(
            EdgeInfluence,
            provenance,
            edges=frame[list(keys)],
            scores=column("influence", provenance["dtype"]),
            columns={name: column(name, "float64") for name in provenance.get("columns", ())},
        )
