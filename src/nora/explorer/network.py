"""The explored network: a session, and all that a page shows before the first edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from nora.explorer.filters import Grouping, groupings
from nora.explorer.layouts import layout_of
from nora.explorer.origin import Origin
from nora.explorer.page_edits import edge_kinds
from nora.graph.degrees import degrees
from nora.graph.node_index import Graph, global_edges
from nora.model.measuring import items_of, labels_in, measures_of
from nora.progress import progress_bar
from nora.questions.session import Session
from nora.report.drawing import edge_pairs
from nora.results.effect import NOTICEABLE
from nora.results.plots.style import COLOURS
from nora.wording import visible

# As many nodes are drawn, and of a graph of so many all edges at once.
DRAWN_NODES, WHOLE_NODES, WHOLE_EDGES = 200_000, 4_000, 15_000
MOST_CLASSES = 50


@dataclass(frozen=True, eq=False)
class Network:
    """A session, and facts about its graph.

    Attributes:
        session: Asked by one thread at a time.
        before: Predictions on the graph, `[N, C]`, or of links `[P]`.
        predicts: What a prediction is: `classes`, `labels` or `links`.
        names: The nodes' names, or None.
        class_names: The classes' names.
        labels: Known classes `[N]`, −1 where unknown; None when none are known.
        title: What the data are called.
        origin: Where model and graph come from.
        edge_pairs: Pairs of nodes with an edge, each once: their smaller and larger ids.
        place: Where each node is drawn `[N, 2]`, each coordinate 0 … 10,000.
        groups: Ways to group nodes, by which they are filtered.
        counted: Mask `[N]` of the nodes that have a prediction; None where all do.
        feature_names: The names of the first columns of `x`; empty where they have none.
    """

    session: Session
    before: Tensor
    predicts: str
    names: tuple[str, ...] | None
    class_names: tuple[str, ...]
    labels: np.ndarray | None
    title: str
    origin: Origin
    edge_pairs: tuple[np.ndarray, np.ndarray]
    place: np.ndarray
    groups: tuple[Grouping, ...] = ()
    counted: np.ndarray | None = None
    feature_names: tuple[str, ...] = ()

    @property
    def data(self) -> Graph:
        """The graph that the model sees."""
        return self.session.data

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.session.num_nodes

    @cached_property
    def predicted(self) -> np.ndarray | None:
        """Predicted classes `[N]`, −1 where none is; None for links and several labels at once."""
        if self.predicts != "classes":
            return None
        found = self.before.argmax(dim=-1).numpy()
        return found if self.counted is None else np.where(self.counted, found, -1)

    @cached_property
    def degree(self) -> np.ndarray:
        """Edges at each node `[N]`."""
        return degrees(self.data).long().numpy()

    @cached_property
    def pair_edges(self) -> tuple[Tensor, Tensor]:
        """The ids of all edges of each pair, of every type and direction: `ptr [k+1]`, `number`."""
        source, target = global_edges(self.data).cpu().numpy()
        low, high = np.minimum(source, target), np.maximum(source, target)
        key = low * np.int64(self.num_nodes) + high
        known = self.edge_pairs[0] * np.int64(self.num_nodes) + self.edge_pairs[1]
        number = np.flatnonzero(low != high)
        pair = np.searchsorted(known, key[number])
        order = np.argsort(pair, kind="stable")
        ptr = np.zeros(len(known) + 1, dtype=np.int64)
        ptr[1:] = np.bincount(pair, minlength=len(known)).cumsum()
        return torch.from_numpy(ptr), torch.from_numpy(number[order])

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """The measures by which this network's nodes and edges can be ranked."""
        wanted = ["change", "flips", "loss", "accuracy"]
        if self.predicts != "links":
            wanted += [f"class:{k}" for k in range(min(len(self.class_names), MOST_CLASSES))]
        problem, found = self.session.problem(), []
        every = replace(problem, task=problem.task.on_every_class())
        items = items_of(every, self.before, problem.task.counted_classes)
        for one in wanted:
            try:
                measures_of(one, items)
            except ValueError:
                continue  # it needs labels, or is of another kind of prediction
            found.append(one)
        return tuple(found)

    @cached_property
    def kind(self) -> np.ndarray | None:
        """The type of each node `[N]`; None where all are of one."""
        index = self.session.node_index
        if len(index.types) < 2:
            return None
        return np.repeat(np.arange(len(index.types)), index.counts)

    def named(self, node: int) -> Any:
        """A node as questions take it: with its type if the graph has types."""
        index = self.session.node_index
        return index.located(torch.tensor([node]))[0] if index.types else node

    def position(self, node: Any) -> int:
        """A node's id, from what results call it."""
        if not isinstance(node, tuple):
            return int(node)
        return self.session.node_index.starts[node[0]] + int(node[1])

    @cached_property
    def adjacency(self) -> tuple[np.ndarray, np.ndarray]:
        """The starts of each node's neighbours `[N + 1]`, and the neighbours."""
        source, target = self.edge_pairs
        here, there = np.concatenate([source, target]), np.concatenate([target, source])
        start = np.zeros(self.num_nodes + 1, dtype=np.int64)
        start[1:] = np.bincount(here, minlength=self.num_nodes).cumsum()
        return start, there[np.lexsort((there, here))]

    def neighbours(self, node: int) -> np.ndarray:
        """Ids of the neighbours of a node."""
        start, neighbours = self.adjacency
        return neighbours[start[node] : start[node + 1]]

    def neighbours_of(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Neighbours of several nodes: the positions in `nodes` `[m]`, and the neighbours' ids `[m]`."""
        start, neighbours = self.adjacency
        count = start[nodes + 1] - start[nodes]
        owner = np.repeat(np.arange(len(nodes)), count)
        offset = np.arange(len(owner)) - np.repeat(count.cumsum() - count, count)
        return owner, neighbours[start[nodes][owner] + offset]

    def among(self, nodes: np.ndarray) -> np.ndarray:
        """Edges among these nodes `[k, 2]`, each once."""
        inside = np.zeros(self.num_nodes, dtype=bool)
        inside[nodes] = True
        owner, neighbours = self.neighbours_of(nodes)
        here = nodes[owner]
        kept = inside[neighbours] & (neighbours > here)
        return np.stack([here[kept], neighbours[kept]], axis=1)

    @cached_property
    def searchable(self) -> list[str]:
        """Every node's name, in lower case."""
        if self.names is None:
            return [str(node) for node in range(self.num_nodes)]
        return [name.casefold() for name in self.names]

    def find(self, text: str, most: int) -> list[int]:
        """Ids of nodes whose name holds the text: that name first, then those that begin with it."""
        wanted = text.strip().casefold()
        if not wanted:
            return []
        if self.names is None:
            wanted = wanted.removeprefix("node").strip() or wanted
        found: tuple[list[int], list[int], list[int]] = ([], [], [])
        for node, name in enumerate(self.searchable):
            if wanted in name:
                at = 0 if name == wanted else 1 if name.startswith(wanted) else 2
                found[at].append(node)
        by_degree = [sorted(part, key=lambda node: -self.degree[node]) for part in found]
        return [node for part in by_degree for node in part][:most]

    @property
    def undirected(self) -> bool:
        """Whether an edge has no direction."""
        edges = self.session.edges
        return all(edges.paired(kind) for kind in edges.types)

    def value(self) -> dict[str, Any]:
        """The data that the page starts with, as columns."""
        source, target = self.edge_pairs
        whole = self.num_nodes <= WHOLE_NODES and len(source) <= WHOLE_EDGES
        members = self.predicted if self.predicted is not None else self.labels
        columns: dict[str, Any] = {"degree": self.degree.tolist()}
        if self.names is not None:
            columns["name"] = list(self.names)
        if self.predicted is not None:
            columns["predicted"] = self.predicted.tolist()
            columns["confidence"] = _rounded(self.before.nan_to_num().max(dim=-1).values)
        if self.kind is not None:
            columns["kind"] = self.kind.tolist()
        if self.labels is not None:
            columns["label"] = self.labels.tolist()
        drawn = np.argsort(-self.degree, kind="stable")[:DRAWN_NODES]
        return {
            "title": self.title,
            "command": self.origin.command,
            "task": "link" if self.predicts == "links" else "node",
            "predicts": self.predicts,
            "num_nodes": self.num_nodes,
            "num_items": len(self.before) if self.counted is None else int(self.counted.sum()),
            "num_edges": len(source),
            "undirected": self.undirected,
            "noticeable": NOTICEABLE,
            "classes": self._classes(members),
            "coloured_by": None
            if members is None
            else ("label" if self.predicted is None else "predicted"),
            "features": any(_has_features(store) for store in self.data.node_stores),
            "feature_names": list(self.feature_names),
            "edge_kinds": edge_kinds(self.session),
            "groups": [one.columns() for one in self.groups],
            "measures": list(self.measures),
            "node": columns,
            "drawing": {
                "whole": whole,
                "drawn": None if len(drawn) == self.num_nodes else np.sort(drawn).tolist(),
                "x": self.place[:, 0].tolist(),
                "y": self.place[:, 1].tolist(),
                "edge": np.stack([source, target], axis=1).ravel().tolist() if whole else [],
            },
            "can": ["flip", "fragile"] if self.predicts == "classes" else [],
        }

    def _classes(self, members: np.ndarray | None) -> list[dict[str, Any]]:
        """Names, frequencies and colours: of many classes the commonest have a colour, others grey."""
        number = len(self.class_names)
        counts = np.zeros(number, dtype=int)
        if members is not None:
            counts = np.bincount(members[members >= 0], minlength=number)
        slots = np.arange(number)
        if number > len(COLOURS):
            common = np.sort(np.argsort(-counts, kind="stable")[: len(COLOURS)])
            slots = np.full(number, -1)
            slots[common] = np.arange(len(COLOURS))
        return [
            {"name": name, "count": int(counts[k]), "colour": int(slots[k])}
            for k, name in enumerate(self.class_names)
        ]


def _rounded(values: Tensor) -> list[float]:
    return np.round(values.double().numpy(), 4).tolist()


@dataclass(frozen=True, eq=False)
class About:
    """Names, labels and groups from the caller, checked before the model runs; see `nora.explore`."""

    names: tuple[str, ...] | None = None
    class_names: tuple[str, ...] = ()
    labels: Any = None
    title: str = ""
    origin: Origin | None = None
    groups: tuple[Grouping, ...] = ()
    feature_names: tuple[str, ...] = ()


def check_session_arguments(
    session: Session,
    *,
    class_names: Sequence[str] | None = None,
    labels: Tensor | Sequence[int] | None = None,
    title: str = "",
    origin: Origin | None = None,
    groups: Mapping[str, Sequence[Any]] | None = None,
    feature_names: Sequence[str] | None = None,
) -> About:
    """Check what the caller gives for a session that is to be explored."""
    data, index = session.data, session.node_index
    if session.task.predicts == "values":
        raise ValueError(
            "the explorer shows classes and links; this task predicts numbers: use nora.what_if"
        )
    if session.task.name != "node" and not isinstance(data, Data):
        raise TypeError(
            "links of a graph with node types cannot be explored yet: use nora.what_if(model, data, …, task)"
        )
    named = session.names
    if named is None and len(index.types) > 1:
        sizes = zip(index.types, index.counts, strict=True)
        named = tuple(f"{kind} {k}" for kind, n in sizes for k in range(n))
    return About(
        names=named,
        class_names=tuple(map(str, class_names or ())),
        labels=labels,
        title=visible(title),
        origin=origin,
        groups=tuple(groupings(data, groups)),
        feature_names=_feature_names(data, feature_names),
    )


def network_of(session: Session, given: About | None = None) -> Network:
    """Look at a session's graph, and run its model on it."""
    given = check_session_arguments(session) if given is None else given
    with progress_bar("running the model on the graph", None, show=False):
        problem = session.problem()
        every = replace(problem, task=problem.task.on_every_class())
        with problem.evaluating(), torch.no_grad():
            before = every.predict().detach().cpu()
    counted = np.ones(len(before), dtype=bool)
    if problem.targets is not None:
        counted = problem.targets.cpu().numpy()
    labels = None
    if session.task.name == "node":
        labels = _labels(session.data, counted, given.labels, session.num_nodes)
    number = before.size(1) if before.dim() == 2 else 0
    if labels is not None:
        number = max(number, int(labels.max(initial=-1)) + 1)
    classes = given.class_names[:number]
    classes += tuple(f"class {k}" for k in range(len(classes), number))
    sides = before.argmax(dim=-1).numpy() if session.task.predicts == "classes" else labels
    with progress_bar("laying out the graph", None, show=False):
        ends = edge_pairs(global_edges(session.data).cpu().numpy(), session.num_nodes)
        place = layout_of(session.num_nodes, ends, sides)
    return Network(
        session=session,
        before=before,
        predicts=session.task.predicts,
        names=given.names,
        class_names=classes,
        labels=labels,
        title=given.title,
        origin=given.origin or Origin(),
        edge_pairs=ends,
        place=place,
        groups=given.groups,
        counted=None if counted.all() else counted,
        feature_names=given.feature_names,
    )


def prepare_engine(session: Session) -> None:
    """Prepare the exact engine and compare it with the model, so that the first click need not wait."""
    from nora.engine.unsupported import UnsupportedError

    problem = session.problem()
    with problem.evaluating(), torch.no_grad():
        try:
            engine = session.prepared.engine(problem, removals=session.num_nodes)
            session.prepared.verify(engine, None, seed=0)
        except UnsupportedError:
            pass  # from now on every question is a full pass


def _feature_names(data: Graph, given: Sequence[str] | None) -> tuple[str, ...]:
    """Names of the first columns of `x`, checked."""
    if given is None:
        return ()
    if not isinstance(data, Data):
        raise TypeError("feature_names are for a graph of one node type; leave them out here")
    names = tuple(visible(str(name)) for name in given)
    columns = data.x.size(-1) if isinstance(data.x, Tensor) else 0
    if len(names) > columns:
        raise ValueError(
            f"feature_names must have one entry per column of x, {columns}; got {len(names)}"
        )
    return names


def _has_features(store: Any) -> bool:
    x = store.get("x")
    return isinstance(x, Tensor) and x.dim() == 2 and x.is_floating_point() and x.size(1) > 0


def _labels(data: Graph, counted: np.ndarray, given: Any, num_nodes: int) -> np.ndarray | None:
    y = labels_in(data, torch.from_numpy(counted)) if given is None else torch.as_tensor(given)
    if not isinstance(y, Tensor) or y.is_floating_point() or y.numel() != num_nodes:
        if given is not None:
            got = list(torch.as_tensor(given).shape)
            raise ValueError(f"labels must be {num_nodes} whole numbers, got {got}")
        return None
    known = y.detach().cpu().reshape(-1).long().numpy()
    return known if (known >= 0).any() else None
