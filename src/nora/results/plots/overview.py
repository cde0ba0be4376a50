"""The overview: two questions side by side.

How far does degree explain influence (left),
and where in the graph are the influential nodes (right)?
"""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from nora.results.agreement import log_trend
from nora.results.exactness import method_name
from nora.results.influence import Influence
from nora.results.plots.picture import figure_text
from nora.results.plots.style import COLOURS, GREY, notable
from nora.results.plots.text_places import Label, place_labels

NAMED = 6
AXES_POINTS = 400  # width of the graph's drawing, about


def influence_figure(
    scores: Influence,
    degree: Tensor,
    edge_index: Tensor,
    predicted: Tensor,
    class_names: Sequence[str] | None = None,
    seed: int = 0,
) -> Figure:
    """Influence against degree, and the graph with its influential nodes large.

    Made for graphs of up to a few thousand nodes. Nodes without a score are left out, and so are,
    in the graph's drawing, nodes outside its largest connected part.

    Args:
        scores: Scores `[N]`; their names, if any, label the notable nodes.
        degree: Degrees `[N]`.
        edge_index: Edges `[2, E]`.
        predicted: Predicted classes `[N]`.
        class_names: The classes' names.
        seed: Seed of the layout.

    Example:
        >>> import nora, torch
        >>> data = nora.load_dataset("karate").data
        >>> scores = nora.Influence(torch.rand(34), "random")
        >>> figure = influence_figure(scores, torch.ones(34), data.edge_index, data.y)
        >>> len(figure.axes)
        2
    """
    nodes = scores.to_frame().set_index("node")
    if nodes.empty:
        raise ValueError("there is nothing to draw: no node has a score")
    nodes["degree"] = degree.cpu().numpy()[nodes.index]
    nodes["class"] = predicted.cpu().numpy()[nodes.index]
    nodes["colour"] = [COLOURS[k % len(COLOURS)] for k in nodes["class"]]
    if "name" not in nodes:
        nodes["name"] = [f"node {node}" for node in nodes.index]

    figure = Figure(figsize=(11, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
    seen = _draw_scatter(left, nodes, method_name(scores))
    drawn = _draw_graph(right, nodes, edge_index.cpu().numpy(), seed)
    _draw_legend(left, nodes, class_names)
    # Labels are placed in pixels, so the constrained layout has to settle first, and stay.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    _name(left, seen, notable(seen), "spread", "influence")
    _name(right, drawn, drawn["influence"].nlargest(NAMED).index, "x", "y")
    return figure


def _draw_scatter(axes: Axes, nodes: pd.DataFrame, method: str) -> pd.DataFrame:
    """Influence against degree, both heavy-tailed, so on logarithmic axes; returns what is seen."""
    seen = nodes[(nodes["degree"] > 0) & (nodes["influence"] > 0)]
    # Degrees are whole numbers: spread them sideways a little, or the dots hide one another.
    random = np.random.default_rng(0)
    seen = seen.assign(spread=seen["degree"] * np.exp(random.uniform(-0.1, 0.1, len(seen))))
    axes.scatter(seen["spread"], seen["influence"], s=15, c=seen["colour"], alpha=0.65, lw=0)
    axes.set(xlabel="degree (points shifted slightly)", ylabel=f"influence ({method})")
    if len(seen):  # empty logarithmic axes cannot be drawn
        trend = log_trend(seen["influence"].to_numpy(), seen["degree"].to_numpy())
        if trend is not None:
            slope, level = trend
            ends = np.array([seen["degree"].min(), seen["degree"].max()])
            axes.plot(ends, np.exp(level) * ends**slope, color=GREY, lw=1.2, ls="--", zorder=1)
        axes.set(xscale="log", yscale="log")
    axes.set_title("Influence against degree", loc="left", fontsize=12)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(color="#E8E8E8", lw=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return seen


def _draw_graph(axes: Axes, nodes: pd.DataFrame, edge_index: np.ndarray, seed: int) -> pd.DataFrame:
    """The largest connected part, size by influence; returns its nodes with their places."""
    graph = nx.Graph(edge_index.T.tolist())
    graph.add_nodes_from(nodes.index)
    graph = graph.subgraph(nodes.index)
    graph = graph.subgraph(max(nx.connected_components(graph), key=len))
    drawn = nodes.loc[sorted(graph)].copy()
    size = 3 + 380 * drawn["influence"].to_numpy() / max(drawn["influence"].max(), 1e-12)
    place = _apart(_layout(graph, drawn, seed), size)
    drawn[["x", "y"]] = place
    row = {node: position for position, node in enumerate(drawn.index)}
    lines = [place[[row[i], row[j]]] for i, j in graph.edges]
    axes.add_collection(LineCollection(lines, colors=GREY, lw=0.35, alpha=0.25, zorder=1))
    order = np.argsort(size)  # the influential on top
    axes.scatter(
        place[order, 0],
        place[order, 1],
        s=size[order],
        c=drawn["colour"].to_numpy()[order],
        alpha=0.9,
        lw=0.5,
        edgecolors="white",
        zorder=2,
    )
    axes.set_title("Where they are: size by influence", loc="left", fontsize=12)
    axes.margins(0.02)
    axes.set_axis_off()
    return drawn


def _layout(graph: nx.Graph, nodes: pd.DataFrame, seed: int) -> np.ndarray:
    """Seeded spring layout `[n, 2]` that starts with each class on its own side."""
    random = np.random.default_rng(seed)
    turn = 2 * np.pi * nodes["class"].to_numpy() / max(nodes["class"].nunique(), 1) + np.pi
    start = np.stack([np.cos(turn), np.sin(turn)], axis=1) + random.normal(0, 0.5, (len(nodes), 2))
    weighted = nx.Graph()
    weighted.add_nodes_from(graph)
    # Edges of hubs pull less, as in GCN's normalisation: else all hubs meet in the middle.
    weighted.add_weighted_edges_from(
        (i, j, 3 / np.sqrt(graph.degree[i] * graph.degree[j])) for i, j in graph.edges
    )
    begin = dict(zip(nodes.index, start, strict=True))
    places = nx.spring_layout(weighted, k=0.06, pos=begin, seed=seed)
    return np.array([places[node] for node in nodes.index])


def _apart(place: np.ndarray, size: np.ndarray, largest: int = 40) -> np.ndarray:
    """Push the largest circles `[n, 2]` apart where they overlap; `size` is in square points."""
    big = np.argsort(-size)[:largest]
    radius = np.sqrt(size[big]) / 2 * np.ptp(place, axis=0).max() / AXES_POINTS
    reach = radius[:, None] + radius
    place = place.copy()
    for _ in range(60):
        gap = place[big][:, None] - place[big]
        distance = np.linalg.norm(gap, axis=2).clip(min=1e-9)
        np.fill_diagonal(distance, np.inf)
        push = (reach - distance).clip(min=0) / distance / 2
        place[big] += (gap * push[..., None]).sum(axis=1) / 2
    return place


def _draw_legend(axes: Axes, nodes: pd.DataFrame, class_names: Sequence[str] | None) -> None:
    classes = nodes.drop_duplicates("class").sort_values("class")
    handles = []
    for k, colour in zip(classes["class"], classes["colour"], strict=True):
        label = figure_text(class_names[k]) if class_names else k
        handles.append(Line2D([], [], marker="o", ls="", color=colour, label=label))
    handles.append(Line2D([], [], color=GREY, lw=1.2, ls="--", label="trend with degree"))
    axes.legend(
        handles=handles,
        title="predicted class",
        alignment="left",
        loc="lower right",
        frameon=False,
    )


def _name(axes: Axes, nodes: pd.DataFrame, chosen: pd.Index, x: str, y: str) -> None:
    rows = nodes.loc[chosen, [x, y, "name"]].itertuples(index=False)
    labels = [Label(left, up, figure_text(str(name))) for left, up, name in rows]
    place_labels(axes, labels, nodes[[x, y]].to_numpy())
