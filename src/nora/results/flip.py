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
        """What was tried, and what that proves."""
        one = self.by[:-1]
        if not self.candidates:
            return f"no other {one} can change this prediction at all"
        if self.singles:
            return f"{self.singles:,} of {self.candidates:,} single {self.by} do it"
        text = f"no single {one} of {self.candidates:,} does it"
        every, tried, flipping = self.pairs
        if self.at_most == 1:
            return text
        if tried == every:
            text += (
                f"; {flipping:,} of {every:,} pairs do"
                if flipping
                else f"; no pair of {every:,} does"
            )
        elif flipping:
            text += f"; {flipping:,} of the {tried:,} most likely of {every:,} pairs do"
        else:
            text += f"; none of the {tried:,} most likely of {every:,} pairs does"
        if self.size > 2:
            text += f"; these {self.size} were found by adding the {one} that helps most"
            text += "" if self.smallest else f", and fewer, {self.at_least} or more, may do"
        elif not self.size and self.at_most > 2:
            text += f"; adding the {one} that helps most, up to {self.at_most}, does not either"
        return text

    def __repr__(self) -> str:
        naming = Naming(self.names)
        what = f"removed=[{naming.shown(self.removed)}], " if self.size else ""
        return f"Flip(node={naming.shown([self.node])}, size={self.size}, {what}{self.proof})"

    def _repr_html_(self) -> str:
        from nora.results.plots.notebook_table import flip_html

        return flip_html(self)

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
