"""`Group`: nodes whose joint removal changes the other predictions much."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from nora.arguments import path_of
from nora.graph.naming import Naming
from nora.graph.node_index import node_columns
from nora.results.saving import Result
from nora.results.tables import facts_of, read_table, rebuilt, restored, with_names


@dataclass(frozen=True, eq=False)
class Group(Result):
    """A group of nodes whose joint removal has a large effect.

    Attributes:
        nodes: In the order in which they were chosen.
        totals: `F` of the first, of the first two, … of all of them together.
        influences: `F` of each node alone.
        alone: Joint `F` of the same number of most influential nodes, for comparison.
        evaluations: Removals that were computed, of single nodes and of groups.
        chosen_by: `greedy`, or `influence` if greedy search found no better group than the most influential
            nodes.
        task: `node` or `link`.
        seconds: Running time.
        names: The names of all nodes of the graph, if given.
        measure: What `F` sums over the predictions that change; its absolute value if it can be negative.

    Example:
        >>> group = Group((4, 2), (1.0, 1.5), (1.0, 0.75), alone=1.25, evaluations=9)
        >>> group.to_frame()["gain"].tolist()
        [1.0, 0.5]
    """

    nodes: tuple[Any, ...]
    totals: tuple[float, ...]
    influences: tuple[float, ...]
    alone: float
    evaluations: int
    chosen_by: str = "greedy"
    task: str = "node"
    seconds: float = 0.0
    names: tuple[str, ...] | None = None
    measure: str = "change"

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def total(self) -> float:
        """`F` of the whole group."""
        return self.totals[-1]

    def __repr__(self) -> str:
        return (
            f"Group(nodes=[{Naming(self.names).shown(self.nodes)}], total={self.total:.6g}, "
            f"alone={self.alone:.6g}, evaluations={self.evaluations})"
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per node, in the order chosen.

        The columns are `node`, `name` (if given), `influence` (alone), `gain` (over the nodes before it) and
        `total` (joint effect so far).
        """
        frame = pd.DataFrame(
            {**node_columns(self.nodes), "influence": self.influences, "total": self.totals}
        )
        gain = frame["total"].diff().fillna(frame["total"])
        frame.insert(list(frame.columns).index("total"), "gain", gain)
        return with_names(frame, None if "type" in frame else self.names)

    def provenance(self) -> dict[str, Any]:
        """Details of the search, as `save` stores them."""
        return {**facts_of(self, "totals", "influences"), "total": self.total}

    @staticmethod
    @restored
    def load(path: str | Path) -> Group:
        """Load a result written by `save`."""
        frame, provenance = read_table(path_of(path), "group")
        columns = {"totals": "total", "influences": "influence"}
        found = {name: tuple(frame[column].tolist()) for name, column in columns.items()}
        return rebuilt(Group, provenance, **found)
