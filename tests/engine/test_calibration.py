"""Calibration takes the bias off estimates, and widens their standard errors to what was seen."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GINConv

import nora
from graphs import barabasi
from nora.engine.engine import Engine
from nora.engine.estimate.calibration import FIRST, SEEDS, STRATA, TRIED, Calibration, _strata
from nora.engine.exec.kernels import compiled
from nora.graph.edit_batch import EditBatch
from nora.model import build_problem
from nora.model.preserve import evaluating


def compared(ratio: Tensor, tolerance: float = 0.1, loose: float | Tensor = 1.0) -> Calibration:
    """Sixty removals whose estimates, one by one seed or several, are so many times their influences.

    `loose` times the tolerance is the relative error that draws were planned with.
    """
    ratio = ratio.double().view(-1, ratio.size(-1))
    truth = torch.logspace(-2, 2, ratio.size(1), dtype=torch.double)
    found = torch.stack([truth * ratio, 0 * ratio, tolerance * loose * truth * ratio], dim=2)
    return Calibration(torch.arange(len(truth)), truth, found, tolerance, torch.double)


def noise(*size: int) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(0)).double()


def scored(calibration: Calibration, found: Tensor) -> tuple[Tensor, Tensor]:
    nothing: object = None
    return calibration.scored(found, nothing, nothing, 0, None)  # type: ignore[arg-type]


def test_a_bias_that_grows_with_size_is_taken_off() -> None:
    calibration = compared(torch.linspace(1.0, 1.3, 60))
    found = calibration.found[0]
    scores, _ = scored(calibration, found)
    assert float((found[:, 0] / calibration.truth - 1).mean()) > 0.1
    assert float((scores / calibration.truth - 1).abs().max()) < 0.06
    assert abs(float((scores / calibration.truth - 1).mean())) < 0.01


@pytest.mark.parametrize("planned", [0.0, 0.2])
def test_a_removal_of_which_all_rows_were_computed_is_exact(planned: float) -> None:
    calibration = compared(1.3 + 0.01 * noise(60))
    scores, errors = scored(calibration, torch.tensor([[2.0, 0.1, planned]]).double())
    assert (float(scores[0]) == 2.0) == (planned == 0)
    assert (float(errors[0]) == 0) == (planned == 0)


def test_nothing_found_of_a_removal_is_not_known_better_than_the_smallest_that_was_compared() -> (
    None
):
    calibration = compared(1 + 0.1 * noise(60))
    _, errors = scored(calibration, torch.tensor([[0.0, 0.0, 1e-3], [0.01, 0.0, 1e-3]]).double())
    assert float(errors[0]) > 0.5 * float(errors[1]) > 0


def test_errors_are_those_of_the_nearest_in_size() -> None:
    ratio = 1 + noise(SEEDS, 60) * torch.linspace(0.02, 0.2, 60)
    calibration = compared(ratio)
    _, errors = scored(calibration, torch.tensor([[0.05, 0, 0.005], [50.0, 0, 5.0]]).double())
    assert float(errors[1]) / 50 > 1.7 * float(errors[0]) / 0.05


def test_errors_grow_with_what_was_left_to_chance() -> None:
    """Two removals look the same, but one of them was planned to be ten times as far off."""
    loose = 10 ** noise(60).clamp(-1, 1)
    calibration = compared(1 + 0.05 * loose * noise(SEEDS, 60), loose=loose)
    _, errors = scored(calibration, torch.tensor([[1.0, 0, 0.1], [1.0, 0, 1.0]]).double())
    assert float(errors[1]) > 4 * float(errors[0])


def test_what_is_left_to_chance_may_be_measured_in_any_unit() -> None:
    ratio, loose = 1 + 0.1 * noise(SEEDS, 60), 10 ** noise(60)
    found = torch.tensor([[1.0, 0.05, 0.2], [3.0, 0.1, 0.1]]).double()
    scaled = found * torch.tensor([1.0, 1.0, 1e6])
    one, other = compared(ratio, loose=loose), compared(ratio, loose=1e6 * loose)
    for a, b in zip(scored(one, found), scored(other, scaled), strict=True):
        torch.testing.assert_close(a, b)


def test_a_tail_among_the_largest_widens_the_errors_of_the_smallest_a_little() -> None:
    """Twenty removals seldom show what happens to one of sixty."""
    ratio, small = 1 + 0.02 * noise(SEEDS, 60), torch.tensor([[0.02, 0, 0.002]]).double()
    _, before = scored(compared(ratio), small)
    ratio[:, -1] = 1.3
    _, after = scored(compared(ratio), small)
    assert 1.1 < float(after / before) < 3


@pytest.mark.parametrize("tail", ["normal", "heavy", "even"])
def test_95_percent_are_within_196_standard_errors_and_more_where_tails_are_light(
    tail: str,
) -> None:

    def errors(*size: int) -> Tensor:
        drawn = {"normal": torch.randn, "heavy": torch.randn, "even": torch.rand}[tail](*size)
        return 0.1 * (drawn**3 if tail == "heavy" else drawn - (tail == "even") * 0.5).double()

    torch.manual_seed(0)
    covered = []
    for _ in range(20):
        calibration = compared(1 + errors(SEEDS, 60).clamp(min=-0.9))
        truth = calibration.truth.repeat(20)
        others = 1 + errors(len(truth)).clamp(min=-0.9)
        found = torch.stack([truth * others, 0 * truth, 0.1 * truth * others], dim=1)
        scores, stderr = scored(calibration, found)
        covered.append(float(((scores - truth).abs() <= 1.96 * stderr).double().mean()))
    assert 0.93 < sum(covered) / len(covered) < (1.0 if tail == "even" else 0.98)
    assert min(covered) > 0.89


def test_calibration_warns_where_estimates_are_not_what_the_tolerance_promises() -> None:
    assert compared((0.1 * noise(60)).exp()).disagreement() == ""
    reply = compared((0.5 * noise(60)).exp()).disagreement("edges")
    assert "further off than the tolerance of 0.1" in reply
    assert "60 edges" in reply


def test_hubs_and_leaves_are_compared_apart() -> None:
    cost = torch.arange(10_000).double()
    strata = _strata(cost, seed=3)
    assert sum(wanted for _, wanted in strata) == 60
    for (which, wanted), (low, high, share) in zip(strata, STRATA, strict=True):
        rank = (len(cost) - 1 - which) / len(cost)
        assert bool(((rank >= low) & (rank < high)).all())
        assert wanted == round(60 * share)
        assert len(which.unique()) == TRIED * wanted
    assert sorted(torch.cat([which for which, _ in _strata(torch.ones(7), 0)]).tolist()) == list(
        range(7)
    )


class Network(nn.Module):
    """Three GIN or GAT layers."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(0)

        def layer(a: int, b: int) -> nn.Module:
            if kind == "gat":
                return GATConv(a, b)
            return GINConv(
                nn.Sequential(nn.Linear(a, b), nn.Tanh(), nn.Linear(b, b)), train_eps=True
            )

        self.layers = nn.ModuleList([layer(6, 8), layer(8, 8), layer(8, 4)]).double()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        first, second, last = self.layers
        return last(second(first(x, edge_index).relu(), edge_index).relu(), edge_index)


