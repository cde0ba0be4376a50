"""The Cauchy sketch: its steps, its projections, its scale, and what it promises about `F`."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data

import nora
from graphs import FEATURES, GRAPHS, clique, double, graph, some_pairs, without_edges
from half import half
from networks import CLASSES, PLAIN, network, patchwork
from nora import LinkPrediction, NodeClassification
from nora.engine.compile import lower_model
from nora.engine.engine import Engine
from nora.engine.estimate.linear import Linearised
from nora.engine.exec.kernels import vectorised
from nora.engine.ir.op import Tally
from nora.engine.ops.aggregate import Aggregate, Attend
from nora.engine.ops.reduce import Reduce
from nora.graph.edit_batch import EditBatch
from nora.methods.cauchy import calibrated, cauchy_scale
from nora.model import Problem, build_problem
from nora.model.checks import check_model
from nora.model.known_influences import label_tensor
from nora.model.task import Task
from nora.results.agreement import pearson

NAMES = PLAIN
PROBS = NodeClassification(return_type="probs")


class Chain(nn.Module):
    """Convolutions with something between them."""

    def __init__(self, *convs: nn.Module, between: Callable[[Tensor], Tensor] = lambda x: x):
        super().__init__()
        self.convs, self.between = nn.ModuleList(convs), between

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for at, conv in enumerate(self.convs):
            x = conv(x if at == 0 else self.between(x), edge_index)
        return x


def generic(name: str) -> nn.Module:
    torch.manual_seed(5)
    first = pyg.GATv2Conv(FEATURES, 4) if name == "gatv2" else pyg.SAGEConv(FEATURES, 4, "max")
    return Chain(first, pyg.SAGEConv(4, CLASSES, "max"), between=torch.tanh).double()


def sums(layers: int) -> nn.Module:
    """Linear sums over the neighbours and the node itself, small enough for probabilities."""
    torch.manual_seed(layers)
    widths = [FEATURES, *[4] * (layers - 1), CLASSES]
    convs = [pyg.GraphConv(a, b, aggr="add", bias=False) for a, b in pairwise(widths)]
    return scaled(Chain(*convs))


def scaled(model: nn.Module) -> nn.Module:
    for weight in model.double().parameters():
        nn.init.uniform_(weight, 0.0, 0.05)
    return model


def positive(data: Data) -> Data:
    data = double(data)
    data.x = data.x.abs()
    return data


def posed(model: nn.Module, data: Data, task: str | Task = "node") -> Problem:
    if task == "link":
        task = LinkPrediction(some_pairs(data))
    return check_model(build_problem(model.eval(), data, None if task == "node" else task))


def projections(problem: Problem, count: int = 3) -> tuple[Tensor, Tensor]:
    """First-order `c·δ(r)` of every removal beside the true one, by running the model without `r`."""
    linearised = Linearised(Engine.prepare(problem, vectorised))
    before = problem.predict().detach()
    c = torch.randn(count, *before.shape, generator=torch.Generator().manual_seed(1)).double()
    removals = EditBatch.remove_nodes(torch.arange(problem.num_nodes))
    found = linearised.projections(removals, linearised.gradients(c), Tally())
    truth = torch.zeros_like(found)
    with torch.no_grad():
        for node in range(problem.num_nodes):
            after, alive = problem.predict_without(torch.tensor([node]))
            truth[node] = (c[:, alive] * (after - before[alive])).flatten(1).sum(dim=1)
    return found, truth


def score(model: nn.Module, data: Data, task: Task | None = None, **options: object) -> Tensor:
    return nora.influence(model, data, "cauchy", task, progress=False, **options).scores


@pytest.mark.parametrize("name", [*NAMES, "patchwork", "gatv2", "sage-max"])
@pytest.mark.parametrize("kind", ["weighted", "directed", "looped", "duplicated", "isolated"])
def test_every_step_run_as_a_whole_gives_what_the_trace_computed(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "nora.engine.compile.optimise", lambda program: None
    )  # it frees what is compared here
    build = patchwork if name == "patchwork" else lambda: generic(name)
    model = network(name, norm=True, layers=3) if name in NAMES else build()
    with torch.no_grad():
        plan = lower_model(posed(model, double(GRAPHS[kind]())))
        for step in plan.ops:
            whole = step.compute(*(value.base_rows() for value in step.inputs))
            torch.testing.assert_close(whole, step.output.base_rows(), rtol=1e-12, atol=1e-12)
    kinds = {type(step) for step in plan.ops}
    expected = {"gat": {Attend}, "patchwork": {Aggregate, Attend}, "gatv2": {Reduce}}
    assert expected.get(name, {Reduce if name == "sage-max" else Aggregate}) <= kinds


# DrGAT counts degrees by a message of their own: one layer of it is two steps.
@pytest.mark.parametrize(
    ("kind", "task", "name"),
    half(GRAPHS, ["node", "link"], [*(name for name in NAMES if name != "drgat"), "gatv2"]),
)
def test_projections_of_one_layer_are_exact(kind: str, task: str, name: str) -> None:
    torch.manual_seed(2)
    generic = Chain(pyg.GATv2Conv(FEATURES, CLASSES)).double()
    model = generic if name == "gatv2" else network(name, norm=True, layers=1)
    found, truth = projections(posed(model, double(GRAPHS[kind]()), task))
    assert truth.abs().max() > 1e-4
    torch.testing.assert_close(found, truth, rtol=1e-8, atol=1e-13)


@pytest.mark.parametrize("kind", GRAPHS)
def test_projections_of_two_linear_layers_are_exact_what_returns_included(kind: str) -> None:
    found, truth = projections(posed(sums(2), positive(GRAPHS[kind]()), PROBS))
    torch.testing.assert_close(found, truth, rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize("layers", [3, 4])
def test_projections_of_many_linear_layers_are_exact_where_nothing_returns(layers: int) -> None:
    acyclic = graph([(i, j) for i, j in clique(range(7)) if (i + j) % 3], 7, both_ways=False)
    found, truth = projections(posed(sums(layers), positive(acyclic), PROBS))
    torch.testing.assert_close(found, truth, rtol=1e-8, atol=1e-14)


def test_only_paths_that_return_after_two_hops_or_more_are_left_in() -> None:
    """Three layers without own rows: only a triangle brings a change back in two hops."""
    torch.manual_seed(0)
    convs = [pyg.SAGEConv(3, 3, "sum", root_weight=False, bias=False) for _ in range(3)]
    model = scaled(Chain(*convs))
    tree, rest = positive(graph([(0, 1), (1, 2), (2, 3), (2, 4)], 5)), positive(GRAPHS["bridge"]())
    found, truth = projections(posed(model, tree, PROBS))
    torch.testing.assert_close(found, truth, rtol=1e-8, atol=1e-14)
    found, truth = projections(posed(model, rest, PROBS))
    torch.testing.assert_close(found[3], truth[3], rtol=1e-8, atol=1e-14)  # in no triangle
    assert (found - truth)[[0, 1, 2, 4, 5, 6]].abs().min() > 1e-8


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", ["two_camps", "directed", "duplicated", "isolated"])
def test_scores_of_linear_models_agree_with_brute_force_within_five_standard_errors(
    kind: str, layers: int
) -> None:
    data, samples = positive(GRAPHS[kind]()), 4000
    found = score(sums(layers), data, PROBS, samples=samples)
    truth = nora.influence(sums(layers), data, "brute", PROBS, progress=False).scores
    torch.testing.assert_close(found, truth, rtol=5 * math.sqrt(2 / samples), atol=1e-15)


class TestScale:
    def draws(self, scales: Tensor, count: int) -> Tensor:
        torch.manual_seed(8)
        uniform = torch.rand(len(scales), count, dtype=torch.double)
        return scales.unsqueeze(1) * torch.tan(math.pi * (uniform - 0.5))

    def test_scales_of_simulated_draws_are_recovered(self) -> None:
        scales = torch.tensor([1e-9, 0.02, 1.0, 7.0, 1e6], dtype=torch.double)
        found = cauchy_scale(self.draws(scales, 20_000))
        torch.testing.assert_close(found, scales, rtol=5 * math.sqrt(2 / 20_000), atol=0)

    @pytest.mark.parametrize("count", [16, 64, 256])
    def test_the_relative_error_shrinks_with_the_root_of_the_samples(self, count: int) -> None:
        found = cauchy_scale(self.draws(torch.ones(2000, dtype=torch.double), count))
        assert float(found.log().std()) == pytest.approx(math.sqrt(2 / count), rel=0.15)

    def test_it_is_where_the_likelihood_is_stationary(self) -> None:
        draws = self.draws(torch.logspace(-3, 3, 50, dtype=torch.double), 33)
        scale = cauchy_scale(draws).unsqueeze(1)
        balance = (draws.square() / (draws.square() + scale.square())).mean(dim=1)
        torch.testing.assert_close(balance, torch.full_like(balance, 0.5), rtol=0, atol=1e-5)

    @settings(max_examples=50, deadline=None, derandomize=True)
    @given(
        st.lists(st.floats(-1e3, 1e3).filter(lambda x: abs(x) > 1e-3), min_size=3, max_size=12),
        st.floats(1e-6, 1e6),
    )
    def test_scaled_draws_have_the_scaled_scale(self, draws: list[float], by: float) -> None:
        rows = torch.tensor([draws], dtype=torch.double)
        scaled = cauchy_scale(-by * rows)
        torch.testing.assert_close(scaled, by * cauchy_scale(rows), rtol=1e-6, atol=0)

    def test_draws_that_are_all_zero_have_scale_zero(self) -> None:
        assert cauchy_scale(torch.zeros(2, 5, dtype=torch.double)).tolist() == [0.0, 0.0]


class TestOptions:
    def test_the_seed_decides(self) -> None:
        data = double(GRAPHS["two_camps"]())
        first = score(network(), data, seed=3)
        torch.manual_seed(77)
        assert torch.equal(score(network(), data, seed=3), first)
        assert ((score(network(), data, seed=4) - first).abs() > 1e-9).all()

    @pytest.mark.parametrize(("option", "value", "least"), [("samples", 1, 2), ("workers", 0, 1)])
    def test_numbers_too_small_are_refused(self, option: str, value: int, least: int) -> None:
        with pytest.raises(ValueError, match=f"{option} must be at least {least}, got {value}"):
            score(network(), double(GRAPHS["star"]()), **{option: value})

    @pytest.mark.parametrize("name", ["gcn", "gat"])
    def test_memory_workers_and_backend_do_not_change_the_scores(self, name: str) -> None:
        run = nora.train(name, "polarised", epochs=1, hidden_channels=16, progress=False)
        model, data = run.model.double(), double(run.data)
        asked = {"samples": 6, "nodes": range(0, 1000, 5)}
        large = score(model, data, workers=1, **asked)
        for other in ({"memory": "1MB"}, {"workers": 3}, {"backend": "compiled"}):
            found = score(model, data, **asked, **other)
            torch.testing.assert_close(found, large, rtol=1e-9, atol=1e-12, equal_nan=True)

    def test_some_nodes_get_what_they_get_among_all(self) -> None:
        data = double(GRAPHS["bridge"]())
        some, every = score(network(), data, nodes=[1, 3]), score(network(), data)
        assert (~some.isnan()).nonzero().flatten().tolist() == [1, 3]
        torch.testing.assert_close(some[[1, 3]], every[[1, 3]], rtol=1e-12, atol=0)

    def test_only_targets_count(self) -> None:
        data, samples = positive(GRAPHS["two_camps"]()), 4000
        ask = {"task": PROBS, "targets": [1, 4], "progress": False}
        found = nora.influence(sums(2), data, "cauchy", samples=samples, **ask).scores
        truth = nora.influence(sums(2), data, "brute", **ask).scores
        torch.testing.assert_close(found, truth, rtol=5 * math.sqrt(2 / samples), atol=1e-15)

    @pytest.mark.parametrize("name", NAMES)
    def test_nodes_without_edges_have_no_influence_and_others_have(self, name: str) -> None:
        data = double(GRAPHS["isolated"]())
        assert (score(network(name), data) == 0).nonzero().flatten().tolist() == without_edges(
            data
        ).tolist()

    def test_a_model_that_cannot_be_traced_falls_back_to_brute_force(self) -> None:
        class Branching(Chain):
            def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
                return super().forward(x, edge_index) if x.sum() > -1e9 else x

        model = Branching(pyg.SAGEConv(FEATURES, CLASSES)).double()
        data = double(GRAPHS["bridge"]())
        with pytest.warns(RuntimeWarning, match="falls back to brute.*Python number"):
            found = nora.influence(model, data, "cauchy", progress=False)
        truth = nora.influence(model, data, "brute", progress=False)
        assert torch.equal(found.scores, truth.scores)
        assert "Python number" in found.details["fallback"]


class TestLabels:
    def test_a_power_law_is_recovered_from_a_few_labels(self) -> None:
        scores = torch.linspace(0.0, 9.0, 10, dtype=torch.double)
        truth = 0.7 * scores.pow(1.6)
        labels = truth.where(torch.arange(10) % 3 == 0, float("nan"))
        torch.testing.assert_close(calibrated(scores, labels), truth, rtol=1e-9, atol=1e-12)

    def test_labels_without_influence_are_too_few(self) -> None:
        data = double(GRAPHS["isolated"]())
        for labels in ({0: 0.5}, {4: 0.0, 5: 0.0, 0: 0.1}):
            with pytest.raises(ValueError, match=r"1 labelled nodes .* too few"):
                score(network(), data, labels=labels)

    def test_labelled_nodes_need_not_be_asked_for(self) -> None:
        data = double(GRAPHS["bridge"]())
        labels = {0: 0.3, 5: 0.9, 3: 0.7}
        some, every = (score(network(), data, nodes=n, labels=labels) for n in ([1, 2], None))
        torch.testing.assert_close(some[[1, 2]], every[[1, 2]], rtol=1e-12, atol=0)
        expected = calibrated(score(network(), data), label_tensor(labels, 7).double())
        torch.testing.assert_close(every, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("task", ["node", "link"])
@pytest.mark.parametrize("name", NAMES)
def test_on_a_trained_model_it_ranks_as_the_truth_does_with_and_without_labels(
    name: str, task: str
) -> None:
    run = nora.train(name, "polarised", task, epochs=20, hidden_channels=16, progress=False)
    asked = torch.arange(0, 1000, 8)
    truth = nora.influence(run.model, run.data, "exact", run.task, nodes=asked, progress=False)
    found, truth = score(run.model, run.data, run.task, nodes=asked)[asked], truth.scores[asked]
    assert pearson(found, truth) > 0.85
    assert spearmanr(found, truth).statistic > 0.93
    labels = truth.where(torch.arange(len(truth)) % 8 == 0, float("nan"))
    rest = labels.isnan()
    corrected = pearson(calibrated(found, labels)[rest], truth[rest])
    assert corrected > pearson(found[rest], truth[rest]) - 0.02
