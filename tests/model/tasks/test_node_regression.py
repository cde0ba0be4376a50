"""Numbers instead of classes: the same questions, the same engine."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.data import Data

import nora
from graphs import FEATURES, GRAPHS, double
from nora.model.preserve import seeded


class Values(nn.Module):
    """Two convolutions to one number per node, or several."""

    def __init__(self, width: int, flat: bool = False) -> None:
        super().__init__()
        with seeded(3):
            self.first, self.last = pyg.GCNConv(FEATURES, 4), pyg.SAGEConv(4, width)
        self.flat = flat

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        found = 50 * self.last(self.first(x, edge_index).tanh(), edge_index)
        return found.squeeze(1) if self.flat else found


def by_hand(model: nn.Module, data: Data, node: int) -> float:
    """`Σ|Δŷ|` without any of NORA's code."""
    keep = torch.arange(data.num_nodes) != node
    new = keep.long().cumsum(0) - 1
    inside = keep[data.edge_index].all(dim=0)
    with torch.no_grad():
        before = model(data.x, data.edge_index)[keep]
        after = model(data.x[keep], new[data.edge_index[:, inside]])
    return float((before - after).abs().sum())


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize(("width", "flat"), [(1, True), (1, False), (3, False)])
@pytest.mark.parametrize("method", ["exact", "brute"])
def test_scores_are_the_summed_change_of_the_numbers(
    kind: str, width: int, flat: bool, method: str
) -> None:
    data, model = double(GRAPHS[kind]()), Values(width, flat).double().eval()
    found = nora.influence(model, data, method, nora.NodeRegression(), progress=False)
    assert found.task == "regression"
    truth = [by_hand(model, data, node) for node in range(data.num_nodes)]
    expected = torch.tensor(truth, dtype=torch.double)
    torch.testing.assert_close(found.scores, expected, rtol=1e-9, atol=1e-9)


def test_other_questions_work_too() -> None:
    data, model = double(GRAPHS["two_camps"]()), Values(1).double().eval()
    session = nora.Session(model, data, nora.NodeRegression())
    effect = session.what_if(3)
    assert effect.total == pytest.approx(by_hand(model, data, 3))
    frame = effect.to_frame()
    assert {"node", "change", "before", "after"} <= set(frame)
    assert "to_class" not in frame
    assert (frame["before"] - frame["after"]).abs().tolist() == pytest.approx(
        frame["change"].tolist()
    )
    assert len(effect.flips()) == 0
    truth = session.influence("brute", progress=False).scores
    best = session.top(2, progress=False)
    assert best.nodes[0] == int(truth.argmax())
    assert best.certified == 2
    assert session.best_group(2, progress=False).total > 0
    for method in ("cauchy", "nora", "mask"):
        assert torch.isfinite(session.influence(method, progress=False).scores).all()


@pytest.mark.parametrize("size", [1e-7, 1e7])
def test_rounding_is_judged_beside_the_size_of_the_numbers(size: float) -> None:
    class Scaled(Values):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return size * super().forward(x, edge_index)

    data = GRAPHS["two_camps"]()
    model = Scaled(1).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = nora.influence(model, data, "exact", nora.NodeRegression(), progress=False)
    truth = nora.influence(model, data, "brute", nora.NodeRegression(), progress=False)
    assert "fallback" not in found.details
    torch.testing.assert_close(found.scores, truth.scores, rtol=1e-3, atol=1e-4 * size)


def test_several_numbers_are_shown_by_the_one_that_moves_most() -> None:
    data, model = double(GRAPHS["two_camps"]()), Values(3).double().eval()
    effect = nora.what_if(model, data, 3, nora.NodeRegression())
    row = effect.top(1).iloc[0]
    moved = (effect.before - effect.after).abs()[int(row["node"])]
    assert int(row["output"]) == int(moved.argmax())


@pytest.mark.parametrize(
    ("output", "reply"),
    [
        (torch.zeros(5), "shape"),
        (torch.zeros(7, 2, 2), "shape"),
        (torch.zeros(7, dtype=torch.long), "floating-point"),
        (torch.full((7,), float("nan")), "NaN or infinite"),
    ],
)
def test_outputs_that_are_no_numbers_per_node_are_refused(output: Tensor, reply: str) -> None:
    with pytest.raises(ValueError, match=reply):
        nora.NodeRegression().check(output, 7)
