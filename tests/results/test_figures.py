"""Figures: what is drawn, that labels keep apart, and that the same input gives the same picture."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread

import nora
from nora.results.plots.overview import influence_figure
from nora.results.plots.style import notable, save_figure
from nora.results.plots.text_places import Label, place_labels


def karate_figure(scores: torch.Tensor | None = None) -> Figure:
    dataset = nora.load_dataset("karate")
    data = dataset.data
    degree = torch.bincount(data.edge_index[0], minlength=34).float()
    values = degree**1.2 if scores is None else scores
    return influence_figure(
        nora.Influence(values, "made up", names=dataset.node_names),
        degree,
        data.edge_index,
        data.y,
        ("red", "green", "blue", "grey"),
    )


def texts(figure: Figure, panel: int) -> set[str]:
    return {text.get_text() for text in figure.axes[panel].texts}


def test_the_most_influential_are_named_in_both_panels() -> None:
    figure = karate_figure()
    assert "member 34" in texts(figure, 0) & texts(figure, 1)


def test_classes_are_named_in_the_legend() -> None:
    legend = karate_figure().axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()][:2] == ["red", "green"]


def test_the_same_input_gives_the_same_picture(tmp_path: Path) -> None:
    pictures = [imread(save_figure(karate_figure(), tmp_path / f"{n}.png")) for n in "ab"]
    assert np.array_equal(*pictures)


def test_zero_and_missing_scores_are_no_obstacle() -> None:
    scores = torch.rand(34, generator=torch.Generator().manual_seed(0))
    scores[:5], scores[5:8] = 0.0, float("nan")
    assert len(karate_figure(scores).axes) == 2


def test_a_graph_where_nothing_matters_is_drawn_all_the_same(tmp_path: Path) -> None:
    no_edges = torch.empty(2, 0, dtype=torch.long)
    scores = nora.Influence(torch.zeros(3), "made up")
    figure = influence_figure(scores, torch.zeros(3), no_edges, torch.zeros(3).long())
    assert save_figure(figure, tmp_path / "figure.png").exists()


def test_nodes_without_names_are_numbered() -> None:
    edges = torch.tensor([[0, 1, 0, 2], [1, 0, 2, 0]])
    scores = nora.Influence(torch.tensor([2.0, 1.0, 1.5]), "made up")
    figure = influence_figure(scores, torch.tensor([2, 1, 1]), edges, torch.zeros(3).long())
    assert "node 0" in texts(figure, 1)


def test_names_are_never_read_as_formulas(tmp_path: Path) -> None:
    edges = torch.tensor([[0, 1, 0, 2], [1, 0, 2, 0]])
    odd = ("$\\foo$", "two\nlines", "_")
    scores = nora.Influence(torch.tensor([2.0, 1.0, 1.5]), "made up", names=odd)
    figure = influence_figure(scores, torch.tensor([2, 1, 1]), edges, torch.arange(3), odd)
    assert save_figure(figure, tmp_path / "figure.png").exists()
    assert "two lines" in texts(figure, 1)


def test_nothing_to_draw_is_an_error() -> None:
    with pytest.raises(ValueError, match="no node has a score"):
        karate_figure(torch.full((34,), float("nan")))


def test_notable_nodes_are_those_that_degree_does_not_explain() -> None:
    degree = np.arange(1.0, 101.0)
    influence = degree.copy()
    influence[89], influence[97] = 400.0, 5.0
    found = notable(pd.DataFrame({"degree": degree, "influence": influence}))
    assert {89, 97} <= set(found)


def test_labels_of_crowded_points_do_not_overlap() -> None:
    figure = Figure(figsize=(6, 5))
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    points = np.random.default_rng(0).normal(0, 0.02, (8, 2))
    axes.set(xlim=(-1, 1), ylim=(-1, 1))
    labels = [Label(x, y, f"@account{n}") for n, (x, y) in enumerate(points)]
    boxes = place_labels(axes, labels, points)
    frame = axes.get_window_extent()
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    assert all(frame.contains(*box.min) and frame.contains(*box.max) for box in boxes)
