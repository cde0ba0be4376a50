"""Spaces: what the rows of a tensor stand for. Nodes of a type, edges of an edge set, or the whole graph.

An edit removes a row if it removes one of the row's *ends*: the end of a node row is the node itself, those
of an edge row are its source and target, that of an added self-loop is its node. When a model derives new
edges (by masks, self-loops, reverse edges, sorting), their rows keep these ends, so the engine knows which
rows an edit removes. They also keep their *origin*, the id of the graph's edge that they come from, for edits
that remove a single edge.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from nora.engine.ir.changed_rows import removed_keys
from nora.engine.ir.edges import csr
from nora.engine.ir.pointers import owner_of
from nora.engine.store.array_store import enter, moved
from nora.graph.edit_batch import EditBatch
from nora.sparse import expanded


@dataclass(eq=False)
class Space:
    """A set of rows that stand for nodes, edges or the whole graph.

    Attributes:
        label: What they are, for messages.
        sizes: Number of rows on every traced graph, the given one first.
        ends: Global ids of the nodes whose removal deletes each row, `[k, size]`; a node may occur twice.
        num_nodes: Number of nodes of all types.
        global_: Whether its rows belong to the whole graph, so that any edit may change them.
        origin: Edge id of the graph's edge that each row belongs to `[size]`, −1 for none; None if there are
            no such rows.
    """

    label: str
    sizes: tuple[int, ...]
    ends: Tensor
    num_nodes: int
    global_: bool = False
    origin: Tensor | None = None
    _sorted: dict[Tensor, tuple[Tensor, Tensor]] = field(default_factory=dict)
    # The same from disk, each followed by its index: that of a new tensor is found by what it holds.
    _kept_sorted: tuple[Tensor, ...] = ()

    def __post_init__(self) -> None:
        self.ends = moved(self.ends)
        if self.origin is not None:
            self.origin = moved(self.origin)
        enter("space", self)

    @property
    def size(self) -> int:
        """Number of rows on the given graph."""
        return self.sizes[0]

    @cached_property
    def by_end(self) -> tuple[Tensor, Tensor]:
        """The rows at every node in CSR form: `indptr [num_nodes + 1]`, `row`."""
        k, size = self.ends.shape
        row = torch.arange(size, device=self.ends.device).repeat(k)
        indptr, found, _ = csr(self.ends.reshape(-1), row, self.num_nodes)
        return indptr, found

    @cached_property
    def removed_at(self) -> Tensor:
        """How many rows the removal of each node alone removes `[num_nodes]`."""
        ends = self.ends
        if ends.size(0) > 1:  # a node counts once for each row
            ends = ends.sort(dim=0).values
            again = torch.zeros_like(ends, dtype=torch.bool)
            again[1:] = ends[1:] == ends[:-1]
            ends = ends[~again]
        return torch.bincount(ends.flatten(), minlength=self.num_nodes)

    @cached_property
    def by_origin(self) -> tuple[Tensor, Tensor]:
        """The rows of every edge of the graph in CSR form: `indptr`, `row`."""
        assert self.origin is not None
        row = (self.origin >= 0).nonzero().flatten()
        count = int(self.origin.max()) + 1 if len(self.origin) else 0
        indptr, found, _ = csr(self.origin[row], row, max(count, 0))
        return indptr, found

    @cached_property
    def rows_per_edge(self) -> int:
        """The largest number of rows that belong to one edge of the graph."""
        if self.origin is None or not len(self.origin):
            return 0
        indptr, _ = self.by_origin
        return int((indptr[1:] - indptr[:-1]).max()) if len(indptr) > 1 else 0

    @cached_property
    def one_end(self) -> bool:
        """Whether every row has a single end, so that no row is removed twice."""
        return self.ends.size(0) <= 1 or bool((self.ends == self.ends[:1]).all())

    @cached_property
    def everlasting(self) -> bool:
        """Whether no edit removes any row."""
        return self.ends.size(0) == 0 or self.size == 0

    def sorted_by(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """The positions in `index` that point at each row, in CSR form: `indptr [size + 1]`, `place`.

        Sorted once, because successive layers gather from and reduce to the same nodes along the same edges.
        """
        if index not in self._sorted:
            kept = self._kept_sorted
            at = next((k for k in range(0, len(kept), 3) if torch.equal(kept[k + 2], index)), None)
            if at is None:
                indptr, _, place = csr(index, index, self.size)
            else:
                indptr, place = kept[at : at + 2]
            self._sorted[index] = indptr, place
        return self._sorted[index]

    def lost(self, edits: EditBatch) -> tuple[Tensor, Tensor]:
        """The rows that each edit removes: `edit [K]`, sorted, and `row [K]`, without duplicates."""
        if self.everlasting:
            return edits.node[:0], edits.node[:0]
        indptr, row = self.by_end
        owner, position, _ = expanded(indptr, edits.node)
        edit, gone = owner_of(edits.ptr)[owner], row[position]
        with_edges = self._lost_with_edges(edits)
        if with_edges is not None:
            edit = torch.cat([edit, with_edges[0]])
            gone = torch.cat([gone, with_edges[1]])
        elif self.one_end and self.ends.size(0) == 1:
            return edit, gone
        keys = (edit * self.size + gone).unique()
        return keys // self.size, keys % self.size

    def _lost_with_edges(self, edits: EditBatch) -> tuple[Tensor, Tensor] | None:
        """The rows of edges that are removed one by one; None if there are none."""
        if not len(edits.edge) or self.origin is None:
            return None
        indptr, row = self.by_origin
        known = edits.edge < len(indptr) - 1
        owner, position, _ = expanded(indptr, edits.edge[known])
        return owner_of(edits.edge_ptr)[known][owner], row[position]

    def survive(self, edits: EditBatch, edit: Tensor, row: Tensor) -> Tensor:
        """Which of the pairs (edit, row) remain `[M]`."""
        if self.everlasting:
            return torch.ones_like(row, dtype=torch.bool)
        ends = self.ends[:, row]
        if edits.one_node_each:
            left = (ends != edits.node[edit]).all(dim=0)
        else:
            gone = removed_keys(edits, self.num_nodes)
            left = ~torch.isin(ends + edit * self.num_nodes, gone).any(dim=0)
        if not len(edits.edge) or self.origin is None:
            return left
        origin = self.origin[row]
        count = max(len(self.by_origin[0]), int(edits.edge.max()) + 1)
        gone = owner_of(edits.edge_ptr) * count + edits.edge
        return left & ~((origin >= 0) & torch.isin(edit * count + origin, gone))

    def covers(self, index: Tensor, other: Space) -> bool:
        """Whether removing a node that deletes row `index[i]` of the other space also deletes row `i`."""
        if other.everlasting or not index.numel():
            return True
        wanted = other.ends[:, index]
        return bool((wanted.unsqueeze(1) == self.ends.unsqueeze(0)).any(dim=1).all())

    def removed_with(self, index: Tensor, other: Space) -> bool:
        """Whether removing an edge that deletes row `index[i]` of the other space also deletes row `i`."""
        return not index.numel() or _same_origin(other.origin, index, self.origin)

    def covered(self, index: Tensor, other: Space) -> bool:
        """Whether removing a node that deletes row `i` also deletes row `index[i]` of the other space."""
        if self.everlasting or not index.numel():
            return True
        if other.everlasting:
            return False
        mine = other.ends[:, index]
        return bool((self.ends.unsqueeze(1) == mine.unsqueeze(0)).any(dim=1).all())

    def same_edges(self, other: Space) -> bool:
        """Whether the rows of both belong to the same edges."""
        if self.origin is None or other.origin is None:
            return self.origin is other.origin
        return self.origin is other.origin or torch.equal(self.origin, other.origin)

    def removes(self, index: Tensor, other: Space) -> bool:
        """Whether removing an edge that deletes row `i` also deletes row `index[i]` of the other space."""
        theirs = None if other.origin is None else other.origin[index]
        return not index.numel() or _same_origin(self.origin, slice(None), theirs)

    def removed_equally(self, other: Space) -> bool:
        """Whether every edit removes as many rows from both."""
        if self is other or self.ends is other.ends:
            return True
        return bool(torch.equal(self._by_ends, other._by_ends))

    @cached_property
    def _by_ends(self) -> Tensor:
        """A number for the ends of every row, in order `[size]`; nothing for rows that stay."""
        if not self.ends.size(0):
            return self.ends.new_empty(0)
        low, high = self.ends.min(dim=0).values, self.ends.max(dim=0).values
        return (low * self.num_nodes + high).sort().values

    def picked(self, rows: Tensor, label: str, sizes: tuple[int, ...]) -> Space:
        """A space of some of the rows, or of all of them in another order."""
        origin = None if self.origin is None else self.origin[rows]
        return Space(label, sizes, self.ends[:, rows], self.num_nodes, origin=origin)


def _same_origin(one: Tensor | None, rows: Tensor | slice, other: Tensor | None) -> bool:
    """Whether every one of the rows that has an origin has the same origin as its counterpart."""
    if one is None:
        return True
    origin = one[rows]
    if other is None:
        return not bool((origin >= 0).any())
    return bool(((origin < 0) | (origin == other)).all())


def nodes_of(
    label: str, start: int, sizes: tuple[int, ...], num_nodes: int, stay: bool = False
) -> Space:
    """The nodes of a type, whose global ids begin at `start`; `stay` if removals isolate them instead."""
    if stay:
        return Space(label, sizes, torch.empty(0, sizes[0], dtype=torch.long), num_nodes)
    return Space(label, sizes, torch.arange(start, start + sizes[0]).unsqueeze(0), num_nodes)


def whole_graph(num_nodes: int, slots: int = 1) -> Space:
    """Rows that belong to no node: statistics over the graph, or over fixed groups of nodes."""
    ends = torch.empty(0, slots, dtype=torch.long)
    return Space("the whole graph", (slots,), ends, num_nodes, global_=True)


def joined_space(parts: list[Space]) -> Space:
    """The rows of several spaces, one after the other: all can be removed, or none."""
    k = max(part.ends.size(0) for part in parts)
    ends = [
        part.ends if part.ends.size(0) == k else part.ends[torch.arange(k) % part.ends.size(0)]
        for part in parts
    ]
    sizes = tuple(sum(each) for each in zip(*(part.sizes for part in parts), strict=True))
    label = " and ".join(dict.fromkeys(part.label for part in parts))
    origin = None
    if any(part.origin is not None for part in parts):
        none = [torch.full((part.size,), -1) for part in parts]
        kept = [n if p.origin is None else p.origin for p, n in zip(parts, none, strict=True)]
        origin = torch.cat(kept)
    return Space(label, sizes, torch.cat(ends, dim=1), parts[0].num_nodes, origin=origin)
