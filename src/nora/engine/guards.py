"""Guards: what a traced program assumes of sizes, checked for every edit.

A trace is valid for the sizes it saw. As in PyTorch's dynamic shapes, sizes 0 and 1 are special: a reduction,
a `squeeze` or a broadcast may behave differently there, and so may Python code that skips empty parts. And
every comparison of sizes in the model's Python code must have the same outcome as in the trace. An edit that
breaks either condition gets a full pass on the edited graph; all other edits are answered by the program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nora.engine.ir.space import Space
from nora.graph.edit_batch import EditBatch
from nora.model.lines import Line

# Rows of a space that are looked at first, to see that no few removals take nearly all of it.
SAMPLED = 256
# So many rows must be left for a space to be treated as the trace treats it.
FEWEST = 2
# Sizes after an edit that adds edges are tried out, as long as there are no more of them.
MOST_SIZES = 100_000
Sizes = Callable[[Space], np.ndarray]


@dataclass(frozen=True, eq=False)
class Guard:
    """A comparison of sizes.

    Attributes:
        operation: `eq`, `ne`, `lt`, `le`, `gt`, `ge` or `bool`; `plain` if the number itself must not change.
        operands: Expressions: numbers, `("rows", space, factor)`, or `(operation, *expressions)`.
        line: Source line of the comparison.
    """

    operation: str
    operands: tuple[Any, ...]
    line: Line

    def outcome(self, sizes: Sizes) -> np.ndarray:
        """The outcome of the comparison for these sizes `[c]`; False if it cannot be computed."""
        with np.errstate(all="ignore"):
            values = [np.asarray(_value(one, sizes)) for one in self.operands]
        if self.operation in ("bool", "plain"):
            return values[0] != 0 if self.operation == "bool" else values[0]
        function: Any = {
            "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
            "gt": np.greater, "ge": np.greater_equal,
        }[self.operation]  # fmt: skip
        return np.asarray(function(*values))

    def of(self, old: Space, new: Space) -> Guard:
        """The same guard with one space replaced by another."""

        def exchanged(expression: Any) -> Any:
            if not isinstance(expression, tuple):
                return new if expression is old else expression
            return tuple(exchanged(part) for part in expression)

        return Guard(self.operation, exchanged(self.operands), self.line)

    def spaces(self) -> list[Space]:
        """The spaces whose sizes it compares."""
        return [space for one in self.operands for space in spaces_in(one)]


def spaces_in(expression: Any) -> list[Space]:
    """The spaces whose sizes an expression uses."""
    if not isinstance(expression, tuple):
        return []
    if expression[0] == "rows":
        return [expression[1]]
    return [space for part in expression[1:] for space in spaces_in(part)]


_FUNCTIONS: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide, "mod": np.mod,
    "truediv": np.true_divide, "pow": np.float_power, "neg": np.negative, "pos": np.positive,
    "abs": np.abs, "floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc,
}  # fmt: skip


def _value(expression: Any, sizes: Sizes) -> Any:
    """An expression's value with these sizes, `[c]` or one number; as floats, which are exact up to 2⁵³."""
    if not isinstance(expression, tuple):
        return float(expression)
    operation, *parts = expression
    if operation == "rows":
        return sizes(parts[0]).astype(float) * parts[1]
    return _FUNCTIONS[operation](*(_value(part, sizes) for part in parts))


