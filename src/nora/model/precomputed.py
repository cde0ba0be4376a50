"""Recognise structure that was computed before the model sees the graph.

`G−r` must be normalised, encoded and counted afresh. Weights that `T.GCNNorm` has put into `data`, positional
encodings, degrees among the features and propagated features stay those of `G`; only `transform=` computes
them again. Recognised are

- edge weights that are GCN's, or sum to 1 at every node;
- node values that are the same at all nodes of one degree, and differ between degrees: any function of it;
- solutions of linear equations on the graph: eigenvectors of the Laplacian or the adjacency, PageRank;
- return probabilities of random walks;
- features that are another attribute's, propagated (SIGN, SGC where the original ones are in `data` too).

Propagated features alone are not recognised, nor are embeddings (node2vec) or other centralities.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from nora.graph.edge_sets import graph_edges, matrix_entries

# Names that PyG's transforms use, and the transforms.
ENCODINGS = {
    "laplacian_eigenvector_pe": "T.AddLaplacianEigenvectorPE(k, attr_name='laplacian_eigenvector_pe')",
    "random_walk_pe": "T.AddRandomWalkPE(walk_length)",
}
# Columns of one-hot degrees that are looked for: the most frequent degrees.
MOST_FREQUENT = 3
# A function of the degrees takes other values in about so many groups of nodes of the same degree; that so
# many nodes more than groups fit shows that it is one.
FEWEST_GROUPS, FEWEST_FITTING = 4, 8
# How often features are propagated at most, where the original ones are there.
MOST_HOPS = 3
# Rows of the features that are looked at first.
LOOKED_AT = 64
CLOSE = 1e-4
# A description of what was found, and the transform that computes it again.
Precomputed = tuple[str, str]


def precomputed(data: Data | HeteroData, read: set[str]) -> Iterator[Precomputed]:
    """Tensors of a graph that were computed from its structure, and transforms that recompute them.

    Args:
        data: The graph.
        read: Names of the tensors that the model reads, as in `data.x`.
    """
    for store in data.stores:
        key = getattr(store, "_key", None)
        prefix = "data." if key is None else f"data[{key!r}]."
        edges = graph_edges(store) if isinstance(data, Data) else None
        structure = None if edges is None else Structure(edges.cpu(), int(data.num_nodes or 0))
        for name, value in store.items():
            if f"{prefix}{name}" in read and isinstance(value, Tensor):
                found = _found(store, name, value, structure)
                if found is not None:
                    yield f"{prefix}{name} {found[0]}", found[1]


def _found(store: Any, name: str, value: Tensor, structure: Structure | None) -> Precomputed | None:
    if name in ENCODINGS:
        return "is a positional encoding", ENCODINGS[name]
    if structure is None or name in ("y", "batch") or value.dtype == torch.bool:
        return None
    edges, num_nodes = structure.edges, structure.num_nodes
    if name == "adj_t" or ("edge" in name and value.numel() == edges.size(1)):
        weight = matrix_entries(value)[1] if name == "adj_t" else value
        if weight is not None and weight.is_floating_point():
            return structure.normalisation(weight.flatten().cpu())
        return None
    if "edge" in name or value.dim() not in (1, 2) or len(value) != num_nodes:
        return None
    found = structure.among(value.cpu())
    others = {
        other: its.cpu().double()
        for other, its in store.items()
        if other not in (name, "y") and isinstance(its, Tensor) and its.is_floating_point()
        and its.shape == value.shape
    }  # fmt: skip
    if found is None and value.dim() == 2 and value.is_floating_point():
        for other, its in others.items():
            hops = structure.hops(value.cpu().double(), its)
            if hops:
                return (
                    f"holds propagated features, as SIGN's do: those of {other}, {hops} times",
                    f"T.SIGN({hops}), or a function that propagates data.{other}",
                )
    return found


class Structure:
    """Values that can be computed from the edges of a graph alone.

    Args:
        edges: The edges `[2, E]`.
        num_nodes: Number of nodes.
    """

    def __init__(self, edges: Tensor, num_nodes: int) -> None:
        self.edges, self.num_nodes = edges, num_nodes
        self.degrees = [torch.bincount(end, minlength=num_nodes) for end in edges]

    def are_degrees(self, value: Tensor) -> bool:
        """Whether values of all nodes `[N]` are the degrees themselves, however few nodes there are."""
        return any(
            bool((possible != possible[0]).any()) and bool((value == possible).all())
            for degree in self.degrees
            for possible in (degree, degree.clamp(min=1))
        )

    def normalisation(self, weight: Tensor) -> Precomputed | None:
        """Whether weights are those of GCN, or sum to 1 at every node, and are not all the same."""
        if weight.numel() < 2 or bool((weight == weight[0]).all()):
            return None
        weight = weight.double()
        source, target = self.edges
        degree = self.degrees[1].double().clamp(min=1)
        if _close(weight, (degree[source] * degree[target]).rsqrt()):
            return "holds GCN's normalisation of this graph", "T.GCNNorm()"
        for end, word in ((target, "incoming"), (source, "outgoing")):
            total = torch.zeros(self.num_nodes, dtype=torch.double).index_add_(0, end, weight)
            there = torch.bincount(end, minlength=self.num_nodes) > 0
            if _close(total[there], torch.ones(int(there.sum()), dtype=torch.double)):
                return (
                    f"sums to 1 over the {word} edges of every node",
                    "the function that normalises it",
                )
        return None

    def among(self, value: Tensor) -> Precomputed | None:
        """The structure found among the columns of node values `[N]` or `[N, F]`."""
        x = value.view(len(value), -1)
        if not self.edges.numel() or not x.numel():
            return None
        incoming_too = not torch.equal(*self.degrees)
        for degree in self.degrees[: 1 + incoming_too]:
            if _has_function(x, degree):
                return "has a column that follows from the degrees", "a function that computes it"
            values, counts = degree.unique(return_counts=True)
            frequent = values[counts.argsort(descending=True)[:MOST_FREQUENT]]
            if len(values) > MOST_FREQUENT and all(
                _has_column(x, degree == one) for one in frequent
            ):
                return "has one-hot degrees among its columns", "T.OneHotDegree(max_degree)"
        dense = (x[:LOOKED_AT] != 0).double().mean(dim=0) > 0.5
        if not x.is_floating_point() or not bool(dense.any()):
            return None
        x = x if bool(dense.all()) else x[:, dense]
        if self._has_return_probability(x):
            return (
                "has return probabilities of random walks among its columns",
                "T.AddRandomWalkPE(k)",
            )
        if self._has_eigenvector(x):
            return (
                "has a column that solves a linear equation on the graph, as an eigenvector (a positional "
                "encoding) or PageRank does",
                "T.AddLaplacianEigenvectorPE(k), or a function that computes it",
            )
        return None

    @cached_property
    def _some(self) -> Tensor:
        """A few nodes with edges, spread over all `[n]`."""
        there = self.degrees[1].nonzero().flatten()
        return there[:: max(1, len(there) // LOOKED_AT)].contiguous()

    def _at(self, nodes: Tensor, end: int) -> Tensor:
        """The edges with one of these nodes at an end `[2, m]`."""
        here = torch.zeros(self.num_nodes, dtype=torch.bool)
        here[nodes] = True
        return self.edges[:, here[self.edges[end]]]

    def _has_return_probability(self, x: Tensor) -> bool:
        """Whether a column holds return probabilities of a random walk of two steps, up to a factor."""
        # A few nodes, with all edges of theirs and of their neighbours, rule out most columns.
        some = self._some
        beside = torch.cat([some, self._at(some, 0)[1]]).unique()
        few = self._return_probability(self._at(beside, 0))[some]
        if bool((few != few[0]).any()):
            x = x[:, _proportional(few, x[some])]
        return bool(x.numel()) and bool(
            _proportional(self._return_probability(self.edges), x).any()
        )

    def _return_probability(self, edges: Tensor) -> Tensor:
        """Return probabilities of a random walk of two steps along edges `[2, m]`, from every node `[N]`."""
        n, (source, target) = self.num_nodes, edges
        key = (source * n + target).unique()
        source, target = key // n, key % n
        both = torch.isin(target * n + source, key)
        degree = torch.bincount(source, minlength=n).double().clamp(min=1)
        steps = 1 / (degree[source] * degree[target])
        return torch.zeros(n, dtype=torch.double).index_add_(0, source[both], steps[both])

    def _has_eigenvector(self, x: Tensor) -> bool:
        """Whether a column is an eigenvector of the adjacency or a Laplacian, checked in some rows."""
        degree, some = self.degrees[1], self._some
        source, target = self._at(some, 1)
        if len(some) < FEWEST_FITTING:
            return False
        # In a complete graph, every column solves these equations; so does one of chance.
        chance = torch.rand(
            len(x), 1, generator=torch.Generator().manual_seed(0), dtype=torch.double
        )
        x = torch.cat([x.double(), chance], dim=1)
        factor = degree.double().clamp(min=1).rsqrt()
        loops = (degree + 1).double().rsqrt()
        mine, sent = x[some], x[source]
        place = torch.searchsorted(some, target.contiguous())

        def summed(rows: Tensor) -> Tensor:
            return torch.zeros_like(mine).index_add_(0, place, rows)

        plain, d = summed(sent), degree[some].double().unsqueeze(1)
        sym = summed(sent * factor[source].unsqueeze(1)) * factor[some].unsqueeze(1)
        looped = summed(sent * loops[source].unsqueeze(1)) * loops[some].unsqueeze(1)
        shares = summed(sent / degree[source].double().clamp(min=1).unsqueeze(1))
        for product in (plain, plain / d, shares, sym, looped + mine / (d + 1), d * mine - plain):
            # product = value * mine + constant, by least squares in every column.
            one, other = mine - mine.mean(dim=0), product - product.mean(dim=0)
            value = (one * other).sum(dim=0) / (one * one).sum(dim=0).clamp(min=1e-30)
            off, size = (other - value * one).norm(dim=0), other.norm(dim=0)
            # A value near 0 would make everything that vanishes there an eigenvector.
            solves = (off <= 1e-3 * size) & (size > 1e-9)
            if bool(solves.any()) and not bool(solves[-1]):
                return True
        return False

    def hops(self, value: Tensor, before: Tensor) -> int:
        """How many propagations turn `before` into `value`; 0 if none do."""
        source, target = self.edges
        degree = self.degrees[1].to(before.dtype)

        def propagated(h: Tensor, loops: int, right: bool) -> Tensor:
            total = degree + loops
            factor = total.clamp(min=1).pow(-0.5 if right else -1) * (total > 0)
            sent = h * (factor.unsqueeze(1) if right else 1)
            found = sent * loops + torch.zeros_like(h).index_add_(0, target, sent[source])
            return found * factor.unsqueeze(1)

        for loops in (0, 1):
            for right in (True, False):
                h = before
                for hop in range(1, MOST_HOPS + 1):
                    h = propagated(h, loops, right)
                    if torch.allclose(h, value, rtol=1e-3, atol=1e-4) and bool((h != before).any()):
                        return hop
        return 0


def _proportional(values: Tensor, x: Tensor) -> Tensor:
    """Which columns are a multiple of these values `[n]`, up to a constant."""
    values, x = values - values.mean(), x.double()
    whole = x.norm(dim=0)
    x = x - x.mean(dim=0)
    differ = x.norm(dim=0) > 1e-9 * whole
    cosine = (values @ x).abs() / (values.norm() * x.norm(dim=0)).clamp(min=1e-12)
    return differ & (cosine > 1 - 1e-7)


def _has_function(x: Tensor, group: Tensor) -> bool:
    """Whether a column is constant within each group of nodes `[N]`, but differs between groups."""
    order = group.argsort(stable=True)
    numbers, counts = group[order].unique_consecutive(return_counts=True)
    several = counts >= 2
    if int(several.sum()) < FEWEST_GROUPS or len(group) - len(numbers) < FEWEST_FITTING:
        return False
    first = counts.cumsum(0) - counts  # the first node of every group
    chosen = order[first[several]][:LOOKED_AT]
    second = order[first[several] + 1][:LOOKED_AT]
    # A few pairs of nodes rule out most columns.
    left = _same(x[chosen], x[second]).all(dim=0).nonzero().flatten()
    ordered = x[chosen][:, left].sort(dim=0).values
    distinct = 1 + (ordered[1:] != ordered[:-1]).sum(dim=0)
    left = left[distinct >= FEWEST_GROUPS - 1]
    if not len(left):
        return False
    x = x[:, left]
    leader = order[first].repeat_interleave(counts)
    fits = _same(x[order], x[leader]).all(dim=0)
    return bool(fits.any())


def _same(a: Tensor, b: Tensor) -> Tensor:
    return a == b if not a.is_floating_point() else (a - b).abs() <= CLOSE * (a.abs() + b.abs())


def _has_column(x: Tensor, column: Tensor) -> bool:
    """Whether a matrix contains a column; comparing a few rows first rules out most columns."""
    column = column.to(x.dtype).unsqueeze(1)
    some = torch.linspace(0, len(x) - 1, LOOKED_AT).long()
    left = (x[some] == column[some]).all(dim=0).nonzero().flatten()
    return bool((x[:, left] == column).all(dim=0).any())


def _close(a: Tensor, b: Tensor) -> bool:
    return bool(((a - b).abs() <= CLOSE * b.abs()).all())
