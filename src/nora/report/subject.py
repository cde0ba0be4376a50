"""What a report is about: scores, structure and removal effects, gathered once and checked.

The predictions come from `nora.what_if`, what each removal would change from one batch of the same, PageRank
from `nora.influence`. Of an estimate the first nodes are computed exactly, and ranked by that. How many
removals that will be is said first, so that the engine is prepared once for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from nora.arguments import check_whole
from nora.graph.degree import degrees
from nora.model.task import Task
from nora.questions.refine import refined
from nora.questions.session import Session
from nora.report.consequences import LEAST, Consequence, consequences_of
from nora.report.edges import LISTED, Edges, first_edges
from nora.report.fragility import fragile_counts
from nora.results.exactness import YARDSTICKS, is_exact, refinement
from nora.results.influence import Influence

# More than ever fit a page.
MOST_EFFECTS = 4000


@dataclass(frozen=True, eq=False)
class Subject:
    """The facts a report tells.

    Attributes:
        graph: The whole graph; the model may have seen a part of its edges.
        task: `node` or `link`.
        scores: The main scores, then those they are compared with.
        influence: The main scores `[N]`, NaN where a node was not asked for.
        rank: Ranks `[N]` by influence, 1 the first; 0 where there is no score.
        degree: Edges of the graph at each node `[N]`, in and out.
        pagerank: PageRank `[N]`.
        effects: What the removal of each of the first nodes would change, by node id, the first first.
        exact: Whether each score is the definition's own `[N]`.
        estimate: How far the others may be off (see `nora.questions.refine`); None where all are exact, or
            are scores of another kind.
        edges: The most influential edges; None where there are none, or none were asked for.
        fragile: How many single removals flip each node's prediction `[N]`, −1 where it does not count; None
            where predictions are no classes, or finding out would take too long.
        items: Number of predictions: nodes, or pairs.
        predicted: Predicted classes `[N]`; None for links.
        labels: Known classes `[N]`, −1 where unknown; None when none are known.
        names: The nodes' names, or None.
        class_names: The classes' names; empty when there are no classes.
        counted: How many predictions count, where only some do (`targets=`); None for all.
    """

    graph: Data
    task: str
    scores: tuple[Influence, ...]
    influence: np.ndarray
    rank: np.ndarray
    degree: np.ndarray
    pagerank: np.ndarray
    effects: dict[int, Consequence]
    exact: np.ndarray
    estimate: Mapping[str, Any] | None
    edges: Edges | None
    fragile: np.ndarray | None
    items: int
    predicted: np.ndarray | None
    labels: np.ndarray | None
    names: tuple[str, ...] | None
    class_names: tuple[str, ...]
    counted: int | None = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the graph."""
        return len(self.influence)

    @property
    def order(self) -> np.ndarray:
        """Ids of the scored nodes, the most influential first."""
        scored = np.flatnonzero(self.rank)
        return scored[np.argsort(self.rank[scored])]

    def name(self, node: int) -> str:
        """A node's name, or `node 17`."""
        return self.names[node] if self.names is not None else f"node {node}"


def removals_of_page(session: Session, effects: int | None = None, edges: int = LISTED) -> int:
    """How many removals a page asks for at most: whose effects it tells, for fragile nodes, for edges."""
    told = min(session.num_nodes, MOST_EFFECTS if effects is None else effects)
    for_fragile = session.num_nodes if session.task.predicts == "classes" else 0
    return 1 + told + for_fragile + (session.every_edge[None].size(1) if edges else 0)


