"""Headline findings in words, each with the one figure that carries it.

A finding is only shown where the scores bear it out: a node with few edges is named when it has clearly
fewer than is usual, and its rank by influence is far above its rank by degree. Of an estimate, nothing is
shown that its error could have made: nodes are named by exact scores only, ranks are taken at their most
cautious, and rankings are compared only where the estimate's own agrees well with `exact`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from nora.report.consequences import Consequence
from nora.report.subject import Subject
from nora.results.effect import NOTICEABLE
from nora.results.exactness import YARDSTICKS, method_name
from nora.results.plots.distribution import Concentration, ScoreAgreement, score_agreement
from nora.wording import count, number, ordinal, percent

# Few edges are at most the median, and at most this share of the mean.
FEW = 2 / 3
# Rank correlation with `exact` below which the order of an estimate means nothing.
TRUSTED = 0.95


@dataclass(frozen=True)
class NodeMention:
    """A node mentioned in a sentence."""

    node: int


@dataclass(frozen=True)
class Finding:
    """A figure and the sentence that explains it: text and mentioned nodes."""

    figure: str
    text: tuple[str | NodeMention, ...]

    def sentence(self, subject: Subject) -> str:
        """The sentence as plain text."""
        return "".join(
            part if isinstance(part, str) else subject.name(part.node) for part in self.text
        )


def headline_findings(
    subject: Subject,
    spread: Concentration | None,
    by_degree: ScoreAgreement | None,
) -> list[Finding]:
    """The findings, most important first."""
    consequences = subject.effects
    found: list[Finding] = []
    if spread is None:
        return [Finding("0", ("No removal would change any other prediction.",))]
    found.extend(_first_removal(subject, consequences))
    main = subject.scores[0]
    if main.method not in YARDSTICKS:
        found.append(_concentration(spread, subject.estimate is not None))
    if main.method != "degree" and by_degree is not None:
        found.extend(_surprises(subject))
    if subject.estimate is None or subject.estimate.get("spearman", 0.0) >= TRUSTED:
        if main.method != "degree" and by_degree is not None:
            found.extend(_degree_agreement(by_degree))
        found.extend(_other_methods(subject))
    return found


def _first_removal(subject: Subject, consequences: Mapping[int, Consequence]) -> Iterator[Finding]:
    if not consequences:
        return
    first, effect = next(iter(consequences.items()))
    flip = "prediction would flip" if subject.task == "node" else "pair would flip"
    if effect.flips == 0:
        reached = count(effect.reached, "prediction")
        text = f", no {flip}, but {reached} would change by {NOTICEABLE:g} or more."
        yield Finding(f"{effect.reached:,}", ("Without ", NodeMention(first), text))
    else:
        text = f", {_flipped(subject, effect)}: {_moves(subject, effect)}."
        yield Finding(f"{effect.flips:,}", ("Without ", NodeMention(first), text))
    most, other = max(consequences.items(), key=lambda item: item[1].flips)
    if most != first and other.flips > effect.flips:
        text = (
            f" ({ordinal(int(subject.rank[most]))} by influence) would flip the most: without it, "
            f"{_flipped(subject, other)}."
        )
        start = f"Of the first {len(consequences):,}, "
        yield Finding(f"{other.flips:,}", (start, NodeMention(most), text))


def _flipped(subject: Subject, effect: Consequence) -> str:
    if subject.task == "node":
        return f"{effect.flips:,} of {subject.items - 1:,} other nodes would flip to another class"
    return f"{effect.flips:,} of {subject.items:,} pairs would flip"


def _moves(subject: Subject, effect: Consequence) -> str:
    if subject.task == "link":
        words = {(1, 0): "to no link", (0, 1): "to a link"}
        return ", ".join(f"{n:,} {words[a, b]}" for a, b, n in effect.moves)
    names = subject.class_names
    named_moves = [f"{n:,} from {names[a]} to {names[b]}" for a, b, n in effect.moves[:3]]
    rest = sum(n for _, _, n in effect.moves[3:])
    return ", ".join(named_moves + ([f"{rest:,} between other classes"] if rest else []))


def _concentration(spread: Concentration, estimated: bool) -> Finding:
    (_, one, first), _, (_, ten, tenth) = spread.shares
    about = "about " if estimated else ""
    top = f"The top {percent(0.01)} of nodes ({one:,})" if one > 1 else "The first node"
    carry = "carry" if one > 1 else "carries"
    more = f", the top {percent(0.1)} carry {percent(tenth)}" if ten > one else ""
    text = (
        f"{top} {carry} {about}{percent(first)} of all influence{more}; {about}"
        f"{count(spread.half, 'node')} {'carry' if spread.half > 1 else 'carries'} half of it."
    )
    return Finding(f"{'≈' if estimated else ''}{percent(first)}", (text,))


def _surprises(subject: Subject) -> Iterator[Finding]:
    """A node with few edges that matters much, and a hub that matters little."""
    scored = subject.order
    degree = subject.degree[scored]
    best, worst = _rank_range(subject)
    about = "" if subject.estimate is None else "about "
    by_degree = rankdata(-degree, method="min").astype(int)
    few = max(10, len(scored) // 50)
    positive = subject.degree[subject.degree > 0]
    usual = float(np.median(positive)) if len(positive) else 0.0
    # Where all have about as many edges, none has few, though half are below the median.
    small = min(usual, FEW * float(positive.mean())) if len(positive) else 0.0
    # How many times further down the list of degrees than on that of influence.
    hidden = np.where((worst <= few) & (degree <= small), by_degree / worst, 0)
    at = int(hidden.argmax())
    if len(scored) >= 20 and hidden[at] >= 2.5 and by_degree[at] - worst[at] >= 5:
        ranks = f"ranks {about}{ordinal(int(best[at]))}"
        ranks = ranks if best[at] == worst[at] else f"is among the first {int(worst[at]):,}"
        text = (
            f" has few edges ({ordinal(int(by_degree[at]))} by degree, with {number(degree[at])}) but "
            f"{ranks} by influence."
        )
        yield Finding(ordinal(int(worst[at])), (NodeMention(int(scored[at])), text))
    loud = np.where((by_degree <= few) & (degree > usual), best / by_degree, 0)
    at = int(loud.argmax())
    if len(scored) >= 20 and loud[at] >= 2.5 and best[at] - by_degree[at] >= 5:
        only = f"ranks only {about}" if best[at] == worst[at] else "ranks at best "
        text = (
            f" has many edges ({ordinal(int(by_degree[at]))} by degree, with {number(degree[at])}) but "
            f"{only}{ordinal(int(best[at]))} by influence."
        )
        yield Finding(ordinal(int(best[at])), (NodeMention(int(scored[at])), text))


def _rank_range(subject: Subject) -> tuple[np.ndarray, np.ndarray]:
    """The best and the worst rank each node of `order` may have, given how far scores may be off."""
    scored = subject.order
    rank = subject.rank[scored]
    if subject.estimate is None or not subject.exact.any():
        return rank, rank
    value, exact = subject.influence[scored], subject.exact[scored]
    factor = subject.estimate.get("factor", np.inf)
    # Nodes are named by exact scores only: of the others nothing is claimed.
    low, high = np.where(exact, value, value / factor), np.where(exact, value, value * factor)
    above = len(value) - np.searchsorted(np.sort(low), value, side="right")
    maybe = len(value) - np.searchsorted(np.sort(high), value, side="left")
    best, worst = np.where(exact, above + 1, 1), np.where(exact, np.maximum(maybe, 1), len(value))
    return best, worst


def _degree_agreement(found: ScoreAgreement) -> Iterator[Finding]:
    if not np.isfinite(found.spearman):
        return
    words = ((0.9, "almost identically"), (0.7, "similarly"), (0.4, "only roughly similarly"))
    how = next((word for least, word in words if found.spearman >= least), "quite differently")
    text = (
        f"Degree and influence order the nodes {how} (rank correlation {found.spearman:.2f}); "
        f"they share {found.shared} of the top {found.first}."
    )
    yield Finding(f"{found.spearman:.2f}", (text,))


def _other_methods(subject: Subject) -> Iterator[Finding]:
    main = subject.scores[0]
    for other in subject.scores[1:]:
        found = score_agreement(main, other)
        if found is None or not np.isfinite(found.spearman):
            continue
        text = (
            f"The method {other.method} ranks the nodes with a correlation of {found.spearman:.2f} to "
            f"{method_name(main)}, and shares {found.shared} of its top {found.first}."
        )
        yield Finding(f"{found.spearman:.2f}", (text,))
