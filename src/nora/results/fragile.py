"""`Fragile`: which predictions depend on a single node or edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from torch import Tensor

from nora.arguments import check_whole, path_of
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


@dataclass(frozen=True, eq=False)
class Fragile(Result):
    """Every single removal that changes a predicted class.

    Attributes:
        flips: One row per flip: the removed node or edge (`removed`, or `source` and `target`, with types if
            there are any), the `node` whose prediction flips, `from_class`, `to_class`.
        counts: How many single removals flip each node's prediction `[N]`.
        classes: The class predicted for each node `[N]`.
        margin: By how much the probability of the predicted class exceeds the second largest `[N]`.
        counted: Mask `[N]` of the nodes whose predictions count.
        by: What was removed: `nodes` or `edges`.
        removals: How many single removals were computed.
        names: Node names, if given.
        class_names: Class names, if given.
        node_types: As in `Influence`.
        seconds: Running time.

    Example:
        >>> import nora
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> found = nora.fragile(run.model, run.data, progress=False)
        >>> int(found.counts.sum()) == len(found.flips)
        True
    """

    beside: ClassVar = ("counts", "classes", "margin", "counted")

    flips: pd.DataFrame
    counts: Tensor
    classes: Tensor
    margin: Tensor
    counted: Tensor
    by: str
    removals: int
    names: tuple[str, ...] | None = None
    class_names: tuple[str, ...] | None = None
    node_types: Mapping[str, int] | None = None
    seconds: float = 0.0

    @property
    def share(self) -> float:
        """The share of predictions that at least one single removal flips."""
        return float((self.counts[self.counted] > 0).double().mean())

    def __repr__(self) -> str:
        return (
            f"Fragile({self.removals:,} {self.by} removed one at a time: {len(self.flips):,} flips, of "
            f"{int((self.counts[self.counted] > 0).sum()):,} of {int(self.counted.sum()):,} predictions)"
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per node that counts: `node`, `name`, `class`, `margin`, `flipped_by`.

        `flipped_by` is how many single removals flip its prediction.
        """
        nodes = self.counted.nonzero().flatten().cpu().numpy()
        classes = self.classes.cpu().numpy()[nodes]
        frame = pd.DataFrame(
            {
                "node": nodes,
                "class": [self.class_names[k] for k in classes] if self.class_names else classes,
                "margin": self.margin.cpu().double().numpy()[nodes],
                "flipped_by": self.counts.cpu().numpy()[nodes],
            }
        )
        return split_node_ids(with_names(frame, self.names), self.node_types)

    def sort(self) -> pd.DataFrame:
        """`to_frame()` with the most fragile nodes first; ties are sorted by margin."""
        frame = self.to_frame().sort_values(
            ["flipped_by", "margin"], ascending=[False, True], kind="stable"
        )
        return frame.reset_index(drop=True)

    def top(self, k: int = 10) -> pd.DataFrame:
        """The first `k` of `sort()`."""
        check_whole("k", k, 1)
        return self.sort().head(k)

    def distribution(self) -> pd.Series:
        """How many predictions are flipped by 0, 1, 2, … single removals."""
        counts = self.counts[self.counted].cpu().numpy()
        values, amounts = np.unique(counts, return_counts=True)
        return pd.Series(amounts, index=pd.Index(values, name="flipped_by"), name="nodes")

    def plot(self) -> Figure:
        """Plot how many predictions are flipped by how many single removals."""
        from nora.results.plots.fragile import fragile_plot

        return fragile_plot(self)

    def _saved_frame(self) -> pd.DataFrame:
        return self.flips

    def provenance(self) -> dict[str, Any]:
        """What was removed, as `save` stores it."""
        return facts_of(self, "flips", *self.beside)

    @staticmethod
    @restored
    def load(path: str | Path) -> Fragile:
        """Load a result written by `save`."""
        flips, provenance = read_table(path_of(path), "fragile")
        tensors = read_table_tensors(path_of(path), provenance)
        found: Any = rebuilt(Fragile, provenance, flips=flips, **tensors)
        if int(found.counts.sum()) != len(flips):
            raise ValueError(
                f"the tensors beside {path} belong to another file: keep files that were saved together"
            )
        return found
