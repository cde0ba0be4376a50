"""What is explored: a session with all that a page shows of its graph before anything is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from nora.explorer.changes import edge_values
from nora.explorer.places import places_of
from nora.problem.degree import degrees
from nora.questions.session import Session
from nora.report.drawing import ties
from nora.results.effect import NOTICEABLE
from nora.results.plots.style import COLOURS

# As many nodes are drawn, and of a graph of so many all edges at once.
DRAWN_NODES, WHOLE_NODES, WHOLE_EDGES = 200_000, 4_000, 15_000


@dataclass(frozen=True, eq=False)
class Network:
    """A session and what is known of its graph.

    Attributes:
        session: Asked by one thread at a time.
        before: Predictions on the graph, `[N, C]`, or of links `[P]`.
        predicts: What a prediction is: `classes`, `labels` or `links`.
        names: The nodes' names, or None.
        class_names: The classes' names.
        labels: Known classes `[N]`, −1 where unknown; None when none are known.
        title: What the data are called.
        run: The folder of the trained run, or None.
        place: Where each node is drawn `[N, 2]`, each coordinate 0 … 10,000.
    """

    session: Session
    before: Tensor
    predicts: str
    names: tuple[str, ...] | None
    class_names: tuple[str, ...]
    labels: np.ndarray | None
    title: str
    run: str | None
    place: np.ndarray

    @cached_property
    def data(self) -> Data:
        """The graph that the model sees."""
        assert isinstance(self.session.data, Data)
        return self.session.data

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.session.num_nodes

    @cached_property
    def predicted(self) -> np.ndarray | None:
        """Predicted classes `[N]`; None for links and several labels at once."""
        return self.before.argmax(dim=-1).numpy() if self.predicts == "classes" else None

    @cached_property
    def degree(self) -> np.ndarray:
        """Edges at each node `[N]`."""
        return degrees(self.data).long().numpy()

    @cached_property
    def ties(self) -> tuple[np.ndarray, np.ndarray]:
        """The ends of each tie, once."""
        return ties(self.data.edge_index.cpu().numpy(), self.num_nodes)

    @cached_property
    def adjacency(self) -> tuple[np.ndarray, np.ndarray]:
        """Where each node's neighbours begin `[N + 1]`, and the neighbours."""
        source, target = self.ties
        here, there = np.concatenate([source, target]), np.concatenate([target, source])
        start = np.zeros(self.num_nodes + 1, dtype=np.int64)
        start[1:] = np.bincount(here, minlength=self.num_nodes).cumsum()
        return start, there[np.lexsort((there, here))]

    def neighbours(self, node: int) -> np.ndarray:
        """Ids of the nodes tied to a node."""
        start, near = self.adjacency
        return near[start[node] : start[node + 1]]

    def among(self, nodes: np.ndarray) -> np.ndarray:
        """Ties among these nodes `[k, 2]`, each once."""
        inside = np.zeros(self.num_nodes, dtype=bool)
        inside[nodes] = True
        pairs = []
        for node in nodes.tolist():
            near = self.neighbours(node)
            near = near[inside[near] & (near > node)]
            pairs.append(np.stack([np.full(len(near), node), near], axis=1))
        return np.concatenate(pairs) if pairs else np.empty((0, 2), dtype=np.int64)

    @cached_property
    def searchable(self) -> list[str]:
        """What each node is called, in small letters."""
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

    def value(self) -> dict[str, Any]:
        """What the page knows from the start, as columns."""
        source, target = self.ties
        whole = self.num_nodes <= WHOLE_NODES and len(source) <= WHOLE_EDGES
        members = self.predicted if self.predicted is not None else self.labels
        x = self.data.get("x")
        columns: dict[str, Any] = {"degree": self.degree.tolist()}
        if self.names is not None:
            columns["name"] = list(self.names)
        if self.predicted is not None:
            columns["predicted"] = self.predicted.tolist()
            columns["confidence"] = _rounded(self.before.max(dim=-1).values)
        if self.labels is not None:
            columns["label"] = self.labels.tolist()
        drawn = np.argsort(-self.degree, kind="stable")[:DRAWN_NODES]
        return {
            "title": self.title,
            "run": self.run,
            "task": "link" if self.predicts == "links" else "node",
            "predicts": self.predicts,
            "num_nodes": self.num_nodes,
            "num_items": len(self.before),
            "num_edges": len(source),
            "undirected": self.session.edges.paired(None),
            "noticeable": NOTICEABLE,
            "classes": self._classes(members),
            "coloured_by": None
            if members is None
            else ("label" if self.predicted is None else "predicted"),
            "features": x.size(1) if isinstance(x, Tensor) and x.dim() == 2 else 0,
            "edge_values": edge_values(self.data),
            "node": columns,
            "drawing": {
                "whole": whole,
                "drawn": None if len(drawn) == self.num_nodes else np.sort(drawn).tolist(),
                "x": self.place[:, 0].tolist(),
                "y": self.place[:, 1].tolist(),
                "edge": np.stack([source, target], axis=1).ravel().tolist() if whole else [],
            },
            "can": ["flip"] if self.predicts == "classes" else [],
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


def network_of(
    session: Session,
    names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    labels: Tensor | Sequence[int] | None = None,
    title: str = "",
    run: str | None = None,
) -> Network:
    """Prepare a session for exploring, and look at its graph; see `nora.explore`."""
    data = session.data
    if not isinstance(data, Data):
        raise TypeError(
            "the explorer draws one kind of node: data must be a torch_geometric.data.Data, got "
            f"{type(data).__name__}"
        )
    if session.task.predicts == "values":
        raise ValueError(
            "the explorer tells classes and links; this task predicts numbers: use nora.what_if"
        )
    named = session.names if names is None else tuple(map(str, names))
    if named is not None and len(named) != session.num_nodes:
        raise ValueError(f"{len(named)} names for {session.num_nodes} nodes")
    before = _prepared(session)
    known = _labels(data, labels, session.num_nodes) if session.task.name == "node" else None
    number = before.size(1) if before.dim() == 2 else 0
    if known is not None:
        number = max(number, int(known.max(initial=-1)) + 1)
    told = tuple(map(str, class_names or ()))
    told = told[:number] + tuple(f"class {k}" for k in range(len(told), number))
    groups = before.argmax(dim=-1).numpy() if session.task.predicts == "classes" else known
    return Network(
        session=session,
        before=before,
        predicts=session.task.predicts,
        names=named,
        class_names=told,
        labels=known,
        title=title,
        run=run,
        place=places_of(data, groups),
    )


def _prepared(session: Session) -> Tensor:
    """Predictions on the graph; the engine is made ready, so that no later question waits for it."""
    from nora.engine.plan import UnsupportedError

    problem = session.problem()
    with problem.evaluating(), torch.no_grad():
        try:
            engine = session.prepared.engine(problem, removals=session.num_nodes)
            session.prepared.verify(engine, None, seed=0)
        except UnsupportedError:
            pass  # known from now on: every question is then a full pass
    return session.what_if(0).before.detach().cpu()


def _labels(data: Data, given: Any, num_nodes: int) -> np.ndarray | None:
    y = data.get("y") if given is None else torch.as_tensor(given)
    if not isinstance(y, Tensor) or y.is_floating_point() or y.numel() != num_nodes:
        if given is not None:
            raise ValueError(f"labels must be {num_nodes} whole numbers, got {list(y.shape)}")
        return None
    known = y.detach().cpu().reshape(-1).long().numpy()
    return known if (known >= 0).any() else None
