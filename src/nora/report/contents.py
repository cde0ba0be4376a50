"""What the page says, as one JSON-able value: columns of numbers that the page's script draws.

Nodes are kept once, in lists side by side; everything else names a node by its position in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nora.report.consequences import NOTICEABLE, Consequence, as_columns, consequence
from nora.report.counts import count_edges
from nora.report.drawing import drawing
from nora.report.findings import Finding, headline_findings
from nora.report.subject import Subject
from nora.results.influence import Influence
from nora.results.plots.distribution import (
    Comparison,
    Concentration,
    compare,
    compared,
    concentration,
)
from nora.results.plots.style import COLOURS

RANKED = 20_000


@dataclass(frozen=True)
class Contents:
    """What the page says: findings in words, and the value its script works from."""

    findings: list[Finding]
    value: dict[str, Any]
    edges: int


def page_contents(subject: Subject, seed: int = 0, run: str | None = None) -> Contents:
    """Work out everything that the page shows of a subject, whose trained run is in the folder `run`."""
    consequences = {node: consequence(effect) for node, effect in subject.effects.items()}
    spread = concentration(subject.influence)
    by_degree = compare(subject.influence, subject.degree)
    by_pagerank = compare(subject.influence, subject.pagerank)
    picture = drawing(subject, seed)
    kept = _kept(subject, consequences, picture["node"])
    position = np.full(subject.num_nodes, -1)
    position[kept] = np.arange(len(kept))
    picture["node"] = position[picture["node"]].tolist()
    value: dict[str, Any] = {
        "task": subject.task,
        "run": run,
        "method": subject.scores[0].method,
        "exact": is_exact(subject.scores[0]),
        "num_nodes": subject.num_nodes,
        "num_items": subject.items,
        "scored": int((subject.rank > 0).sum()),
        "noticeable": NOTICEABLE,
        "classes": _classes(subject),
        "coloured_by": _coloured_by(subject),
        "node": _columns(subject, kept),
        "drawing": picture,
        "effect": {
            str(position[node]): as_columns(found, position) for node, found in consequences.items()
        },
        "spread": _spread(spread),
        "against": [
            {"key": key, **_comparison(found, position)}
            for key, found in (("degree", by_degree), ("pagerank", by_pagerank))
            if found is not None and subject.scores[0].method != key
        ],
        "others": list(_others(subject, kept, position)),
    }
    findings = headline_findings(subject, consequences, spread, by_degree)
    return Contents(findings, value, count_edges(subject.graph))


def is_exact(scores: Influence) -> bool:
    """Whether the scores are the definition's numbers rather than an estimate."""
    return scores.method == "brute" or (
        scores.method == "exact" and not scores.options.get("tolerance")
    )


def _kept(
    subject: Subject, consequences: Mapping[int, Consequence], drawn: list[int]
) -> np.ndarray:
    """Ids of the nodes the page knows, sorted: all of them, or the first and those mentioned."""
    if subject.num_nodes <= RANKED:
        return np.arange(subject.num_nodes)
    mentioned = [subject.order[:RANKED], np.asarray(drawn)]
    for found in consequences.values():
        columns = [key for key in ("node", "source", "target") if key in found.items]
        mentioned.append(found.items[columns].to_numpy().ravel())
    return np.unique(np.concatenate(mentioned))


def _columns(subject: Subject, kept: np.ndarray) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "id": kept.tolist(),
        "influence": [_digits(value) for value in subject.influence[kept]],
        "rank": subject.rank[kept].tolist(),
        "degree": [_digits(value) for value in subject.degree[kept]],
        "pagerank": [_digits(value, 4) for value in subject.pagerank[kept]],
    }
    if subject.names is not None:
        columns["name"] = [subject.names[node] for node in kept]
    if subject.predicted is not None:
        columns["predicted"] = subject.predicted[kept].tolist()
    if subject.labels is not None:
        columns["label"] = subject.labels[kept].tolist()
    return columns


def _digits(value: float, digits: int = 5) -> float | int | None:
    """Rounded to so many significant digits; whole numbers as such, None where there is none."""
    if not np.isfinite(value):
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() else rounded


def _coloured_by(subject: Subject) -> str | None:
    if subject.predicted is not None:
        return "predicted"
    return "label" if subject.labels is not None else None


def _classes(subject: Subject) -> list[dict[str, Any]]:
    """Names, frequencies and colours: of many classes the commonest have a colour, the others grey."""
    members = subject.predicted if subject.predicted is not None else subject.labels
    number = len(subject.class_names)
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
        for k, name in enumerate(subject.class_names)
    ]


def _spread(found: Concentration | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "shares": [[share, k, round(carried, 4)] for share, k, carried in found.shares],
        "half": found.half,
        "curve": [list(point) for point in found.curve],
    }


def _comparison(found: Comparison, position: np.ndarray) -> dict[str, Any]:
    named = [int(position[node]) for node in found.notable if position[node] >= 0]
    return {
        "spearman": _digits(found.spearman, 3),
        "pearson": _digits(found.pearson, 3),
        "shared": found.shared,
        "first": found.first,
        "notable": named,
        "trend": None if found.trend is None else [round(part, 4) for part in found.trend],
    }


def _others(subject: Subject, kept: np.ndarray, position: np.ndarray) -> Iterator[dict[str, Any]]:
    for other in subject.scores[1:]:
        found = compared(subject.scores[0], other)
        if found is not None:
            scores = other.scores.detach().cpu().double().numpy()[kept]
            yield {
                "name": other.method,
                "score": [_digits(value) for value in scores],
                **_comparison(found, position),
            }
