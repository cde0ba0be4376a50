"""When a model is too weak for its influences to mean something."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import nora
from nora.datasets import Dataset
from nora.training.runs import split_of
from nora.training.trust import assess


def with_accuracy(labels: list[int], accuracy: float) -> nora.Run:
    """A run on as many nodes, which is said to have this accuracy."""
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
def test_accuracy_is_judged_beside_the_most_common_class(more: float, reason: str) -> None:
    run = with_accuracy([0, 1], 0.0)
    share = assess(run).baseline
    trust = assess(replace(run, metrics={"test_accuracy": share + more}))
    assert trust.tested == 200
    y = run.dataset.data.y[split_of(run.dataset, "node", 0, 0).test]
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
    assert split_of(run.dataset, "node", 0, 0).test.numel() == 0
    assert assess(run).reason == "nothing could be held out to test it on"


@pytest.mark.parametrize(("auc", "weak"), [(0.5, True), (0.58, True), (0.9, False)])
def test_links_are_judged_beside_guessing(auc: float, weak: bool) -> None:
    run = nora.train("gcn", "karate", "link", epochs=2, progress=False)
    trust = assess(replace(run, metrics={"test_auc": auc}))
    assert (trust.metric, trust.baseline, trust.weak) == ("auc", 0.5, weak)
