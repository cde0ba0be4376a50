"""How good the model is, and whether it is good enough for its influences to say something."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from nora.report.provenance import metric, term
from nora.report.subject import Subject
from nora.wording import percent

# A model this little ahead of guessing has not learned the graph.
AHEAD = 0.05
MEANT = "The page tells what this model does, which may say little about the world."


def weaknesses(subject: Subject, metrics: Mapping[str, Any]) -> Iterator[str]:
    """What the metrics say against the model, in words; nothing when they say nothing against it."""
    accuracy, auc = metrics.get("test_accuracy"), metrics.get("test_auc")
    known = _known(subject)
    if isinstance(accuracy, float) and known is not None:
        counts = np.bincount(known)
        guess = float(counts.max() / len(known))
        if accuracy < guess + AHEAD:
            yield (
                f"The model is right on {percent(accuracy)} of the test nodes; always to guess "
                f"“{subject.class_names[int(counts.argmax())]}” would be right on {percent(guess)}. {MEANT}"
            )
    if isinstance(auc, float) and auc < 0.5 + 2 * AHEAD:
        yield (
            f"The model tells test links from other pairs little better than chance (AUC {auc:.2f}; "
            f"0.5 is chance). {MEANT}"
        )


def quality(subject: Subject, metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The one metric that tells how good the model is, and what anybody could do without a model.

    `metrics["baseline"]` is the latter, where the caller knows it for the nodes tested; else it is
    worked out from all known labels.
    """
    known = [key for key in ("test_accuracy", "test_auc", "accuracy", "auc") if key in metrics]
    others = [key for key in metrics if key not in ("epochs", "seconds", "baseline")]
    if not known:
        return [(term(key), metric(key, metrics[key])) for key in others[:1]]
    key = known[0]
    baseline = metrics.get("baseline")
    if key.endswith("auc"):
        how = "baseline: guessing"
        baseline = 0.5 if baseline is None else baseline
    else:
        how = "baseline: commonest class"
        labels = _known(subject)
        if baseline is None and labels is not None:
            baseline = float(np.bincount(labels).max() / len(labels))
    found = [(term(key), metric(key, metrics[key]))]
    if baseline is None or not np.isfinite(baseline):
        return found
    return [*found, (how, metric(key, baseline))]


def _known(subject: Subject) -> np.ndarray | None:
    """Known classes, where they are what the model predicts."""
    if subject.labels is None or subject.task != "node":
        return None
    found: np.ndarray = subject.labels[subject.labels >= 0]
    return found
