"""Scores at a glance: who comes first, and how unevenly influence is spread.

Left the most influential nodes as bars. Right the Lorenz curve, the share of all influence that
the first nodes carry; or, where the graph is given, influence against degree, which shows how far
degree explains it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nora.graph.degrees import degrees
from nora.graph.node_index import Graph
from nora.results.exactness import method_name
from nora.results.influence import Influence
from nora.results.plots.distribution import Concentration, concentration
from nora.results.plots.picture import (
    EMPHASIS,
    GREY,
    INK,
    PLAIN,
    Picture,
    figure_text,
    node_name,
    plain_axes,
    remark,
    titled,
)
from nora.results.plots.style import notable
from nora.results.plots.text_places import Label, place_labels
from nora.wording import count, number, percent

if TYPE_CHECKING:
    from nora.results.edge_influence import EdgeInfluence

ROW = 0.27  # inches per bar
# The Lorenz panel: where its axis ends, and the size of its texts as shares of width and height.
RIGHT, TEXT, LINE = 125.0, 0.42, 6.0
TICKS = (0.001, 0.01, 0.1, 1, 10, 50, 100)


def influence_plot(scores: Influence, k: int = 15, data: Graph | None = None) -> Figure:
    """The `k` most influential nodes beside a Lorenz curve or, given the graph, degrees.

    Args:
        scores: Scores `[N]`; nodes without one are left out.
        k: How many bars.
        data: The graph the scores are of, to draw influence against degree.

    Example:
        >>> import torch
        >>> figure = influence_plot(Influence(torch.tensor([0.5, 2.0, 1.0]), "brute"), k=2)
        >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
        ['node 1', 'node 2']
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    # All nodes in one row, whatever their types.
    nodes = replace(scores, node_types=None).to_frame().set_index("node")
    if nodes.empty:
        raise ValueError("there is nothing to draw: no node has a score")
    first = nodes.sort_values("rank").head(k)
    first = first.assign(name=[node_name(scores, node) for node in first.index])
    figure = Picture(11, max(4.2, 1.2 + ROW * len(first)))
    left, right = figure.subplots(1, 2)
    _draw_bars(left, first, method_name(scores))
    if data is None:
        # Estimates below zero do not count as influence, but of signed measures the size counts.
        values = nodes["influence"] if scores.measure == "change" else nodes["influence"].abs()
        _draw_lorenz(right, concentration(values.to_numpy()), len(nodes))
        return figure
    if data.num_nodes != len(scores):
        raise ValueError(f"data has {data.num_nodes} nodes, but the scores are of {len(scores)}")
    _draw_degrees(figure, right, nodes.assign(degree=degrees(data).numpy()[nodes.index]), scores)
    return figure


