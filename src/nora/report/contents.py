"""The page's data as one JSON-able value: columns of numbers that the page's script draws.

Nodes are kept once, in lists side by side; everything else names a node by its position in them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nora.graph.degrees import count_edges
from nora.report.drawing import drawing, edge_pairs
from nora.report.findings import Finding, headline_findings
from nora.report.packing import TOGETHER, packed, packed_edges, packed_effects
from nora.report.subject import Subject
from nora.results.effect import NOTICEABLE
from nora.results.exactness import TITLES, accuracy_text, method_name
from nora.results.plots.distribution import (
    Concentration,
    ScoreAgreement,
    compare,
    concentration,
    score_agreement,
)
from nora.results.plots.style import COLOURS

# What the page's script, style and words take, and what the whole may.
FIXED_BYTES, MOST_BYTES = 330_000, 4_900_000
# Columns of more nodes than this are packed; of more than `MOST_NODES`, or than fit `NODE_BYTES`, a share is
# the first ones, and the rest a sample.
PLAIN_NODES, MOST_NODES, NODE_BYTES, FIRST_SHARE = 3_000, 100_000, 2_500_000, 0.6
# Edges may take this share of what is left.
EDGES_SHARE = 0.35


@dataclass(frozen=True)
class Contents:
    """The page's data: findings in words, and the value its script works from."""

    findings: list[Finding]
    value: dict[str, Any]
    edges: int


def page_contents(subject: Subject, seed: int = 0, run: str | None = None) -> Contents:
    """Work out everything that the page shows of a subject, whose trained run is in the folder `run`."""
    spread = concentration(subject.influence)
    by_degree = compare(subject.influence, subject.degree)
    by_pagerank = compare(subject.influence, subject.pagerank)
    linked = edge_pairs(subject.graph.edge_index.cpu().numpy(), subject.num_nodes)
    picture = drawing(subject, seed, linked)
    drawn = picture["node"]
    most = _most_nodes(subject)
    kept = _kept(subject, drawn, most, seed)
    position = np.full(subject.num_nodes, -1)
    position[kept] = np.arange(len(kept))
    picture["node"] = position[drawn].tolist()
    main = subject.scores[0]
    value: dict[str, Any] = {
        "task": subject.task,
        "run": run,
        "method": main.method,
        "method_name": method_name(main),
        "yardstick": TITLES.get(main.method),
        "estimate": _estimate(subject, position),
        "num_nodes": subject.num_nodes,
        "num_items": subject.items,
        "scored": int((subject.rank > 0).sum()),
        "first": round(FIRST_SHARE * most),
        "noticeable": NOTICEABLE,
        "classes": _classes(subject, drawn),
        "coloured_by": _coloured_by(subject),
        "drawing": picture,
        "spread": _spread(spread),
        "against": [
            {"key": key, **_comparison(found, position)}
            for key, found in (("degree", by_degree), ("pagerank", by_pagerank))
            if found is not None and main.method != key
        ],
        "others": list(_others(subject, kept, position)),
        "edges": _edges(subject, position),
    }
    findings = headline_findings(subject, spread, by_degree)
    value |= _packed(subject, value, kept, position, linked)
    return Contents(findings, value, count_edges(subject.graph))


def _packed(
    subject: Subject,
    value: dict[str, Any],
    kept: np.ndarray,
    position: np.ndarray,
    linked: tuple[np.ndarray, np.ndarray],
) -> dict[str, Any]:
    """Nodes, edges and effects, as many as fit the page."""
    columns = _columns(subject, kept)
    pieces: dict[str, Any] = {}
    plain = len(kept) <= PLAIN_NODES
    if not plain:
        pieces["node"] = packed(columns)
    known = {**value, "pieces": pieces, "node": columns if plain else None}
    room = MOST_BYTES - FIXED_BYTES - len(json.dumps(known).encode())
    source, target = linked
    inside = (position[source] >= 0) & (position[target] >= 0)
    ends = position[source[inside]], position[target[inside]]
    pieces["edges"] = packed_edges(*ends, len(kept), EDGES_SHARE * room)
    room -= len(pieces["edges"] or "")
    shown, pieces["effects"] = packed_effects(subject.effects, position, room)
    return {
        **({"node": columns} if plain else {}),
        "effects": {"of": position[shown].tolist(), "each": TOGETHER},
        "pieces": pieces,
    }


