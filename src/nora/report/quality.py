"""Is the model good enough for its influences to say something about the world?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from nora.report.subject import Subject
from nora.report.wording import percent

# A model this little ahead of guessing has not learned the graph.
AHEAD = 0.05
MEANT = "The page tells what this model does, which may say little about the world."


def weaknesses(subject: Subject, metrics: Mapping[str, Any]) -> Iterator[str]:
    """What the metrics say against the model, in words; nothing when they say nothing against it."""
    accuracy, auc = metrics.get("test_accuracy"), metrics.get("test_auc")
    if isinstance(accuracy, float) and subject.labels is not None and subject.task == "node":
        known = subject.labels[subject.labels >= 0]
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
