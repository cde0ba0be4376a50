"""Is a trained model good enough for its influences to say something about the data?

Influence is about a model's predictions. A model that predicts no better than anybody could without it
has influential nodes too, but they tell nothing about the data. What is asked decides what is compared,
on what was held out for testing:

    nodes   accuracy, beside always answering the most common class of the test nodes
    links   AUC, beside the degrees of a pair's two ends in the graph that messages pass along: their
            sum or their product, whichever tells links better; guessing, 0.5, where both are worse

A model of several relations is trained for nodes and links together, and is judged by what its run asks
about: a node run by its accuracy alone; a link run by the mean of its relations' AUCs, beside the mean
of what degrees within each relation reach. In directed graphs the degrees are the edges out of the
source and into the target.

A model is called *weak* when one of these holds:

- it may be no better than the baseline by chance: nodes, a one-sided binomial test of its right answers
  against the baseline; links, the AUC against the baseline with the deviation of the Mann–Whitney
  statistic; both at 5 %;
- it is hardly better: it closes less than a tenth of the gap between the baseline and 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan, nan, sqrt
from statistics import fmean

from torch import Tensor

from nora.options import option
from nora.training.auc import roc_auc
from nora.training.relational_splits import RelationalSplit
from nora.training.runs import Run
from nora.training.splits import LinkSplit

CHANCE, DEVIATIONS, GAP = 0.05, 1.645, 0.1
GUESSING, DEGREES = "guessing", "the degrees of the two ends alone"


@dataclass(frozen=True)
class Trust:
    """The verdict on a model: how it does on what it has not seen, beside what could be had without it.

    Attributes:
        metric: `accuracy` or `auc`.
        value: Of the model, on the test part; NaN when there is none.
        baseline: Of the yardstick, on the same nodes or pairs.
        yardstick: What reaches the baseline, in words.
        tested: How many nodes or pairs were held out for the test; None when that is not known.
        weak: Whether the model is too weak for its influences to be trusted.
        reason: Why it is weak; empty when it is not.
    """

    metric: str
    value: float
    baseline: float
    yardstick: str
    tested: int | None
    weak: bool
    reason: str

    @property
    def finding(self) -> str:
        """What was found, to follow "the model"."""
        if isnan(self.value):
            return "could not be tested"
        many = "" if self.tested is None else f"{self.tested:,} "
        if self.metric == "accuracy":
            return (
                f"is right about {self.value:.1%} of {many}held-out nodes; {self.yardstick} would be "
                f"about {self.baseline:.1%}"
            )
        return (
            f"tells held-out edges from non-edges with an AUC of {self.value:.3f} on {many}pairs; "
            f"{self.yardstick} would have {self.baseline:.3f}"
        )

    @property
    def caution(self) -> str:
        """What a reader must know first of a weak model; empty for any other."""
        if not self.weak:
            return ""
        more = "labels" if self.metric == "accuracy" else "edges"
        return (
            f"the model is too weak for its influences to be trusted: it {self.finding}, and "
            f"{self.reason}. The ranking says what moves this model, not what matters in the data. "
            f"Better features, more {more}, or another {option('model')} or {option('encoding')} may help"
        )


def verdict(
    metric: str,
    value: float,
    baseline: float,
    yardstick: str,
    tested: int | None = None,
    by_chance: bool = False,
) -> Trust:
    """The verdict on a metric beside its baseline.

    Args:
        metric: `accuracy` or `auc`.
        value: Of the model.
        baseline: Of the yardstick.
        yardstick: What reaches the baseline, in words.
        tested: How many nodes or pairs were tested, where known.
        by_chance: Whether the difference may be chance.

    Example:
        >>> verdict("auc", 0.9, 0.5, GUESSING).weak, verdict("auc", 0.53, 0.5, GUESSING).reason
        (False, 'it is hardly better than that')
    """
    reason = ""
    if isnan(value) or isnan(baseline):
        reason = "nothing could be held out to test it on"
    elif value <= baseline:
        reason = "it is not better than that"
    elif by_chance:
        reason = "the difference may be chance on so small a test"
    elif value - baseline < GAP * (1 - baseline):
        reason = "it is hardly better than that"
    return Trust(metric, value, baseline, yardstick, tested, bool(reason), reason)


def assess(run: Run) -> Trust:
    """How far a trained run can be trusted.

    Example:
        >>> import nora
        >>> assess(nora.train("gcn", "polarised", epochs=30, progress=False)).weak
        False
    """
    return _assess_nodes(run) if run.task.name == "node" else _assess_links(run)


def _assess_nodes(run: Run) -> Trust:
    from scipy.stats import binom  # slow to load

    split, value = run.split, run.metrics["test_accuracy"]
    test = split.nodes.test if isinstance(split, RelationalSplit) else split.test
    count = run.data.node_stores[0].y[test].bincount(minlength=1)
    tested = int(count.sum())
    if not tested:
        return verdict("accuracy", nan, nan, GUESSING, 0)
    baseline, answer = int(count.max()) / tested, int(count.argmax())
    names = run.dataset.class_names
    named = repr(names[answer]) if names else f"class {answer}"
    by_chance = bool(binom.sf(round(value * tested) - 1, tested, baseline) > CHANCE)
    return verdict("accuracy", value, baseline, f"always answering {named}", tested, by_chance)


def _assess_links(run: Run) -> Trust:
    value, tested = run.metrics["test_auc"], 0
    baselines, variances = [], []
    for edge_index, pairs, labels in _tests(run):
        linked = int((labels > 0.5).sum())
        apart = len(labels) - linked
        tested += len(labels)
        if linked and apart:  # else there is no AUC, and the relation is in no mean
            baselines.append(degree_auc(edge_index, int(run.data.num_nodes or 0), pairs, labels))
            variances.append((linked + apart + 1) / (12 * linked * apart))
    if not baselines:
        return verdict("auc", nan, nan, GUESSING, tested)
    baseline, deviation = fmean(baselines), sqrt(sum(variances)) / len(variances)
    by_chance = value - baseline < DEVIATIONS * deviation
    yardstick = DEGREES if baseline > 0.5 else GUESSING
    return verdict("auc", value, baseline, yardstick, tested, by_chance)


def _tests(run: Run) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """The edges that messages pass along, tested pairs and their labels: of each relation, if several."""
    split = run.split
    if isinstance(split, LinkSplit):
        yield split.data.edge_index, split.test, split.test_labels
    elif isinstance(split, RelationalSplit):
        for number, store in enumerate(split.data.edge_stores):
            mine = split.test_relation == number
            yield store.edge_index, split.test[:, mine], split.test_labels[mine]


def degree_auc(edge_index: Tensor, num_nodes: int, pairs: Tensor, labels: Tensor) -> float:
    """How well degrees alone tell which pairs are linked; at least 0.5, which guessing has.

    Args:
        edge_index: The edges that degrees are counted in `[2, E]`; self-loops do not count.
        num_nodes: Number of nodes.
        pairs: Sources and targets `[2, P]`.
        labels: 1 for links, 0 for others, `[P]`.

    Example:
        >>> import torch
        >>> star = torch.tensor([[0, 1, 0, 2], [1, 0, 2, 0]])
        >>> degree_auc(star, 5, torch.tensor([[0, 3], [3, 4]]), torch.tensor([1.0, 0.0]))
        1.0
    """
    source, target = edge_index[:, edge_index[0] != edge_index[1]]
    out = source.bincount(minlength=num_nodes)[pairs[0]]
    into = target.bincount(minlength=num_nodes)[pairs[1]]
    return max(0.5, roc_auc(out + into, labels), roc_auc(out * into, labels))
