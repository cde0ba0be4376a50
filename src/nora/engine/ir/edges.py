"""The edges a convolution passes messages along, sorted both ways, and how it normalises them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from nora.engine.ir.changed_rows import removed_keys
from nora.engine.ir.pointers import owner_of, ptr_of
from nora.engine.store.array_store import enter, moved_all
from nora.graph.edit_batch import EditBatch
from nora.sparse import csr_matrix, expanded

if TYPE_CHECKING:
    from nora.engine.exec.added_edges import AddedRows
    from nora.engine.ir.op import Value
    from nora.engine.ir.space import Space

Normalise = Literal["none", "mean", "sym"]


class Arrays(NamedTuple):
    """Edges in CSR form both ways with weights (empty: all ones), and per-node degrees and factors."""

    indptr: np.ndarray
    end: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    degree: np.ndarray
    arriving: np.ndarray
    norm_dst: np.ndarray
    norm_src: np.ndarray
    in_ptr: np.ndarray
    in_end: np.ndarray
    in_source: np.ndarray
    in_weight: np.ndarray


@dataclass(frozen=True, eq=False)
class EdgeDelta:
    """The edges that a batch of edits removes from and adds to one convolution, apart from removed nodes.

    Attributes:
        ptr: `[c+1]`; the edges of edit `i` are `ptr[i]:ptr[i+1]`.
        source, target: Their ends `[T]`, none of them a removed node.
        loss: Decrease of the summed weight into the target `[T]`, float64; negative for added edges.
        lost: Decrease of the number of edges: 1, or −1 for added edges.
        place: Position of a removed edge in `Edges.by_target`; −1 for added edges.
        weight: The weight of an added edge `[T]`, float64.
        added: Position among the batch's added edges; −1 for removed edges, and for self-loops whose weight
            changes.
    """

    ptr: Tensor
    source: Tensor
    target: Tensor
    loss: Tensor
    lost: Tensor
    place: Tensor
    weight: Tensor
    added: Tensor

    def __len__(self) -> int:
        return len(self.source)


def no_delta(count: int, device: torch.device) -> EdgeDelta:
    """An `EdgeDelta` without edges, for this many edits."""
    ptr = torch.zeros(count + 1, dtype=torch.long, device=device)
    none, real = ptr[:0], ptr[:0].double()
    return EdgeDelta(ptr, none, none, real, none, none, real, none)


@dataclass(frozen=True, eq=False)
class AddedEdgeRule:
    """How an added edge becomes an edge of a convolution.

    Attributes:
        space: The edge space of the convolution's `edge_index`.
        ends: Their sources and targets, global ids `[2, size]`.
        weight: Their weights; None without.
        kind: An edge attribute, and its value for the edges that the convolution uses; None for all edges.
        loops: Weight of the self-loop that the convolution adds to nodes without one; None if it adds none.
        own_loops: Whether the graph's own self-loops count if `loops` is given.
        reverse: Whether they lead from the target to the source.
    """

    space: Space
    ends: Tensor
    weight: Value | None
    kind: tuple[Value, int] | None
    loops: float | None
    own_loops: bool
    reverse: bool


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges of one convolution, including the self-loops it adds.

    The convolution computes `out_k = norm_dst_k Σ_{j→k} weight_jk · norm_src_j · y_j`, where `norm_dst` and
    `norm_src` follow from the degrees `D_k = Σ_{j→k} weight_jk`:

        none  norm_dst = norm_src = 1
        mean  norm_dst_k = 1 / max(number of edges into k, 1), norm_src = 1
        sym   norm_dst_k = D_k^(−1/2), norm_src_j = D_j^(−1/2), 0 where the degree is 0

    Attributes:
        source, target: `[E]`.
        weight: `[E]`, or None for all ones.
        num_nodes: Number of nodes.
        normalise: One of the three above.
        edge_id: The edge id of each edge in the graph (see `nora.graph.edge_lookup`), −1 for self-loops that
            the convolution adds; None if unknown.
        own_loops: Edge ids `[k]` and nodes `[k]` of the graph's self-loops whose weights replace those of the
            convolution.
        for_added: How an added edge becomes an edge of the convolution; None if unknown.
        ends: Where the rows of `by_source` and of `by_target` end `[N]`; None where the next one begins.
    """

    source: Tensor
    target: Tensor
    weight: Tensor | None
    num_nodes: int
    normalise: Normalise = "none"
    edge_id: Tensor | None = None
    own_loops: tuple[Tensor, Tensor] | None = None
    for_added: AddedEdgeRule | None = None
    ends: tuple[Tensor, Tensor] | None = None

    def __post_init__(self) -> None:
        enter("edges", self)

    @cached_property
    def by_edge_id(self) -> tuple[Tensor, Tensor]:
        """For every edge of the graph, the positions of its edges here, in CSR form.

        There are several if the model added reverse edges.
        """
        assert self.edge_id is not None
        own = (self.edge_id >= 0).nonzero().flatten()
        count = int(self.edge_id.max()) + 1 if len(self.edge_id) else 0
        return csr(self.edge_id[own], own, max(count, 0))[:2]

    def delta(self, batch: EditBatch, added_rows: AddedRows | None = None) -> EdgeDelta:
        """The edges that a batch of edits removes and adds, except those of removed nodes."""
        parts, loops = [], []
        if len(batch.edge):
            parts.append(self._removed(batch))
            loops += [self._loops_removed(batch)] if self.own_loops is not None else []
        if added_rows is not None and self.for_added is not None:
            (edit, which, source, target, weight), own = self.added(added_rows)
            ends = (target, source) if self.for_added.reverse else (source, target)
            parts.append(self._gained(edit, *ends, weight, which))
            loops.append((own[0], own[2], own[4]))
        parts += self._reweighted(loops)
        if not parts:
            return no_delta(len(batch), self.source.device)
        edit, *columns = (torch.cat(column) for column in zip(*parts, strict=True))
        source, target = columns[:2]
        n = self.num_nodes
        removed = removed_keys(batch, n)
        left = ~(torch.isin(edit * n + source, removed) | torch.isin(edit * n + target, removed))
        order = edit[left].argsort(stable=True)
        ptr = ptr_of(edit[left], len(batch))
        return EdgeDelta(ptr, *(column[left][order] for column in columns))

    def added(self, added_rows: AddedRows) -> tuple[list[Tensor], list[Tensor]]:
        """Added edges, and added self-loops whose weight replaces that of another.

        Both as `edit`, `which` of the batch's added edges, `source`, `target`, `weight`.
        """
        rule = self.for_added
        assert rule is not None
        columns = added_rows.of_convolution(rule)
        loop = columns[2] == columns[3]
        loop &= rule.loops is not None
        own = loop & (rule.own_loops and rule.weight is not None)
        return [column[~loop] for column in columns], [column[own] for column in columns]

    def _removed(self, batch: EditBatch) -> tuple[Tensor, ...]:
        indptr, found = self.by_edge_id
        known = batch.edge < len(indptr) - 1
        owner, position, _ = expanded(indptr, batch.edge[known])
        own = found[position]
        return self._lost(owner_of(batch.edge_ptr)[known][owner], own, self._places(own))

    def _lost(self, edit: Tensor, own: Tensor, place: Tensor) -> tuple[Tensor, ...]:
        """Columns of an `EdgeDelta` for edges that are removed."""
        one = torch.ones_like(own)
        weighted = self.normalise == "sym" and self.weight is not None
        loss = self.weight[own].double() if weighted and self.weight is not None else one.double()
        return edit, self.source[own], self.target[own], loss, one, place, one.double(), -one

    def _gained(
        self, edit: Tensor, source: Tensor, target: Tensor, weight: Tensor, added: Tensor
    ) -> tuple[Tensor, ...]:
        """Columns of an `EdgeDelta` for edges that are added."""
        minus = -torch.ones_like(edit)
        weighted = self.normalise == "sym" and self.weight is not None
        loss = -weight if weighted else minus.double()
        return edit, source, target, loss, minus, minus, weight, added

    def _places(self, edge: Tensor) -> Tensor:
        """Positions of some of these edges in `by_target`, by bisection."""
        order, target = self.by_target[2], self.target[edge]
        low, high = self.by_target[0][target], self.in_end[target]
        while bool((high - low > 1).any()):
            middle = (low + high) // 2
            before = order[middle] <= edge
            low, high = torch.where(before, middle, low), torch.where(before, high, middle)
        return low

    def _loops_removed(self, batch: EditBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Removed self-loops of the graph: `edit`, `node`, and the weight of the convolution's self-loop
        instead."""
        assert self.own_loops is not None and self.for_added is not None
        edge_id, node = self.own_loops
        order = edge_id.argsort()
        at = torch.searchsorted(edge_id[order], batch.edge).clamp(max=max(len(edge_id) - 1, 0))
        there = edge_id[order][at] == batch.edge if len(edge_id) else batch.edge < 0
        found = node[order][at[there]] if len(edge_id) else batch.edge[there]
        fill = torch.full_like(found, float(self.for_added.loops or 0), dtype=torch.double)
        return owner_of(batch.edge_ptr)[there], found, fill

    def _reweighted(self, loops: list[tuple[Tensor, Tensor, Tensor]]) -> list[tuple[Tensor, ...]]:
        """Self-loops whose weight changes, as removed and added again; of several, the last one counts."""
        if not sum(len(edit) for edit, _, _ in loops):
            return []
        edit, node, weight = (torch.cat(column) for column in zip(*loops, strict=True))
        key = edit * self.num_nodes + node
        distinct, group = key.unique(return_inverse=True)
        last = torch.zeros_like(distinct).scatter_reduce(
            0, group, torch.arange(len(key), device=key.device), "amax", include_self=False
        )
        edit, node, weight = edit[last], node[last], weight[last]
        _, source, edge = self.by_target
        owner, place, _ = self.into(node)
        place = place[source[place] == node[owner]]  # every node has one loop here
        added = self._gained(edit, node, node, weight, -torch.ones_like(edit))
        return [self._lost(edit, edge[place], place), added]

    @cached_property
    def weight_range(self) -> Tensor:
        """The smallest and the largest weight `[2]`, float64; none without weights."""
        if self.weight is None or not len(self.weight):
            return torch.empty(0, dtype=torch.double)
        return torch.stack(self.weight.aminmax()).double()

    @cached_property
    def by_source(self) -> tuple[Tensor, Tensor, Tensor]:
        """Out-edges in CSR form: `indptr [N+1]`, `target [E]`, `edge [E]`."""
        return csr(self.source, self.target, self.num_nodes)

    @cached_property
    def by_target(self) -> tuple[Tensor, Tensor, Tensor]:
        """In-edges in CSR form: `indptr [N+1]`, `source [E]`, `edge [E]`."""
        return csr(self.target, self.source, self.num_nodes)

    @property
    def out_end(self) -> Tensor:
        """The end of every row of `by_source` `[N]`."""
        return self.by_source[0][1:] if self.ends is None else self.ends[0]

    @property
    def in_end(self) -> Tensor:
        """The end of every row of `by_target` `[N]`."""
        return self.by_target[0][1:] if self.ends is None else self.ends[1]

    def out_of(self, node: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The edges out of some nodes, as positions in `by_source`; see `expanded`."""
        return expanded(self.by_source[0], node, self.out_end)

    def into(self, node: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The edges into some nodes, as positions in `by_target`; see `expanded`."""
        return expanded(self.by_target[0], node, self.in_end)

    @cached_property
    def weight_by_source(self) -> Tensor | None:
        """Edge weights in the order of `by_source`."""
        return None if self.weight is None else self.weight[self.by_source[2]].contiguous()

    @cached_property
    def weight_by_target(self) -> Tensor | None:
        """Edge weights in the order of `by_target`."""
        return None if self.weight is None else self.weight[self.by_target[2]].contiguous()

    @cached_property
    def degree(self) -> Tensor:
        """The denominator of the normalisation: summed weights (sym) or the edge count, in float64."""
        if self.normalise != "sym" or self.weight is None:
            return self.count.double()
        zeros = torch.zeros(self.num_nodes, dtype=torch.double, device=self.source.device)
        return zeros.index_add(0, self.target, self.weight.double())

    @cached_property
    def count(self) -> Tensor:
        """Number of edges into each node `[N]`."""
        return self.in_end - self.by_target[0][: self.num_nodes]

    def scale(self, degree: Tensor) -> Tensor:
        """The `norm_dst` factor for given degrees."""
        if self.normalise == "sym":
            root = degree.pow(-0.5)
            return torch.where(degree == 0, torch.zeros_like(root), root)
        if self.normalise == "mean":
            return 1 / degree.clamp(min=1)
        return torch.ones_like(degree)

    @cached_property
    def norm_dst(self) -> Tensor:
        """`norm_dst` on the whole graph `[N]`, float64."""
        return self.scale(self.degree)

    @cached_property
    def norm_src(self) -> Tensor:
        """`norm_src` on the whole graph `[N]`, float64."""
        return self.norm_dst if self.normalise == "sym" else torch.ones_like(self.norm_dst)

    @cached_property
    def _ids(self) -> tuple[Tensor, Tensor]:
        """The targets of `by_source` and the sources of `by_target`, in the smallest integer type that holds
        them."""
        narrow = torch.int if self.num_nodes < 2**31 else torch.long
        return moved_all((self.by_source[1].to(narrow), self.by_target[1].to(narrow)))

    @cached_property
    def arrays(self) -> Arrays:
        """The arrays that the compiled loops read, in NumPy, on the CPU."""
        indptr, (target, in_source) = self.by_source[0], self._ids
        weight, in_weight = self.weight_by_source, self.weight_by_target
        none = np.empty(0, dtype=np.float32)
        return Arrays(
            indptr=indptr.numpy(),
            end=self.out_end.numpy(),
            target=target.numpy(),
            weight=none if weight is None else weight.numpy(),
            degree=self.degree.numpy(),
            arriving=self.count.numpy(),
            norm_dst=self.norm_dst.numpy(),
            norm_src=self.norm_src.numpy(),
            in_ptr=self.by_target[0].numpy(),
            in_end=self.in_end.numpy(),
            in_source=in_source.numpy(),
            in_weight=none if in_weight is None else in_weight.numpy(),
        )

    @cached_property
    def _keyed(self) -> tuple[Tensor, Tensor]:
        """Distinct edges as sorted numbers `source · N + target`, and their summed weights."""
        key, place = (self.source * self.num_nodes + self.target).unique(return_inverse=True)
        ones = torch.ones(place.numel(), dtype=torch.double, device=place.device)
        weight = ones if self.weight is None else self.weight.double()
        return key, torch.zeros_like(key, dtype=torch.double).index_add(0, place, weight)

    def between(self, source: Tensor, target: Tensor) -> Tensor:
        """Weight of the edge from each source to its target `[M]`, 0 where there is none, float64."""
        key, weight = self._keyed
        wanted = source * self.num_nodes + target
        if not key.numel():
            return torch.zeros_like(wanted, dtype=torch.double)
        at = torch.searchsorted(key, wanted).clamp(max=len(key) - 1)
        return torch.where(key[at] == wanted, weight[at], torch.zeros_like(weight[at]))

    def total(self, y: Tensor) -> Tensor:
        """`Σ_{j→k} weight_jk norm_src_j y_j` on the whole graph `[N, F]`, without `norm_dst`."""
        y = y * self.norm_src.to(y.dtype).unsqueeze(-1) if self.normalise == "sym" else y
        return self.matrix(y.dtype) @ y

    def matrix(self, dtype: torch.dtype) -> Tensor:
        """`weight_jk` as a sparse matrix `[N, N]`, a row per target."""
        if dtype not in self._matrices:
            indptr, source, edge = self.by_target
            if self.weight is None:
                weight = torch.ones(source.numel(), dtype=dtype, device=source.device)
            else:
                weight = self.weight[edge].to(dtype)
            self._matrices[dtype] = csr_matrix(indptr, source, weight, self.num_nodes)
        return self._matrices[dtype]

    @cached_property
    def _matrices(self) -> dict[torch.dtype, Tensor]:
        return {}


def well_behaved(weight: Tensor) -> bool:
    """Whether degrees can be corrected by differences, because no weights cancel."""
    if not weight.numel():
        return True
    low, high = float(weight.min()), float(weight.max())
    return low > 0 and high <= 1e6 * low


def csr(row: Tensor, column: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sort by `row`: `indptr [N+1]`, the columns, and the old position of each."""
    # SciPy counts, which is several times quicker than sorting.
    place: Any = np.arange(len(row), dtype=np.int32 if len(row) < 2**31 else np.int64)
    shape = (num_nodes, 1 + int(column.max()) if len(column) else 1)
    entries = sparse.coo_array((place, (row.numpy(), column.numpy())), shape=shape)
    entries.has_canonical_format = True  # else equal edges would be merged
    found = entries.tocsr()
    indptr, columns, order = (
        torch.from_numpy(part).long() for part in (found.indptr, found.indices, found.data)
    )
    return moved_all((indptr, columns, order))