class Guards:
    """All guards of a program.

    Args:
        num_nodes: How many nodes the graph has.
        spaces: The spaces that the trace has met.
        comparisons: The comparisons that the model's Python made.
    """

    def __init__(
        self, num_nodes: int, spaces: Sequence[Space], comparisons: Sequence[Guard]
    ) -> None:
        self.num_nodes = num_nodes
        self.spaces = [space for space in dict.fromkeys(spaces) if not space.everlasting]
        self.comparisons = [one for one in comparisons if not _always(one)]

    def broken(self, removals: EditBatch) -> Tensor:
        """Which edits of a batch the program cannot answer `[c]`, on the CPU."""
        if removals.one_node_each and not len(removals.edge) and not removals.added_edges:
            return self._broken_alone[removals.node.cpu()]
        if not removals.added_edges and self.safe(_largest(removals)):
            return torch.zeros(len(removals), dtype=torch.bool)
        if removals.added_edges and len(removals) > 1:
            each = torch.arange(len(removals), device=removals.ptr.device).split(1)
            return torch.cat([self.broken(removals.pick(one)) for one in each])
        broken = self._broken(lambda space: self._sizes_after(space, removals), len(removals))
        if removals.added_edges and not broken.any():
            broken |= self._broken_by_added(removals)
        return torch.from_numpy(broken)

    def _broken_by_added(self, removals: EditBatch) -> bool:
        """Whether the added edges of one edit may break a guard; each may add several rows to a space."""
        added = sum(len(one) for one in removals.added_edges.values())
        if any(space.size < FEWEST and space.origin is not None for space in self.spaces):
            return True
        for one in self.comparisons:
            spaces = list(dict.fromkeys(one.spaces()))
            least = [int(self._sizes_after(space, removals)[0]) for space in spaces]
            most = [added * space.rows_per_edge for space in spaces]
            if math.prod(more + 1 for more in most) > MOST_SIZES:
                return True
            grid = np.meshgrid(
                *(np.arange(a, a + more + 1) for a, more in zip(least, most, strict=True))
            )
            sizes = dict(zip(spaces, (each.flatten() for each in grid), strict=True))
            if bool((one.outcome(sizes.__getitem__) != one.outcome(_now)).any()):
                return True
        return False

    def why(self, removals: EditBatch) -> str:
        """The first guard that the one edit of a batch breaks, in words; empty if none."""
        if not bool(self.broken(removals).any()):
            return ""

        def sizes(space: Space) -> np.ndarray:
            return self._sizes_after(space, removals)

        for one in self.comparisons:
            if bool((one.outcome(sizes) != one.outcome(_now)).any()):
                return _another_branch(one)
        for space in self.spaces:
            left = int(sizes(space)[0])
            if left != space.size and left < FEWEST:
                return f"only {left} of the {space.size:,} {space.label} would be left"
        return (
            "edges are added, and the model's Python code compares sizes, or a set of edges has fewer "
            "than two"
        )

    def safe(self, removed: int, within: Tensor | None = None) -> bool:
        """Whether no edit that removes at most this many nodes and edges can break a guard.

        Args:
            removed: The largest number of removed nodes and edges.
            within: Nodes `[n]`; only the part of the graph between these counts.
        """
        return not self.comparisons and all(
            _outlives(space, removed, within) for space in self.spaces
        )

    @property
    def mostly_broken(self) -> str:
        """The comparison that most nodes' removals break, in words; empty if they break none."""
        for one in self.comparisons:
            broken = one.outcome(_without_each) != one.outcome(_now)
            if 2 * int(broken.sum()) > self.num_nodes:
                return _another_branch(one)
        return ""

    @cached_property
    def _broken_alone(self) -> Tensor:
        """Which nodes' removals, each by itself, the program cannot answer `[N]`."""
        if self.safe(1):
            return torch.zeros(self.num_nodes, dtype=torch.bool)
        return torch.from_numpy(self._broken(_without_each, self.num_nodes))

    def _broken(self, sizes: Sizes, count: int) -> np.ndarray:
        broken = np.zeros(count, dtype=bool)
        for space in self.spaces:
            left = sizes(space)
            broken |= (left != space.size) & (left < FEWEST)
        for one in self.comparisons:
            broken |= one.outcome(sizes) != one.outcome(_now)
        return broken

    @staticmethod
    def _sizes_after(space: Space, removals: EditBatch) -> np.ndarray:
        removal, _ = space.lost(removals)
        lost = torch.bincount(removal, minlength=len(removals))
        return space.size - lost.cpu().numpy()


def _now(space: Space) -> np.ndarray:
    return np.array([space.size])


def _without_each(space: Space) -> np.ndarray:
    """The size of the space after removing each node alone `[N]`."""
    return space.size - space.removed_at.cpu().numpy()


def _another_branch(guard: Guard) -> str:
    if guard.operation == "plain":
        return (
            f"the model's Python code reads another number at {guard.line}, which turns a size into a plain "
            "number (use the size itself: x.size(0) // 2)"
        )
    return f"the model's Python code takes another branch at {guard.line}, which compares sizes"


def _always(guard: Guard) -> bool:
    """Whether a guard holds for all sizes, because it compares constants, or a size with itself."""
    if not any(not space.everlasting for space in guard.spaces()):
        return True
    return len(guard.operands) == 2 and guard.operands[0] == guard.operands[1]


def _largest(removals: EditBatch) -> int:
    """How many nodes and edges the largest edit of a batch removes."""
    passed = removals.ptr + removals.edge_ptr
    counts = passed[1:] - passed[:-1]
    return int(counts.max()) if len(counts) else 0


def _outlives(space: Space, removed: int, within: Tensor | None = None) -> bool:
    """Whether enough rows of a space remain after removing any set of nodes and edges of this size.

    A sample of the rows is checked first, as its remaining rows are a lower bound for all.
    """
    every = torch.arange(space.size)
    if within is not None:
        every = torch.isin(space.ends.cpu(), within).all(dim=0).nonzero().flatten()
    if len(every) < FEWEST:
        return False
    for rows in (every[:: max(1, len(every) // SAMPLED)], every):
        ends = space.ends[:, rows].cpu()
        counts = ends.flatten().unique(return_counts=True)[1]
        if space.origin is not None:  # rows that go with an edge
            edges = space.origin[rows].cpu()
            counts = torch.cat([counts, edges[edges >= 0].unique(return_counts=True)[1]])
        most = counts.topk(min(removed, len(counts))).values.sum()
        if ends.size(1) - int(most) >= FEWEST:
            return True
    return False
