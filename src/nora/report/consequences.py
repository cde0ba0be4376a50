"""What a removal changes, as the page lists it: who, by how much, from which class to which."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from nora.model.tasks.link_prediction import LinkPrediction
from nora.progress import progress_bar
from nora.questions.each import Outcome, outcomes_of
from nora.questions.session import Session
from nora.results.effect import NOTICEABLE, Effect

LISTED = 150
# Smaller changes are listed only where there are few others.
LISTED_CHANGE, LISTED_ANYWAY = 0.0005, 10
# How long the page may take to find out effects, and how many it tells in any case.
SECONDS, LEAST = 8.0, 30
# How many go between two looks at the clock: few at first, each of which may change all predictions of a
# large graph, then as many as take a quarter of the time.
AT_FIRST, AT_ONCE = 8, 128


@dataclass(frozen=True)
class Consequence:
    """One removal's effect in figures.

    Attributes:
        total: The summed change: the removed node's influence, exactly.
        reached: How many predictions change by at least `NOTICEABLE`.
        flips: How many predictions cross to another class, or links over one half.
        moves: `(from, to, how many)` of the flips, most first; for links 1 is a link, 0 is none.
        more: How many changes are not among the items.
        items: What changes, flips first, then by change, at most `LISTED`: columns `node`, or `source` and
            `target`; `change`, `before`, `after`, `from`, `to`. On nodes, `before` is the probability of the
            class predicted before, and `after` that of the class predicted after; on links both are the
            link's probability.
    """

    total: float
    reached: int
    flips: int
    moves: tuple[tuple[int, int, int], ...]
    more: int
    items: Mapping[str, np.ndarray]

    @property
    def touched(self) -> np.ndarray:
        """Ids of the nodes in the items, in their order."""
        if "node" in self.items:
            return self.items["node"]
        return np.stack([self.items["source"], self.items["target"]], axis=1).ravel()


def consequences_of(
    session: Session, nodes: Sequence[int], least: int = LEAST, progress: bool = False
) -> dict[int, Consequence]:
    """What the removal of each of these nodes changes, in their order, as far as time allows."""
    found: dict[int, Consequence] = {}
    pairs, at, at_once = None, 0, AT_FIRST
    if isinstance(session.task, LinkPrediction):
        pairs = session.task.pairs.cpu().numpy()
    start = time.perf_counter()
    with progress_bar("what removals change, as time allows", len(nodes), progress) as advance:
        while at < len(nodes) and not (at >= least and time.perf_counter() - start > SECONDS):
            begun = time.perf_counter()
            part = list(nodes[at : at + at_once])
            if session.task.predicts == "labels":
                told = {node: consequence(session.what_if(node)) for node in part}
            else:
                told = {one.node: _of_outcome(one, pairs) for one in outcomes_of(session, part)}
            found.update((node, told[node]) for node in part if node in told)
            advance(len(part))
            at += len(part)
            each = (time.perf_counter() - begun) / len(part)
            at_once = int(min(max(SECONDS / 4 / max(each, 1e-9), 1), AT_ONCE))
    return found


def consequence(effect: Effect) -> Consequence:
    """Figures of an effect."""
    frame = effect.to_frame()
    columns: dict[str, Any] = {str(key): frame[key].to_numpy() for key in frame}
    if effect.predicts == "labels":
        columns["from"] = columns["to"] = columns["label"]
    elif effect.predicts == "classes":
        kept = effect.counted.nonzero().flatten().cpu()
        before, after = effect.before.cpu()[kept], effect.after.cpu()[kept]
        columns |= {"from": columns["from_class"], "to": columns["to_class"]}
        columns |= {"before": _largest(before), "after": _largest(after)}
    else:
        columns |= _link_columns(columns["before"], columns["after"])
    return _figures(columns, columns["flipped"], effect.total)


def _of_outcome(outcome: Outcome, pairs: np.ndarray | None) -> Consequence:
    item = outcome.item.numpy()
    columns: dict[str, Any] = {"change": outcome.change.double().numpy()}
    if pairs is None:
        columns |= {"node": item, "before": _largest(outcome.before)}
        columns |= {"after": _largest(outcome.after)}
        columns["from"] = outcome.before.argmax(dim=-1).numpy()
        columns["to"] = outcome.after.argmax(dim=-1).numpy()
    else:
        before, after = outcome.before.double().numpy(), outcome.after.double().numpy()
        columns |= {"source": pairs[0, item], "target": pairs[1, item]}
        columns |= {"before": before, "after": after, **_link_columns(before, after)}
    return _figures(columns, columns["from"] != columns["to"], outcome.total)


def _largest(probabilities: Tensor) -> np.ndarray:
    return probabilities.double().max(dim=-1).values.numpy()


def _link_columns(before: np.ndarray, after: np.ndarray) -> dict[str, np.ndarray]:
    return {"from": (before > 0.5).astype(int), "to": (after > 0.5).astype(int)}


def _figures(columns: Mapping[str, np.ndarray], flipped: np.ndarray, total: float) -> Consequence:
    change = columns["change"]
    moves = Counter(
        zip(columns["from"][flipped].tolist(), columns["to"][flipped].tolist(), strict=True)
    )
    order = np.lexsort((-change, ~flipped))
    order = order[change[order] > 0]
    rank = np.arange(len(order))
    worth = flipped[order] | (change[order] >= LISTED_CHANGE) | (rank < LISTED_ANYWAY)
    listed = order[worth][:LISTED]
    kept = ("node", "source", "target", "change", "before", "after", "from", "to")
    return Consequence(
        total=total,
        reached=int((change >= NOTICEABLE).sum()),
        flips=int(flipped.sum()),
        moves=tuple((a, b, amount) for (a, b), amount in moves.most_common()),
        more=int((change >= LISTED_CHANGE).sum() - (change[listed] >= LISTED_CHANGE).sum()),
        items={key: columns[key][listed] for key in kept if key in columns},
    )


def as_columns(found: Consequence, position: np.ndarray) -> dict[str, Any]:
    """The consequence as lists; `position` `[N]` is where the page keeps each node."""
    items = found.items
    columns: dict[str, Any] = {
        "total": float(f"{found.total:.5g}"),
        "reached": found.reached,
        "flips": found.flips,
        "moves": [list(move) for move in found.moves],
        "more": found.more,
    }
    for key in ("node", "source", "target"):
        if key in items:
            columns[key] = position[items[key]].tolist()
    for key in ("change", "before", "after"):
        columns[key] = np.round(items[key].astype(float), 4).tolist()
    if "node" in items:
        columns["from"], columns["to"] = items["from"].tolist(), items["to"].tolist()
    return columns
