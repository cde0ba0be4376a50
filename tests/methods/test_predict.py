"""`predict-n` and `predict-e`: they learn from the labels, from nothing else, and repeatably."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import nora
from graphs import GRAPHS, bridge, directed, double, graph, isolated
from networks import network
from nora import Influence
from nora.model.preserve import seeded
from nora.results.agreement import pearson
from nora.training.splits import few_shot

BOTH = ["predict-n", "predict-e"]
QUICK = {"lr": 0.01, "epochs": 100, "hidden": 16}
both_methods = pytest.mark.parametrize("method", BOTH)


class NeverRun(nn.Module):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        raise AssertionError("the model in question was run")


def predicted(method: str, data: Data, labels: Any, **options: Any) -> Influence:
    return nora.influence(NeverRun(), data, method, labels=labels, progress=False, **options)


@cache
def polarised() -> tuple[Data, Tensor, Tensor]:
    """A trained model's graph, its true influences, and the labelled third."""
    run = nora.train("gcn", "polarised", epochs=30, hidden_channels=16, progress=False)
    truth = nora.influence(run.model, run.data, "exact", progress=False).scores
    return run.data, truth, few_shot(len(truth), 0.3, seed=1)


def rest_of(truth: Tensor, known: Tensor) -> Tensor:
    rest = torch.ones(len(truth), dtype=torch.bool)
    rest[known] = False
    return rest


@both_methods
def test_learns_the_influence_of_nodes_it_was_not_shown(method: str) -> None:
    data, truth, known = polarised()
    rest = rest_of(truth, known)
    found = predicted(method, data, (known, truth[known]), **QUICK)
    assert pearson(found.scores[rest], truth[rest]) > 0.75
    # In the truth's units, too: closer than the best constant guess.
    error = (found.scores - truth)[rest].square().mean()
    assert error < 0.6 * (truth[known].mean() - truth)[rest].square().mean()


def test_what_is_learned_is_the_labels_and_not_the_graph_alone() -> None:
    data, truth, known = polarised()
    upside_down = truth.max() - truth
    found = predicted("predict-n", data, (known, upside_down[known]), **QUICK).scores
    rest = rest_of(truth, known) & (found > 0)
    assert pearson(found[rest], truth[rest]) < -0.6


@both_methods
def test_the_truth_of_nodes_not_labelled_changes_nothing(method: str) -> None:
    data, truth, known = polarised()
    rest = rest_of(truth, known)
    garbage = torch.where(rest, torch.rand(len(truth)) * 1e6, truth)
    hidden = Influence(torch.where(rest, torch.nan, truth), "exact")
    reply = {"epochs": 5}
    first = predicted(method, data, (known, truth[known]), **reply).scores
    assert torch.equal(predicted(method, data, (known, garbage[known]), **reply).scores, first)
    assert torch.equal(predicted(method, data, hidden, **reply).scores, first)
    backwards = (known.flip(0), truth[known].flip(0))
    assert torch.equal(predicted(method, data, backwards, **reply).scores, first)
    more = {**dict(zip(known.tolist(), truth[known].tolist(), strict=True)), int(known[0]): 9.0}
    assert not torch.equal(predicted(method, data, more, **reply).scores, first)


@both_methods
def test_the_seed_decides_and_nothing_else(method: str) -> None:
    data, truth, known = polarised()
    labels = (known, truth[known])
    torch.manual_seed(1)
    first = predicted(method, data, labels, seed=4, epochs=5)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    again = predicted(method, data, labels, seed=4, epochs=5)
    other = predicted(method, data, labels, seed=5, epochs=5)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.scores, again.scores)
    assert first.details == again.details
    assert not torch.allclose(first.scores, other.scores)


@both_methods
def test_fitted_and_held_back_labels_add_up(method: str) -> None:
    data, truth, known = polarised()
    details = predicted(method, data, (known, truth[known]), epochs=30).details
    assert (details["fitted"], details["held_back"]) == (210, 90)
    assert 1 <= details["best_epoch"] <= 30
    assert -1 <= details["held_back_pearson"] <= 1
    few = predicted(method, double(bridge()), {0: 1.0, 2: 2.0, 3: 3.0, 5: 0.5}, epochs=3).details
    assert (few["fitted"], few["held_back"]) == (3, 1)


