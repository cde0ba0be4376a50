"""A plot of an effect: one row per prediction, with an arrow from before to after.

Of a node the arrow shows the probability of the class it moves towards: the new class where the
prediction flips, else the one that gains most. Of a pair it shows the probability of the link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from nora.results.effect import Effect
from nora.results.plots.picture import (
    EMPHASIS,
    GREY,
    INK,
    LONGEST,
    PLAIN,
    Picture,
    figure_text,
    node_name,
    plain_axes,
    remark,
)
from nora.wording import count, number

ROW = 0.29  # inches per arrow
NAMED = 3


@dataclass(frozen=True)
class _Arrow:
    """One row: whose prediction it is, where it starts and ends, and its caption."""

    name: str
    before: float
    after: float
    flipped: bool
    remark: str

    @property
    def caption(self) -> str:
        """The remark, with by how much."""
        size = abs(self.after - self.before)
        sign = "+" if self.after >= self.before else "−"
        return f"{self.remark}{sign}{f'{size:.3f}' if size >= 0.0005 else number(size)}"


def effect_plot(effect: Effect, k: int = 15, class_names: Sequence[str] | None = None) -> Figure:
    """The `k` predictions that change most, before and after.

    Args:
        effect: What `nora.what_if` returned.
        k: How many rows at most; predictions that do not change get none.
        class_names: The classes' names.

    Example:
        >>> import torch
        >>> before, after = torch.tensor([[0.6, 0.4], [0.9, 0.1]]), torch.tensor([[0.3, 0.7]] * 2)
        >>> effect = Effect((2,), before, after, torch.tensor([True, True]))
        >>> figure = effect_plot(effect, class_names=["left", "right"])
        >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
        ['node 1', 'node 0']
    """
    arrows = _arrows(effect, k, class_names)
    figure = Picture(9.5, max(2.8, 1.8 + ROW * len(arrows)))
    axes = figure.subplots()
    plain_axes(axes, "x")
    figure.suptitle(_title(effect), x=0.01, ha="left", fontsize=12, color=INK)
    if not arrows:
        remark(axes, "no prediction changes")
        axes.set_axis_off()
        return figure
    _draw(axes, arrows)
    link = effect.predicts == "links"
    moves = "the class it moves towards" if effect.classes is None else "the class at the right"
    label_text = f"probability of {'the link' if link else moves}"
    axes.set_xlabel("prediction" if effect.predicts == "values" else label_text, color=INK)
    if link or (effect.predicts == "classes" and effect.before.size(1) == 2):
        axes.axvline(0.5, color=GREY, lw=1, ls="--", zorder=1)
    flip = "crosses 0.5" if link else "changes class"
    figure.legend(handles=_handles(arrows, flip), loc="outside lower right", ncols=4, frameon=False)
    return figure


def _arrows(effect: Effect, k: int, class_names: Sequence[str] | None) -> list[_Arrow]:
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    change = effect.change
    most = change.argsort(descending=True, stable=True)[:k]
    by_class = partial(_of_node, class_names=class_names)
    arrow = {"links": _of_pair, "values": _of_value}.get(effect.predicts, by_class)
    return [arrow(effect, item) for item in most[change[most] > 0].tolist()]


def _of_pair(effect: Effect, item: int) -> _Arrow:
    assert effect.pairs is not None
    pair = effect.pairs[:, item].tolist()
    ends = [figure_text(node_name(effect, node, ""), LONGEST // 2) for node in pair]
    before, after = float(effect.before[item]), float(effect.after[item])
    flipped = (before > 0.5) != (after > 0.5)
    note = ("link lost " if after < before else "link gained ") if flipped else ""
    return _Arrow(" – ".join(ends), before, after, flipped, note)


def _of_value(effect: Effect, node: int) -> _Arrow:
    before, after = effect.before[node], effect.after[node]
    output = int((before - after).abs().argmax())
    note = "" if len(before) == 1 else f"output {output} "
    name = figure_text(node_name(effect, node))
    return _Arrow(name, float(before[output]), float(after[output]), False, note)


def _of_node(effect: Effect, node: int, class_names: Sequence[str] | None) -> _Arrow:
    def called(one: int) -> str:
        return figure_text(str(class_names[one]) if class_names is not None else f"class {one}", 18)

    before, after = effect.before[node], effect.after[node]
    if effect.predicts == "labels":
        label, flipped = (int(one) for one in effect.labels_moved(before, after))
        way = "gains" if after[label] > before[label] else "loses"
        note = f"{way} {called(label)} "
        name = figure_text(node_name(effect, node))
        return _Arrow(name, float(before[label]), float(after[label]), bool(flipped), note)
    old, new = int(before.argmax()), int(after.argmax())
    # Where only some classes count, the others' gains are not what was asked about.
    classes = list(range(len(before)) if effect.classes is None else effect.classes)
    towards = classes[int((after - before)[classes].argmax())]
    if old != new and effect.classes is None:
        towards = new
    note = f"{'towards' if after[towards] > before[towards] else 'away from'} {called(towards)} "
    if old != new and effect.classes is None:
        note = f"{called(old)} → {called(new)} "
    name = figure_text(node_name(effect, node))
    return _Arrow(name, float(before[towards]), float(after[towards]), old != new, note)


def _title(effect: Effect) -> str:
    """The title: what is removed, and how many predictions change."""
    removed = [figure_text(node_name(effect, node), 20) for node in effect.removed]
    for edge in effect.removed_edges:
        removed.append(
            "edge " + " – ".join(figure_text(node_name(effect, end, ""), 12) for end in edge)
        )
    more = f" and {len(removed) - NAMED:,} more" if len(removed) > NAMED else ""
    changed, flipped = effect.noticed, len(effect.flips())
    does = f"{count(changed, effect.item)} {'changes' if changed == 1 else 'change'}"
    if changed and effect.flipping:
        does += f", {f'{flipped:,}' if flipped else 'none'} of them {effect.flipping}"
    return f"Without {', '.join(removed[:NAMED])}{more}\n{does}"


def _draw(axes: Axes, arrows: list[_Arrow]) -> None:
    for row, arrow in enumerate(arrows):
        colour = EMPHASIS if arrow.flipped else PLAIN
        width = 2.6 if arrow.flipped else 1.6
        axes.plot([arrow.before, arrow.after], [row, row], color=colour, lw=width, zorder=2)
        axes.plot(arrow.before, row, "o", ms=7, mfc="white", mec=colour, mew=1.6, zorder=3)
        axes.plot(arrow.after, row, "o", ms=8, mfc=colour, mec=colour, zorder=4)
    axes.set_yticks(range(len(arrows)), [arrow.name for arrow in arrows], fontsize=9)
    axes.set_ylim(max(len(arrows), 3) - 0.4, -0.6)
    ends = [end for arrow in arrows for end in (arrow.before, arrow.after)]
    low, high = min(ends), max(ends)
    room = 0.06 * (high - low)
    # Small changes would be dots on an axis from 0 to 1.
    whole = high - low > 0.4 and low >= 0 and high <= 1
    axes.set_xlim((-0.03, 1.03) if whole else (low - room, high + room))
    captions = axes.secondary_yaxis("right")
    captions.set_yticks(range(len(arrows)), [arrow.caption for arrow in arrows], fontsize=9)
    captions.spines["right"].set_visible(False)
    captions.tick_params(length=0)
    for arrow, *labels in zip(
        arrows, axes.get_yticklabels(), captions.get_yticklabels(), strict=True
    ):
        for label in labels:
            label.set_color(EMPHASIS if arrow.flipped else INK)
            label.set_fontweight("bold" if arrow.flipped else "normal")


def _handles(arrows: list[_Arrow], flip: str) -> list[Line2D]:
    before = Line2D([], [], marker="o", ls="", ms=7, mfc="white", mec=INK, mew=1.6, label="before")
    after = Line2D([], [], marker="o", ls="", ms=8, color=INK, label="after")
    flips = Line2D([], [], color=EMPHASIS, lw=2.6, label=flip)
    return [before, after, *([flips] if any(arrow.flipped for arrow in arrows) else [])]
