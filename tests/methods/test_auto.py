"""`auto` chooses within its budget, and says what it chose."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import SimpleConv

import nora
from graphs import double, two_camps
from networks import network
from nora.engine.engine import Engine
from nora.engine.estimate.cost_sample import Agreement, CostSample
from nora.engine.prepared import Prepared
from nora.methods import auto as module
from nora.methods.auto import Choice, auto
from nora.model import Problem, build_problem
from nora.model.checks import check_model


def trained() -> nora.Run:
    return nora.train("gcn", "polarised", epochs=10, hidden_channels=16, progress=False)


@pytest.fixture(scope="module")
def problem() -> Problem:
    run = trained()
    return check_model(build_problem(run.model, run.data, run.task))


def test_small_questions_are_answered_exactly_without_trying() -> None:
    scores = nora.influence(network(), double(two_camps()), progress=False)
    chosen = scores.details["auto"]
    assert (scores.method, chosen["method"]) == ("exact", "exact")
    assert "full forward passes" in chosen["reason"]
    assert chosen["expected_pearson"] == 1.0
    truth = nora.influence(network(), double(two_camps()), "brute", progress=False)
    torch.testing.assert_close(scores.scores, truth.scores, rtol=1e-9, atol=1e-12)


def slow(monkeypatch: pytest.MonkeyPatch, seconds: dict[float, float]) -> None:
    """Pretend that all nodes would take so long, by tolerance."""
    monkeypatch.setattr(module, "CALIBRATED", 0)

    class Slow(CostSample):
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            self.seconds = seconds[0.0]

        def tried(self, engine: Engine) -> tuple[float, np.ndarray]:
            assert engine.sampling is not None
            return seconds[engine.sampling.tolerance], super().tried(engine)[1]

    monkeypatch.setattr(module, "CostSample", Slow)


def with_slow_forward(problem: Problem) -> Problem:
    def forward(model: nn.Module, data: object) -> Tensor:
        import time

        time.sleep(0.02)  # a thousand of them would take 20 seconds
        return model(data.x, data.edge_index)  # type: ignore[attr-defined]

    return check_model(build_problem(problem.model, problem.data, problem.task, forward=forward))


def picked(problem: Problem, says: str | None = None) -> Choice:
    """What fits 15 seconds where a pass takes 20 ms; with a warning that says this, or without any."""
    slowed = with_slow_forward(problem)
    if says is not None:
        with pytest.warns(UserWarning, match=says), problem.evaluating():
            return auto(slowed, Prepared(), budget=15)
    with warnings.catch_warnings(), problem.evaluating():
        warnings.simplefilter("error")
        return auto(slowed, Prepared(), budget=15)


def test_exact_is_chosen_when_the_sample_says_that_it_fits(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, {0.0: 4.0})
    choice = picked(problem)
    assert choice.method == "exact"
    assert choice.expected_seconds == pytest.approx(4.0, abs=1.0)
    assert choice.options.get("tolerance", 0.0) == 0.0


def test_the_finest_tolerance_that_fits_is_chosen_with_a_warning_that_names_the_price(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, {0.0: 100.0, 0.01: 50.0, 0.02: 5.0, 0.03: 1.0})
    choice = picked(problem, r"auto picked an estimate: exact.*take \d+")
    assert choice.method == "exact"
    assert choice.options["tolerance"] == 0.02
    assert choice.expected_pearson > 0.99
    assert choice.expected_spearman > 0.99
    assert choice.expected_error < 0.05
    assert "tolerance 0.02" in choice.reason


def test_a_budget_missed_by_little_is_not_worth_an_estimate(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, {0.0: 15.5})
    monkeypatch.setattr(module, "LATE", 0.8)  # a busy machine has spent some seconds by then
    choice = picked(problem)
    assert (choice.method, choice.options.get("tolerance", 0.0)) == ("exact", 0.0)
    assert "not worth it" in choice.reason


@pytest.mark.parametrize("drawn", [True, False])
def test_an_estimate_that_draws_comes_before_the_sketch(
    problem: Problem, monkeypatch: pytest.MonkeyPatch, drawn: bool
) -> None:
    slow(monkeypatch, {0.0: 1000.0, **dict.fromkeys(module.TOLERANCES, 1.0)})
    monkeypatch.setattr(module.CostSample, "agreement", lambda *given: Agreement(0.7, 0.9, 0.2))
    monkeypatch.setattr(module, "_samples_rows", lambda engine: drawn)
    choice = picked(problem, "auto picked an estimate")
    assert choice.method == ("exact" if drawn else "cauchy")


def test_the_sketch_is_chosen_when_no_tolerance_fits(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, dict.fromkeys((0.0, *module.TOLERANCES), 1000.0))
    choice = picked(problem, "auto picked an estimate")
    assert choice.method == "cauchy"
    assert "no tolerance up to 0.2 fits 15 s" in choice.reason
    assert choice.expected_seconds < 15


def test_when_even_the_sketch_does_not_fit_the_papers_approximation_is_left(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, dict.fromkeys((0.0, *module.TOLERANCES), 1000.0))
    monkeypatch.setattr(module, "_sketch_seconds", lambda *given: 1000.0)
    choice = picked(problem, r"exact would take \d+ s, and no tolerance")
    assert choice.method == "nora"


@pytest.mark.parametrize(
    ("spearman", "error", "method"),
    [(0.9, 0.2, "exact"), (0.5, 0.2, "nora"), (0.99, 0.6, "nora")],
)
def test_a_measured_estimate_comes_before_one_of_unknown_agreement(
    problem: Problem, monkeypatch: pytest.MonkeyPatch, spearman: float, error: float, method: str
) -> None:
    """Whatever Pearson's correlation is: the hubs rule it."""
    slow(monkeypatch, {0.0: 1000.0, **dict.fromkeys(module.TOLERANCES, 1.0)})
    monkeypatch.setattr(
        module.CostSample, "agreement", lambda *given: Agreement(0.9998, spearman, error)
    )
    monkeypatch.setattr(module, "_sketch_seconds", lambda *given: 1000.0)
    choice = picked(problem, "auto picked an estimate")
    assert choice.method == method
    if method == "nora":
        assert "tolerance 0.01, which fits 15 s" in choice.reason
        assert f"(Spearman {spearman:.3f}, median error {100 * error:.1f}%)" in choice.reason
    else:
        assert choice.expected_spearman == spearman
        assert "0.9998 (Spearman 0.900, median error 20.0%)" in choice.reason


