"""Options found from labels: what is tried, what it is judged by, and what is never looked at."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

import nora
from graphs import GRAPHS, bridge, double, graph
from networks import network
from nora import Influence, Tuned
from nora.methods.nora import in_and_out_degrees, topology_basis, topology_part, topology_weights
from nora.model import Problem, build_problem
from nora.training.splits import few_shot
from nora.tuning.searches import Found
from nora.tuning.searches.nora import search_gradient, search_nora, search_topology
from nora.tuning.tune import tune_problems

SEARCHES: dict[str, Callable[..., Found]] = {
    "nora": search_nora,
    "nora-t1": search_gradient,
    "nora-t2": search_topology,
}
every_search = pytest.mark.parametrize("method", SEARCHES)


@cache
def polarised() -> tuple[nora.Run, Tensor, Tensor]:
    """A trained run, its true influences, and the labelled tenth."""
    run = nora.train("gcn", "polarised", epochs=30, hidden_channels=16, progress=False)
    truth = nora.influence(run.model, run.data, "exact", progress=False).scores
    return run, truth, few_shot(len(truth), 0.1)


def tuned(method: str, labels: Any, **options: Any) -> Tuned:
    run, _, _ = polarised()
    return nora.tune(run.model, run.data, labels, method, progress=False, **options)


def correlation(a: Tensor, b: Tensor) -> float:
    return float(np.corrcoef(a.double().numpy(), b.double().numpy())[0, 1])


def plain_topology(data: Data, k1: float, k2: float, k2_prime: float) -> list[float]:
    """`Topo_r` by walking over all pairs of edges."""
    edges = [(i, j) for i, j in data.edge_index.t().tolist() if i != j]
    into = [sum(1 for _, j in edges if j == node) for node in range(data.num_nodes)]
    total = [0.0] * data.num_nodes
    for r, i in edges:
        received = 1.0
        if into[i] > 1:
            received = k1 * (1 / math.sqrt(into[i] - 1) - 1 / math.sqrt(into[i]))
            received += (1 - k1) * (1 / (into[i] - 1) - 1 / into[i])
        for j, listener in edges:
            if listener == i:
                d = max(into[j], 1)
                total[r] += received * (k2 / math.sqrt(d) + k2_prime / d + (1 - k2 - k2_prime))
    return total


def assert_topology_is_plain(data: Data, ks: list[tuple[float, float, float]]) -> None:
    degree = in_and_out_degrees(build_problem(network(), data), torch.float64)
    weights = topology_weights(*torch.tensor(ks, dtype=torch.float64).unbind(dim=1))
    at_once = torch.einsum("sab,abn->sn", weights, topology_basis(degree))
    for k, row in zip(ks, at_once, strict=True):
        plain = plain_topology(data, *k)
        assert row.tolist() == pytest.approx(plain, rel=1e-9, abs=1e-12)
        assert topology_part(degree, *k).tolist() == pytest.approx(plain, rel=1e-9, abs=1e-12)


KS = [(1.0, 0.5, 0.0), (0.3, 0.2, 0.7), (0.0, 0.0, 0.0), (0.6, 0.0, 1.0), (0.9, 1.0, 0.0)]
part = st.floats(0, 1)


@pytest.mark.parametrize("kind", GRAPHS)
def test_the_structural_part_is_the_plain_formula_for_many_settings_at_once(kind: str) -> None:
    assert_topology_is_plain(double(GRAPHS[kind]()), KS)


@settings(deadline=None, max_examples=40)
@given(
    edges=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=25),
    both_ways=st.booleans(),
    ks=st.lists(st.tuples(part, part, part), min_size=1, max_size=4),
)
def test_the_structural_part_is_the_plain_formula_on_any_graph(
    edges: list[tuple[int, int]], both_ways: bool, ks: list[tuple[float, float, float]]
) -> None:
    assert_topology_is_plain(double(graph(edges, 8, both_ways=both_ways)), ks)


@every_search
@pytest.mark.parametrize("kind", ["two_camps", "directed", "isolated", "looped"])
def test_the_worth_of_what_is_found_is_that_of_its_scores(method: str, kind: str) -> None:
    model, data = network(), double(GRAPHS[kind]())
    truth = nora.influence(model, data, "brute", progress=False).scores
    known = torch.arange(data.num_nodes - 1)
    found = nora.tune(model, data, (known, truth[known]), method, progress=False)
    scores = nora.influence(model, data, method, progress=False, **found.options).scores
    assert found.pearson == pytest.approx(correlation(scores[known], truth[known]), abs=1e-6)
    assert found.labelled == len(known)


@pytest.mark.parametrize("seed", range(5))
def test_nora_is_never_worse_on_the_labels_than_its_gradient_part(seed: int) -> None:
    labels = torch.rand(8, generator=torch.Generator().manual_seed(seed)).double()
    problem = build_problem(network(), double(GRAPHS["two_camps"]()), labels=labels)
    assert search_nora([problem]).pearson >= search_gradient([problem]).pearson - 1e-9


def test_nora_is_hardly_worse_on_the_labels_than_its_structural_part() -> None:
    model, data = network(), double(GRAPHS["two_camps"]())
    labels = nora.influence(model, data, "nora-t2", k1=0.3, progress=False)
    problem = build_problem(model, data, labels=labels)
    # k3' ends at 100, where a trace of the gradient part stays.
    assert search_nora([problem]).pearson >= search_topology([problem]).pearson - 1e-3


def test_nora_is_better_than_its_parts_on_a_trained_model() -> None:
    _, truth, known = polarised()
    whole, *parts = (tuned(method, (known, truth[known])).pearson for method in SEARCHES)
    assert whole >= max(parts) - 1e-9
    assert whole > 0.85


def cycles(count: int = 2) -> list[Problem]:
    """The same graph with other models and other labels."""
    data, problems = double(GRAPHS["two_camps"]()), []
    for seed in range(count):
        model = network(seed=seed)
        truth = nora.influence(model, data, "brute", nodes=range(6), progress=False)
        problems.append(build_problem(model, data, labels=truth))
    return problems


@pytest.mark.parametrize("method", [*SEARCHES, "mask"])
def test_several_problems_are_averaged_before_they_are_judged(method: str) -> None:
    problems = cycles()
    found = tune_problems(problems, method, trials=4)
    scores = torch.stack(
        [
            nora.influence(p.model, p.data, method, progress=False, **found.options).scores
            for p in problems
        ]
    ).mean(dim=0)
    labels = torch.stack([p.known_influence() for p in problems]).mean(dim=0)
    assert found.pearson == pytest.approx(correlation(scores[:6], labels[:6]), abs=1e-6)
    alone = [tune_problems([problem], method, trials=4).pearson for problem in problems]
    assert all(abs(found.pearson - one) > 1e-4 for one in alone)


def test_methods_that_learn_are_judged_by_the_labels_held_back() -> None:
    run, truth, known = polarised()
    labels = (known, truth[known])
    found = tuned("predict-e", labels, trials=2, seed=3)
    assert found.options["seed"] == 3
    again = nora.influence(
        run.model, run.data, "predict-e", labels=labels, progress=False, **found.options
    )
    assert found.pearson == pytest.approx(again.details["held_back_pearson"], abs=1e-6)


@pytest.mark.parametrize("method", [*SEARCHES, "mask", "predict-n"])
def test_what_is_not_labelled_is_never_looked_at(method: str) -> None:
    _, truth, known = polarised()
    hidden, garbage = torch.full_like(truth, torch.nan), torch.rand(len(truth)) * 1e6
    hidden[known] = garbage[known] = truth[known]
    first = tuned(method, Influence(hidden, "exact"), trials=2)
    for labels in [(known, garbage[known]), (known.tolist(), truth[known].tolist()), hidden]:
        other = tuned(method, labels, trials=2)
        assert (other.options, other.pearson) == (first.options, first.pearson)
    assert first.labelled == 100


def test_trials_are_repeatable_and_begin_with_the_defaults() -> None:
    run, truth, known = polarised()
    labels = (known, truth[known])
    default = nora.influence(run.model, run.data, "mask", progress=False).scores
    floor = correlation(default[known], truth[known])
    first = tuned("mask", labels, trials=3, seed=5)
    again = tuned("mask", labels, trials=3, seed=5)
    assert (first.options, first.pearson, first.tried) == (again.options, again.pearson, 3)
    assert first.pearson >= floor - 1e-9
    one = tuned("mask", labels, trials=1, seed=8)
    assert one.pearson == pytest.approx(floor, abs=1e-9)
    assert one.options == {"lr": 0.01, "alpha": 0.1, "beta": 1.0, "epochs": 25, "seed": 8}
    scores = nora.influence(run.model, run.data, "mask", progress=False, **first.options).scores
    assert first.pearson == pytest.approx(correlation(scores[known], truth[known]), abs=1e-6)


def test_hundreds_of_settings_of_nora_cost_little_more_than_one() -> None:
    run, truth, known = polarised()

    def seconds(work: Callable[[], Any]) -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    labels = (known, truth[known])
    tuning = min(seconds(lambda: tuned("nora", labels)) for _ in range(3))
    once = min(
        seconds(lambda: nora.influence(run.model, run.data, "nora", progress=False))
        for _ in range(3)
    )
    assert tuned("nora", labels).tried > 800
    assert tuning < 40 * once


def test_tuning_leaves_the_model_as_found() -> None:
    model, data = network().train(), double(bridge())
    model.convs[0].requires_grad_(False)
    flags = [p.requires_grad for p in model.parameters()]
    for method in ("nora", "mask"):
        nora.tune(model, data, torch.arange(7.0), method, trials=2, progress=False)
        assert model.training
        assert [p.requires_grad for p in model.parameters()] == flags
        assert all(p.grad is None for p in model.parameters())


def test_settings_come_back_from_a_file_as_they_were(tmp_path: Path) -> None:
    made = nora.tune(network(), double(bridge()), torch.arange(7.0), progress=False)
    back = Tuned.load(made.save(tmp_path / "nora.json"))
    assert back == made
    nora.influence(network(), double(bridge()), back.method, progress=False, **back.options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"method": "nora", ', "Expecting property name"),
        ("[1, 2]", "must be a mapping"),
        ("{}", "missing 1 required positional argument: 'method'"),
        ('{"method": "nro"}', "unknown method 'nro'..*you mean 'nora'"),
        ('{"method": "nora", "options": {"betta": 1}}', "option 'betta'. Did you mean 'beta'"),
        ('{"method": "nora", "trials": 3}', "unexpected keyword argument 'trials'"),
        ('{"method": "nora", "options": null}', ""),
        ('{"method": 3}', ""),
        ('{"method": "nora", "options": ["beta"]}', ""),
    ],
)
def test_a_file_without_settings_is_refused_by_name(
    text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"broken.json holds no tuned settings: .*{message}"):
        Tuned.load(path)


def test_a_file_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.json; 'nora tune' makes one"):
        Tuned.load(tmp_path / "none.json")


@pytest.mark.parametrize("method", ["degree", "exact", "brute", "random"])
def test_a_method_without_anything_to_tune_is_refused_with_those_that_have(method: str) -> None:
    able = r"mask, nora, nora-t1, nora-t2, predict-e, predict-n"
    with pytest.raises(ValueError, match=f"method '{method}' has nothing to tune; .*{able}"):
        nora.tune(network(), double(bridge()), {0: 1.0}, method, progress=False)


def test_no_trials_at_all_are_refused() -> None:
    with pytest.raises(ValueError, match="trials must be at least 1, got 0"):
        nora.tune(network(), double(bridge()), {0: 1.0}, "mask", trials=0, progress=False)
