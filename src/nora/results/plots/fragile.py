"""How many predictions depend on how many single removals."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from nora.results.fragile import Fragile
from nora.results.plots.picture import EMPHASIS, INK, PLAIN, Picture, plain_axes, titled
from nora.wording import percent

# Counts from here on share a bar each.
BINS = ((0, 0), (1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, 32), (33, 64), (65, None))


def fragile_plot(fragile: Fragile) -> Figure:
    """A bar chart of the number of single removals that flip a prediction; the bar of 0 is plain."""
    counts = fragile.counts[fragile.counted].cpu().numpy()
    shares = [
        float(np.mean((counts >= low) & (counts <= (np.inf if high is None else high))))
        for low, high in BINS
    ]
    last = max((at for at, share in enumerate(shares) if share), default=0)
    labels = [_label(low, high) for low, high in BINS[: last + 1]]
    figure = Picture(7.5, 4.2)
    axes = figure.subplots()
    rows = np.arange(last + 1)
    axes.bar(rows, [100 * share for share in shares[: last + 1]], color=[PLAIN] + [EMPHASIS] * last)
    for row, share in zip(rows, shares, strict=False):
        if share:
            axes.annotate(
                percent(share), (row, 100 * share), xytext=(0, 3), textcoords="offset points",
                ha="center", fontsize=8, color=INK,
            )  # fmt: skip
    axes.set_xticks(rows, labels)
    one = fragile.by[:-1]
    axes.set_xlabel(f"single {fragile.by} whose removal flips the prediction", color=INK)
    axes.set_ylabel("predictions (%)", color=INK)
    plain_axes(axes, "y")
    titled(axes, f"{percent(fragile.share)} of the predictions depend on a single {one}")
    return figure


def _label(low: int, high: int | None) -> str:
    if high is None:
        return f"≥ {low}"
    return str(low) if low == high else f"{low}–{high}"
