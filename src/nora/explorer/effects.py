"""An effect as the page reads it: the total change, who flips, and who changes most."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import torch

from nora.explorer.network import Network
from nora.explorer.refusal import Refused
from nora.report.consequences import LISTED_CHANGE, as_columns, consequence
from nora.results.effect import NOTICEABLE, Effect

# All flips up to a number that a person could ever look at, and as many other changes.
FLIPS, SHIFTS = 5000, 1000


def effect_columns(effect: Effect, network: Network) -> dict[str, Any]:
    """An effect as columns, flips first, then by change; `total` is `effect.total`."""
    change = effect.change.detach().cpu()
    total = float(change.sum())
    if not math.isfinite(total):
        raise Refused(
            422, "the model's predictions are not finite with these values: choose smaller ones"
        )
    if effect.predicts != "classes":
        found = as_columns(consequence(effect), np.arange(network.num_nodes))
        return {**found, "total": total}
    # A node may flip on classes that do not count: then every prediction is looked at.
    looked = change > 0 if effect.classes is None else effect.counted.cpu()
    rows = looked.nonzero().flatten()
    moved = change[rows].double().numpy()
    before, after = effect.before.detach().cpu()[rows], effect.after.detach().cpu()[rows]
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


def no_effect(network: Network) -> dict[str, Any]:
    """The effect of no edits at all."""
    columns = ("change", "before", "after")
    ends = ("source", "target") if network.predicts == "links" else ("node", "from", "to")
    none: dict[str, Any] = {key: [] for key in (*columns, *ends, "moves")}
    return {**none, "total": 0.0, "reached": 0, "flips": 0, "more": 0}


def _rounded(values: torch.Tensor) -> list[float]:
    return np.round(values.double().numpy(), 4).tolist()
