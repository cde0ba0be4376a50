"""Balanced accuracy and class weights, beside scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import nora
from camps import camps
from nora.datasets import Dataset
from nora.training.fits.joint import _loss
from nora.training.fits.plain import cross_entropy
from nora.training.recall import balanced_accuracy, chance_of, class_weights, recalls
from nora.training.trust import assess


@pytest.mark.parametrize("seed", range(3))
def test_recalls_and_weights_are_those_of_scikit_learn(seed: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    from sklearn.utils.class_weight import compute_class_weight

    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 4, (200,), generator=draw)
    labels[labels == 2] = 3  # a class without a label
    predicted = torch.randint(0, 4, (200,), generator=draw)
    there = sorted(set(labels.tolist()))
    found, many = recalls(predicted, labels, 4)
    theirs = metrics.recall_score(labels, predicted, labels=there, average=None)
    assert found[there].tolist() == pytest.approx(theirs.tolist())
    assert found[2].isnan()
    assert many.tolist() == labels.bincount().tolist()
    macro = metrics.recall_score(labels, predicted, labels=there, average="macro")
    assert balanced_accuracy(predicted, labels) == pytest.approx(macro)
    weights = compute_class_weight("balanced", classes=np.array(there), y=labels.numpy())
    assert class_weights(labels, 4)[there].tolist() == pytest.approx(weights.tolist())
    assert class_weights(labels, 4)[2] == 0


@pytest.mark.parametrize("seldom", [3, 20])
def test_one_in_twenty_random_answers_is_taken_for_better_than_chance(seldom: int) -> None:
    draw = torch.Generator().manual_seed(0)
    labels = torch.tensor([0] * 180 + [1] * seldom)
    answers = (torch.rand(400, len(labels), generator=draw) < 0.3).long()
    share = sum(chance_of(one, labels) <= 0.05 for one in answers) / len(answers)
    assert 0.01 < share < 0.09


def rare(nodes: int = 1500) -> Dataset:
    """One node in fifteen is of the rare class; features tell it, not without mistakes."""
    draw = torch.Generator().manual_seed(0)
    y = (torch.arange(nodes) % 15 == 0).long()
    x = torch.randn(nodes, 8, generator=draw)
    x[:, 0] += 2 * y
    data = nora.load_dataset("karate").data.clone()
    data = type(data)(x=x, edge_index=torch.arange(nodes).repeat(2, 1), y=y)
    return Dataset("rare", data, 2, class_names=("common", "rare"))


def test_balanced_training_recognises_a_rare_class() -> None:
    plain, balanced = (
        nora.train("gcn", rare(), epochs=40, progress=False, balanced=wanted)
        for wanted in (False, True)
    )
    before, after = assess(plain), assess(balanced)
    assert (before.metric, after.metric) == ("accuracy", "balanced_accuracy")
    assert before.recalls[0].name == "rare"
    assert before.recalls[0].recall < 0.4
    mine = {one.name: one for one in after.recalls}
    assert mine["rare"].recall > before.recalls[0].recall + 0.2
    assert after.value == after.balanced_accuracy == balanced.metrics["test_balanced_accuracy"]
    assert after.value > before.balanced_accuracy
    assert after.baseline == 0.5
    assert not after.weak, "it would be by accuracy: the common class is 93 % of all"
    assert balanced.metrics["test_accuracy"] < before.baseline + 0.02
    assert sum(one.tested for one in after.recalls) == after.tested
    assert "recognises 'rare' worse than guessing" in before.about_missed
    assert before.about_recalls.startswith("recall by class, on held-out nodes: 'rare' ")
    assert after.about_missed == ""


def test_a_student_learns_rare_classes_too() -> None:
    made, found = rare(600), []
    for balanced in (False, True):
        run = nora.train(
            "drgat", made, epochs=25, hidden_channels=16, progress=False, balanced=balanced
        )
        found.append({one.name: one.recall for one in assess(run).recalls}["rare"])
    assert found[0] < found[1]


def test_parties_of_few_users_count_as_much_as_others() -> None:
    made = camps(60)
    y = made.data["user"].y
    y[6:][y[6:] == 1] = 0  # three of the odd ones are left
    network = nora.train("timme", made, epochs=1, hidden_channels=4, progress=False)
    known = network.split.nodes.train
    logits = torch.zeros(60, 2)
    logits[:, 0] = 3  # everything is predicted even
    weighted = cross_entropy(logits[known], y[known], balanced=True)
    each = [F.cross_entropy(logits[known][y[known] == k], y[known][y[known] == k]) for k in (0, 1)]
    assert weighted == pytest.approx(float(sum(each) / 2))
    plain, balanced = (
        _loss(network.model, network.model.embed(*_inputs(network)), y, network.split, wanted)
        for wanted in (False, True)
    )
    assert plain != balanced


def _inputs(run: nora.Run) -> tuple:
    return run.data.x_dict, run.data.edge_index_dict


def test_balanced_training_of_answers_without_meaning_is_weak() -> None:
    made = rare()
    made.data.x = torch.randn(1500, 8, generator=torch.Generator().manual_seed(5))
    trust = assess(nora.train("gcn", made, epochs=40, progress=False, balanced=True))
    assert trust.weak
    assert "balanced accuracy of" in trust.caution


def test_links_have_no_classes_to_balance() -> None:
    with pytest.raises(ValueError, match="task='link' has no classes"):
        nora.train("gcn", "karate", "link", balanced=True)
