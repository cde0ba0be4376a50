"""`report.html`: one file that shows whose absence would change whose prediction, to show to others.

The page is complete in itself: its script, its style and all data are inside, and its content
security policy forbids it to load anything else. Names and texts are data from anywhere, so the
template escapes them, and the script only ever sets them as text.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch_geometric.data import Data

from nora.arguments import path_of
from nora.files import written_atomically
from nora.model import Transform
from nora.model.calling import Forward
from nora.model.task import Task
from nora.progress import progress_bar
from nora.questions.session import Session
from nora.report.contents import Contents, page_contents
from nora.report.findings import Finding
from nora.report.provenance import provenance
from nora.report.quality import quality, recall_by_class, trust_in
from nora.report.stability import stability_section
from nora.report.subject import Subject, gather
from nora.results.exactness import is_exact, method_name
from nora.results.influence import Influence
from nora.results.stability import Stability
from nora.templates import render
from nora.training.trust import Trust
from nora.wording import count, duration, number, sentence, visible

LISTED = 25
LONG_NAME = 40
TITLE = "Had this node been gone, whose prediction would change?"


def write_report(
    path: str | Path,
    model: nn.Module,
    data: Data,
    scores: Influence | Sequence[Influence],
    task: Task | None = None,
    *,
    names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    labels: Tensor | Sequence[int] | None = None,
    title: str | None = None,
    metrics: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    warnings: Sequence[str] = (),
    effects: int | None = None,
    edges: int = 100,
    forward: Forward | None = None,
    transform: Transform | None = None,
    seed: int = 0,
    graph: Data | None = None,
    model_name: str | None = None,
    run: str | None = None,
    session: Session | None = None,
    trust: Trust | None = None,
    stability: Stability | None = None,
    progress: bool = True,
) -> Path:
    """Write one self-contained page: findings, ranking, the graph, and what each removal changes.

    Args:
        path: Where to write, e.g. `report.html`.
        model: The trained model the scores are of.
        data: The graph the model sees.
        scores: Influences `[num_nodes]`, or several: the first is the main one, the others are
            compared with it.
        task: The task of the scores; node classification by default.
        names: The nodes' names; those of the scores by default.
        class_names: The classes' names.
        labels: Known classes `[num_nodes]`, −1 where unknown; `data.y` by default.
        title: What the data are called, which stands below the headline: the finding itself.
        metrics: How good the model is, e.g. `run.metrics`; `baseline` is what could be had without a
            model.
        notes: Remarks for the end of the page.
        warnings: What a reader must know first, e.g. that a surrogate model is weak.
        effects: For how many of the first nodes the page tells what their removal would change; as many as
            fit a page of 5 MB by default.
        edges: How many of the most influential edges the page lists; 0 for none. Where removing each would
            take long, those at the most influential nodes are removed, and the page says so.
        forward: As in `nora.influence`.
        transform: As in `nora.influence`.
        seed: Seed of the graph's layout.
        graph: The whole graph, where `data` has a part of its edges only, e.g. those that a model of
            links was trained on: for degrees, PageRank, the number of edges and the drawing.
        model_name: What the model is called, e.g. `gcn`.
        run: The folder of the trained run, for the commands that the page suggests.
        session: A session of this model, graph and task, so that nothing is prepared again.
        trust: The verdict on the model (`nora.training.trust.assess(run)`); of `metrics` by default.
        stability: Influences of other models trained on the same data: the page tells how far the ranking
            holds for them.
        progress: Show progress bars of what takes long.

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
    if not isinstance(data, Data):
        raise TypeError(
            "a report draws one kind of node: data must be a torch_geometric.data.Data, got "
            f"{type(data).__name__}"
        )
    path = path_of(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"cannot write a report to {path.name!r}: use a .html name")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a .html file")
    if session is None:
        session = Session(model, data, task, forward=forward, transform=transform)
    subject = gather(session, scores, names, class_names, labels, effects, graph, edges, progress)
    with progress_bar("drawing the graph", None, progress):
        contents = page_contents(subject, seed, run)
    metrics = metrics or {}
    trust = trust_in(subject, metrics) if trust is None else trust
    weak = [trust.caution] if trust is not None and trust.weak else []
    shaky = [stability.caution] if stability is not None and stability.caution else []
    # The caller may warn of the same, with other advice on parameters, which readers do not see.
    told = dict.fromkeys(sentence(text) for text in (*warnings, *weak, *shaky))
    headline = _headline(subject, contents.findings)
    title = visible(title or "")
    page = render(
        "nora.report",
        "page.html",
        title=f"{title}: {headline}" if title else headline,
        headline=headline,
        subtitle=title,
        lead=_lead(subject),
        cautions=list(told),
        key_figures=_key_figures(subject, contents, quality(trust, metrics), model_name),
        findings=contents.findings,
        subject=subject,
        first_nodes=_first_nodes(subject),
        stability=None if stability is None else stability_section(stability, subject),
        provenance=provenance(
            subject,
            {**metrics, **recall_by_class(trust)},
            notes,
            seed,
            model_name,
            len(contents.value["effects"]["of"]),
        ),
        definition=_definition(subject),
        data={"title": title, **contents.value},
        style=_asset("report.css"),
        theme=_asset("theme.js"),
        script=_asset("report.js"),
    )
    with written_atomically(path) as temporary:
        # Half of a surrogate pair, which a name from a broken file may hold, becomes a "?".
        temporary.write_bytes(page.encode("utf-8", "replace"))
    return path


