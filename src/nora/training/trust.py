"""Is a trained model good enough for its influences to mean something for the data?

Influence is about a model's predictions. A model that predicts no better than anybody could without it
has influential nodes too, but they mean nothing for the data. What is asked decides what is compared,
on what was held out for testing:

    nodes   accuracy, beside always answering the most common class of the test nodes; after training with
            balanced classes balanced accuracy (`nora.training.recall`), beside always answering one class
    links   AUC, beside the degrees of a pair's two ends in the graph that messages pass along: their
            sum or their product, whichever separates links better; guessing, 0.5, where both are worse

A model of several relations is trained for nodes and links together, and is judged by what its run asks
about: a node run by its accuracy alone; a link run by the mean of its relations' AUCs, beside the mean
of what degrees within each relation reach. In directed graphs the degrees are the edges out of the
source and into the target.

A model is called *weak* when one of these holds:

- it may be no better than the baseline by chance: nodes, a one-sided binomial test of its right answers
  against the baseline, or of its balanced accuracy against answers that do not depend on the node; links, the
  AUC against the baseline with the deviation of the Mann–Whitney
  statistic; both at 5 %;
- it is hardly better: it closes less than a tenth of the gap between the baseline and 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isnan, nan, sqrt
from statistics import fmean

import torch
from torch import Tensor

from nora.model.calling import calling
from nora.model.preserve import evaluating
from nora.options import option
from nora.training.auc import roc_auc
from nora.training.recall import balanced_accuracy, chance_of, recalls
from nora.training.relational_splits import RelationalSplit
from nora.training.runs import Run
from nora.training.splits import LinkSplit
from nora.wording import listed

CHANCE, DEVIATIONS, GAP = 0.05, 1.645, 0.1
GUESSING, DEGREES = "guessing", "the degrees of the two ends alone"
# Recall of fewer nodes is hardly known; of more classes the worst are listed.
FEWEST_TESTED, LISTED = 3, 8


@dataclass(frozen=True)
class ClassRecall:
    """How well one class is recognised.

    Attributes:
        name: The class.
        recall: The share of its test nodes that the model predicts to be of it.
        tested: How many test nodes it has.
    """

    name: str
    recall: float
    tested: int

    def __str__(self) -> str:
        return f"{self.name!r} {self.recall:.1%} of {self.tested:,}"


@dataclass(frozen=True)
class Trust:
    """The verdict on a model: how it does on what it has not seen, beside what could be had without it.

    Attributes:
        metric: `accuracy`, `balanced_accuracy` or `auc`.
        value: Of the model, on the test part; NaN when there is none.
        baseline: Of the yardstick, on the same nodes or pairs.
        yardstick: What reaches the baseline, in words.
        tested: How many nodes or pairs were held out for the test; None when that is not known.
        weak: Whether the model is too weak for its influences to be trusted.
        reason: Why it is weak; empty when it is not.
        accuracy: Of the model, on the test nodes; NaN where unknown, and for links.
        balanced_accuracy: The mean of the recalls; NaN where unknown, and for links.
        recalls: How well each class with test nodes is recognised, the worst first; empty for links.
    """

    metric: str
    value: float
    baseline: float
    yardstick: str
    tested: int | None
    weak: bool
    reason: str
    accuracy: float = nan
    balanced_accuracy: float = nan
    recalls: tuple[ClassRecall, ...] = ()

    @property
    def finding(self) -> str:
        """The finding as a predicate that follows "the model"."""
        if isnan(self.value):
            return "could not be tested"
        many = "" if self.tested is None else f"{self.tested:,} "
        if self.metric == "accuracy":
            balanced = self.balanced_accuracy
            mean = "" if isnan(balanced) else f" (balanced accuracy {balanced:.1%})"
            return (
                f"classifies {self.value:.1%} of {many}held-out nodes correctly{mean}; {self.yardstick} "
                f"would reach {self.baseline:.1%}"
            )
        if self.metric == "balanced_accuracy":
            return (
                f"has a balanced accuracy of {self.value:.1%} on {many}held-out nodes (accuracy "
                f"{self.accuracy:.1%}); {self.yardstick} would reach {self.baseline:.1%}"
            )
        return (
            f"tells held-out edges from non-edges with an AUC of {self.value:.3f} on {many}pairs; "
            f"{self.yardstick} would reach {self.baseline:.3f}"
        )

    @property
    def caution(self) -> str:
        """The caution that a report of a weak model starts with; empty for other models."""
        if not self.weak:
            return ""
        more = "edges" if self.metric == "auc" else "labels"
        return (
            f"the model is too weak for its influences to be trusted: it {self.finding}, and "
            f"{self.reason}. The ranking says what moves this model, not what matters in the data. "
            f"Better features, more {more}, or another {option('model')} or {option('encoding')} may help"
        )

    @property
    def about_recalls(self) -> str:
        """The recall of each class, the worst first; empty where it is unknown."""
        if not self.recalls:
            return ""
        rest = len(self.recalls) - LISTED
        more = f" and {rest:,} more, which are recognised better" if rest > 0 else ""
        each = ", ".join(map(str, self.recalls[:LISTED]))
        return f"recall by class, on held-out nodes: {each}{more}"

    @property
    def about_missed(self) -> str:
        """Which classes are recognised worse than by guessing, and what may help; empty where none is."""
        missed = [
            repr(one.name)
            for one in self.recalls
            if one.recall < 1 / len(self.recalls) and one.tested >= FEWEST_TESTED
        ]
        if not missed or self.metric != "accuracy":
            return ""
        return (
            f"the model recognises {listed(missed, 5)} worse than guessing between the classes would; "
            f"{option('balanced', True)} gives every class the same weight in training"
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
        metric: `accuracy`, `balanced_accuracy` or `auc`.
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

    split, accuracy = run.split, run.metrics["test_accuracy"]
    test = split.nodes.test if isinstance(split, RelationalSplit) else split.test
    labels = run.data.node_stores[0].y[test]
    tested = len(labels)
    if not tested:
        return verdict("accuracy", nan, nan, GUESSING, 0)
    predicted = _predicted(run)[test]
    found, many = recalls(predicted, labels, run.dataset.num_classes)
    mean = balanced_accuracy(predicted, labels)
    if run.training.get("balanced"):
        baseline = 1 / int((many > 0).sum())
        by_chance = chance_of(predicted, labels) > CHANCE
        answer = "always answering one class"
        trust = verdict("balanced_accuracy", mean, baseline, answer, tested, by_chance)
    else:
        commonest = int(many.argmax())
        named = _class_name(run, commonest)
        answer = f"always answering {repr(named) if run.dataset.class_names else named}"
        baseline = int(many[commonest]) / tested
        by_chance = bool(binom.sf(round(accuracy * tested) - 1, tested, baseline) > CHANCE)
        trust = verdict("accuracy", accuracy, baseline, answer, tested, by_chance)
    each = [
        ClassRecall(_class_name(run, k), float(found[k]), int(many[k]))
        for k in found.argsort(stable=True).tolist()
        if many[k]
    ]
    return replace(trust, accuracy=accuracy, balanced_accuracy=mean, recalls=tuple(each))


def _predicted(run: Run) -> Tensor:
    """The predicted class of every node `[N]`."""
    with evaluating(run.model), torch.no_grad():
        output = calling(run.model, run.data, run.task, None).call(run.model, run.data)
    output = next(iter(output.values())) if isinstance(output, dict) else output
    return output.argmax(dim=-1)


def _class_name(run: Run, number: int) -> str:
    names = run.dataset.class_names
    return names[number] if names else f"class {number}"


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
    """How well degrees alone predict which pairs are linked; at least 0.5, which guessing has.

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
