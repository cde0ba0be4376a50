"""The bindings of the graph's own tensors: which rows each of them holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nora.engine.ir.op import Value
from nora.engine.ir.space import Space, nodes_of
from nora.engine.lower.known import Known, Layout, Matrix, Tracked
from nora.engine.trace.model import PAIRS, RELATION, tensors_of
from nora.engine.unsupported import UnsupportedError
from nora.graph.edge_lookup import EdgeLookup
from nora.graph.edge_sets import edge_set_keys, matrix_entries
from nora.graph.node_index import Graph, node_index_of
from nora.model import Problem
from nora.model.task import Task
from nora.model.tasks.link_prediction import LinkPrediction


@dataclass(frozen=True)
class Extent:
    """The sizes of a graph on which the model is traced.

    Attributes:
        counts: Nodes of every type.
        shapes: The shape of every tensor, by its name.
        entries: How many entries a sparse one has.
        pairs: How many pairs the task has on it.
    """

    counts: tuple[int, ...]
    shapes: dict[str, tuple[int, ...]]
    entries: dict[str, int]
    pairs: int

    @staticmethod
    def of(problem: Problem, data: Graph, task: Task) -> Extent:
        """The extent of a graph with a task."""
        tensors = tensors_of(problem.asked(data, task))
        sparse = {name: t for name, t in tensors.items() if t.layout != torch.strided}
        return Extent(
            tuple(node_index_of(data).counts),
            {name: tuple(tensor.shape) for name, tensor in tensors.items()},
            {name: matrix_entries(tensor)[0].size(1) for name, tensor in sparse.items()},
            task.pairs.size(1) if isinstance(task, LinkPrediction) else 0,
        )


class GraphInputs:
    """The spaces of a graph, and the bindings of its tensors.

    Args:
        problem: The question.
        extents: The sizes of the traced graphs, the given one first.

    Attributes:
        all_nodes: The nodes of all types.
        nodes: The nodes of every type, by type.
        spaces: Edges by set, and pairs.
        known: The binding of every tensor, by its name.
        features: `x` of every node type that has one.
        of_nodes: Attributes of nodes.
        of_edges: Attributes of the graph's own edges, with the edge type and name of each.
    """

    def __init__(self, problem: Problem, extents: Sequence[Extent]) -> None:
        self.problem, self.extents = problem, extents
        index = problem.node_index
        counts = [extent.counts for extent in extents]
        totals = tuple(sum(each) for each in counts)
        # Where weights go by node id, a removed node stays and loses its edges.
        stay = problem.by_id
        self.all_nodes = nodes_of("nodes", 0, totals, index.total, stay)
        self.nodes: dict[Any, Space] = {}
        if len(index.counts) == 1:
            self.nodes[index.types[0] if index.types else None] = self.all_nodes
        else:
            for at, kind in enumerate(index.types):
                sizes = tuple(each[at] for each in counts)
                label = f"nodes of type {kind!r}"
                self.nodes[kind] = nodes_of(label, index.starts[kind], sizes, index.total, stay)
        self.spaces: list[Space] = []
        self.edges = EdgeLookup(problem.data)
        self.features: dict[Any, Value] = {}
        self.of_nodes: list[Value] = []
        self.of_edges: dict[Value, tuple[Any, str]] = {}
        self.known = self._known()

    def _known(self) -> dict[str, Known]:
        """The binding of every tensor of the graph."""
        found: dict[str, Known] = {}
        asked = self.problem.asked(self.problem.data, self.problem.task)
        for store in asked.stores:
            key = getattr(store, "_key", None)
            sets = set(edge_set_keys(store)) if self._has_edges(store) else set()
            spaces = {name: self._edge_space(store, name) for name in sorted(sets)
                      if isinstance(store[name], Tensor)}  # fmt: skip
            for name, value in store.items():
                if not isinstance(value, Tensor):
                    continue
                full = f"{key}/{name}"
                sizes = [extent.shapes[full] for extent in self.extents]
                if name in spaces and value.layout == torch.strided and value.size(0) == 2:
                    found[full] = Tracked(Value(spaces[name], -1, value.t()), Layout(1), "id")
                elif name in spaces:
                    found[full] = self._matrix(store, value, spaces[name])
                else:
                    found[full] = self._attribute(asked, store, name, value, sizes, spaces)
                one = found[full]
                own = one.values if isinstance(one, Matrix) else getattr(one, "value", None)
                if isinstance(own, Value) and own.space.origin is not None:
                    kind = key if isinstance(key, tuple) else None
                    self.of_edges[own] = (kind, name)
                elif isinstance(one, Tracked) and not one.ids:
                    self.of_nodes.append(one.value)
        task = self.problem.task
        if isinstance(task, LinkPrediction):
            sizes_ = tuple(extent.pairs for extent in self.extents)
            space = Space("pairs", sizes_, task.pairs, self.all_nodes.size)
            self.spaces.append(space)
            value = Value(space, -1, task.pairs.t())
            found[PAIRS] = Tracked(value, Layout(1), "id")
            if task.relation is not None:
                found[RELATION] = Tracked(Value(space, -1, task.relation), Layout(0))
        return found

    def _has_edges(self, store: Any) -> bool:
        return self.problem.node_index.types == () or isinstance(
            getattr(store, "_key", None), tuple
        )

    def _starts(self, store: Any) -> tuple[int, int]:
        key = getattr(store, "_key", None)
        if not isinstance(key, tuple):
            return 0, 0
        starts = self.problem.node_index.starts
        return starts[key[0]], starts[key[2]]

    def _edge_space(self, store: Any, name: str) -> Space:
        """The rows of one edge set."""
        full = f"{getattr(store, '_key', None)}/{name}"
        value = store[name]
        label = "edges" if name == "edge_index" else f"edges of {name}"
        if isinstance(getattr(store, "_key", None), tuple):
            label = f"edges {store._key}"
        first, second = self._starts(store)
        if value.layout != torch.strided:
            row, column = matrix_entries(value)[0]  # transposed: rows are targets
            ends = torch.stack([column + first, row + second])
            sizes = tuple(extent.entries[full] for extent in self.extents)
        elif "adj" in name:
            raise UnsupportedError(
                f"data.{name} is a dense adjacency matrix, which is not supported"
            )
        else:
            ends = torch.stack([value[0] + first, value[1] + second])
            sizes = tuple(extent.shapes[full][1] for extent in self.extents)
        origin = self._numbers(store, name, value)
        if "hyperedge" in name:
            ends, origin = ends[:1], None
        space = Space(label, sizes, ends, self.all_nodes.size, origin=origin)
        self.spaces.append(space)
        return space

    def _numbers(self, store: Any, name: str, value: Tensor) -> Tensor | None:
        """The edge ids of an edge set (see `EdgeLookup`); None for further sets."""
        if name not in ("edge_index", "adj_t"):
            return None
        key = getattr(store, "_key", None)
        own = self.edges.types[key if isinstance(key, tuple) else None]
        if name == "edge_index" or store.get("edge_index") is None:
            return torch.arange(own.edges.size(1)) + own.start
        # The same edges a second time, in another order.
        entries = matrix_entries(value)[0].flip(0).cpu()
        if not bool(own.holds(entries).all()):
            return None
        which, column = own.columns(entries)
        first = torch.searchsorted(which, torch.arange(entries.size(1)))
        return column[first] + own.start

    def _matrix(self, store: Any, value: Tensor, space: Space) -> Known:
        """An adjacency matrix of targets by sources."""
        key = getattr(store, "_key", None)
        kinds_ = (key[2], key[0]) if isinstance(key, tuple) else (key, key)
        rows, columns = (self.nodes.get(kind, self.all_nodes) for kind in kinds_)
        (row, column), weight = matrix_entries(value)
        assert weight is not None
        by_rows = value.layout in (torch.sparse_coo, torch.sparse_csr)
        return Matrix(row, column, Value(space, -1, weight), rows, columns, by_rows)

    def _attribute(
        self,
        data: Graph,
        store: Any,
        name: str,
        value: Tensor,
        shapes: list[tuple[int, ...]],
        spaces: dict[str, Space],
    ) -> Known:
        """A tensor that belongs to nodes, to edges, or to the graph."""
        kind = getattr(store, "_key", None)
        dim = data.__cat_dim__(name, value, store)
        dim = dim % max(value.dim(), 1) if isinstance(dim, int) else 0
        sizes = tuple(shape[dim] for shape in shapes) if value.dim() else ()
        candidates = [*spaces.values()]
        if kind in self.nodes:
            candidates.insert(0, self.nodes[kind])
        for space in candidates:
            if value.dim() and value.layout == torch.strided and space.sizes == sizes:
                found = Tracked(Value(space, -1, value.movedim(dim, 0)), Layout(dim))
                if name == "x" and dim == 0 and space is self.nodes.get(kind):
                    self.features[kind] = found.value
                return found
        if all(shape == shapes[0] for shape in shapes):
            return value
        raise UnsupportedError(f"data.{name} has neither one row per node nor one per edge")
