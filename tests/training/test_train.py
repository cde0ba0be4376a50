"""Training: repeatable, early stopped, sparse where sparse."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

import nora
from graphs import weighted
from networks import PLAIN
from nora.datasets import Dataset
from nora.model.preserve import seeded
from nora.training.auc import roc_auc
from nora.training.splits import split_nodes
from nora.training.train import train

MODEL_NAMES = PLAIN


def weights(run: nora.Run) -> list[torch.Tensor]:
    return list(run.model.state_dict().values())


@pytest.fixture(scope="module")
def sparse_karate() -> Iterator[Dataset]:
    """The karate club: one-hot features, of which one in 34 is not zero."""
    yield nora.load_dataset("karate")


@pytest.mark.parametrize("task", ["node", "link"])
@pytest.mark.parametrize("name", MODEL_NAMES)
def test_the_same_seed_trains_the_same_model(name: str, task: str) -> None:
    settings = {"epochs": 8, "seed": 3, "hidden_channels": 8, "norm": True, "progress": False}
    first = train(name, "karate", task, **settings)
    torch.manual_seed(1234)
    again = train(name, "karate", task, **settings)
    assert all(torch.equal(a, b) for a, b in zip(weights(first), weights(again), strict=True))
    timeless = [{**run.metrics, "seconds": 0} for run in (first, again)]
    assert timeless[0] == timeless[1]
    other = train(name, "karate", task, **{**settings, "seed": 4})
    assert any(not torch.equal(a, b) for a, b in zip(weights(first), weights(other), strict=True))


def test_training_leaves_the_random_state_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train("gcn", "karate", epochs=2, progress=False)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("name", MODEL_NAMES)
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_sparse_features_train_to_the_same_weights_as_dense_ones(
    name: str, dropout: float, sparse_karate: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"epochs": 6, "norm": True, "dropout": dropout, "progress": False}
    sparse = train(name, sparse_karate, **settings)
    monkeypatch.setattr("nora.sparse.SPARSE_BELOW", 0.0)
    dense = train(name, sparse_karate, **settings)
    for a, b in zip(weights(sparse), weights(dense), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_a_training_that_was_still_improving_says_so() -> None:
    cut_short = train("gcn", "polarised", epochs=5, progress=False)
    assert cut_short.metrics["still_improving"]
    ended = train("gcn", "polarised", epochs=400, patience=5, progress=False)
    assert not ended.metrics["still_improving"]
    assert ended.metrics["epochs"] < 400


def test_the_best_validation_epoch_is_kept_and_patience_ends_the_training() -> None:
    run = train("gcn", "karate", epochs=400, patience=10, progress=False)
    assert run.metrics["epochs"] == run.metrics["best_epoch"] + 10 < 400
    short = train("gcn", "karate", epochs=int(run.metrics["best_epoch"]), progress=False)
    assert all(torch.equal(a, b) for a, b in zip(weights(run), weights(short), strict=True))


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_models_learn_the_camps_of_the_polarised_network(name: str) -> None:
    run = train(name, "polarised", epochs=40, hidden_channels=16, progress=False)
    assert run.metrics["test_accuracy"] > 0.8
    assert not run.model.training
    assert run.task == nora.NodeClassification()


def test_link_prediction_beats_chance_on_the_polarised_network() -> None:
    run = train("gcn", "polarised", "link", epochs=40, hidden_channels=16, progress=False)
    assert run.metrics["test_auc"] > 0.6
    assert isinstance(run.task, nora.LinkPrediction)
    assert run.task.pairs.size(1) == 2 * (run.dataset.data.num_edges // 2)
    assert run.data.num_edges < run.dataset.data.num_edges


def test_the_model_is_trained_on_the_edge_weights_it_is_asked_about_with() -> None:
    data = weighted()
    data.y = torch.tensor([0, 1, 0, 1, 0])
    heavy = data.clone()
    heavy.edge_weight = data.edge_weight**3
    runs = [
        train("gcn", Dataset("ring", graph, 2), epochs=3, dropout=0.0, progress=False)
        for graph in (data, heavy)
    ]
    assert any(
        not torch.allclose(a, b) for a, b in zip(weights(runs[0]), weights(runs[1]), strict=True)
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "edges"}, "task is 'edges'.*'node' or 'link'"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"cycle": 7}, "cycle must be 0 … 4, got 7"),
        ({"num_layers": 0}, "num_layers must.*least 1, got 0"),
    ],
)
def test_impossible_settings_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train("gcn", "karate", progress=False, **arguments)


def test_a_graph_without_labels_is_refused_for_the_node_task_only() -> None:
    karate = nora.load_dataset("karate")
    data = karate.data.clone()
    del data.y
    nameless = Dataset("nameless", data, num_classes=0)
    with pytest.raises(ValueError, match=r"dataset 'nameless' has no.*task='link'"):
        train("gcn", nameless, progress=False)
    assert train("gcn", nameless, "link", epochs=2, progress=False).metrics["epochs"] == 2


def test_the_area_under_the_curve_counts_ordered_pairs() -> None:
    score, label = torch.tensor([0.9, 0.4, 0.4, 0.1]), torch.tensor([1.0, 1.0, 0.0, 0.0])
    assert roc_auc(score, label) == pytest.approx((1 + 1 + 0.5 + 1) / 4)
    assert roc_auc(-score, label) == pytest.approx(0.5 / 4)


def test_a_run_tells_what_it_is() -> None:
    run = train("gcn", "karate", epochs=2, cycle=3, progress=False)
    assert repr(run) == "Run(gcn on karate, task='node', cycle=3)"
    assert isinstance(run.model, nn.Module)


def test_selected_with_dropout_on_the_weights_are_those_before_the_best_epochs_step() -> None:
    untrained = train("gcn", "karate", epochs=1, selection="dropout", progress=False)
    with seeded(0):
        fresh = nora.build_model("gcn", 34, 4)
    trained = train("gcn", "karate", epochs=1, progress=False)
    for before, start, after in zip(
        untrained.model.parameters(), fresh.parameters(), trained.model.parameters(), strict=True
    ):
        assert torch.equal(before, start)
        assert not torch.equal(before, after)


def test_a_given_split_takes_the_place_of_the_cycles_own() -> None:
    karate = nora.load_dataset("karate")
    split = split_nodes(karate.data.y, shuffle=False)
    run = train("gcn", karate, epochs=2, split=split, progress=False)
    assert run.split.train.tolist() == list(range(17))
    assert run.split.test.tolist() == list(range(27, 34))
    assert split_nodes(karate.data.y, cycle=1, shuffle=False).train.tolist()[0] == 7


def test_an_unknown_selection_is_refused() -> None:
    with pytest.raises(ValueError, match=r"selection is 'train'.*'eval' or 'dropout'"):
        train("gcn", "karate", selection="train", progress=False)
