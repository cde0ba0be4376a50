"""Results as notebooks show them: a small table with a caption, complete in itself.

Colours are those of the notebook, light or dark: lines and secondary text are its own text colour made
fainter. The template escapes everything that comes from outside.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch
from typing import Any

import pandas as pd

from nora.results.edge_influence import EdgeInfluence
from nora.results.effect import Effect
from nora.results.exactness import method_name
from nora.results.flip import Flip
from nora.results.fragile import Fragile
from nora.results.group import Group
from nora.results.influence import Influence
from nora.results.top import Top
from nora.templates import render
from nora.wording import cell, count, duration, number

SHOWN = 10
NAMED, LONGEST = 3, 60


def html_table(frame: pd.DataFrame, title: str, about: Iterable[str] = ()) -> str:
    """A frame as an HTML table: numbers to the right, the title and what to know above it.

    >>> "&lt;b&gt;" in html_table(pd.DataFrame({"name": ["<b>"]}), "Names")
    True
    """
    columns = [
        (str(column), "right" if kind.kind in "iuf" else "left")
        for column, kind in frame.dtypes.items()
    ]
    rows = [[_short(cell(value)) for value in row] for row in frame.itertuples(index=False)]
    return render(
        "nora.results.plots",
        "table.html",
        title=title,
        about=" · ".join(about),
        columns=columns,
        rows=rows,
    )


@singledispatch
def result_html(result: Any) -> str:
    """A result as its kind is shown."""
    raise NotImplementedError(type(result).__name__)


@result_html.register
def influence_html(scores: Influence) -> str:
    """The most influential nodes."""
    frame = scores.top(SHOWN)
    scored = int((~scores.scores.isnan()).sum())
    title = f"The {len(frame)} most influential of {count(scored, 'node')}"
    if scored < len(scores):
        title += f" that were scored, of {len(scores):,}"
    return html_table(
        frame, title, _about(f"method {method_name(scores)}", scores.task, scores.seconds)
    )


@result_html.register
def edge_influence_html(scores: EdgeInfluence) -> str:
    """The most influential edges."""
    frame = scores.top(SHOWN)
    title = f"The {len(frame)} most influential of {count(len(scores), 'edge')}"
    return html_table(frame, title, _about(f"method {scores.method}", scores.task, scores.seconds))


@result_html.register
def effect_html(effect: Effect) -> str:
    """The predictions that change most."""
    removed = [_named(effect, node) for node in effect.removed]
    removed += [
        "edge " + " – ".join(_named(effect, end, "") for end in e[-2:])
        for e in effect.removed_edges
    ]
    more = f" and {len(removed) - NAMED:,} more" if len(removed) > NAMED else ""
    changed, flips = effect.noticed, len(effect.flips())
    flipping = f", {flips:,} {effect.flipping}" if effect.flipping else ""
    about = [
        f"{count(changed, effect.item)} changed" + flipping,
        f"{number(effect.total)} in all",
        f"{effect.task} task",
    ]
    return html_table(effect.top(SHOWN), f"Without {', '.join(removed[:NAMED])}{more}", about)


@result_html.register
def fragile_html(fragile: Fragile) -> str:
    """The predictions that most single removals flip."""
    title = f"Predictions that depend on single {fragile.by}"
    about = [
        f"{count(len(fragile.flips), 'flip')} by {fragile.removals:,} removals",
        duration(fragile.seconds),
    ]
    return html_table(fragile.top(SHOWN), title, about)


@result_html.register
def flip_html(flip: Flip) -> str:
    """The removal, and the proof."""
    called = flip.names[flip.node] if flip.names and isinstance(flip.node, int) else flip.node
    title = f"Node {called}: {flip.class_name(flip.from_class)}"
    if flip.size:
        title += f" → {flip.class_name(flip.to_class)} without {count(flip.size, flip.by[:-1])}"
    return html_table(flip.to_frame(), title, [flip.proof, duration(flip.seconds)])


@result_html.register
def top_html(top: Top) -> str:
    """The first nodes, with what is certain."""
    title = f"The {len(top.nodes)} most influential of {count(top.num_nodes, 'node')}"
    return html_table(top.to_frame().head(SHOWN), title, [top.certificate, duration(top.seconds)])


@result_html.register
def group_html(group: Group) -> str:
    """The nodes in the order in which they were chosen."""
    title = f"{count(len(group), 'node')} that change most together: {number(group.total)} in all"
    about = [
        f"the {len(group)} most influential together: {number(group.alone)}",
        *_about(f"chosen by {group.chosen_by}", group.task, group.seconds),
    ]
    return html_table(group.to_frame().head(SHOWN), title, about)


def _about(method: str, task: str, seconds: float) -> list[str]:
    return [method, f"{task} task", duration(seconds)]


def _named(effect: Effect, node: Any, what: str = "node ") -> str:
    if isinstance(node, tuple):  # ("author", 17)
        return " ".join(map(str, node))
    return f"{what}{node}" if effect.names is None else _short(effect.names[node])


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
