"""Text beside points without overlaps: greedy, on the pixels where the text will be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from matplotlib.transforms import Bbox


class Label(NamedTuple):
    """A text for the point at `x`, `y` in data coordinates."""

    x: float
    y: float
    text: str


# What is bad about a place, against covering one point: to leave the axes, to cover another label,
# and each pixel of distance.
OUTSIDE, OVERLAP, FAR = 1000.0, 100.0, 0.08


def place_labels(axes: Axes, labels: Iterable[Label], points: np.ndarray) -> list[Bbox]:
    """Write each label beside its point, where it covers the least, and join them by a thin line.

    The position of the axes must be final. Labels that come first choose first.

    Args:
        axes: Where to write.
        labels: What to write.
        points: Points to keep visible, in data coordinates `[n, 2]`.

    Returns:
        The boxes of the labels, in pixels.
    """
    canvas = axes.figure.canvas
    assert isinstance(canvas, FigureCanvasAgg), "labels are measured with Agg"
    renderer = canvas.get_renderer()
    pixels = axes.transData.transform(points)
    frame = axes.get_window_extent(renderer)
    placed: list[Bbox] = []
    dots_per_point = axes.figure.dpi / 72
    for label in labels:
        text = axes.annotate(
            label.text,
            (label.x, label.y),
            xytext=(0, 0),
            textcoords="offset points",
            fontsize=9,
            ha="center",
            va="center",
            zorder=5,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
            arrowprops={"arrowstyle": "-", "color": "#444444", "lw": 0.6, "shrinkA": 0},
        )
        text.update_positions(renderer)
        box = Text.get_window_extent(text, renderer).padded(2)  # without the line to the point
        best, cost = (0.0, 0.0), float("inf")
        for dx, dy in _offsets(box.width / 2, box.height / 2):
            moved = box.translated(dx, dy)
            covered = _inside(pixels, moved).sum()
            here = covered + FAR * np.hypot(dx, dy) + OVERLAP * sum(map(moved.overlaps, placed))
            here += 0 if _contains(frame, moved) else OUTSIDE
            if here < cost:
                best, cost = (dx, dy), here
        text.set_position((best[0] / dots_per_point, best[1] / dots_per_point))
        placed.append(box.translated(*best))
    return placed


def _offsets(half_width: float, half_height: float) -> Iterable[tuple[float, float]]:
    """Candidates for the label's centre: around the point, nearest first."""
    for distance in (6, 14, 26, 42, 62, 88):
        for angle in np.linspace(0, 2 * np.pi, 16, endpoint=False):
            dx, dy = np.cos(angle), np.sin(angle)
            yield dx * (half_width + distance), dy * (half_height + distance)


def _inside(pixels: np.ndarray, box: Bbox) -> np.ndarray:
    return np.all((pixels > box.min) & (pixels < box.max), axis=1)


def _contains(outer: Bbox, inner: Bbox) -> bool:
    return bool(np.all(inner.min >= outer.min) and np.all(inner.max <= outer.max))
