"""The changes of a removal as the page lists them: node, change, class before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from nora.results.effect import NOTICEABLE, Effect

if TYPE_CHECKING:
    from nora.questions.each import Outcome

LISTED = 150
# Smaller changes are listed only where there are few others.
LISTED_CHANGE, LISTED_ANYWAY = 0.0005, 10


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


def consequence_of(outcome: Outcome, pairs: np.ndarray | None) -> Consequence:
    """Figures of one removal of many; `pairs` `[2, P]` of a link task."""
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
    shown = flipped[order] | (change[order] >= LISTED_CHANGE) | (rank < LISTED_ANYWAY)
    listed = order[shown][:LISTED]
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