def star_like(nodes: int = 900) -> Data:
    """Leaves of three hubs, and a few other ties."""
    generator = torch.Generator().manual_seed(0)
    leaves = torch.arange(3, nodes)
    spokes = torch.stack([leaves, torch.randint(0, 3, [len(leaves)], generator=generator)])
    others = torch.randint(0, nodes, (2, nodes // 4), generator=generator)
    both = torch.cat([spokes, others], dim=1)
    x = torch.randn(nodes, 6, generator=generator).double()
    return Data(x=x, edge_index=torch.cat([both, both.flip(0)], dim=1))


def engine_of(model: nn.Module, data: Data) -> Engine:
    problem = build_problem(model.eval(), data)
    with evaluating(model):
        return Engine.prepare(problem, compiled)


def test_rows_that_meet_others_after_a_draw_are_not_the_last_ones() -> None:
    """GIN adds a node's own row to a drawn sum: as the last draw it lost most of a hub's influence."""
    engine = engine_of(Network("gin"), star_like())
    assert len(engine.importance.rows) == 3
    removals = EditBatch.remove_nodes(torch.arange(3))
    found = engine.with_tolerance(0.2).influences(removals)
    torch.testing.assert_close(found, engine.influences(removals), rtol=0.2, atol=0)


@pytest.mark.parametrize("kind", ["gat", "gin"])
def test_no_estimate_is_many_standard_errors_off(kind: str) -> None:
    """A leaf's hub is never missed: it was for one leaf in a hundred, and nothing showed it."""
    model, data = Network(kind), star_like()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        truth = nora.influence(model, data, "exact", progress=False).scores
        found = nora.influence(model, data, "exact", tolerance=0.1, progress=False)
    assert found.stderr is not None
    off, sampled = (found.scores - truth).abs(), found.stderr > 0
    torch.testing.assert_close(found.scores[~sampled], truth[~sampled])
    first = found.scores.argsort(descending=True)[:FIRST]
    assert not bool(sampled[first].any())
    assert float((off[sampled] / found.stderr[sampled]).max()) < 8
    assert float((off[sampled] < 1.96 * found.stderr[sampled]).double().mean()) > 0.88
    assert abs(float(found.scores.sum() / truth.sum()) - 1) < 0.08


def test_the_slope_of_attention_by_the_targets_scores_is_its_derivative() -> None:
    data = Data(x=torch.randn(300, 6).double(), edge_index=barabasi(300, 6))
    engine = engine_of(Network("gat"), data)
    step = next(one for one in engine.program.ops if one in engine.importance.rows)
    place, slope = step._slopes  # type: ignore[attr-defined]
    assert int((place >= 0).sum()) > 3
    y, near, far = (value.base_rows() for value in step.inputs)
    moved = step.compute(y, near, far + 1e-6) - step.compute(y, near, far - 1e-6)
    hub = place >= 0
    torch.testing.assert_close(moved[hub] / 2e-6, slope[place[hub]], rtol=1e-4, atol=1e-6)
