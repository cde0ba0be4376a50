"""What a removal changes, as the page lists it: who, by how much, from which class to which."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nora.results.effect import Effect

LISTED = 150
NOTICEABLE = 0.01


@dataclass(frozen=True)
class Consequence:
    """One removal's effect in figures.

    Attributes:
        total: The summed change: the removed node's influence, exactly.
        reached: How many predictions change by at least `NOTICEABLE`.
        flips: How many predictions cross to another class, or links over one half.
        moves: `(from, to, how many)` of the flips, most first; for links 1 is a link, 0 is none.
        items: What changes, flips first, then by change; at most `LISTED`.
    """

    total: float
    reached: int
    flips: int
    moves: tuple[tuple[int, int, int], ...]
    items: pd.DataFrame


def consequence(effect: Effect) -> Consequence:
    """Figures of an effect; `items` has `change`, `from`, `to`, `before` and `after`.

    On nodes, `before` is the probability of the class predicted before, and `after` that of the
    class predicted after; on links both are the link's probability.
    """
    frame = effect.to_frame()
    if effect.predicts == "labels":
        frame["from"] = frame["to"] = frame["label"]
    elif effect.predicts == "classes":
        kept = effect.counted.nonzero().flatten().cpu()
        before, after = effect.before.cpu()[kept], effect.after.cpu()[kept]
        frame["before"] = before.max(dim=-1).values.numpy()
        frame["after"] = after.max(dim=-1).values.numpy()
        frame = frame.rename(columns={"from_class": "from", "to_class": "to"})
    else:
        frame["from"] = (frame["before"] > 0.5).astype(int)
        frame["to"] = (frame["after"] > 0.5).astype(int)
    frame = frame.sort_values(["flipped", "change"], ascending=False, kind="stable")
    flipped = frame[frame["flipped"]]
    moves = Counter(zip(flipped["from"].tolist(), flipped["to"].tolist(), strict=True))
    return Consequence(
        total=effect.total,
        reached=int((frame["change"] >= NOTICEABLE).sum()),
        flips=len(flipped),
        moves=tuple((a, b, amount) for (a, b), amount in moves.most_common()),
        items=frame[frame["change"] > 0].head(LISTED),
    )


def as_columns(found: Consequence, position: np.ndarray) -> dict[str, Any]:
    """The consequence as lists; `position` `[N]` is where the page keeps each node."""
    items = found.items
    columns: dict[str, Any] = {
        "total": _digits(found.total),
        "reached": found.reached,
        "flips": found.flips,
        "moves": [list(move) for move in found.moves],
    }
    for key in ("node", "source", "target"):
        if key in items:
            columns[key] = position[items[key].to_numpy()].tolist()
    for key in ("change", "before", "after"):
        columns[key] = [round(float(value), 4) for value in items[key]]
    if "node" in items:
        columns["from"], columns["to"] = items["from"].tolist(), items["to"].tolist()
    return columns


def _digits(value: float) -> float:
    return float(f"{value:.5g}")
