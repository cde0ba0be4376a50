"""`auto` chooses within its budget, and says what it chose."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import nora
from graphs import double, two_camps
from networks import network
from nora.engine.prepared import Prepared
from nora.methods import auto as module
from nora.methods.auto import auto
from nora.problem import Problem, build_problem
from nora.problem.checks import check_model


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
    """Pretend that trying the sample took so long, by tolerance."""
    real = module._Pilot.try_out

    def try_out(self: object, engine: object, memory: int) -> tuple:
        _, scores = real(self, engine, memory)  # type: ignore[arg-type]
        return seconds[engine.tolerance], scores  # type: ignore[attr-defined]

    monkeypatch.setattr(module._Pilot, "try_out", try_out)


def with_slow_forward(problem: Problem) -> Problem:
    def forward(model: nn.Module, data: object) -> Tensor:
        import time

        time.sleep(0.02)  # a thousand of them would take 20 seconds
        return model(data.x, data.edge_index)  # type: ignore[attr-defined]

    return check_model(build_problem(problem.model, problem.data, problem.task, forward=forward))


def test_exact_is_chosen_when_the_sample_says_that_it_fits(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, {0.0: 4.0})
    with warnings.catch_warnings(), problem.evaluating():
        warnings.simplefilter("error")
        choice = auto(with_slow_forward(problem), Prepared(), budget=15)
    assert choice.method == "exact"
    assert choice.expected_seconds == pytest.approx(4.0, abs=1.0)
    assert choice.options.get("tolerance", 0.0) == 0.0


def test_the_smallest_tolerance_that_fits_is_chosen_with_a_warning(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, {0.0: 100.0, 1e-3: 50.0, 3e-3: 5.0, 1e-2: 1.0})
    with pytest.warns(UserWarning, match="auto picked an estimate"), problem.evaluating():
        choice = auto(with_slow_forward(problem), Prepared(), budget=15)
    assert choice.method == "exact"
    assert choice.options["tolerance"] == 3e-3
    assert choice.expected_pearson > 0.99
    assert "tolerance 0.003" in choice.reason


def test_the_sketch_is_chosen_when_no_tolerance_fits(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, dict.fromkeys((0.0, *module.TOLERANCES), 1000.0))
    with pytest.warns(UserWarning, match="auto picked an estimate"), problem.evaluating():
        choice = auto(with_slow_forward(problem), Prepared(), budget=15)
    assert choice.method == "cauchy"
    assert "16 min 40 s" in choice.reason
    assert choice.expected_seconds < 1000


def test_a_model_that_cannot_be_followed_is_left_to_brute_force(problem: Problem) -> None:
    class Centred(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            import time

            time.sleep(0.02)
            return x[:, :2] - float(x[:, :2].mean())

    odd = check_model(build_problem(Centred(), problem.data))
    choice = auto(odd, Prepared(), budget=1)
    assert choice.method == "exact"
    assert "only brute force is left" in choice.reason


def test_a_checkpoint_goes_on_with_the_method_it_was_begun_with(tmp_path: Path) -> None:
    model, data = network(), double(two_camps())
    ask = {"checkpoint": tmp_path / "run", "progress": False}
    begun = nora.influence(model, data, "exact", tolerance=0.5, nodes=[0, 1], **ask)
    resumed = nora.influence(model, data, **ask)
    assert resumed.options["tolerance"] == 0.5
    assert resumed.details["auto"]["reason"] == "the checkpoint was begun with it"
    assert torch.equal(resumed.scores[:2], begun.scores[:2])


@pytest.mark.parametrize("budget", [0, -1.0, float("nan")])
def test_a_budget_must_be_positive(budget: float) -> None:
    with pytest.raises(ValueError, match="budget must be positive"):
        nora.influence(network(), double(two_camps()), budget=budget, progress=False)
