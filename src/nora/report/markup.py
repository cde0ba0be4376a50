"""HTML that is there without any script: headings, findings, warnings, provenance. All escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from nora.report.findings import Finding
from nora.report.subject import Subject
from nora.wording import number

LISTED = 25


def embedded_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in.

    >>> embedded_json({"name": "</script>&"})
    '{"name":"\\\\u003c/script\\\\u003e\\\\u0026"}'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def finding_cards(findings: Iterable[Finding], subject: Subject) -> str:
    """One list item per finding; mentioned nodes are links that the script acts on."""
    return "\n".join(
        f'<li class="finding"><p class="figure" aria-hidden="true">{escape(finding.figure)}</p>'
        f"<p>{_sentence(finding, subject)}</p></li>"
        for finding in findings
    )


def _sentence(finding: Finding, subject: Subject) -> str:
    return "".join(
        escape(part)
        if isinstance(part, str)
        else f'<a href="#node-{part.node}">{escape(subject.name(part.node))}</a>'
        for part in finding.text
    )


def cautions(warnings: Sequence[str]) -> str:
    """What to be careful about, in front of everything else; nothing when there is nothing."""
    if not warnings:
        return ""
    items = "".join(f"<li>{escape(text)}</li>" for text in warnings)
    return (
        '<section class="caution" aria-labelledby="caution-title">'
        f'<h2 id="caution-title">Read with care</h2><ul>{items}</ul></section>'
    )


def key_figures(figures: Iterable[tuple[str, str]]) -> str:
    """Pairs of term and figure."""
    return "".join(
        f"<div><dt>{escape(term)}</dt><dd>{escape(value)}</dd></div>" for term, value in figures
    )


def first_nodes(subject: Subject) -> str:
    """The first nodes as a plain table, for readers without scripts."""
    rows = "".join(
        f"<tr><td>{subject.rank[node]}</td><td>{escape(subject.name(node))}</td>"
        f"<td>{number(float(subject.influence[node]))}</td>"
        f"<td>{number(float(subject.degree[node]))}</td></tr>"
        for node in subject.order[:LISTED]
    )
    head = "".join(
        f'<th scope="col">{term}</th>' for term in ("Rank", "Node", "Influence", "Degree")
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