def test_a_sketch_that_cannot_fit_is_not_even_tried(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tried(*given: object) -> float:
        raise AssertionError("passes of 2 s were tried, 64 of which cannot fit 15 s")

    slow(monkeypatch, dict.fromkeys((0.0, *module.TOLERANCES), 1000.0))
    monkeypatch.setattr(module, "_pass_seconds", lambda problem: 2.0)
    monkeypatch.setattr(module, "_sketch_seconds", tried)
    with pytest.warns(UserWarning, match="no tolerance"), problem.evaluating():
        assert auto(problem, Prepared(), budget=15).method == "nora"


class Centred(nn.Module):
    """Reads a number from a tensor, which cannot be traced."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        import time

        time.sleep(0.02)
        return x[:, :2] * self.scale * (1 + float(x[:, :2].mean()))


def test_an_engine_whose_preparation_would_not_fit_is_not_prepared(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_pass_seconds", lambda problem: 20.0)
    prepared = Prepared()
    with pytest.warns(UserWarning, match="exact alone would take 1 min"):
        choice = auto(problem, prepared, budget=30)
    assert choice.method == "nora"
    assert prepared.preparations == 0
    prepared.engine(problem)
    with pytest.warns(UserWarning, match="exact would take"):
        auto(problem, prepared, budget=0.01)  # it is there: what it takes is tried


class CentredConv(Centred):
    """The same with a message-passing layer, which the paper's approximation needs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = SimpleConv()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(self.conv(x, edge_index), edge_index)


def test_a_model_that_cannot_be_followed_keeps_the_budget_by_an_estimate(problem: Problem) -> None:
    odd = check_model(build_problem(CentredConv(), problem.data))
    with pytest.warns(UserWarning, match=r"brute force would take \d+"):
        choice = auto(odd, Prepared(), budget=1)
    assert choice.method == "nora"
    assert "not support this model" in choice.reason


@pytest.mark.parametrize("parameters", [True, False])
def test_what_nothing_can_estimate_is_refused_with_the_price_and_with_what_fits(
    problem: Problem, parameters: bool
) -> None:
    """The paper's approximation needs parameters and message-passing layers."""
    model = Centred()
    if not parameters:
        model = CentredConv()
        del model.scale
        model.scale = 1.0  # type: ignore[assignment]
    odd = check_model(build_problem(model, problem.data))
    reply = r"fits the budget.*\(nodes=…, about \d+ fit\)"
    with pytest.raises(ValueError, match=reply):
        auto(odd, Prepared(), budget=1)


class Products(nn.Module):
    """Three sums over neighbours as sparse products: followed, but without message-passing layers."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.ModuleList([nn.Linear(16, 16) for _ in range(3)])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = x[:, :16]
        for one in self.maps:
            h = one(h).relu()
            h = h.new_zeros(h.shape).index_add(0, edge_index[1], h[edge_index[0]])
        return h[:, :2]


def test_without_message_passing_layers_an_estimate_that_fits_is_taken_though_it_agrees_little(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, {0.0: 1000.0, **dict.fromkeys(module.TOLERANCES, 1.0)})
    monkeypatch.setattr(module.CostSample, "agreement", lambda *given: Agreement(0.5, 0.5, 0.9))
    monkeypatch.setattr(module, "_sketch_seconds", lambda *given: 1000.0)
    monkeypatch.setattr(module, "_pass_seconds", lambda problem: 0.1)
    torch.manual_seed(0)
    features = problem.data.x.size(1)
    model = Products()
    model.maps[0] = nn.Linear(min(features, 16), 16)
    odd = check_model(build_problem(model.eval(), problem.data))
    with pytest.warns(UserWarning, match=r"auto picked an estimate: .*median error 90.0%"):
        choice = auto(odd, Prepared(), budget=15)
    assert (choice.method, choice.options["tolerance"]) == ("exact", 0.01)


def test_a_checkpoint_goes_on_with_the_method_it_was_begun_with(tmp_path: Path) -> None:
    model, data = network(), double(two_camps())
    ask = {"checkpoint": tmp_path / "run", "progress": False}
    begun = nora.influence(model, data, "exact", tolerance=0.5, nodes=[0, 1], **ask)
    resumed = nora.influence(model, data, **ask)
    assert resumed.options["tolerance"] == 0.5
    assert resumed.details["auto"]["reason"].startswith("the checkpoint")
    assert torch.equal(resumed.scores[:2], begun.scores[:2])


@pytest.mark.parametrize("budget", [0, -1.0, float("nan")])
def test_a_budget_must_be_positive(budget: float) -> None:
    with pytest.raises(ValueError, match="budget must be positive"):
        nora.influence(network(), double(two_camps()), budget=budget, progress=False)
