"""The graphs a model is recorded on: the asked one, one node fewer, and a few small ones.

What a model does must be the same on all of them, and sizes must be unambiguous: no two kinds of rows
(nodes of a type, edges of a set) may be equally many on every graph. Small graphs are made of pieces of
the asked one, so that they hold nothing a model could not meet.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from nora.graph.edge_sets import edge_set_keys, graph_edges
from nora.graph.node_index import Graph, node_index_of
from nora.graph.removal import disjoint_pieces, isolate_nodes, remove_nodes
from nora.model import Problem
from nora.model.task import Task
from nora.model.tasks.link_prediction import LinkPrediction

# Edges that a piece of a large graph begins with, and what counts as large.
PIECE = 40
SMALL = 96


def without_one(problem: Problem, hub: bool = True) -> list[tuple[Graph, Task, int | None]]:
    """The graph without the largest hub that is asked about, the task on it, and the hub.

    Nothing where that cannot be. The pass is one that verification then need not make.

    Args:
        problem: The question.
        hub: False for the graph without a node of a median number of edges instead.
    """
    n = problem.num_nodes
    if problem.by_id or n <= 1:
        return []
    edges_at = torch.bincount(problem.edge_index.cpu().flatten(), minlength=n)
    asked = problem.nodes.cpu() if problem.nodes.numel() else torch.arange(n)
    count = edges_at[asked]
    at = count.argmax() if hub else count.argsort(stable=True)[len(count) // 2]  # the median
    node = asked[at].reshape(1)
    keep = torch.ones(n, dtype=torch.bool)
    keep[node] = False
    task, _ = problem.task.survivors(keep.to(problem.device))
    return [(problem.without(node), task, int(node))]


def sample_graphs(problem: Problem, draw: int = 0) -> list[tuple[Graph, Task, int | None]]:
    """Two other graphs made of the asked one, each with the task on it; others for every `draw`."""
    if problem.by_id:
        return [
            (_fewer_edges(problem.data, 1 + k, draw), problem.task, None) for k in (draw, draw + 1)
        ]
    found: list[tuple[Graph, Task, int | None]] = []
    generator = torch.Generator().manual_seed(draw)
    edges = _ByKind(problem.edge_index.cpu(), _edge_kinds(problem))
    for count in (2, 3):
        pieces = [_piece(edges, problem.num_nodes, generator, k) for k in range(count)]
        sample = disjoint_pieces(problem.data, pieces)
        if count == 3:
            sample = _of_other_parity(sample, [problem.data, found[0][0]])
        found.append((sample, _task_on(problem, sample, count, generator), None))
    return found


def _edge_sets(data: Graph) -> list[Tensor]:
    """The edges of every set, by global ids `[2, E]`."""
    starts = node_index_of(data).starts if isinstance(data, HeteroData) else {}
    found = []
    for store in data.edge_stores if isinstance(data, HeteroData) else data.stores:
        kind = getattr(store, "_key", None)
        shift = torch.tensor([[starts[kind[0]]], [starts[kind[2]]]] if kind else [[0], [0]])
        for name in edge_set_keys(store):
            edges = graph_edges(store) if name == "adj_t" else store[name]
            if isinstance(edges, Tensor) and edges.layout == torch.strided and edges.size(0) == 2:
                found.append(edges.cpu() + shift)
    return found


def _of_other_parity(sample: Graph, others: list[Graph]) -> Graph:
    """A sample without a node or two, so that numbers of edges are even on some graphs, odd on others.

    That shows a branch on `edge_index.size(1) % 2`. Where every node has an even number of edges, as in
    undirected graphs, they are always even.
    """
    for _ in range(2):
        mine, *rest = ([edges.size(1) for edges in _edge_sets(data)] for data in (sample, *others))
        stuck = [len({n % 2 for n in each}) == 1 for each in zip(mine, *rest, strict=True)]
        flips = torch.zeros(int(sample.num_nodes or 0), dtype=torch.long)
        for edges, stays in zip(_edge_sets(sample), stuck, strict=True):
            once = edges[:, edges[0] != edges[1]].flatten()
            loops = edges[0, edges[0] == edges[1]]
            at = torch.bincount(torch.cat([once, loops]), minlength=len(flips))
            flips += (at % 2) * (1 if stays else -1)
        if len(flips) < 3 or int(flips.max()) <= 0:
            break
        sample = remove_nodes(sample, flips.argmax().reshape(1))
    return sample


def _edge_kinds(problem: Problem) -> Tensor | None:
    """A number for every edge, the same where a model may treat edges the same `[E]`; None: all are."""
    source, target = problem.edge_index.cpu()
    loops = source == target
    if isinstance(problem.data, Data) and "edge_type" not in problem.data and not loops.any():
        return None
    kind = loops.long()
    if isinstance(problem.data, Data):
        given = problem.data.get("edge_type")
        if (
            isinstance(given, Tensor)
            and given.shape == kind.shape
            and not given.is_floating_point()
        ):
            kind = kind + 2 * given.cpu().long()
        return kind
    counts = [graph_edges(store) for store in problem.data.edge_stores]
    types = [torch.full((e.size(1),), 2 * at) for at, e in enumerate(counts) if e is not None]
    return kind + torch.cat(types) if types else kind


class _ByKind:
    """Edges sorted by kind, so that some of every kind can be drawn without a look at the others.

    Args:
        edges: `[2, E]`.
        kinds: The kind of every edge `[E]`; None where all are of one.
    """

    def __init__(self, edges: Tensor, kinds: Tensor | None) -> None:
        self.edges = edges
        self._order = torch.arange(edges.size(1)) if kinds is None else _stable_order(kinds)
        self._size = torch.tensor([edges.size(1)] if edges.size(1) else [], dtype=torch.long)
        if kinds is not None:
            self._size = kinds[self._order].unique_consecutive(return_counts=True)[1]
        self.kinds = len(self._size)

    def some(self, most: int, generator: torch.Generator) -> Tensor:
        """The ends of up to so many edges of every kind."""
        share = torch.rand(self.kinds, most, generator=generator, dtype=torch.double)
        at = (share * self._size.unsqueeze(1)).long() + (
            self._size.cumsum(0) - self._size
        ).unsqueeze(1)
        return self.edges[:, self._order[at.flatten()]].flatten()


def _stable_order(kinds: Tensor) -> Tensor:
    """The positions of all edges, sorted by kind; NumPy sorts few kinds four times as fast as torch."""
    few = bool((kinds < 2**15).all())
    return torch.from_numpy(
        kinds.numpy().astype(np.int16 if few else np.int64).argsort(kind="stable")
    )


def _piece(edges: _ByKind, n: int, generator: torch.Generator, which: int) -> Tensor:
    """Nearly all nodes of a small graph; of a large one, nodes of some edges of every kind and others."""
    if n <= SMALL:
        removed = torch.randperm(n, generator=generator)[: min(1 + which, n - 1)]
        keep = torch.ones(n, dtype=torch.bool)
        keep[removed] = False
        return keep.nonzero().flatten()
    most = max(3, PIECE // max(edges.kinds + 1, 1) - 3 * which)
    others = torch.randint(n, (8 + 3 * which,), generator=generator)
    return torch.cat([edges.some(most, generator), others]).unique()


def _task_on(problem: Problem, sample: Graph, which: int, generator: torch.Generator) -> Task:
    """The task on another graph; what is asked of a pair does not depend on which it is.

    There are never as many pairs as on the asked graph: their number must differ from others.
    """
    task = problem.task
    if not isinstance(task, LinkPrediction):
        return task
    index, old = node_index_of(sample), problem.node_index
    count = 5 * which + int(torch.randint(5, (1,), generator=generator))
    count += count == task.pairs.size(1)
    relation = None
    if task.relation is not None and len(task.relation):
        some = torch.randint(len(task.relation), (count,), generator=generator)
        # Every relation is there: a decoder may treat each by itself.
        relation = torch.cat([task.relation.unique(), task.relation[some.to(task.relation.device)]])
        count = len(relation)
    rows = []
    for row in task.pairs.cpu():
        low, high = 0, index.total
        if old.types and len(row):
            kind = old.located(row[:1])[0][0]
            span = index.span(kind)
            low, high = span.start, span.stop
        rows.append(torch.randint(low, max(high, low + 1), (count,), generator=generator))
    pairs = torch.stack(rows).to(task.pairs.device)
    return with_pairs(task, pairs, relation)


def with_pairs(task: LinkPrediction, pairs: Tensor, relation: Tensor | None) -> LinkPrediction:
    """The same question of other pairs."""
    new = copy.copy(task)
    object.__setattr__(new, "pairs", pairs)
    object.__setattr__(new, "relation", relation)
    return new


def _fewer_edges(data: Graph, count: int, seed: int) -> Graph:
    """The same nodes, without those edges that some edges of every set share a node with."""
    generator = torch.Generator().manual_seed(seed)
    starts = node_index_of(data).starts if isinstance(data, HeteroData) else {}
    nodes = []
    for store in data.edge_stores:
        edges = graph_edges(store)
        if edges is not None and edges.numel():
            some = torch.randperm(edges.size(1), generator=generator)[:count]
            nodes.append(edges[0].cpu()[some] + (starts[store._key[0]] if starts else 0))
    every = torch.cat(nodes) if nodes else torch.arange(min(count, int(data.num_nodes or 0)))
    return isolate_nodes(data, every.unique())