def edge_influence_plot(scores: EdgeInfluence, k: int = 15) -> Figure:
    """The `k` most influential edges beside a Lorenz curve of all of them.

    Args:
        scores: Scores of edges.
        k: How many bars.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    edges = scores.to_frame()
    if edges.empty:
        raise ValueError("there is nothing to draw: no edge has a score")
    dash = " – " if scores.details.get("undirected") else " → "
    label = "_name" if "source_name" in edges else ""
    first = edges.sort_values("rank").head(k)
    ends = [first[f"{end}{label}"].astype(str) for end in ("source", "target")]
    first = first.assign(name=ends[0] + dash + ends[1])
    figure = Picture(11, max(4.2, 1.2 + ROW * len(first)))
    left, right = figure.subplots(1, 2)
    _draw_bars(left, first, scores.method)
    _draw_lorenz(right, concentration(edges["influence"].abs().to_numpy()), len(edges), "edge")
    return figure


def _draw_bars(axes: Axes, first: pd.DataFrame, method: str) -> None:
    rows = np.arange(len(first))
    values = first["influence"].to_numpy()
    # What 95 of 100 estimates are within; nothing where scores are exact.
    errors = 1.96 * first["stderr"].to_numpy() if "stderr" in first else np.zeros(len(first))
    axes.barh(rows, values, height=0.72, color=PLAIN)
    drawn = errors > 0
    axes.errorbar(
        values[drawn], rows[drawn], xerr=errors[drawn], fmt="none", ecolor=INK, capsize=2, lw=1
    )
    axes.set_yticks(rows, [figure_text(name) for name in first["name"]], fontsize=9)
    axes.set_ylim(max(len(first), 4) - 0.4, -0.6)  # a few bars stay bars
    low, high = min(values.min(), 0.0), max((values + errors).max(), 0.0)
    axes.set_xlim(low, low + 1.16 * (high - low) if high > low else 1.0)  # room for the numbers
    for row, value, error in zip(rows, values, errors, strict=True):
        axes.annotate(
            number(value),
            (max(value + error, 0.0), row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=INK,
        )
    axes.set_xlabel(f"influence ({method})", color=INK)
    plain_axes(axes, "x")
    titled(axes, f"The {len(first)} most influential" if len(first) > 1 else "Influence")


def _draw_lorenz(
    axes: Axes, found: Concentration | None, num_nodes: int, what: str = "node"
) -> None:
    plain_axes(axes, "both")
    titled(axes, "How unevenly influence is spread")
    if found is None or num_nodes == 1:
        remark(axes, f"no {what} has any influence" if found is None else "it takes two to compare")
        axes.set_axis_off()
        return
    # In a small graph the first 1 % and the first 3 % may be the same node.
    shares = {k: (share, carried) for share, k, carried in reversed(found.shares)}
    smallest = 100 * min(shares) / num_nodes
    x, y = 100 * np.array(found.curve[1:]).T
    axes.plot(x, y, color=PLAIN, lw=2)
    equal = np.geomspace(100 / num_nodes, 100, 200)
    axes.plot(equal, equal, color=GREY, lw=1.2, ls="--", label=f"all {what}s equal")
    axes.fill_between(
        equal, equal, np.interp(np.log(equal), np.log(x), y), color=PLAIN, alpha=0.08, lw=0
    )
    # Logarithmic, because the first per cent of the nodes is what the curve is read for; the
    # left TEXT of the width is for the text beside the first point.
    left = (smallest / RIGHT**TEXT) ** (1 / (1 - TEXT))
    axes.set(xscale="log", xlim=(min(80 / num_nodes, left), RIGHT))
    axes.set_xticks([tick for tick in TICKS if tick > axes.get_xlim()[0]])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.set_xlabel(f"share of the {what}s, most influential first (%)", color=INK)
    axes.set_ylabel("share of all influence (%)", color=INK)
    below = -LINE
    for k, (share, carried) in sorted(shares.items()):
        at, high = 100 * k / num_nodes, 100 * carried
        below = max(high + 1.5, below + LINE)
        axes.plot(at, high, "o", color=EMPHASIS, ms=6, zorder=3)
        axes.annotate(
            f"top {percent(share)} ({count(k, what)}): {percent(carried)}",
            (at, high),
            xytext=(at / 1.12, below),
            ha="right",
            fontsize=9,
            color=INK,
        )
    axes.set_ylim(0, 105 if below < 95 else below + 2 * LINE)
    axes.set_yticks(range(0, 101, 20))
    axes.legend(loc="best", frameon=False, fontsize=9, labelcolor=GREY)


def _draw_degrees(figure: Figure, axes: Axes, nodes: pd.DataFrame, scores: Influence) -> None:
    plain_axes(axes, "both")
    titled(axes, "Influence against degree")
    axes.set_xlabel("degree (points shifted slightly)", color=INK)
    axes.set_ylabel(f"influence ({method_name(scores)})", color=INK)
    seen = nodes[(nodes["degree"] > 0) & (nodes["influence"] > 0)]
    if seen.empty:
        remark(axes, "no node has both neighbours and influence")
        axes.set_axis_off()
        return
    # Degrees are whole numbers: spread them sideways a little, or the dots hide one another.
    sideways = np.random.default_rng(0).uniform(-0.1, 0.1, len(seen))
    seen = seen.assign(spread=seen["degree"] * np.exp(sideways))
    axes.scatter(seen["spread"], seen["influence"], s=15, color=PLAIN, alpha=0.5, lw=0)
    axes.set(xscale="log", yscale="log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    # Labels are placed in pixels, so the layout has to settle first, and stay.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    chosen = seen.loc[notable(seen), ["spread", "influence"]]
    labels = [
        Label(x, y, figure_text(node_name(scores, node), 20)) for node, x, y in chosen.itertuples()
    ]
    place_labels(axes, labels, seen[["spread", "influence"]].to_numpy())
