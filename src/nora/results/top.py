"""`Top`: the most influential nodes, with what is certain about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from nora.arguments import path_of
from nora.graph.node_index import node_columns
from nora.results.saving import Result
from nora.results.tables import (
    facts_of,
    nodes_in,
    read_table,
    rebuilt,
    restored,
    with_names,
)

# Less likely nodes are not reported as likely.
LIKELY = 0.95


@dataclass(frozen=True, eq=False)
class Top(Result):
    """The most influential nodes, with a certificate.

    Attributes:
        nodes: The `k` most influential nodes found, in order.
        scores: Their exact influence.
        certified: How many of them are certainly in the true top `k`.
        refined: How many nodes were scored exactly.
        num_nodes: The number of nodes of the graph.
        rest: An upper bound on the influence of all nodes that were not scored exactly.
        seconds: Running time.
        screened_by: The method and options of the screening.
        names: Node names, if given.
        measure: What the scores sum; see `nora.top`.
        confidence: The probability that these are the true top `k`, from the standard errors of the
            screening; None if the screening method has no standard errors.

    Example:
        >>> best = Top((4, 7), (3.5, 2.0), certified=2, refined=10, num_nodes=90, rest=1.9, seconds=1.0)
        >>> best.to_frame()["node"].tolist()
        [4, 7]
        >>> best.certificate.startswith("All 2 certified")
        True
    """

    nodes: tuple[Any, ...]
    scores: tuple[float, ...]
    certified: int
    refined: int
    num_nodes: int
    rest: float
    seconds: float
    screened_by: dict[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] | None = None
    measure: str = "change"
    confidence: float | None = None

    @property
    def certificate(self) -> str:
        """Short sentences on what is certain and what is likely."""
        k, scored = (
            len(self.nodes),
            f"{self.refined:,} of {self.num_nodes:,} nodes were scored exactly",
        )
        if self.refined == self.num_nodes:
            return f"All {k} certified: all {self.num_nodes:,} nodes were scored exactly."
        if self.certified == k:
            return f"All {k} certified: {scored}. No other node can exceed {self.rest:.4g}."
        text = (
            f"{self.certified} of {k} certified: {scored} within the budget. Another node may have up "
            f"to {self.rest:.4g}."
        )
        if self.confidence is None:
            return text
        if self.confidence < LIKELY:
            return f"{text} By their estimates, other nodes may belong to the top {k}."
        most = int(1000 * min(self.confidence, 0.999)) / 10
        return f"{text} By their estimates, no other node belongs to the top {k} (probability {most:g} %)."

    def __repr__(self) -> str:
        return f"Top({len(self.nodes)} nodes, certificate={self.certificate!r})"

    def to_frame(self) -> pd.DataFrame:
        """One row per node: `rank`, `node`, `name` if there are names, `influence`, `certified`."""
        frame = pd.DataFrame({**node_columns(self.nodes), "influence": self.scores})
        frame.insert(0, "rank", range(1, len(frame) + 1))
        frame = with_names(frame, None if "type" in frame else self.names)
        frame["certified"] = frame["influence"].abs() >= self.rest
        return frame

    def provenance(self) -> dict[str, Any]:
        """The certificate and the screening, as `save` stores them."""
        return {**facts_of(self, "nodes", "scores"), "certificate": self.certificate}

    @staticmethod
    @restored
    def load(path: str | Path) -> Top:
        """Load a result written by `save`."""
        frame, provenance = read_table(path_of(path), "top")
        scores = tuple(frame["influence"].tolist())
        return rebuilt(Top, provenance, nodes=nodes_in(frame), scores=scores)
