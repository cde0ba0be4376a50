"""The edges a convolution passes messages along, sorted both ways, and how it normalises them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nora.engine.changed import Removals
from nora.engine.ledger import enter, moved_all
from nora.engine.pointers import owner_of
from nora.sparse import csr_matrix

if TYPE_CHECKING:
    from nora.engine.arrivals import Arrivals
    from nora.engine.spaces import Space
    from nora.engine.steps.step import Value

Normalise = Literal["none", "mean", "sym"]


class Arrays(NamedTuple):
    """Edges in CSR form both ways with weights (empty: all ones), and per-node degrees and factors."""

    indptr: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    degree: np.ndarray
    arriving: np.ndarray
    left: np.ndarray
    right: np.ndarray
    in_ptr: np.ndarray
    in_source: np.ndarray
    in_weight: np.ndarray


@dataclass(frozen=True, eq=False)
class Ties:
    """Edges that go or come by themselves in a chunk of removals, as one convolution has them.

    Attributes:
        ptr: `[c+1]`; those of removal `i` are `ptr[i]:ptr[i+1]`.
        source, target: Their ends `[T]`, none of them removed.
        loss: What the weights of the edges into the target lose by it `[T]`, float64; less than 0 for edges
            that come.
        lost: What their number loses: 1, or −1 for edges that come.
        place: Where an edge that goes stands in `Edges.by_target`; −1 for edges that come.
        weight: The weight of an edge that comes `[T]`, float64.
    """

    ptr: Tensor
    source: Tensor
    target: Tensor
    loss: Tensor
    lost: Tensor
    place: Tensor
    weight: Tensor

    def __len__(self) -> int:
        return len(self.source)


def no_ties(count: int, device: torch.device) -> Ties:
    """Nothing goes or comes by itself in so many removals."""
    ptr = torch.zeros(count + 1, dtype=torch.long, device=device)
    none, real = ptr[:0], ptr[:0].double()
    return Ties(ptr, none, none, real, none, none, real)


@dataclass(frozen=True, eq=False)
class Comes:
    """How an edge that comes becomes an edge of a convolution.

    Attributes:
        space: Whose rows the edges are that the convolution is given.
        ends: Their sources and targets, global ids `[2, size]`.
        weight: Their weights; None without.
        kind: What is said of them, and what it must be for the convolution to use them; None for all.
        loops: The weight of the self-loop that every node has that has none of its own; None without.
        own_loops: Whether those of the graph count where `loops` is given.
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

    The convolution computes `out_k = left_k Σ_{j→k} weight_jk · right_j · y_j`, where `left` and
    `right` follow from the degrees `D_k = Σ_{j→k} weight_jk`:

        none  left = right = 1
        mean  left_k = 1 / max(number of edges into k, 1), right = 1
        sym   left_k = D_k^(−1/2), right_j = D_j^(−1/2), 0 where the degree is 0

    Attributes:
        source, target: `[E]`.
        weight: `[E]`, or None for all ones.
        num_nodes: Number of nodes.
        normalise: One of the three above.
        number: The number of the graph's edge that each one is (see `nora.problem.edge_lookup`), −1 for
            self-loops that the convolution adds; None where nobody knows.
        own_loops: Numbers `[k]` and nodes `[k]` of the graph's self-loops whose weights stand in place of
            those that the convolution gives, where it does.
        first_loop: Where the self-loops that every node is given begin; those of node 0, 1, … follow.
        comes: How edges that come become edges of the convolution; None where nobody knows.
    """

    source: Tensor
    target: Tensor
    weight: Tensor | None
    num_nodes: int
    normalise: Normalise = "none"
    number: Tensor | None = None
    own_loops: tuple[Tensor, Tensor] | None = None
    first_loop: int = 0
    comes: Comes | None = None

    def __post_init__(self) -> None:
        enter("edges", self)

    @cached_property
    def _own(self) -> tuple[Tensor, Tensor, Tensor]:
        """Which of these edges every edge of the graph is, in CSR form, and their place in `by_target`.

        One may be several here, where a model has made both directions of it.
        """
        assert self.number is not None
        own = (self.number >= 0).nonzero().flatten()
        count = int(self.number.max()) + 1 if len(self.number) else 0
        indptr, found, _ = csr(self.number[own], own, max(count, 0))
        order = self.by_target[2]
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order), device=order.device)
        return indptr, found, place

    def ties(self, removals: Removals, arrivals: Arrivals | None = None) -> Ties:
        """The edges that a chunk of removals takes away or brings by themselves."""
        parts = [self._lost(removals)] if removals.edge is not None else []
        loops = [self._loops_lost(removals)] if removals.edge is not None and self.own_loops else []
        if arrivals is not None and self.comes is not None:
            come, replaced = self._gained(self.comes, arrivals)
            parts.append(come)
            loops.append(replaced)
        parts += self._exchanged(loops)
        if not parts:
            return no_ties(len(removals), self.source.device)
        removal, *columns = (torch.cat(column) for column in zip(*parts, strict=True))
        source, target = columns[:2]
        n = self.num_nodes
        gone = owner_of(removals.ptr) * n + removals.node
        left = ~(torch.isin(removal * n + source, gone) | torch.isin(removal * n + target, gone))
        order = removal[left].argsort(stable=True)
        ptr = torch.zeros(len(removals) + 1, dtype=torch.long, device=self.source.device)
        ptr[1:] = torch.bincount(removal[left], minlength=len(removals)).cumsum(0)
        return Ties(ptr, *(column[left][order] for column in columns))

    def _lost(self, removals: Removals) -> tuple[Tensor, ...]:
        assert removals.edge is not None and removals.edge_ptr is not None
        indptr, found, place = self._own
        known = removals.edge < len(indptr) - 1
        number = removals.edge[known]
        counts = indptr[number + 1] - indptr[number]
        which = torch.arange(len(number), device=number.device).repeat_interleave(counts)
        passed = counts.cumsum(0) - counts
        at = torch.arange(len(which), device=number.device) - passed[which]
        own = found[indptr[number][which] + at]
        removal = owner_of(removals.edge_ptr)[known][which]
        ones = torch.ones_like(own, dtype=torch.double)
        weighted = self.normalise == "sym" and self.weight is not None
        loss = self.weight[own].double() if weighted and self.weight is not None else ones
        one = torch.ones_like(own)
        return removal, self.source[own], self.target[own], loss, one, place[own], ones

    def _gained(
        self, comes: Comes, arrivals: Arrivals
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, Tensor, Tensor]]:
        """The edges that come, and the self-loops among them that replace others."""
        removal, source, target, given = arrivals.comes(comes)
        ones = torch.ones_like(removal, dtype=torch.double)
        weight = ones if given is None else given.double()
        loop = torch.zeros_like(removal, dtype=torch.bool)
        if comes.loops is not None:
            loop = source == target
        mine = loop if comes.own_loops and given is not None else loop & False
        replaced = removal[mine], source[mine], weight[mine]
        new = ~loop
        removal, source, target, weight = removal[new], source[new], target[new], weight[new]
        ends = (target, source) if comes.reverse else (source, target)
        return self._coming(removal, *ends, weight), replaced

    def _coming(
        self, removal: Tensor, source: Tensor, target: Tensor, weight: Tensor
    ) -> tuple[Tensor, ...]:
        minus = -torch.ones_like(removal)
        weighted = self.normalise == "sym" and self.weight is not None
        return (
            removal,
            source,
            target,
            -weight if weighted else minus.double(),
            minus,
            minus,
            weight,
        )

    def _loops_lost(self, removals: Removals) -> tuple[Tensor, Tensor, Tensor]:
        """Self-loops of the graph that go: `removal`, `node`, and the weight that the node gets then."""
        assert self.own_loops is not None and self.comes is not None
        assert removals.edge is not None and removals.edge_ptr is not None
        number, node = self.own_loops
        order = number.argsort()
        at = torch.searchsorted(number[order], removals.edge).clamp(max=max(len(number) - 1, 0))
        there = number[order][at] == removals.edge if len(number) else removals.edge < 0
        found = node[order][at[there]] if len(number) else removals.edge[there]
        fill = torch.full_like(found, float(self.comes.loops or 0), dtype=torch.double)
        return owner_of(removals.edge_ptr)[there], found, fill

    def _exchanged(self, loops: list[tuple[Tensor, Tensor, Tensor]]) -> list[tuple[Tensor, ...]]:
        """Self-loops that get another weight: they go, and come with it; the last one counts."""
        if not sum(len(removal) for removal, _, _ in loops):
            return []
        removal, node, weight = (torch.cat(column) for column in zip(*loops, strict=True))
        key = removal * self.num_nodes + node
        distinct, group = key.unique(return_inverse=True)
        last = torch.zeros_like(distinct).scatter_reduce(
            0, group, torch.arange(len(key), device=key.device), "amax", include_self=False
        )
        removal, node, weight = removal[last], node[last], weight[last]
        own = node + self.first_loop
        one = torch.ones_like(own)
        old = one.double() if self.weight is None else self.weight[own].double()
        loss = old if self.normalise == "sym" else one.double()
        gone = (removal, node, node, loss, one, self._own[2][own], old)
        return [gone, self._coming(removal, node, node, weight)]

    @cached_property
    def by_source(self) -> tuple[Tensor, Tensor, Tensor]:
        """Out-edges in CSR form: `indptr [N+1]`, `target [E]`, `edge [E]`."""
        return csr(self.source, self.target, self.num_nodes)

    @cached_property
    def by_target(self) -> tuple[Tensor, Tensor, Tensor]:
        """In-edges in CSR form: `indptr [N+1]`, `source [E]`, `edge [E]`."""
        return csr(self.target, self.source, self.num_nodes)

    @cached_property
    def weight_by_source(self) -> Tensor | None:
        """Edge weights in the order of `by_source`."""
        return None if self.weight is None else self.weight[self.by_source[2]].contiguous()

    @cached_property
    def degree(self) -> Tensor:
        """What the normalisation divides by: summed weights (sym) or the edge count, in float64."""
        if self.normalise == "sym" and self.weight is not None:
            ones = self.weight.double()
        else:
            ones = torch.ones(self.source.numel(), dtype=torch.double, device=self.source.device)
        zeros = torch.zeros(self.num_nodes, dtype=torch.double, device=self.source.device)
        return zeros.index_add(0, self.target, ones)

    @cached_property
    def count(self) -> Tensor:
        """Number of edges into each node `[N]`."""
        indptr = self.by_target[0]
        return indptr[1:] - indptr[:-1]

    def scale(self, degree: Tensor) -> Tensor:
        """The `left` factor for given degrees."""
        if self.normalise == "sym":
            root = degree.pow(-0.5)
            return torch.where(degree == 0, torch.zeros_like(root), root)
        if self.normalise == "mean":
            return 1 / degree.clamp(min=1)
        return torch.ones_like(degree)

    @cached_property
    def left(self) -> Tensor:
        """`left` on the whole graph `[N]`, float64."""
        return self.scale(self.degree)

    @cached_property
    def right(self) -> Tensor:
        """`right` on the whole graph `[N]`, float64."""
        return self.left if self.normalise == "sym" else torch.ones_like(self.left)

    @cached_property
    def _ids(self) -> tuple[Tensor, Tensor]:
        """The targets of `by_source` and the sources of `by_target` in as few bytes as hold them."""
        narrow = torch.int if self.num_nodes < 2**31 else torch.long
        return moved_all((self.by_source[1].to(narrow), self.by_target[1].to(narrow)))

    @cached_property
    def arrays(self) -> Arrays:
        """What the compiled loops read, as NumPy arrays on the CPU."""
        indptr, (target, in_source) = self.by_source[0], self._ids
        weight = self.weight_by_source
        in_ptr, _, in_edge = self.by_target
        none = np.empty(0, dtype=np.float32)
        return Arrays(
            indptr=indptr.numpy(),
            target=target.numpy(),
            weight=none if weight is None else weight.numpy(),
            degree=self.degree.numpy(),
            arriving=self.count.numpy(),
            left=self.left.numpy(),
            right=self.right.numpy(),
            in_ptr=in_ptr.numpy(),
            in_source=in_source.numpy(),
            in_weight=none if self.weight is None else self.weight[in_edge].contiguous().numpy(),
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
        """`Σ_{j→k} weight_jk right_j y_j` on the whole graph `[N, F]`, without `left`."""
        y = y * self.right.to(y.dtype).unsqueeze(-1) if self.normalise == "sym" else y
        return self.matrix(y.dtype) @ y

    def matrix(self, dtype: torch.dtype) -> Tensor:
        """`weight_jk` as a sparse matrix `[N, N]`, a row per receiver."""
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
    """Whether degrees can be corrected by differences: no sum of weights is smaller than its parts."""
    if not weight.numel():
        return True
    low, high = float(weight.min()), float(weight.max())
    return low > 0 and high <= 1e6 * low


def csr(row: Tensor, column: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sort by `row`: `indptr [N+1]`, the columns, and where each stood before."""
    order = row.argsort(stable=True)
    indptr = torch.zeros(num_nodes + 1, dtype=torch.long, device=row.device)
    indptr[1:] = torch.bincount(row, minlength=num_nodes).cumsum(0)
    return moved_all((indptr, column[order].contiguous(), order))