def test_the_seed_decides_which_labels_are_held_back_and_these_are_not_fitted() -> None:
    ring = [(i, (i + step) % 12) for i in range(12) for step in (1, 3, i % 4 + 4)]
    data, labels = double(graph(ring, 12)), {i: 1 + 9 * (i % 2) + i / 1000 for i in range(12)}

    def asked(labels: dict[int, float], **options: Any) -> Influence:
        return predicted("predict-e", data, labels, **{**STILL, **options})

    sets = set()
    for seed in (1, 2, 3):
        # Without learning, the correlation on the labels held back depends on these alone.
        changes = [{**labels, node: 50.0} for node in labels]
        worth = [asked(one, seed=seed).details["held_back_pearson"] for one in [labels, *changes]]
        held_back = [node for node in labels if abs(worth[node + 1] - worth[0]) > 1e-6]
        assert len(held_back) == 4
        sets.add(tuple(held_back))
        # Learning does not see two of these change places when they are almost equal.
        fitted = [node for node in labels if node not in held_back]
        for nodes, unseen in ((held_back, True), (fitted, False)):
            i, j = next((i, j) for i in nodes for j in nodes if i < j and (j - i) % 2 == 0)
            swapped = {**labels, i: labels[j], j: labels[i]}
            a, b = (asked(one, seed=seed, lr=0.01, epochs=5) for one in (labels, swapped))
            assert a.scores.sum() > 0
            assert torch.equal(a.scores, b.scores) is unseen
    assert len(sets) == 3


@both_methods
def test_training_stops_when_the_labels_held_back_no_longer_improve(method: str) -> None:
    data, truth, known = polarised()
    labels = (known, truth[known])
    how = {"lr": 0.03, "hidden": 8, "dropout": 0.0}
    stopped = predicted(method, data, labels, epochs=400, patience=3, **how)
    best = stopped.details["best_epoch"]
    assert best + 3 < 400
    # What was best is kept: stopping right there gives the same.
    assert torch.equal(
        predicted(method, data, labels, epochs=best, patience=400, **how).scores, stopped.scores
    )


@both_methods
@pytest.mark.parametrize("kind", GRAPHS)
def test_scores_are_not_negative_and_zero_without_out_edges(method: str, kind: str) -> None:
    data = double(GRAPHS[kind]())
    labels = dict(enumerate([0.0, 5.0, 0.1, 4.0, 0.0]))
    scores = predicted(method, data, labels, epochs=10).scores
    assert torch.isfinite(scores).all()
    assert (scores >= 0).all()
    source, target = data.edge_index
    received = set(source[source != target].tolist())
    unheard = [node for node in range(data.num_nodes) if node not in received]
    assert scores[unheard].tolist() == [0] * len(unheard)


def test_some_graphs_do_have_nodes_without_out_edges() -> None:
    assert 5 not in directed().edge_index[0]
    assert not {4, 5} & set(isolated().edge_index[0].tolist())


def untrained(width: int, data: Data, weight: Tensor | None, **sizes: Any) -> Tensor:
    """The output of the network that `predict-*` starts from."""
    with seeded(7):
        model = GCN(3, 4, 2, width, normalize=weight is None, **sizes).double().eval()
    with torch.no_grad():
        return model(data.x, data.edge_index, edge_weight=weight)


STILL = {"lr": 1e-30, "epochs": 1, "hidden": 4, "layers": 2, "dropout": 0.0, "seed": 7}
LABELS = {0: 1.0, 1: 3.0, 2: 2.0, 3: 4.0, 4: 1.0}


@pytest.mark.parametrize("kind", [kind for kind in GRAPHS if kind != "weighted"])
def test_predict_e_sums_over_those_who_hear_a_node(kind: str) -> None:
    data = double(GRAPHS[kind]())
    s, t = untrained(8, data, None).chunk(2, dim=1)
    total = [0.0] * data.num_nodes
    for r, i in data.edge_index.t().tolist():
        if r != i:
            total[r] += sum(float(s[r, k] * t[i, k]) for k in range(4))
    spread = torch.tensor(list(LABELS.values())).double().std(correction=0)
    expected = (torch.tensor(total, dtype=torch.float64) * spread).clamp(min=0)
    scores = predicted("predict-e", data, LABELS, **STILL).scores
    torch.testing.assert_close(scores, expected, rtol=1e-9, atol=1e-12)