def _estimate(subject: Subject, position: np.ndarray) -> dict[str, Any] | None:
    """Facts about an estimate: which positions are exact, and the error of the others."""
    if subject.estimate is None:
        return None
    known = position[np.flatnonzero(subject.exact)]
    leading = subject.exact[subject.order]
    return {
        "exact": known[known >= 0].tolist(),
        "leading": len(leading) if leading.all() else int(leading.argmin()),
        "factor": subject.estimate.get("factor"),
        "text": accuracy_text(subject.estimate) or "how far they are off was not measured.",
    }


def _edges(subject: Subject, position: np.ndarray) -> dict[str, Any] | None:
    """The first edges, by the positions of their ends."""
    found = subject.edges
    if found is None:
        return None
    return {
        "source": position[found.source].tolist(),
        "target": position[found.target].tolist(),
        "influence": [_digits(value) for value in found.influence],
        "flips": found.flips.tolist(),
        "scored": found.scored,
        "of": found.of,
        "directed": found.directed,
    }


def _most_nodes(subject: Subject) -> int:
    """How many nodes the page can hold."""
    most = min(subject.num_nodes, MOST_NODES)
    some = min(most, PLAIN_NODES)
    bytes_each = len(packed(_columns(subject, subject.order[:some]))) / max(some, 1)
    return most if most * bytes_each <= NODE_BYTES else int(NODE_BYTES / bytes_each)


def _kept(subject: Subject, drawn: list[int], most: int, seed: int) -> np.ndarray:
    """Ids of the nodes the page knows, sorted: all of them, or the first, those mentioned and a sample."""
    if subject.num_nodes <= most:
        return np.arange(subject.num_nodes)
    order, first = subject.order, round(FIRST_SHARE * most)
    rest = np.random.default_rng(seed).permutation(order[first:])
    touched = [found.touched for found in subject.effects.values()]
    if subject.edges is not None:
        touched += [subject.edges.source, subject.edges.target]
    mentioned = np.unique(np.concatenate([order[:first], np.asarray(drawn), *touched]))
    return np.union1d(mentioned, rest[: max(0, most - len(mentioned))])


def _columns(subject: Subject, kept: np.ndarray) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "id": kept.tolist(),
        "influence": [_digits(value) for value in subject.influence[kept]],
        "rank": subject.rank[kept].tolist(),
        "degree": [_digits(value) for value in subject.degree[kept]],
        "pagerank": [_digits(value, 4) for value in subject.pagerank[kept]],
    }
    error = getattr(subject.scores[0], "stderr", None)
    if error is not None:
        values = error.detach().cpu().double().numpy()[kept]
        columns["error"] = [_digits(value, 3) for value in values]
    if subject.fragile is not None:
        columns["fragile"] = subject.fragile[kept].tolist()
    if subject.names is not None:
        columns["name"] = [subject.names[node] for node in kept]
    if subject.predicted is not None:
        columns["predicted"] = subject.predicted[kept].tolist()
    if subject.labels is not None:
        columns["label"] = subject.labels[kept].tolist()
    return columns


def _digits(value: float, digits: int = 5) -> float | int | None:
    """Round to this many significant digits; integers stay as they are, None stays None."""
    if not np.isfinite(value):
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() else rounded


def _coloured_by(subject: Subject) -> str | None:
    if subject.predicted is not None:
        return "predicted"
    return "label" if subject.labels is not None else None


def _classes(subject: Subject, drawn: list[int]) -> list[dict[str, Any]]:
    """Names, frequencies and colours: of many classes those of most influence in the drawing have one."""
    members = subject.predicted if subject.predicted is not None else subject.labels
    number = len(subject.class_names)
    counts = np.zeros(number, dtype=int)
    slots = np.arange(number)
    if members is not None:
        counts = np.bincount(members[members >= 0], minlength=number)
    if members is not None and number > len(COLOURS):
        seen = np.asarray([node for node in drawn if members[node] >= 0], dtype=int)
        weight = np.nan_to_num(subject.influence[seen]).clip(min=0)
        weight = np.bincount(members[seen], weight, minlength=number) + counts / (1 + counts.sum())
        slots = np.full(number, -1)
        slots[np.sort(np.argsort(-weight, kind="stable")[: len(COLOURS)])] = np.arange(len(COLOURS))
    elif number > len(COLOURS):
        slots = np.where(slots < len(COLOURS), slots, -1)
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


def _comparison(found: ScoreAgreement, position: np.ndarray) -> dict[str, Any]:
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
        found = score_agreement(subject.scores[0], other)
        if found is not None:
            scores = other.scores.detach().cpu().double().numpy()[kept]
            yield {
                "name": method_name(other),
                "score": [_digits(value) for value in scores],
                **_comparison(found, position),
            }
