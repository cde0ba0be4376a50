"""Is a trained model good enough for its influences to say something about the data?

Influence is about a model's predictions. A model that predicts no better than a constant answer has
influential nodes too, but they tell nothing about the data. A model is called *weak* when one of these
holds on what was held out for testing:

- it may be no better than the baseline by chance: nodes, a one-sided binomial test of its right answers
  against the share of the most common class; links, the AUC against 0.5 with the deviation of the
  Mann–Whitney statistic; both at 5 %;
- it is hardly better: it closes less than a tenth of the gap between the baseline and 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, sqrt

from scipy.stats import binom

from nora.training.runs import Run
from nora.training.splits import NodeSplit

CHANCE, DEVIATIONS, GAP = 0.05, 1.645, 0.1


@dataclass(frozen=True)
class Trust:
    """How a model does on what it has not seen, beside what anybody could do.

    Attributes:
        metric: `accuracy` or `auc`.
        value: Of the model, on the test part; NaN when there is none.
        baseline: Of the most common class among the test nodes, or 0.5 for links.
        answer: The most common class, or None.
        tested: How many nodes or pairs were held out for the test.
        reason: Why the model is weak; empty when it is not.
    """

    metric: str
    value: float
    baseline: float
    answer: int | None
    tested: int
    reason: str

    @property
    def weak(self) -> bool:
        """Whether the model is too weak for its influences to be trusted."""
        return bool(self.reason)


def assess(run: Run) -> Trust:
    """How far a trained run can be trusted.

    Example:
        >>> import nora
        >>> assess(nora.train("gcn", "polarised", epochs=30, progress=False)).weak
        False
    """
    split = run.split
    if isinstance(split, NodeSplit):
        count = run.dataset.data.y[split.test].bincount(minlength=1)
        tested, most = int(count.sum()), int(count.max())
        value = run.metrics["test_accuracy"]
        baseline = most / tested if tested else float("nan")
        answer = int(count.argmax()) if tested else None
        by_chance = tested > 0 and binom.sf(round(value * tested) - 1, tested, baseline) > CHANCE
        return Trust(
            "accuracy", value, baseline, answer, tested, _reason(value, baseline, by_chance)
        )
    labels = split.test_labels
    linked = int((labels > 0.5).sum())
    apart = len(labels) - linked
    value = run.metrics["test_auc"]
    deviation = sqrt((linked + apart + 1) / (12 * max(linked * apart, 1)))
    by_chance = value - 0.5 < DEVIATIONS * deviation
    return Trust("auc", value, 0.5, None, len(labels), _reason(value, 0.5, by_chance))


def _reason(value: float, baseline: float, by_chance: bool) -> str:
    """Why the model is weak, or nothing.

    >>> _reason(0.9, 0.5, False), _reason(0.53, 0.5, False)
    ('', 'it is hardly better than that')
    """
    if isnan(value) or isnan(baseline):
        return "nothing could be held out to test it on"
    if value <= baseline:
        return "it is not better than that"
    if by_chance:
        return "the difference may be chance on so small a test"
    return "it is hardly better than that" if value - baseline < GAP * (1 - baseline) else ""
