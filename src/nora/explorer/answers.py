"""What the page is told of an effect: how much in all, who flips, and who changes most."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import torch

from nora.explorer.network import Network
from nora.explorer.refusal import Refused
from nora.report.consequences import LISTED_CHANGE, as_columns, consequence
from nora.results.effect import Effect

# All flips up to a number that a person could ever look at, and as many other changes.
FLIPS, SHIFTS = 5000, 1000


def told(effect: Effect, network: Network) -> dict[str, Any]:
    """An effect as columns, flips first, then by change; `total` is `effect.total`."""
    if not math.isfinite(effect.total):
        raise Refused(
            422, "the model's predictions are not finite with these values: choose smaller ones"
        )
    if effect.predicts != "classes":
        found = as_columns(consequence(effect), np.arange(network.num_nodes))
        return {**found, "total": effect.total}
    moved = effect.change.detach().cpu()
    if effect.classes is None:
        rows = (moved > 0).nonzero().flatten()
    else:  # on the classes that do not count a node may flip, too
        rows = effect.counted.cpu().nonzero().flatten()
    change = moved[rows].double().numpy()
    before, after = network.before[rows], effect.after.detach().cpu()[rows]
    start, end = before.argmax(dim=-1), after.argmax(dim=-1)
    flipped = (start != end).numpy()
    flips, others = np.flatnonzero(flipped), np.flatnonzero(~flipped & (change > 0))
    flips = flips[np.argsort(-change[flips], kind="stable")][:FLIPS]
    others = others[np.argsort(-change[others], kind="stable")][:SHIFTS]
    listed = torch.from_numpy(np.concatenate([flips, others]))
    start, end = start[listed], end[listed]
    moves = Counter(zip(*(part[: len(flips)].tolist() for part in (start, end)), strict=True))
    named = int((change[listed.numpy()] >= LISTED_CHANGE).sum())
    return {
        "total": effect.total,
        "reached": effect.noticed,
        "flips": int(flipped.sum()),
        "moves": [[a, b, amount] for (a, b), amount in moves.most_common()],
        "more": int((change >= LISTED_CHANGE).sum()) - named,
        "node": rows[listed].tolist(),
        "change": np.round(change[listed.numpy()], 6).tolist(),
        "before": _shares(before[listed].gather(1, start[:, None])[:, 0]),
        "after": _shares(after[listed].gather(1, end[:, None])[:, 0]),
        "from": start.tolist(),
        "to": end.tolist(),
    }


def _shares(values: torch.Tensor) -> list[float]:
    return np.round(values.double().numpy(), 4).tolist()


def nothing(network: Network) -> dict[str, Any]:
    """The effect of no edits at all."""
    columns = ("change", "before", "after")
    ends = ("source", "target") if network.predicts == "links" else ("node", "from", "to")
    none: dict[str, Any] = {key: [] for key in (*columns, *ends, "moves")}
    return {**none, "total": 0.0, "reached": 0, "flips": 0, "more": 0}
