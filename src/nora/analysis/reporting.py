"""`write_report`: ask what a page shows, and render it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torch import nn
from torch_geometric.data import Data

from nora.analysis.asking import gather
from nora.analysis.result import Analysis
from nora.arguments import path_of
from nora.model import Transform
from nora.model.calling import Forward
from nora.model.task import Task
from nora.options import takes_options
from nora.questions.session import Session
from nora.report.options import ReportOptions
from nora.report.page import write_page
from nora.results.influence import Influence

# What is asked again when it is given for an analysis; anything else is words.
ASKED = {"effects", "edges", "graph", "names", "class_names", "labels"}


@takes_options
def write_report(
    path: str | Path,
    model: nn.Module | Session | Analysis,
    data: Data | None = None,
    scores: Influence | Sequence[Influence] | None = None,
    task: Task | None = None,
    *,
    options: ReportOptions = ReportOptions(),
    forward: Forward | None = None,
    transform: Transform | None = None,
    session: Session | None = None,
    progress: bool = True,
) -> Path:
    """Write a report as one self-contained page: findings, ranking, graph, and the effects of removals.

    Args:
        path: Where to write, e.g. `report.html`.
        model: The trained model; or a session, which has the graph and the task; or the result of
            `nora.analyse`, which has everything that the page shows.
        data: The graph that the model sees.
        scores: Influences `[num_nodes]`, or several: the others are compared with the first. Default for a
            session: `session.influence()`.
        task: The task of the scores; node classification by default.
        options: What the page shows, see `nora.report.options.ReportOptions`; each of its fields is also a
            keyword: `names=`, `class_names=`, `labels=`, `title=`, `metrics=`, `notes=`, `warnings=`,
            `effects=`, `edges=`, `seed=`, `graph=`, `model_name=`, `run=`, `trust=`, `stability=`.
        forward: As in `nora.influence`.
        transform: As in `nora.influence`.
        session: A session of this model, graph and task, which avoids preparing them again.
        progress: Show progress bars.

    Returns:
        The path.

    Example:
        >>> import tempfile, nora
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> scores = nora.influence(run.model, run.data, progress=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = nora.write_report(f"{folder}/report.html", run.model, run.data, scores, effects=3)
        ...     "</html>" in page.read_text(encoding="utf-8")
        True
    """
    if isinstance(model, Session):
        session, data = model, model.data
    if not isinstance(model, Analysis) and not isinstance(data, Data):
        raise TypeError(
            "a report draws one kind of node: data must be a torch_geometric.data.Data, got "
            f"{type(data).__name__}"
        )
    path = path_of(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"cannot write a report to {path.name!r}: use a .html name")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a .html file")
    if isinstance(model, Analysis):
        given = options.given()
        options = replace(model.report_options(), **given)
        if ASKED & given.keys():
            return write_page(path, gather(*model.asks, options, progress), options, progress)
        assert model.subject is not None
        return write_page(path, model.subject, options, progress)
    if session is None:
        assert isinstance(model, nn.Module)
        session = Session(model, data, task, forward=forward, transform=transform)
    elif scores is None and session is model:
        scores = session.influence(progress=progress)
    return write_page(path, gather(session, scores, options, progress), options, progress)
