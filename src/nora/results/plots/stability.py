"""The first nodes by several models: a dot for each, so that one that stands apart is seen."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from nora.results.plots.picture import (
    EMPHASIS,
    GREY,
    INK,
    PLAIN,
    Picture,
    figure_text,
    plain_axes,
    titled,
)
from nora.results.plots.style import COLOURS
from nora.results.stability import Stability

ROW = 0.3  # inches per node


def stability_plot(found: Stability) -> Figure:
    """Each first node's share of all influence by every model, and how often it is among the first.

    Shares, because architectures differ in how much their predictions move at all.

    Args:
        found: Influences of several models.

    Example:
        >>> import torch
        >>> from nora.results.stability import Member
        >>> seeds = tuple(Member("gcn", seed, "accuracy", 0.9, False, "exact") for seed in range(2))
        >>> figure = stability_plot(Stability(seeds, torch.tensor([[3.0, 2, 1], [3, 1, 2]]), k=2))
        >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
        ['node 0  2/2', 'node 1  1/2']
    """
    nodes, alone = found.first, set(found.alone)
    share = influence_shares(found)[:, nodes]
    figure = Picture(8, max(3.0, 1.4 + ROW * len(nodes)))
    axes = figure.subplots()
    plain_axes(axes, "x")
    rows = np.arange(len(nodes))
    axes.hlines(rows, share.min(axis=0), share.max(axis=0), color=GREY, lw=1)
    kinds = list(dict.fromkeys(member.model for member in found.members))
    for number, (member, values) in enumerate(zip(found.members, share, strict=True)):
        mine = number == 0
        axes.scatter(
            values,
            rows,
            s=46 if mine else 22,
            color=PLAIN if mine else COLOURS[(1 + kinds.index(member.model)) % len(COLOURS)],
            zorder=4 if mine else 3,
            label=f"{member} (reported here)" if mine else member.model,
        )
    total = len(found.members)
    labels = [
        f"{figure_text(found.name(node))}  {found.times_first[node]}/{total}" for node in nodes
    ]
    axes.set_yticks(rows, labels, fontsize=9)
    for label, node in zip(axes.get_yticklabels(), nodes, strict=True):
        label.set_color(EMPHASIS if node in alone else INK)
    axes.set_ylim(len(nodes) - 0.4, -0.6)
    axes.set_xlabel("share of all influence (%)", color=INK)
    titled(axes, f"The first {len(nodes)}, by {total} models")
    handles, names = axes.get_legend_handles_labels()
    once = dict(zip(names, handles, strict=True))
    axes.legend(once.values(), once.keys(), fontsize=8, frameon=False, loc="best")
    return figure


def influence_shares(found: Stability) -> np.ndarray:
    """Every node's percentage of all influence, by every model `[models, N]`."""
    values = found.scores.double().clamp(min=0).numpy()
    total = values.sum(axis=1, keepdims=True)
    return 100 * values / np.where(total > 0, total, 1)