def gather(
    session: Session,
    scores: Influence | Sequence[Influence],
    names: Sequence[str] | None,
    class_names: Sequence[str] | None,
    labels: Tensor | Sequence[int] | None,
    effects: int | None,
    graph: Data | None = None,
    edges: int = LISTED,
    progress: bool = False,
) -> Subject:
    """Check the input and find out what the page tells; see `nora.write_report`."""
    data = session.data
    assert isinstance(data, Data)
    if effects is not None and effects < 0:
        raise ValueError(f"effects must be at least 0, got {effects}")
    check_whole("edges", edges, 0)
    num_nodes = int(data.num_nodes or 0)
    whole = data if graph is None else graph
    if whole.num_nodes != num_nodes:
        raise ValueError(f"graph has {whole.num_nodes} nodes, data has {num_nodes}")
    given = _check_scores(scores, session.task, num_nodes)
    session.prepared.expect(removals_of_page(session, effects, edges))
    least = LEAST if effects is None else max(effects, 1)
    main = refined(session, given[0], least=least, progress=progress)
    given = (main, *given[1:])
    frame = main.to_frame()
    rank = np.zeros(num_nodes, dtype=np.int64)
    rank[frame["node"]] = frame["rank"]
    exact = _exactly_known(main, num_nodes)
    ranked = main.sort()["node"].to_numpy()
    # Every node whose effect is told is ranked by it.
    told = ranked if main.method in YARDSTICKS or not exact.any() else ranked[exact[ranked]]
    first = told[: MOST_EFFECTS if effects is None else effects].tolist()
    # One removal is asked for in any case: its `before` are the model's predictions.
    asked = session.what_if(int(ranked[0]))
    before = asked.before.detach().cpu()
    predicted = before.argmax(dim=-1).numpy() if asked.predicts == "classes" else None
    known = _labels(data, labels, num_nodes)
    named = main.names if names is None else tuple(map(str, names))
    if named is not None and len(named) != num_nodes:
        raise ValueError(f"{len(named)} names for {num_nodes} nodes")
    num_classes = before.size(1) if main.task == "node" else 0
    if known is not None:
        num_classes = max(num_classes, int(known.max()) + 1)
    influence = main.scores.detach().cpu().double().numpy()
    # Edges first: full passes are compared with, which is best done while little is held.
    linked = first_edges(session, influence, edges, progress)
    told_in_any_case = len(first) if effects is not None else LEAST
    return Subject(
        graph=whole,
        task=main.task,
        scores=given,
        influence=influence,
        rank=rank,
        degree=degrees(whole).double().numpy(),
        pagerank=_pagerank(whole),
        effects=consequences_of(session, first, told_in_any_case, progress),
        exact=exact,
        estimate=None if is_exact(main) or main.method in YARDSTICKS else refinement(main) or {},
        edges=linked,
        fragile=fragile_counts(session),
        items=len(before),
        predicted=predicted,
        labels=known,
        names=named,
        class_names=_class_names(class_names, num_classes),
        counted=None if asked.targets is None else int(asked.targets.sum()),
    )


def _check_scores(
    scores: Influence | Sequence[Influence], task: Task, num_nodes: int
) -> tuple[Influence, ...]:
    several = scores if isinstance(scores, Sequence) else (scores,)
    given = tuple(several)
    if not given or not all(isinstance(one, Influence) for one in given):
        raise TypeError(
            "scores must be a nora.Influence or a list of them, e.g. nora.influence(model, data)"
        )
    for one in given:
        if len(one) != num_nodes:
            raise ValueError(f"scores of {len(one)} nodes for a graph of {num_nodes}")
    if given[0].task != task.name:
        raise ValueError(
            f"the scores are of a {given[0].task} task, task is {task.name!r}: pass the task they were "
            "made with"
        )
    if task.predicts == "values":
        raise ValueError(
            "a report tells classes and links; of numbers, see Influence.plot and to_frame"
        )
    if bool(given[0].scores.isnan().all()):
        raise ValueError("there is nothing to report: no node has a score")
    return given


def _exactly_known(scores: Influence, num_nodes: int) -> np.ndarray:
    """Whether each score is the definition's own `[N]`."""
    if is_exact(scores):
        return np.full(num_nodes, True)
    known = np.full(num_nodes, False)
    known[list((refinement(scores) or {}).get("nodes", ()))] = True
    return known


def _pagerank(graph: Data) -> np.ndarray:
    # It looks at no model; how one would be called is of no concern.
    session = Session(nn.Identity(), graph, forward=lambda *_: None, once=True)
    found = session.influence("pagerank", progress=False)
    return found.scores.cpu().double().numpy()


def _labels(data: Data, labels: Tensor | Sequence[int] | None, num_nodes: int) -> np.ndarray | None:
    """Known classes `[N]`, −1 where unknown: those given, else `data.y` where it holds classes."""
    if labels is None:
        y: Any = data.get("y")
        if not isinstance(y, Tensor) or y.is_floating_point() or y.dtype == torch.bool:
            return None
        if y.dim() == 2 and y.size(1) == 1:  # as in OGB's data
            y = y.squeeze(1)
        if y.shape != (num_nodes,):
            return None
        labels = y
    known = torch.as_tensor(labels).detach().cpu()
    if known.shape != (num_nodes,) or known.is_floating_point():
        raise ValueError(
            f"labels must be one class id per node, [{num_nodes}], −1 where unknown; got "
            f"{known.dtype} of shape {list(known.shape)}"
        )
    found = known.long().clamp(min=-1).numpy()
    return found if (found >= 0).any() else None


def _class_names(given: Sequence[str] | None, num_classes: int) -> tuple[str, ...]:
    if given is None:
        return tuple(f"class {k}" for k in range(num_classes))
    if len(given) < num_classes:
        raise ValueError(f"{len(given)} class names for {num_classes} classes")
    return tuple(_class_name(str(name)) for name in given)


def _class_name(name: str) -> str:
    """A class's name that can stand in a sentence.

    >>> _class_name("3"), _class_name("left")
    ('class 3', 'left')
    """
    return f"class {name}" if re.fullmatch(r"[+-]?\d+([.,]\d+)?", name) else name
