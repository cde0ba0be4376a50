"""A figure that shows itself in a notebook, and names that can be written in it.

Drawn without pyplot, a figure belongs to the caller alone: no window, no global state.
"""

from __future__ import annotations

from io import BytesIO
from typing import Literal

import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from nora.graph.node_index import NodeIndex
from nora.results.effect import Effect
from nora.results.influence import Influence

LONGEST = 32
INK, GREY, FAINT = "#333333", "#8A8A8A", "#E8E8E8"
# Teal and vermilion: apart in lightness and for colour-blind readers, see `nora.results.plots.style`.
PLAIN, EMPHASIS = "#00707F", "#D55E00"


class Picture(Figure):
    """A figure on Agg; notebooks show it as an image, also where pyplot was never imported."""

    def __init__(self, width: float, height: float) -> None:
        super().__init__(figsize=(width, height), layout="constrained", facecolor="white")
        FigureCanvasAgg(self)

    def _repr_png_(self) -> bytes:
        content = BytesIO()
        self.savefig(content, format="png", dpi=110)
        return content.getvalue()


def node_name(result: Influence | Effect, node: int | tuple[str, int], what: str = "node ") -> str:
    """A node in words: its name, `author 17` if nodes have types, else `node 17`.

    Args:
        result: Whose names and types count.
        node: Its place among all nodes, or `("author", 17)`.
        what: What to write in front of a bare number.
    """
    types = result.node_types
    if types is not None:
        index = NodeIndex(tuple(types), tuple(types.values()))
        if isinstance(node, tuple):
            node = int(index.ids(node))
        what, within = index.located(torch.tensor([node]))[0]
        if result.names is None:
            return f"{what} {within}"
    assert isinstance(node, int)
    return f"{what}{node}" if result.names is None else str(result.names[node])


def figure_text(name: str, longest: int = LONGEST) -> str:
    """A name as a figure can show it: one line, not too long, never read as a formula.

    >>> figure_text("costs $5 or $6"), figure_text("a" * 40, 8), figure_text("two\\nlines")
    ('costs \\\\$5 or \\\\$6', 'aaaaaaa…', 'two lines')
    """
    line = "".join(sign if sign.isprintable() else " " for sign in name)
    line = " ".join(line.split())
    if len(line) > longest:
        line = line[: longest - 1].rstrip() + "…"
    return line.replace("$", r"\$")


def plain_axes(axes: Axes, grid: Literal["x", "y", "both"]) -> None:
    """Light grid along one direction, no frame."""
    axes.grid(axis=grid, color=FAINT, lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GREY)
    axes.tick_params(length=0, colors=INK)


def titled(axes: Axes, text: str) -> None:
    """A title at the left edge."""
    axes.set_title(text, loc="left", fontsize=12, color=INK)


def remark(axes: Axes, text: str) -> None:
    """Text in place of a drawing without data."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=GREY)
