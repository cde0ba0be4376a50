"""The provenance of the numbers: method, options, time, versions, seed."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from nora.report.subject import Subject
from nora.results.exactness import accuracy_text, method_name
from nora.results.influence import Influence
from nora.wording import count, duration, number, percent, sentence

_SHARES = ("accuracy", "f1", "precision", "recall", "fidelity", "agreement")


def provenance_terms(
    subject: Subject,
    metrics: Mapping[str, Any],
    notes: Sequence[str],
    seed: int,
    model_name: str | None = None,
    effects: int = 0,
) -> list[tuple[str, str]]:
    """Terms and what they are, in the order of the page's footer."""
    rows: list[tuple[str, str]] = []
    for position, scores in enumerate(subject.scores):
        rows.append(("Scores" if position == 0 else "Compared with", _of(scores)))
    if subject.estimate:
        exactly = f"{count(int(subject.exact.sum()), 'node')} exactly, among them the first ones"
        rows.append(("Estimate", f"{accuracy_text(subject.estimate)} Computed besides: {exactly}"))
    if effects:
        whose = "of" if subject.estimate else "of the first"
        rows.append(("Effects", f"exact, {whose} {count(effects, 'node')}"))
    rows.extend(_other_removals(subject))
    if model_name:
        rows.append(("Model", model_name))
    for key, value in metrics.items():
        if key == "baseline":  # beside the metric it is of, at the top of the page
            continue
        rows.append((f"Model: {term(key)}", metric(key, value)))
    rows.append(("Seed", f"{seed} (layout)"))
    rows.append(("Versions", ", ".join(_versions())))
    rows.append(("Written", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")))
    rows.extend(("Note", sentence(note)) for note in notes)
    return rows


def _other_removals(subject: Subject) -> Iterator[tuple[str, str]]:
    """Which other removals the page covers, and which it does not."""
    edges = subject.edges
    if edges is not None:
        every = f"each of the {edges.of:,} edges that the model sees, removed by itself"
        some = (
            f"{edges.scored:,} of the {edges.of:,} edges that the model sees, those at the most influential "
            "nodes, each removed by itself; to remove all takes longer than a page may, ask "
            "nora.edge_influence"
        )
        yield "Edges", f"exact, {every if edges.scored == edges.of else some}"
    if subject.fragile is not None:
        yield "Fragile", f"exact, each of the {subject.num_nodes:,} nodes removed by itself"
    elif subject.predicted is not None:
        yield (
            "Fragile",
            f"left out: to remove each of the {subject.num_nodes:,} nodes takes longer than a page may, "
            "ask nora.fragile",
        )


def term(key: str) -> str:
    """A metric's name in words.

    >>> term("test_auc"), term("val_accuracy")
    ('test AUC', 'validation accuracy')
    """
    words = {"auc": "AUC", "val": "validation"}
    return " ".join(words.get(part, part) for part in key.split("_"))


def metric(name: str, value: Any) -> str:
    """A metric as text: shares in per cent, but not an AUC.

    >>> metric("epochs", 120), metric("loss", 0.51234), metric("seconds", 2.0), metric("auc", 0.614)
    ('120', '0.512', '2 s', '0.61')
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if "auc" in name.lower().split("_") and value == value:
        return f"{value:.2f}"
    if any(word in name.lower() for word in _SHARES) and 0 <= value <= 1:
        return percent(value)
    return duration(value) if name.endswith("seconds") else number(value)


def _of(scores: Influence) -> str:
    parts = [f"{method_name(scores)}, {scores.task} task, {duration(scores.seconds)}"]
    options = {key: value for key, value in scores.options.items() if value not in (None, [], ())}
    if options:
        parts.append(", ".join(f"{key}={_short(value)}" for key, value in options.items()))
    choice = scores.details.get("auto")
    if isinstance(choice, Mapping) and choice.get("reason"):
        parts.append(f"chosen because {choice['reason']}")
    return "; ".join(parts)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "…"


def _versions() -> Iterator[str]:
    from nora import __version__

    yield f"nora {__version__}"
    yield f"Python {platform.python_version()}"
    for name in ("torch", "torch_geometric", "numpy"):
        yield f"{name} {version(name)}"
