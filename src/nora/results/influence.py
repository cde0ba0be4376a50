"""`Influence`: one score per node, with how it was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from nora.arguments import path_of, shown
from nora.graph.naming import Naming
from nora.graph.node_index import NodeIndex, Nodes
from nora.results.scored import Scored, same_fields, with_ranks
from nora.results.tables import (
    check_count,
    read_table,
    rebuilt,
    restored,
    split_node_ids,
    with_names,
)

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.figure import Figure

    from nora.graph.node_index import Graph


@dataclass(frozen=True, eq=False)
class Influence(Scored):
    """One influence score per node, with the method and options that computed it.

    Attributes:
        scores: `[num_nodes]`, NaN for nodes that were not scored.
        method: The method's name.
        task: `node` or `link`.
        options: The options of the method.
        seconds: Running time.
        details: Facts the method reports about its run.
        names: Node names, if given.
        node_types: Number of nodes of each type, in the order of `scores`; None in a graph without node
            types.
        spread: Standard deviation of each score `[num_nodes]` over the runs that `mean` averaged.
        stderr: Standard error of each score `[num_nodes]`, for estimates that have one; 0 for exact scores.
            The truth is within two standard errors for about 95 % of the nodes.
        measure: What the scores sum; see `nora.influence`.
        columns: Further measures and groups, `[num_nodes]` each, by name.

    `scores[17]` is a node's score. `scores[10:20]`, `scores[[3, 17]]` and `scores[mask]` are results of the
    same size, in which the scores of all other nodes are NaN. If nodes have names, `scores["ann"]` and
    `scores[["ann", "bob"]]` work too.

    Example:
        >>> scores = Influence(torch.tensor([0.5, 2.0, 1.0]), "brute")
        >>> scores.top(2)["node"].tolist()
        [1, 2]
        >>> scores[:2].scores.tolist()
        [0.5, 2.0, nan]
        >>> replace(scores, names=("ann", "bob", "eve"))["bob"]
        2.0
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
    spread: Tensor | None = None
    measure: str = "change"
    columns: Mapping[str, Tensor] = field(default_factory=dict)
    stderr: Tensor | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.scores, Tensor) or self.scores.dim() != 1:
            raise TypeError(
                f"scores must be a tensor [num_nodes], got {shown(self.scores)}; from a list or an array: "
                "torch.as_tensor(scores)"
            )
        if self.names is not None and len(self.names) != len(self.scores):
            raise ValueError(
                f"names must have one entry per node, {len(self.scores)}; got {len(self.names)}"
            )
        if self.node_types is not None and sum(self.node_types.values()) != len(self.scores):
            raise ValueError(
                f"node_types must add up to {len(self.scores)} nodes, got {dict(self.node_types)}"
            )
        for name, values in self._beside().items():
            if values.shape != self.scores.shape:
                raise ValueError(
                    f"{name} must have one entry per node, {len(self.scores)}; got {len(values)}"
                )
        for name, values in self.columns.items():
            if values.shape != self.scores.shape:
                raise ValueError(
                    f"{name!r} must have one entry per node, {len(self.scores)}; got {len(values)}"
                )

    def _beside(self) -> dict[str, Tensor]:
        """Spread and standard errors of the scores, where they are known."""
        known = {"spread": self.spread, "stderr": self.stderr}
        return {name: values for name, values in known.items() if values is not None}

    @overload
    def __getitem__(self, nodes: int | str | tuple[str, int]) -> float: ...
    @overload
    def __getitem__(
        self, nodes: slice | tuple[str, Any] | Iterable[Any] | Tensor | np.ndarray
    ) -> Influence: ...
    def __getitem__(self, nodes: Nodes) -> float | Influence:
        if self.node_types is None:
            nodes = self._by_id(nodes)
        kind, within = nodes if _has_type(nodes) else (None, nodes)
        if kind is not None and not _is_one(within):
            return self._only(self._ids(kind, within))
        if kind is not None:
            return self.of(kind)[within]
        if self.node_types is not None and (_is_one(nodes) or isinstance(nodes, slice)):
            example = next(iter(self.node_types))
            raise KeyError(f"nodes have types here: give e.g. ({example!r}, {nodes})")
        if _is_one(nodes):
            if not -len(self) <= int(nodes) < len(self):
                raise IndexError(f"node {nodes} is out of range: there are {len(self):,} nodes")
            return float(self.scores[nodes])
        return self._only(self._ids(None, nodes))

    @cached_property
    def _naming(self) -> Naming:
        return Naming(self.names)

    def _by_id(self, nodes: Nodes) -> Nodes:
        try:
            return self._naming.id(nodes) if isinstance(nodes, str) else self._naming.ids(nodes)
        except ValueError as error:
            raise KeyError(str(error)) from None

    def _ids(self, kind: str | None, nodes: Nodes) -> Tensor:
        """Global ids of several nodes, of one type where one is named."""
        types = self.node_types or {}
        index = NodeIndex(tuple(types), tuple(types.values()) or (len(self),))
        if isinstance(nodes, slice):
            every = torch.arange(len(self))
            return (every if kind is None else every[index.span(kind)])[nodes]
        return index.ids(nodes if kind is None else (kind, nodes))

    def _only(self, nodes: Tensor) -> Influence:
        """The same for these nodes; the others count as not asked for."""
        unselected = torch.ones(len(self), dtype=torch.bool, device=self.scores.device)
        unselected[nodes] = False
        nan = float("nan")
        beside: Any = {
            name: values.masked_fill(unselected, nan) for name, values in self._beside().items()
        }
        columns = {
            name: values.masked_fill(unselected, nan) for name, values in self.columns.items()
        }
        scores = self.scores.masked_fill(unselected, nan)
        return replace(self, scores=scores, columns=columns, **beside)

    def of(self, node_type: str) -> Influence:
        """Return the scores of one node type, with ids within the type."""
        start = 0
        for name, count in (self.node_types or {}).items():
            if name == node_type:
                span = slice(start, start + count)
                names = None if self.names is None else self.names[span]
                beside: Any = {name: values[span] for name, values in self._beside().items()}
                columns = {name: values[span] for name, values in self.columns.items()}
                return replace(
                    self,
                    scores=self.scores[span],
                    names=names,
                    node_types=None,
                    columns=columns,
                    **beside,
                )
            start += count
        raise KeyError(f"no node type {node_type!r}; there are {list(self.node_types or ())}")

    def __repr__(self) -> str:
        scored = int((~self.scores.isnan()).sum())
        measure = "" if self.measure == "change" else f"measure={self.measure!r}, "
        return (
            f"Influence(method={self.method!r}, task={self.task!r}, {measure}scored={scored} of "
            f"{len(self)} nodes, seconds={self.seconds:.3g})"
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per scored node: `node`, `name` if there are names, `influence`, `rank`.

        Means of several runs also have `spread`, estimates may have `stderr`, and every further measure has a
        column. In a graph with node types, `type` is the first column, and `node` is the id within the type.
        Rank 1 is the largest score, by absolute value if the measure can be negative.
        """
        values = self.scores.detach().cpu().double().numpy()
        scored = np.flatnonzero(~np.isnan(values))
        frame = pd.DataFrame({"node": scored, "influence": values[scored]})
        for name, column in {**self._beside(), **self.columns}.items():
            frame[name] = column.detach().cpu().double().numpy()[scored]
        frame = split_node_ids(with_names(frame, self.names), self.node_types)
        return with_ranks(frame, self.measure)

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

        if not isinstance(other, Influence):
            raise TypeError(f"expected an Influence to compare with, got {shown(other)}")
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
        parts = _compatible(parts, ("method", "task", "options", "measure"), "merge")
        first = parts[0]
        scores = first.scores.clone()
        columns = {name: values.clone() for name, values in first.columns.items()}
        beside: Any = {
            name: torch.full_like(scores, float("nan"))
            for name in ("spread", "stderr")
            if any(name in part._beside() for part in parts)
        }
        for part in parts:
            new, both = ~part.scores.isnan(), ~(part.scores.isnan() | scores.isnan())
            if not torch.allclose(part.scores[both], scores[both], rtol=1e-3, atol=1e-5):
                raise ValueError(
                    "parts have different scores for the same node: merge parts of one run"
                )
            scores[new] = part.scores[new]
            for name, values in columns.items():
                values[new] = part.columns[name][new]
            for name, values in part._beside().items():
                beside[name][new] = values[new].to(scores.dtype)
        return replace(
            first,
            scores=scores,
            seconds=sum(part.seconds for part in parts),
            columns=columns,
            **beside,
        )

    @staticmethod
    def mean(parts: Iterable[Influence]) -> Influence:
        """Average results of the same method on the same graph, for instance of several seeds or models.

        The result has the mean scores in double precision (NaN if one part has no score), their `spread`, the
        options that all parts share, and the number of parts in `details["mean_of"]`.

        Raises:
            ValueError: When the parts differ in method, task or size.

        Example:
            >>> seeds = [Influence(torch.tensor([1.0, score]), "exact") for score in (2.0, 4.0)]
            >>> Influence.mean(seeds).scores.tolist()
            [1.0, 3.0]
        """
        parts = _compatible(parts, ("method", "task", "measure"), "average")
        first = parts[0]
        stacked = torch.stack([part.scores.double() for part in parts])
        shared = {
            key: value
            for key, value in first.options.items()
            if all(key in part.options and part.options[key] == value for part in parts)
        }
        counted = {"classes": first.details["classes"]} if "classes" in first.details else {}
        return replace(
            first,
            scores=stacked.mean(dim=0),
            options=shared,
            seconds=sum(part.seconds for part in parts),
            details={**counted, "mean_of": len(parts)},
            # The spread of one run is unknown.
            spread=stacked.std(dim=0) if len(parts) > 1 else None,
            stderr=_stderr_of_mean(parts),
            columns={
                name: torch.stack([part.columns[name].double() for part in parts]).mean(dim=0)
                for name in first.columns
            },
        )

    def provenance(self) -> dict[str, Any]:
        """Method, options and details, as `save` stores them."""
        kept = self._kept("spread", "stderr", "names", num_nodes=len(self))
        for name, values in self._beside().items():
            kept[f"{name}_dtype"] = str(values.dtype).removeprefix("torch.")
        # The table names the nodes that were scored.
        if self.names is not None and bool(self.scores.isnan().any()):
            kept["names"] = list(self.names)
        return kept

    @staticmethod
    @restored
    def load(path: str | Path) -> Influence:
        """Load a result written by `save`."""
        frame, provenance = read_table(path_of(path), "influence")
        types = provenance.get("node_types")
        _check_table(path, frame, provenance)
        if types is not None:
            starts = dict(zip(types, np.cumsum([0, *types.values()]), strict=False))
            frame["node"] += frame["type"].map(starts).astype("int64")
        nodes = frame["node"].to_numpy()

        def column(name: str, dtype: str) -> Tensor:
            values = np.full(provenance["num_nodes"], np.nan)
            values[nodes] = frame[name]
            return torch.from_numpy(values).to(getattr(torch, dtype))

        names = provenance.get("names")
        if names is None and "name" in frame:
            names = [""] * provenance["num_nodes"]
            for node, name in zip(nodes, frame["name"], strict=True):
                names[node] = str(name)
        return rebuilt(
            Influence,
            provenance,
            scores=column("influence", provenance["dtype"]),
            **{
                name: column(name, provenance[f"{name}_dtype"])
                for name in ("spread", "stderr")
                if f"{name}_dtype" in provenance
            },
            names=None if names is None else tuple(names),
            columns={name: column(name, "float64") for name in provenance.get("columns", ())},
        )


def _stderr_of_mean(parts: list[Influence]) -> Tensor | None:
    """Of estimates with errors of their own, which are independent of each other where seeds differ."""
    errors = [part.stderr.double() for part in parts if part.stderr is not None]
    if len(errors) < len(parts):
        return None
    return torch.stack(errors).square().sum(dim=0).sqrt() / len(errors)


def _check_table(path: str | Path, frame: pd.DataFrame, provenance: Mapping[str, Any]) -> None:
    """Raise for a table without scores, or of another graph than that of its provenance."""
    try:
        count = provenance["num_nodes"]
        check_count(count)
        if frame["node"].dtype.kind != "i" or frame["influence"].dtype.kind != "f":
            raise TypeError("its nodes and scores are not numbers")
        if len(frame) > count or not frame["node"].between(0, count - 1).all():
            raise ValueError(f"it names nodes that a graph of {count:,} does not have")
    except (LookupError, ValueError, TypeError) as error:
        raise ValueError(f"{path} holds no scores: {error}") from error


def _has_type(nodes: Nodes) -> bool:
    return isinstance(nodes, tuple) and len(nodes) == 2 and isinstance(nodes[0], str)


def _is_one(nodes: Nodes) -> bool:
    """Whether this is a single number rather than several, or a mask."""
    shape = getattr(nodes, "shape", None)
    return isinstance(nodes, Integral) if shape is None else len(shape) == 0


def _compatible(parts: Iterable[Influence], fields: tuple[str, ...], what: str) -> list[Influence]:
    """The parts as a list, once it is clear that they belong together."""
    given = same_fields(parts, fields, what)
    first = given[0]
    for part in given[1:]:
        if part.details.get("classes") != first.details.get("classes"):
            raise ValueError("parts differ in the classes that count")
        if part.node_types != first.node_types:
            raise ValueError("parts differ in the graph's node types")
        if len(part) != len(first):
            raise ValueError(f"parts have {len(first)} and {len(part)} nodes")
    return given
