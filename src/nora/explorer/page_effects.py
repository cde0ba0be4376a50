"""An effect as the page reads it: the total change, who flips, and who changes most."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import torch

from nora.explorer.network import Network
from nora.explorer.rejection import Rejected
from nora.model.task import item_change
from nora.report.consequences import LISTED_CHANGE, as_columns, consequence
from nora.results.effect import NOTICEABLE, Effect

# All flips up to a number that a person could ever look at, and as many other changes.
FLIPS, SHIFTS = 5000, 1000


def effect_columns(effect: Effect, network: Network) -> dict[str, Any]:
    """An effect as columns, flips first, then by change; `total` is `effect.total`."""
    if effect.predicts != "classes":
        _check_finite(effect.total)
        found = as_columns(consequence(effect), np.arange(network.num_nodes))
        return {**found, "total": effect.total}
    rows = differing_rows(effect.before, effect.after)
    rows = rows[effect.counted.cpu()[rows]]
    before, after = effect.before.detach()[rows].cpu(), effect.after.detach()[rows].cpu()
    some = slice(None) if effect.classes is None else list(effect.classes)
    change = torch.zeros(len(effect.before), dtype=torch.promote_types(before.dtype, torch.float))
    change[rows] = item_change(before[:, some], after[:, some])
    total = float(change.sum())  # in the order in which `Effect.total` adds up
    _check_finite(total)
    moved = change[rows].double().numpy()
    start, end = before.argmax(dim=-1), after.argmax(dim=-1)
    flipped = (start != end).numpy()
    flips, others = np.flatnonzero(flipped), np.flatnonzero(~flipped & (moved > 0))
    flips = flips[np.argsort(-moved[flips], kind="stable")][:FLIPS]
    others = others[np.argsort(-moved[others], kind="stable")][:SHIFTS]
    listed = torch.from_numpy(np.concatenate([flips, others]))
    start, end = start[listed], end[listed]
    moves = Counter(zip(*(part[: len(flips)].tolist() for part in (start, end)), strict=True))
    shown = moved[listed.numpy()]
    return {
        "total": total,
        "reached": int((moved >= NOTICEABLE).sum()),
        "flips": int(flipped.sum()),
        "moves": [[a, b, amount] for (a, b), amount in moves.most_common()],
        "more": int((moved >= LISTED_CHANGE).sum() - (shown >= LISTED_CHANGE).sum()),
        "node": rows[listed].tolist(),
        "change": np.round(shown, 6).tolist(),
        "before": _rounded(before[listed].gather(1, start[:, None])[:, 0]),
        "after": _rounded(after[listed].gather(1, end[:, None])[:, 0]),
        "from": start.tolist(),
        "to": end.tolist(),
    }


def _check_finite(total: float) -> None:
    if not math.isfinite(total):
        raise Rejected(
            422, "the model's predictions are not finite with these values: choose smaller ones"
        )


def differing_rows(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The rows in which two matrices `[N, C]` differ, by their bits: four times as fast as `!=`.

    >>> differing_rows(torch.zeros(3, 2), torch.tensor([[0.0, 0], [0, 1], [0, 0]])).tolist()
    [1]
    """
    word = torch.int64 if one.size(1) * one.element_size() % 8 == 0 else torch.uint8
    both = [part.detach().cpu().contiguous().view(word).numpy() for part in (one, other)]
    at = np.flatnonzero((both[0] != both[1]).ravel())
    return torch.from_numpy(np.unique(at // both[0].shape[1]))


def no_effect(network: Network) -> dict[str, Any]:
    """The effect of no edits at all."""
    columns = ("change", "before", "after")
    ends = ("source", "target") if network.predicts == "links" else ("node", "from", "to")
    none: dict[str, Any] = {key: [] for key in (*columns, *ends, "moves")}
    return {**none, "total": 0.0, "reached": 0, "flips": 0, "more": 0}


def _rounded(values: torch.Tensor) -> list[float]:
    return np.round(values.double().numpy(), 4).tolist()
