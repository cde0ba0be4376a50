"""The subject of a report: scores, structure and removal effects, computed by `nora.analysis.asking`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch_geometric.data import Data

from nora.report.consequences import Consequence
from nora.report.ranked_edges import RankedEdges
from nora.results.influence import Influence


@dataclass(frozen=True, eq=False)
class Subject:
    """The facts that a report shows.

    Attributes:
        graph: The whole graph; the model may have seen a part of its edges.
        task: `node` or `link`.
        scores: The main scores, then those they are compared with.
        influence: The main scores `[N]`, NaN where a node was not asked for.
        rank: Ranks `[N]` by influence, 1 the first; 0 where it has no score.
        degree: Edges of the graph at each node `[N]`, in and out.
        pagerank: PageRank `[N]`.
        effects: What the removal of each of the first nodes would change, by node id, the first first.
        exact: Whether each score is the definition's own `[N]`.
        estimate: How far the others may be off (see `nora.questions.refine`); None where all are exact, or
            are scores of another kind.
        edges: The most influential edges; None where there are none, or none were asked for.
        fragile: How many single removals flip each node's prediction `[N]`, −1 where it does not count; None
            where predictions are not classes, or it would take too long.
        items: Number of predictions: nodes, or pairs.
        predicted: Predicted classes `[N]`; None for links.
        labels: Known classes `[N]`, −1 where unknown; None when none are known.
        names: The nodes' names, or None.
        class_names: The classes' names; empty without classes.
        counted: How many predictions count, where only some do (`targets=`); None for all.
    """

    graph: Data
    task: str
    scores: tuple[Influence, ...]
    influence: np.ndarray
    rank: np.ndarray
    degree: np.ndarray
    pagerank: np.ndarray
    effects: dict[int, Consequence]
    exact: np.ndarray
    estimate: Mapping[str, Any] | None
    edges: RankedEdges | None
    fragile: np.ndarray | None
    items: int
    predicted: np.ndarray | None
    labels: np.ndarray | None
    names: tuple[str, ...] | None
    class_names: tuple[str, ...]
    counted: int | None = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the graph."""
        return len(self.influence)

    @property
    def order(self) -> np.ndarray:
        """Ids of the scored nodes, the most influential first."""
        scored = np.flatnonzero(self.rank)
        return scored[np.argsort(self.rank[scored])]

    def name(self, node: int) -> str:
        """A node's name, or `node 17`."""
        return self.names[node] if self.names is not None else f"node {node}"
