"""The one place that asks a session what a page shows: effects, edges, fragile predictions, structure.

The predictions come from `Session.what_if`, what each removal would change from one batch of the same,
PageRank from `Session.influence`. Of an estimate the first nodes are computed exactly, and ranked by that.
How many removals that will be is declared first, so that the engine is prepared once for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from nora.analysis.as_time_allows import LEAST, consequences_of, first_edges, fragile_counts
from nora.graph.degrees import degrees
from nora.model.task import Task
from nora.questions.refine import refined
from nora.questions.session import Session
from nora.report.options import ReportOptions
from nora.report.subject import Subject
from nora.results.exactness import YARDSTICKS, is_exact, refinement
from nora.results.influence import Influence

# More than ever fit a page.
MOST_EFFECTS = 4000


def removals_of_page(session: Session, options: ReportOptions = ReportOptions()) -> int:
    """How many removals a page asks for at most: for effects, for fragile nodes, for edges."""
    for_effects = min(session.num_nodes, _most_effects(options))
    for_fragile = session.num_nodes if session.task.predicts == "classes" else 0
    every = session.every_edge[None].size(1) if options.edges else 0
    return 1 + for_effects + for_fragile + every


def _most_effects(options: ReportOptions) -> int:
    return MOST_EFFECTS if options.effects is None else options.effects


def gather(
    session: Session,
    scores: Influence | Sequence[Influence] | None,
    options: ReportOptions = ReportOptions(),
    progress: bool = False,
) -> Subject:
    """Check the input and ask everything that a page shows; see `nora.write_report`."""
    data = session.data
    assert isinstance(data, Data)
    num_nodes = int(data.num_nodes or 0)
    graph = data if options.graph is None else options.graph
    if graph.num_nodes != num_nodes:
        raise ValueError(f"graph must have the nodes of data, {num_nodes}; got {graph.num_nodes}")
    given = _check_scores(scores, session.task, num_nodes)
    names = _names(options.names, given[0])
    session.prepared.expect(removals_of_page(session, options))
    least = LEAST if options.effects is None else max(options.effects, 1)
    main = refined(session, given[0], least=least, progress=progress)
    frame = main.to_frame()
    rank = np.zeros(num_nodes, dtype=np.int64)
    rank[frame["node"]] = frame["rank"]
    exact = _exactly_known(main, num_nodes)
    ranked = main.sort()["node"].to_numpy()
    # Every node whose effect is shown is ranked by it.
    shown = ranked if main.method in YARDSTICKS or not exact.any() else ranked[exact[ranked]]
    first = shown[: _most_effects(options)].tolist()
    # One removal is asked for in any case: its `before` are the model's predictions.
    asked = session.what_if(int(ranked[0]))
    before = asked.before.detach().cpu()
    labels = _labels(data, options.labels, num_nodes)
    of_model = before.size(1) if main.task == "node" else 0
    num_classes = max(of_model, 0 if labels is None else int(labels.max()) + 1)
    influence = main.scores.detach().cpu().double().numpy()
    in_any_case = LEAST if options.effects is None else len(first)
    return Subject(
        graph=graph,
        task=main.task,
        scores=(main, *given[1:]),
        influence=influence,
        rank=rank,
        degree=degrees(graph).double().numpy(),
        pagerank=_pagerank(graph),
        # Edges first: full passes are compared with, which is best done while little is held.
        edges=first_edges(session, influence, options.edges, progress),
        effects=consequences_of(session, first, in_any_case, progress),
        exact=exact,
        estimate=None if is_exact(main) or main.method in YARDSTICKS else refinement(main) or {},
        fragile=fragile_counts(session),
        items=len(before),
        predicted=before.argmax(dim=-1).numpy() if asked.predicts == "classes" else None,
        labels=labels,
        names=names,
        class_names=_class_names(options.class_names, num_classes),
        counted=None if asked.targets is None else int(asked.targets.sum()),
    )


def _check_scores(
    scores: Influence | Sequence[Influence] | None, task: Task, num_nodes: int
) -> tuple[Influence, ...]:
    several = scores if isinstance(scores, Sequence) else (scores,)
    given = tuple(one for one in several if isinstance(one, Influence))
    if not given or len(given) < len(several):
        raise TypeError(
            "scores must be a nora.Influence or a list of them, e.g. nora.influence(model, data)"
        )
    for one in given:
        if len(one) != num_nodes:
            raise ValueError(f"scores must have one entry per node, {num_nodes}; got {len(one)}")
    if given[0].task != task.name:
        raise ValueError(
            f"the scores are of a {given[0].task} task, task is {task.name!r}: pass the task they were "
            "made with"
        )
    if task.predicts == "values":
        raise ValueError(
            "a report shows classes and links; for numbers, use Influence.plot and to_frame"
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


def _names(given: Sequence[str] | None, scores: Influence) -> tuple[str, ...] | None:
    names = scores.names if given is None else tuple(map(str, given))
    if names is not None and len(names) != len(scores):
        raise ValueError(f"names must have one entry per node, {len(scores)}; got {len(names)}")
    return names


def _class_names(given: Sequence[str] | None, num_classes: int) -> tuple[str, ...]:
    if given is None:
        return tuple(f"class {k}" for k in range(num_classes))
    if len(given) < num_classes:
        raise ValueError(
            f"class_names must have one entry per class, {num_classes}; got {len(given)}"
        )
    return tuple(_class_name(str(name)) for name in given)


def _class_name(name: str) -> str:
    """A class's name that can stand in a sentence.

    >>> _class_name("3"), _class_name("left")
    ('class 3', 'left')
    """
    return f"class {name}" if re.fullmatch(r"[+-]?\d+([.,]\d+)?", name) else name