def _asset(name: str) -> dict[str, str]:
    """A bundled file, and the digest by which the page's policy knows it."""
    text = (files("nora.report") / "assets" / name).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return {"text": text, "digest": digest}


def _headline(subject: Subject, findings: Sequence[Finding]) -> str:
    """The first finding as a headline: up to its colon, without its full stop."""
    if not subject.effects:
        return TITLE
    text = findings[0].sentence(subject)
    first = subject.name(next(iter(subject.effects)))
    short = first if len(first) <= LONG_NAME else first[: LONG_NAME - 1] + "…"
    after = text.removeprefix(f"Without {first}")
    if after == text:
        return text.removesuffix(".")
    return f"Without {short}{after.split(':')[0]}".removesuffix(".")


def _lead(subject: Subject) -> str:
    main = subject.scores[0]
    scored = int((subject.rank > 0).sum())
    if subject.task == "node":
        what = f"the class of {subject.num_nodes:,} nodes"
    else:
        what = (
            f"whether two nodes are linked, for {count(subject.items, 'pair')} (edges and non-edges) "
            f"among {subject.num_nodes:,} nodes"
        )
    whom = "each node" if scored == subject.num_nodes else count(scored, "node")
    took = f", in {duration(main.seconds)}" if main.seconds else ""
    asked = (
        f"A trained model predicts {what}. How much would the others’ predictions change if a node "
        "and its edges were not there?"
    )
    if subject.counted is not None:
        asked += f" Only {count(subject.counted, 'prediction')} count."
    if is_exact(main):
        return f"{asked} Measured for {whom}, exactly{took}."
    if subject.estimate is None:
        return f"{asked} Here the nodes are ranked by {main.method}, which does not measure that."
    known = int(subject.exact.sum())
    exactly = f" {count(known, 'node')}, among them the first ones, exactly." if known else ""
    return f"{asked} Estimated for {whom} ({method_name(main)}{took}).{exactly}"


def _definition(subject: Subject) -> str:
    some = "" if subject.counted is None else f" among the {subject.counted:,} that count here"
    if subject.task == "node":
        what = f"the changes of all other nodes’ class probabilities{some}, added up"
    else:
        what = f"the changes of the other pairs’ probabilities of a link{some}, added up"
    return (
        "To measure a node’s influence, it and its edges are taken out of the graph, and the same model "
        f"predicts again, its weights unchanged. The influence is {what}."
    )


def _key_figures(
    subject: Subject, contents: Contents, quality: list[tuple[str, str]], model_name: str | None
) -> list[tuple[str, str]]:
    figures = [("Nodes", f"{subject.num_nodes:,}"), ("Edges", f"{contents.edges:,}")]
    if subject.task == "link":
        figures.append(("Pairs predicted", f"{subject.items:,}"))
    elif subject.class_names:
        figures.append(("Classes", f"{len(subject.class_names):,}"))
    if model_name:
        figures.append(("Model", model_name))
    figures.extend(quality)
    figures.append(("Method", method_name(subject.scores[0])))
    return figures


def _first_nodes(subject: Subject) -> list[tuple[int, str, str, str]]:
    """Rank, name, influence and degree of the first nodes, for readers without scripts."""
    return [
        (
            int(subject.rank[node]),
            subject.name(node),
            number(float(subject.influence[node])),
            number(float(subject.degree[node])),
        )
        for node in subject.order[:LISTED]
    ]
