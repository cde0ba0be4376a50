"""`report.html`: one file that shows whose absence would change whose prediction, to show to others.

The page is complete in itself: its script, its style and all data are inside, and its content
security policy forbids it to load anything else. Names and texts are data from anywhere, so the
template escapes them, and the script only ever sets them as text.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from nora.files import written_atomically
from nora.progress import progress_bar
from nora.report.contents import Contents, page_contents
from nora.report.findings import Finding
from nora.report.options import ReportOptions
from nora.report.provenance import provenance_terms
from nora.report.quality import quality, recall_by_class, trust_in
from nora.report.stability import stability_section
from nora.report.subject import Subject
from nora.results.exactness import is_exact, method_name
from nora.templates import render
from nora.wording import count, duration, number, sentence, visible

LISTED = 25
LONG_NAME = 40
TITLE = "Without this node, which predictions would change?"


def write_page(path: Path, subject: Subject, options: ReportOptions, progress: bool = True) -> Path:
    """Render what was found as one self-contained file."""
    with progress_bar("drawing the graph", None, progress):
        contents = page_contents(subject, options.seed, options.run)
    metrics, stability = options.metrics or {}, options.stability
    trust = trust_in(subject, metrics) if options.trust is None else options.trust
    weak = [trust.caution] if trust is not None and trust.weak else []
    shaky = [stability.caution] if stability is not None and stability.caution else []
    # The caller may warn of the same, with other advice on parameters, which readers do not see.
    cautions = dict.fromkeys(sentence(text) for text in (*options.warnings, *weak, *shaky))
    headline = _headline(subject, contents.findings)
    title, model = visible(options.title or ""), options.model_name
    effects = len(contents.value["effects"]["of"])
    page = render(
        "nora.report",
        "page.html",
        title=f"{title}: {headline}" if title else headline,
        headline=headline,
        subtitle=title,
        lead=_lead(subject),
        cautions=list(cautions),
        key_figures=_key_figures(subject, contents, quality(trust, metrics), model),
        findings=contents.findings,
        subject=subject,
        first_nodes=_first_nodes(subject),
        stability=None if stability is None else stability_section(stability, subject),
        provenance=provenance_terms(
            subject,
            {**metrics, **recall_by_class(trust)},
            options.notes,
            options.seed,
            model,
            effects,
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
    nodes = "each node" if scored == subject.num_nodes else count(scored, "node")
    took = f", in {duration(main.seconds)}" if main.seconds else ""
    asked = (
        f"A trained model predicts {what}. How much would the others’ predictions change if a node "
        "and its edges were removed?"
    )
    if subject.counted is not None:
        asked += f" Only {count(subject.counted, 'prediction')} count."
    if is_exact(main):
        return f"{asked} Measured for {nodes}, exactly{took}."
    if subject.estimate is None:
        return f"{asked} Here the nodes are ranked by {main.method}, which does not measure that."
    known = int(subject.exact.sum())
    exactly = f" {count(known, 'node')}, among them the first ones, exactly." if known else ""
    return f"{asked} Estimated for {nodes} ({method_name(main)}{took}).{exactly}"


def _definition(subject: Subject) -> str:
    some = "" if subject.counted is None else f" among the {subject.counted:,} that count here"
    if subject.task == "node":
        what = f"the changes of all other nodes’ class probabilities{some}, added up"
    else:
        what = f"the changes of the other pairs’ probabilities of a link{some}, added up"
    return (
        "To measure a node’s influence, it and its edges are removed from the graph, and the same model "
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
