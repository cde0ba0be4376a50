"""`Influence.plot` and `Effect.plot`: what is drawn, for any kind of result."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from torch_geometric.data import HeteroData

import nora
from graphs import bridge, double, some_pairs, star
from networks import network
from nora import Effect, Influence
from nora.results.plots.picture import EMPHASIS, figure_text

NAN = float("nan")
ODD = ("$\\frac{$", "two\nlines", "<script>alert(1)</script>", "x" * 300, "a\x00b", "")


def rows(figure: Figure) -> list[str]:
    return [label.get_text() for label in figure.axes[0].get_yticklabels()]


def remarks(figure: Figure) -> list[str]:
    return [label.get_text() for label in figure.axes[0].child_axes[0].get_yticklabels()]


def texts(figure: Figure, panel: int = 1) -> list[str]:
    return [" ".join(text.get_text().split()) for text in figure.axes[panel].texts]


def drawn(figure: Figure) -> np.ndarray:
    """Draw it, so that whatever cannot be drawn fails here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())  # type: ignore[attr-defined]


def overlaps(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts of the figure that cover each other."""
    drawn(figure)
    legends = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    found = [
        (text.get_text(), Text.get_window_extent(text).shrunk(0.98, 0.8))  # without its line
        for axes in figure.axes
        for text in [*axes.texts, *axes.get_yticklabels(), axes.title]
        if text.get_text()
    ]
    found += [("legend", legend.get_window_extent()) for legend in legends]
    return [(a, b) for (a, here), (b, there) in combinations(found, 2) if here.overlaps(there)]


def flipping(**more: Any) -> Effect:
    """Node 1 goes; node 0 flips from class 0 to 1, node 2 moves a little, node 3 stays."""
    before = torch.tensor([[0.6, 0.3, 0.1], [0.5, 0.5, 0.0], [0.9, 0.1, 0.0], [0.2, 0.8, 0.0]])
    after = torch.tensor([[0.3, 0.6, 0.1], [NAN, NAN, NAN], [0.8, 0.1, 0.1], [0.2, 0.8, 0.0]])
    made = Effect((1,), before, after, torch.tensor([True, False, True, True]))
    return replace(made, **more)


def test_the_first_nodes_are_bars_with_their_names() -> None:
    scores = Influence(torch.tensor([1.0, 3.0, NAN, 2.0]), "brute", names=tuple("abcd"))
    figure = scores.plot(k=2)
    assert rows(figure) == ["b", "d"]
    assert [bar.get_width() for bar in figure.axes[0].patches] == [3.0, 2.0]
    assert texts(figure, 0) == ["3", "2"]
    assert figure.axes[0].get_xlabel() == "influence (brute)"


def test_nodes_without_names_are_numbered() -> None:
    assert rows(Influence(torch.tensor([1.0, 3.0]), "brute").plot()) == ["node 1", "node 0"]


def test_nodes_with_types_are_numbered_within_them() -> None:
    scores = Influence(torch.tensor([1.0, 3.0, 2.0]), "brute", node_types={"author": 1, "paper": 2})
    assert rows(scores.plot()) == ["paper 0", "paper 1", "author 0"]
    data = HeteroData()
    data["author"].num_nodes, data["paper"].num_nodes = 1, 2
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 0], [0, 1]])
    assert "paper 0" in texts(scores.plot(data=data))


def test_the_lorenz_curve_tells_the_share_of_the_first_nodes() -> None:
    values = torch.ones(200)
    values[:2] = 99.0  # the first 1 % have half of everything
    figure = Influence(values, "brute").plot()
    assert texts(figure) == [
        "top 1 % (2 nodes): 50 %",
        "top 3 % (6 nodes): 51 %",
        "top 10 % (20 nodes): 55 %",
    ]
    curve = figure.axes[1].lines[0].get_xydata()
    assert curve[-1].tolist() == [100, 100]


def test_in_a_small_graph_the_same_node_is_named_once() -> None:
    figure = Influence(torch.tensor([5.0] + [1.0] * 15), "brute").plot()
    assert texts(figure) == ["top 1 % (1 node): 25 %", "top 10 % (2 nodes): 30 %"]


def test_with_the_graph_influence_is_drawn_against_degree() -> None:
    data = double(bridge())
    scores = nora.influence(network(), data, "exact", progress=False)
    figure = scores.plot(data=data)
    assert figure.axes[1].get_title(loc="left") == "Influence against degree"
    x, y = figure.axes[1].collections[0].get_offsets().T
    assert np.allclose(y, scores.scores)
    degree = nora.influence(network(), data, "degree", progress=False).scores.numpy()
    assert np.allclose(x, degree, rtol=0.12)


@pytest.mark.parametrize("with_graph", [False, True])
@pytest.mark.parametrize(
    "values",
    [
        torch.zeros(6),
        torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
        torch.tensor([2.0, NAN, NAN, NAN, NAN, NAN]),
        torch.tensor([1e-12, 2e-12, 0.0, 0.0, 0.0, 0.0]),
        torch.tensor([1e9, 1.0, 1.0, 1.0, 1.0, 1.0]),
        torch.tensor([1.0, -0.5, 0.2, 0.0, 0.1, 0.3]),
    ],
)
def test_any_scores_are_drawn(values: torch.Tensor, with_graph: bool) -> None:
    figure = Influence(values, "brute").plot(data=star() if with_graph else None)
    assert drawn(figure).std() > 0
    assert overlaps(figure) == []


def test_where_nothing_matters_the_picture_says_so() -> None:
    assert texts(Influence(torch.zeros(5), "brute").plot()) == ["no node has any influence"]


@pytest.mark.parametrize(
    ("number", "exponent"),
    [(2, -1.0), (20, 0.0), (300, -1.0), (300, -2.0), (5000, -0.2), (5000, -8.0)],
)
def test_no_text_covers_another_however_influence_is_spread(number: int, exponent: float) -> None:
    values = torch.arange(1, number + 1, dtype=torch.double) ** exponent
    assert overlaps(Influence(values, "brute").plot(k=25)) == []


def test_any_name_is_drawn() -> None:
    scores = Influence(torch.arange(6.0), "brute", names=ODD)
    drawn(scores.plot())
    drawn(scores.plot(data=star()))
    assert max(len(label) for label in rows(scores.plot())) <= 33
    drawn(flipping(names=ODD[:4]).plot(class_names=ODD[:3]))


def test_dollars_are_no_formula() -> None:
    assert figure_text("$5 and $6") == r"\$5 and \$6"


def test_nothing_to_draw_is_an_error() -> None:
    with pytest.raises(ValueError, match="no node has a score"):
        Influence(torch.full((3,), NAN), "brute").plot()


def test_scores_of_another_graph_are_refused() -> None:
    with pytest.raises(ValueError, match=r"data has 6 nodes, but the scores.*3"):
        Influence(torch.ones(3), "brute").plot(data=star())


@pytest.mark.parametrize("result", [Influence(torch.ones(3), "brute"), flipping()])
def test_at_least_one_row_is_asked_for(result: Influence | Effect) -> None:
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        result.plot(k=0)


def test_an_effect_shows_the_class_each_node_moves_towards() -> None:
    figure = flipping(names=tuple("abcd")).plot(class_names=("left", "right", "middle"))
    assert rows(figure) == ["a", "c"]
    assert remarks(figure) == ["left → right +0.300", "towards middle +0.100"]
    first = figure.axes[0].lines[0]
    assert first.get_xdata() == pytest.approx([0.3, 0.6])
    assert figure.get_suptitle() == "Without b\n2 nodes change, 1 of them to another class"


def test_flips_stand_out() -> None:
    figure = flipping().plot()
    colours = [to_hex(label.get_color()).upper() for label in figure.axes[0].get_yticklabels()]
    assert [colour == EMPHASIS for colour in colours] == [True, False]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["before", "after", "changes class"]


def test_where_some_classes_count_their_change_is_shown() -> None:
    figure = flipping(classes=(0,)).plot()
    assert remarks(figure) == ["away from class 0 −0.300", "away from class 0 −0.100"]
    assert figure.axes[0].lines[0].get_xdata() == pytest.approx([0.6, 0.3])


def test_an_effect_on_links_shows_pairs_and_crossed_halves() -> None:
    made = Effect(
        removed=(9,),
        before=torch.tensor([0.6, 0.9, 0.3, 0.4]),
        after=torch.tensor([0.4, NAN, 0.35, 0.4]),
        counted=torch.tensor([True, False, True, True]),
        task="link",
        pairs=torch.tensor([[0, 9, 2, 5], [1, 1, 0, 6]]),
    )
    figure = made.plot()
    assert rows(figure) == ["0 – 1", "2 – 0"]
    assert remarks(figure) == ["link lost −0.200", "+0.050"]
    assert figure.get_suptitle() == "Without node 9\n2 pairs change, 1 of them across 0.5"
    named = replace(made, names=tuple("abcdefghij")).plot()
    assert rows(named) == ["a – b", "c – a"]


def test_an_effect_of_edges_and_many_nodes_is_titled() -> None:
    title = flipping(removed=(), removed_edges=((0, 2),)).plot().get_suptitle()
    assert title.startswith("Without edge 0 – 2\n")
    title = flipping(removed=(1, 2, 3, 4, 5)).plot().get_suptitle()
    assert title.startswith("Without node 1, node 2, node 3 and 2 more\n")


def test_where_no_prediction_changes_the_picture_says_so() -> None:
    same = flipping()
    figure = replace(same, after=same.before).plot()
    assert texts(figure, 0) == ["no prediction changes"]
    assert figure.get_suptitle() == "Without node 1\n0 nodes change"
    drawn(figure)


@pytest.mark.parametrize("remove", [3, [2, 4], [0, 1, 2, 3, 4, 5]])
@pytest.mark.parametrize("link", [False, True])
def test_effects_of_models_are_drawn(remove: Any, link: bool) -> None:
    data = double(bridge())
    task = nora.LinkPrediction(some_pairs(data)) if link else None
    figure = nora.what_if(network(), data, remove, task).plot()
    assert drawn(figure).std() > 0
    assert overlaps(figure) == []


def test_a_typed_effect_names_types() -> None:
    made = flipping(removed=(("author", 1),), node_types={"author": 2, "paper": 2})
    figure = made.plot()
    assert rows(figure) == ["author 0", "paper 0"]
    assert figure.get_suptitle().startswith("Without author 1\n")


def test_small_changes_are_not_lost_on_a_long_axis() -> None:
    made = flipping()
    figure = replace(made, after=made.before + torch.tensor([0.001, 0.0, -0.001])).plot(k=1)
    low, high = figure.axes[0].get_xlim()
    assert high - low < 0.01


def test_the_same_scores_give_the_same_picture() -> None:
    scores = Influence(torch.arange(6.0), "brute")
    pictures = [drawn(scores.plot(data=star())) for _ in range(2)]
    assert np.array_equal(*pictures)
