"""When a model is too weak for its influences to mean something."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import from_networkx, to_undirected

import nora
from camps import camps
from nora.datasets import Dataset
from nora.training.auc import roc_auc
from nora.training.runs import about_task
from nora.training.trust import DEGREES, GUESSING, assess, degree_auc, verdict


def with_accuracy(labels: list[int], accuracy: float) -> nora.Run:
    """A run on as many nodes, with this claimed accuracy."""
    data = nora.load_dataset("karate").data.clone()
    y = torch.tensor(labels * (1 + 1000 // len(labels)))[:1000]
    order = torch.randperm(1000, generator=torch.Generator().manual_seed(0))
    data = type(data)(x=torch.randn(1000, 2), edge_index=data.edge_index, y=y[order])
    run = nora.train("gcn", Dataset("made", data, max(labels) + 1), epochs=1, progress=False)
    return replace(run, metrics={**run.metrics, "test_accuracy": accuracy})


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (-0.2, "it is not better than that"),
        (0.04, "the difference may be chance on so small a test"),
        (0.3, ""),
    ],
)
def test_accuracy_is_assessed_beside_the_most_common_class(more: float, reason: str) -> None:
    run = with_accuracy([0, 1], 0.0)
    share = assess(run).baseline
    trust = assess(replace(run, metrics={"test_accuracy": share + more}))
    assert trust.tested == 200
    y = run.dataset.data.y[run.split.test]
    assert share == y.bincount().max() / 200
    assert trust.reason == reason
    assert trust.weak == bool(reason)


def test_many_nodes_make_a_small_difference_sure_but_not_large() -> None:
    run = with_accuracy([0] * 9 + [1], 0.5)
    share = assess(run).baseline
    better = replace(run, metrics={"test_accuracy": share + 0.08 * (1 - share)})
    assert assess(better).weak
    good = replace(run, metrics={"test_accuracy": share + 0.8 * (1 - share)})
    assert not assess(good).weak


def test_what_was_not_tested_is_not_trusted() -> None:
    data = nora.load_dataset("karate").data.clone()
    data.y = torch.full((34,), -1)
    data.y[:2] = torch.tensor([0, 1])
    run = nora.train("gcn", Dataset("two labels", data, 2), epochs=2, progress=False)
    assert run.split.test.numel() == 0
    assert assess(run).reason == "nothing could be held out to test it on"


def hubs() -> Tensor:
    """Edges `[2, E]` of 300 nodes that tie themselves to those with many ties."""
    return from_networkx(nx.barabasi_albert_graph(300, 3, seed=0)).edge_index


def link_run(edge_index: Tensor, num_nodes: int) -> nora.Run:
    data = Data(x=torch.randn(num_nodes, 2), edge_index=edge_index)
    return nora.train("gcn", Dataset("made", data, 0), "link", epochs=1, progress=False)


@pytest.mark.parametrize(("more", "weak"), [(-0.05, True), (0.02, True), (0.19, False)])
def test_links_are_assessed_beside_degrees(more: float, weak: bool) -> None:
    run = link_run(hubs(), 300)
    baseline = assess(run).baseline
    assert 0.6 < baseline < 0.8, "hubs are linked more often than others"
    found = assess(replace(run, metrics={"test_auc": baseline + more}))
    assert (found.metric, found.yardstick, found.weak) == ("auc", DEGREES, weak)
    assert found.tested == run.split.test_labels.numel()
    assert f"the degrees of the two ends alone would reach {baseline:.3f}" in found.finding


def test_the_baseline_counts_the_edges_that_messages_pass_along_only() -> None:
    run = link_run(hubs(), 300)
    degree = run.data.edge_index[0].bincount(minlength=300).double()
    ends, labels = degree[run.split.test], run.split.test_labels
    best = max(roc_auc(ends.sum(0), labels), roc_auc(ends.prod(0), labels))
    assert assess(run).baseline == pytest.approx(best)


@pytest.mark.parametrize(("auc", "weak"), [(0.5, True), (0.55, True), (0.9, False)])
def test_where_degrees_are_worse_links_are_assessed_beside_guessing(auc: float, weak: bool) -> None:
    ring = torch.stack([torch.arange(90), (torch.arange(90) + 1) % 90])
    run = link_run(to_undirected(ring), 90)
    # Who has lost a link to the test has fewer left: degrees point the wrong way.
    found = assess(replace(run, metrics={"test_auc": auc}))
    assert (found.baseline, found.yardstick, found.weak) == (0.5, GUESSING, weak)


def test_directed_links_are_assessed_beside_edges_out_of_one_and_into_the_other() -> None:
    """Ten follow everybody and are followed by none."""
    edges = torch.cartesian_prod(torch.arange(10), torch.arange(10, 60)).t()
    run = link_run(edges, 60)
    assert assess(run).baseline > 0.9


class TestRelations:
    @pytest.mark.parametrize(("accuracy", "weak"), [(1.0, False), (0.25, True)])
    def test_a_node_run_is_assessed_by_its_accuracy_alone(
        self, accuracy: float, weak: bool
    ) -> None:
        metrics = {"test_accuracy": accuracy, "test_auc": 1 - accuracy}
        data = camps(400).data
        run = nora.train("timme", Dataset("c", data, 2), epochs=1, progress=False)
        found = assess(replace(run, metrics=metrics))
        y = data["user"].y[run.split.nodes.test]
        assert (found.metric, found.value, found.tested) == ("accuracy", accuracy, len(y))
        assert found.baseline == pytest.approx(float(y.bincount().max() / len(y)))
        assert found.weak is weak

    def test_a_link_run_is_assessed_by_the_means_over_its_relations(
        self,
    ) -> None:
        run = nora.train("timme", camps(), epochs=1, hidden_channels=4, progress=False)
        run = about_task(run, "link")
        split, baselines = run.split, []
        for number, kind in enumerate(split.data.edge_types):
            mine = split.test_relation == number
            one = (split.test[:, mine], split.test_labels[mine])
            baselines.append(degree_auc(split.data[kind].edge_index, 40, *one))
        metrics = {"test_accuracy": 0.0, "test_auc": 0.99}
        found = assess(replace(run, metrics=metrics))
        assert (found.metric, found.value) == ("auc", 0.99)
        assert found.baseline == pytest.approx(sum(baselines) / 2)
        assert found.tested == split.test_labels.numel()
        assert not found.weak
        assert assess(replace(run, metrics={**metrics, "test_auc": found.baseline})).weak


def test_the_verdict_is_words_of_its_own_fields() -> None:
    good = verdict("accuracy", 0.9, 0.5, "always answering 'left'", 200)
    assert (good.weak, good.reason, good.caution) == (False, "", "")
    weak = verdict("accuracy", 0.5, 0.5, "always answering 'left'", 200)
    assert "200 held-out nodes" in weak.caution and "always answering 'left'" in weak.caution
    assert "it is not better than that" in weak.caution
