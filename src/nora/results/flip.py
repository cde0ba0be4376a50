"""`Flip`: the smallest removal that was found to change one node's predicted class."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from nora.graph.edits import Edits
from nora.graph.naming import Naming
from nora.graph.node_index import node_columns
from nora.results.tables import with_names
from nora.wording import count, listed


@dataclass(frozen=True, eq=False)
class Flip:
    """The smallest removal found that changes one node's predicted class, with its proof.

    Attributes:
        node: The node.
        by: What may be removed: `nodes` or `edges`.
        removed: What is removed; empty if nothing was found. Edges are `(3, 17)`, or `(("author", "writes",
            "paper"), 3, 17)` in a `HeteroData`.
        before: The node's prediction on `G` `[C]`.
        after: The node's prediction after the removal `[C]`.
        candidates: How many nodes or edges can change the prediction of the node.
        singles: How many of them flip it alone; every one was tried.
        pairs: How many pairs there are, how many were tried, and how many of those flip it.
        at_most: The largest number of removals allowed.
        to: The class to reach; None for any other class.
        seconds: Running time.
        names: Node names, if given.
        class_names: Class names, if given.

    Example:
        >>> import nora
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> found = nora.flip(run.model, run.data, 8)
        >>> found.size == len(found.removed)
        True
    """

    node: Any
    by: str
    removed: tuple[Any, ...]
    before: Tensor
    after: Tensor
    candidates: int
    singles: int
    pairs: tuple[int, int, int]
    at_most: int
    to: int | None = None
    seconds: float = 0.0
    names: tuple[str, ...] | None = field(default=None, repr=False)
    class_names: tuple[str, ...] | None = field(default=None, repr=False)

    @property
    def size(self) -> int:
        """How many nodes or edges are removed; 0 if nothing was found."""
        return len(self.removed)

    @property
    def from_class(self) -> int:
        """The class predicted on `G`."""
        return int(self.before.argmax())

    @property
    def to_class(self) -> int:
        """The class predicted after the removal."""
        return int(self.after.argmax())

    @property
    def edits(self) -> Edits:
        """The removal as edits of the graph."""
        if self.by == "nodes":
            return Edits(remove=list(self.removed))
        if not self.removed or len(self.removed[0]) == 2:
            return Edits(remove_edges=list(self.removed))
        by_type: dict[Any, list[tuple[int, int]]] = {}
        for edge_type, source, target in self.removed:
            by_type.setdefault(edge_type, []).append((source, target))
        return Edits(remove_edges=by_type)

    @property
    def at_least(self) -> int:
        """Lower bound: no smaller removal flips the prediction."""
        if self.singles:
            return 1
        every, tried, flipping = self.pairs
        if self.at_most == 1 or tried < every or flipping:
            return 2
        return 3

    @property
    def smallest(self) -> bool:
        """Whether it is proven that no smaller removal flips the prediction."""
        return self.size > 0 and self.size <= self.at_least

    @property
    def proof(self) -> str:
        """Two sentences: what was tried, and what was found."""
        one = self.by[:-1]
        if not self.candidates:
            return f"No other {one} can change this prediction."
        return f"Tried: {listed(self._tried())}. {self._found()}"

    def _tried(self) -> list[str]:
        """The removals that were tried, smallest first."""
        every = self.candidates
        found = [
            f"all {every:,} single {self.by}" if every > 1 else f"the only {self.by[:-1]} that can"
        ]
        every, tried, flipping = self.pairs
        if self.singles or self.at_most == 1 or not every:
            return found
        if tried == every:
            found.append(f"all {every:,} pairs" if every > 1 else "the only pair")
        elif tried:
            found.append(f"the {tried:,} most promising of {every:,} pairs")
        if not flipping and self.at_most > 2:
            found.append(f"a greedy search for up to {self.at_most} {self.by}")
        return found

    def _found(self) -> str:
        """Which of the removals flip the prediction."""
        one, flipping = self.by[:-1], self.pairs[2]
        if self.singles:
            return f"{count(self.singles, f'{one} flips', f'{self.by} flip')} the prediction."
        if flipping:
            return (
                f"No single {one} flips the prediction; {count(flipping, 'pair does', 'pairs do')}."
            )
        if not self.size:
            return "None of them flips the prediction."
        least = f" The smallest set has at least {self.at_least}." if not self.smallest else ""
        return (
            f"These {self.size} {self.by} flip the prediction, no tried {one} or pair does.{least}"
        )

    def __repr__(self) -> str:
        naming = Naming(self.names)
        what = f"removed=[{naming.shown(self.removed)}], " if self.size else ""
        return (
            f"Flip(node={naming.shown([self.node])}, size={self.size}, {what}proof={self.proof!r})"
        )

    def _repr_html_(self) -> str:
        from nora.results.plots.notebook_table import result_html

        return result_html(self)

    def class_name(self, number: int) -> str:
        """The name of a class, or its number."""
        return self.class_names[number] if self.class_names else f"class {number}"

    def to_frame(self) -> pd.DataFrame:
        """One row per removed node or edge, with the same columns as tables of scores."""
        if self.by == "nodes":
            frame = pd.DataFrame(node_columns(self.removed))
        elif self.removed and len(self.removed[0]) == 3:
            return pd.DataFrame(
                [
                    {
                        "source_type": kind[0], "source": source, "relation": kind[1],
                        "target_type": kind[2], "target": target,
                    }
                    for kind, source, target in self.removed
                ]
            )  # fmt: skip
        else:
            frame = pd.DataFrame(list(self.removed), columns=["source", "target"])
        return with_names(frame, None if "type" in frame else self.names)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as a JSON-compatible dictionary."""
        return {
            "node": self.node,
            "by": self.by,
            "size": self.size,
            "removed": list(self.removed),
            "from_class": self.from_class,
            "to_class": self.to_class,
            "before": self.before.tolist(),
            "after": self.after.tolist(),
            "smallest": self.smallest,
            "at_least": self.at_least,
            "proof": self.proof,
            "candidates": self.candidates,
            "singles": self.singles,
            "pairs": list(self.pairs),
            "at_most": self.at_most,
            "seconds": self.seconds,
            "edits": self.edits.to_dict(),
        }

    def save(self, path: str | Path) -> Path:
        """Write the removal to a file that `nora.Edits.load` reads."""
        return self.edits.save(path)


def margins(rows: Tensor, now: int, to: int | None) -> tuple[Tensor, Tensor]:
    """How far predictions `[c, C]` are from being another class than `now`, and whether they are.

    Args:
        rows: Predictions.
        now: The class on `G`.
        to: The class wanted; None for any other.

    Returns:
        By how much the class that should win is behind `[c]`, and whether it wins `[c]`.
    """
    found = rows.argmax(dim=1)
    others = rows.clone()
    if to is None:
        others[:, now] = -torch.inf
        return rows[:, now] - others.amax(dim=1), found != now
    others[:, to] = -torch.inf
    return others.amax(dim=1) - rows[:, to], found == to
