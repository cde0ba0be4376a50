"""Charts of the experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from nora.results.plots.style import COLOURS, GREY


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def dots(found: pd.DataFrame, methods: Sequence[str]) -> Figure:
    """Pearson per cell and method with its interval, the paper's figure as a hollow dot.

    Args:
        found: Columns `dataset`, `model`, `task`, `method`, `value`, `low`, `high`, `paper`.
        methods: One panel each.
    """
    cells = found[["dataset", "model", "task"]].drop_duplicates().reset_index(drop=True)
    labels = [f"{d} · {m} · {t}" for d, m, t in cells.itertuples(index=False)]
    place = {tuple(cell): row for row, cell in enumerate(cells.itertuples(index=False))}
    figure = _figure(2.0 + 1.9 * len(methods), 1.4 + 0.24 * len(cells))
    panels = np.atleast_1d(figure.subplots(1, len(methods), sharey=True, sharex=True))
    for panel, method in zip(panels, methods, strict=True):
        mine = found[found["method"] == method]
        y = [
            place[key]
            for key in mine[["dataset", "model", "task"]].itertuples(index=False, name=None)
        ]
        panel.hlines(y, mine["low"], mine["high"], color=COLOURS[1], lw=1.4, alpha=0.6)
        panel.scatter(
            mine["value"], y, s=26, color=COLOURS[1], zorder=3, label="here (95 % interval)"
        )
        if found["paper"].notna().any():
            panel.scatter(
                mine["paper"],
                y,
                s=30,
                facecolors="none",
                edgecolors=COLOURS[0],
                zorder=2,
                label="paper",
            )
        panel.axvline(mine["value"].mean(), color=GREY, lw=0.9, ls="--", zorder=1)
        panel.set_title(f"{method}\nmean {mine['value'].mean():.3f}", loc="left", fontsize=10)
        panel.grid(axis="x", color="#E8E8E8", lw=0.7)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8)
    panels[0].set_yticks(range(len(cells)), labels)
    panels[0].set_ylim(len(cells) - 0.5, -0.5)
    low = float(found.loc[found["method"].isin(methods), ["value", "paper"]].min().min())
    panels[0].set_xlim(max(-0.05, np.floor(10 * low) / 10 - 0.05), 1.01)
    figure.supxlabel("Pearson correlation with the exact influence", fontsize=9)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper right", ncols=2, fontsize=8, frameon=False)
    return figure


def lines(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    xlabel: str,
    ylabel: str,
    title: str,
) -> Figure:
    """Named lines over shared axes."""
    figure = _figure(6.4, 3.8)
    axes = figure.subplots()
    for k, (name, (x, y)) in enumerate(series.items()):
        axes.plot(x, y, marker="o", ms=4, lw=1.6, color=COLOURS[k % len(COLOURS)], label=name)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.set_title(title, loc="left", fontsize=11)
    axes.grid(color="#E8E8E8", lw=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False)
    return figure


def panels(
    pictures: Mapping[str, tuple[pd.DataFrame, Sequence[str]]],
    xlabel: str,
    ylabel: str,
    lowest: float = 0.0,
) -> Figure:
    """One panel per picture: the named columns of a frame over its column `band`, from `lowest` upwards."""
    across = min(2, len(pictures))
    down = -(-len(pictures) // across)
    figure = _figure(5.2 * across, 2.9 * down)
    axes = np.atleast_1d(figure.subplots(down, across)).flatten()
    for panel, (title, (frame, columns)) in zip(axes, pictures.items(), strict=False):
        for k, column in enumerate(columns):
            panel.plot(
                frame["band"],
                frame[column],
                lw=1.5,
                marker="o",
                ms=2.5,
                color=COLOURS[k % len(COLOURS)],
                label=column,
            )
        panel.set_title(title, loc="left", fontsize=10)
        panel.set_ylim(bottom=lowest)
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.grid(color="#E8E8E8", lw=0.7)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8)
        panel.legend(fontsize=8, frameon=False)
    for panel in axes[len(pictures) :]:
        panel.set_axis_off()
    figure.supxlabel(xlabel, fontsize=9)
    figure.supylabel(ylabel, fontsize=9)
    return figure


def bars(table: pd.DataFrame, label: str, columns: Mapping[str, str], xlabel: str) -> Figure:
    """Grouped horizontal bars: a group per row of `table`, a bar per column (column → its name)."""
    figure = _figure(7.0, 1.2 + 0.2 * len(table) * (len(columns) + 0.6))
    axes = figure.subplots()
    thick = 0.8 / len(columns)
    rows = np.arange(len(table))
    for k, (column, name) in enumerate(columns.items()):
        axes.barh(rows + k * thick, table[column], thick, color=COLOURS[k], label=name)
    axes.set_yticks(rows + thick * (len(columns) - 1) / 2, table[label].tolist(), fontsize=8)
    _finish(figure, axes, xlabel, len(columns))
    return figure


def marks(table: pd.DataFrame, label: str, columns: Mapping[str, str], xlabel: str) -> Figure:
    """A line per row of `table`, a mark per column (column → its name), on a logarithmic scale."""
    figure = _figure(7.0, 1.2 + 0.22 * len(table))
    axes = figure.subplots()
    rows = np.arange(len(table))
    for k, (column, name) in enumerate(columns.items()):
        axes.scatter(table[column], rows, s=28, marker="osD^v"[k], color=COLOURS[k], label=name)
    axes.set_yticks(rows, table[label].tolist(), fontsize=8)
    axes.set(xscale="log")
    _finish(figure, axes, xlabel, len(columns))
    return figure


def _finish(figure: Figure, axes: Axes, xlabel: str, across: int) -> None:
    axes.invert_yaxis()
    axes.set(xlabel=xlabel)
    axes.grid(axis="x", color="#E8E8E8", lw=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    # Outside: what is drawn may be long anywhere.
    figure.legend(loc="outside upper right", ncols=across, fontsize=8, frameon=False)
