"""How good the model is, compared with a baseline without a model."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan, nan
from typing import Any

import numpy as np

from nora.report.provenance import metric, term
from nora.report.subject import Subject
from nora.training.trust import DEGREES, GUESSING, Trust, verdict


def trust_in(subject: Subject, metrics: Mapping[str, Any]) -> Trust | None:
    """The verdict on the metrics, where the caller has none; None when they do not suffice.

    `metrics["baseline"]` is what could be had without a model, where the caller knows it for what was
    tested; else it is that of all known labels, or 0.5 for links.
    """
    wanted = "accuracy" if subject.task == "node" else "auc"
    value = metrics.get(f"test_{wanted}", metrics.get(wanted))
    if not isinstance(value, int | float):
        return None
    baseline, yardstick = (0.5, GUESSING) if wanted == "auc" else _commonest(subject)
    baseline = metrics.get("baseline", baseline)
    return None if isnan(baseline) else verdict(wanted, value, baseline, yardstick)


def _commonest(subject: Subject) -> tuple[float, str]:
    """The share of the most common class among the known ones, and what to answer for it."""
    known = subject.labels[subject.labels >= 0] if subject.labels is not None else np.empty(0, int)
    if not len(known):
        return nan, "always answering the most common class"
    counts = np.bincount(known)
    name = subject.class_names[int(counts.argmax())]
    return float(counts.max() / len(known)), f"always answering {name!r}"


def quality(trust: Trust | None, metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The main metric of the model, and its baseline."""
    if trust is None:
        known = [key for key in ("test_accuracy", "test_auc", "accuracy", "auc") if key in metrics]
        others = [key for key in metrics if key not in ("epochs", "seconds", "baseline")]
        return [(term(key), metric(key, metrics[key])) for key in (*known, *others)[:1]]
    key = f"test_{trust.metric}"
    key = key if key in metrics or trust.metric not in metrics else trust.metric
    found = [(term(key), metric(key, trust.value))]
    if isnan(trust.baseline):
        return found
    links = "degrees" if trust.yardstick == DEGREES else "guessing"
    answers = {"accuracy": "most common class", "balanced_accuracy": "one class"}
    how = answers.get(trust.metric, links)
    found.append((f"baseline: {how}", metric(key, trust.baseline)))
    if trust.metric == "accuracy" and not isnan(trust.balanced_accuracy):
        key = "balanced_accuracy"
        found.append((term(f"test_{key}"), metric(key, trust.balanced_accuracy)))
    return found


def recall_by_class(trust: Trust | None) -> dict[str, str]:
    """One entry for the end of the page: the recall of every class, the worst first."""
    if trust is None or not trust.recalls:
        return {}
    return {"test_recall_by_class": ", ".join(map(str, trust.recalls))}