def test_that_check_sees_numbers_other_than_zero() -> None:
    found = [predicted("predict-e", double(g()), LABELS, **STILL).scores for g in GRAPHS.values()]
    assert sum(int((scores > 0).sum()) for scores in found) > 15


@pytest.mark.parametrize("kind", ["bridge", "directed", "duplicated", "components"])
def test_predict_n_divides_messages_among_those_who_hear_them(kind: str) -> None:
    data = double(GRAPHS[kind]())
    edges = data.edge_index.t().tolist() + [[node, node] for node in range(data.num_nodes)]
    says = [sum(1 for i, _ in edges if i == node) for node in range(data.num_nodes)]
    looped = Data(x=data.x, edge_index=torch.tensor(edges).t())
    weight = torch.tensor([1 / says[i] for i, _ in edges], dtype=torch.float64)
    values = torch.tensor(list(LABELS.values())).double()
    raw = untrained(1, looped, weight).squeeze(1)
    expected = (raw * values.std(correction=0) + values.mean()).clamp(min=0)
    scores = predicted("predict-n", data, LABELS, **STILL).scores
    received = data.edge_index[0].unique()
    torch.testing.assert_close(scores[received], expected[received], rtol=1e-9, atol=1e-12)
    assert (scores[received] > 0).all()


@both_methods
def test_labels_that_are_all_equal_are_learned_without_dividing_by_zero(method: str) -> None:
    scores = predicted(method, double(bridge()), dict.fromkeys(range(6), 2.0), epochs=5).scores
    assert torch.isfinite(scores).all()


@both_methods
@pytest.mark.parametrize("count", [1, 3])
def test_too_few_labels_are_refused(method: str, count: int) -> None:
    labels = {node: float(node) for node in range(count)}
    with pytest.raises(ValueError, match=f"{count} labelled nodes are too few.*at least 4"):
        predicted(method, double(bridge()), labels)


@both_methods
@pytest.mark.parametrize("x", [None, torch.arange(7)], ids=["no features", "whole numbers"])
def test_a_graph_without_features_to_learn_from_is_refused(method: str, x: Tensor | None) -> None:
    data = Data(x=x, edge_index=bridge().edge_index, num_nodes=7)
    with pytest.raises(ValueError, match=r"node features, but data\.x has none"):
        predicted(method, data, LABELS, forward=lambda model, data: model(data))


@both_methods
def test_an_unknown_normalisation_is_refused(method: str) -> None:
    with pytest.raises(ValueError, match=r"normalisation is 'row'.*'symmetric'"):
        predicted(method, double(bridge()), LABELS, normalisation="row")


@both_methods
def test_a_checkpoint_made_from_other_labels_is_not_resumed(method: str, tmp_path: Path) -> None:
    def ask(labels: dict[int, float]) -> Tensor:
        model, data = network(), double(bridge())
        return nora.influence(
            model, data, method, labels=labels, epochs=3, checkpoint=tmp_path, progress=False
        ).scores

    first = ask(LABELS)
    assert torch.equal(ask(LABELS), first)
    with pytest.raises(ValueError, match="labels"):
        ask({**LABELS, 0: 5.0})


@both_methods
def test_as_published_it_learns_from_the_first_labels_and_cuts_at_their_mean(method: str) -> None:
    data, truth, _ = polarised()
    first = torch.arange(300)
    options = {**QUICK, "as_published": True}
    found = predicted(method, data, (first, truth[first]), **options)
    assert (found.details["fitted"], found.details["held_back"]) == (210, 90)
    assert found.scores.min() == pytest.approx(float(truth[first].mean()), rel=1e-5)
    assert pearson(found.scores[300:], truth[300:]) > 0.5
    # A feature row counts by its proportions alone.
    scaled = data.clone()
    scaled.x = data.x * torch.arange(1.0, 1 + len(truth)).unsqueeze(1)
    again = predicted(method, scaled, (first, truth[first]), **options)
    assert torch.allclose(found.scores, again.scores, rtol=1e-3)


@both_methods
def test_as_published_the_kept_prediction_has_dropout_on(method: str) -> None:
    data, truth, _ = polarised()
    first = torch.arange(300)
    options = {**QUICK, "as_published": True, "epochs": 20, "dropout": 0.9}
    several = [predicted(method, data, (first, truth[first]), seed=k, **options) for k in (0, 0, 1)]
    assert torch.equal(several[0].scores, several[1].scores)
    assert not torch.equal(several[0].scores, several[2].scores)
