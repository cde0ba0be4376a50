"""Joint training: parties and links from one embedding, the same weights for both tasks."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import pytest
import torch
import torch.nn.functional as F

import nora
from camps import camps
from nora.datasets import Dataset
from nora.models.timme import TIMME
from nora.training.auc import roc_auc
from nora.training.fits import joint
from nora.training.relational_splits import RelationalSplit, split_relations

SETTINGS = {"epochs": 60, "hidden_channels": 8, "progress": False}


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return camps()


@pytest.fixture(scope="module")
def run(dataset: Dataset) -> nora.Run:
    return nora.train("timme", dataset, **SETTINGS)


@pytest.fixture(scope="module")
def link_run(dataset: Dataset) -> nora.Run:
    return nora.train("timme", dataset, "link", **SETTINGS)


def split_of(run: nora.Run) -> RelationalSplit:
    dataset = run.dataset
    return split_relations(dataset.data, cycle=run.cycle, seed=run.seed, negatives=3)


def output(run: nora.Run) -> torch.Tensor:
    with torch.no_grad():
        return run.model(run.data.x_dict, run.data.edge_index_dict)["user"]


def test_training_learns_camps_and_links(dataset: Dataset, run: nora.Run) -> None:
    short = nora.train("timme", dataset, **{**SETTINGS, "epochs": 1})
    assert run.metrics["train_accuracy"] == 1
    assert run.metrics["val_accuracy"] == 1
    for part in ("train", "val", "test"):
        assert run.metrics[f"{part}_auc"] > max(0.75, short.metrics[f"{part}_auc"])
    assert not run.model.training


def test_the_same_seed_gives_both_tasks_the_same_weights(run: nora.Run, link_run: nora.Run) -> None:
    assert (run.model.task, link_run.model.task) == ("node", "link")
    assert all(
        torch.equal(value, link_run.model.state_dict()[key])
        for key, value in run.model.state_dict().items()
    )
    assert {**run.metrics, "seconds": 0} == {**link_run.metrics, "seconds": 0}


def test_another_cycle_or_seed_gives_other_weights(dataset: Dataset, run: nora.Run) -> None:
    for other in ({"cycle": 1}, {"seed": 1}):
        different = nora.train("timme", dataset, **{**SETTINGS, "epochs": 2, **other})
        assert not torch.equal(different.model.party.weight, run.model.party.weight)


def test_the_metrics_are_those_of_the_weights_that_are_kept(
    run: nora.Run, link_run: nora.Run
) -> None:
    split, y = split_of(run), run.dataset.data["user"].y
    with torch.no_grad():
        score = link_run.model.decoder(output(link_run), split.test, split.test_relation)
    own = []
    for number, relation in enumerate(run.model.relations):
        mine = split.test_relation == number
        own.append(roc_auc(score[mine], split.test_labels[mine]))
        assert run.metrics[f"test_auc_{relation}"] == pytest.approx(own[-1], abs=1e-6)
    assert run.metrics["test_auc"] == pytest.approx(mean(own), abs=1e-6)
    right = output(run)[split.nodes.test].argmax(dim=1) == y[split.nodes.test]
    assert run.metrics["test_accuracy"] == pytest.approx(float(right.float().mean()))


def test_every_relation_counts_equally_in_the_loss(dataset: Dataset) -> None:
    split = split_relations(dataset.data)
    torch.manual_seed(0)
    model = TIMME(40, 2, relations=["friend", "reply"], hidden_channels=4).eval()
    z = model.embed(split.data.x_dict, split.data.edge_index_dict)
    expected = 0.01 * (z**2).mean()
    expected = expected + F.cross_entropy(
        model.party(z)[split.nodes.train], dataset.data["user"].y[split.nodes.train]
    )
    for number in (0, 1):
        mine = split.train_relation == number
        score = model.decoder(z, split.train[:, mine], split.train_relation[mine])
        expected = expected + F.binary_cross_entropy_with_logits(score, split.train_labels[mine])
    found = joint._loss(model, z, dataset.data["user"].y, split)
    torch.testing.assert_close(found, expected)


def test_the_model_sees_training_links_only_whatever_the_task(
    run: nora.Run, link_run: nora.Run
) -> None:
    split = split_of(run)
    for kind in split.data.edge_types:
        for one in (run, link_run):
            assert torch.equal(one.data[kind].edge_index, split.data[kind].edge_index)


def test_the_link_task_asks_about_all_pairs_of_all_relations(link_run: nora.Run) -> None:
    split, task = split_of(link_run), link_run.task
    assert isinstance(task, nora.LinkPrediction)
    assert torch.equal(task.pairs, split.pairs)
    assert torch.equal(task.relation, split.relation)
    found = task.predict(output(link_run))
    assert found.shape == (split.pairs.size(1),)
    labels = torch.cat([split.train_labels, split.val_labels, split.test_labels])
    assert found[labels == 1].mean() > found[labels == 0].mean()


def test_the_best_epoch_is_kept_and_patience_ends_the_training(dataset: Dataset) -> None:
    run = nora.train("timme", dataset, **{**SETTINGS, "epochs": 500}, patience=5)
    best = int(run.metrics["best_epoch"])
    assert run.metrics["epochs"] == best + 5 < 500
    again = nora.train("timme", dataset, **{**SETTINGS, "epochs": best})
    assert torch.equal(again.model.table.weight, run.model.table.weight)


@pytest.mark.parametrize("task", ["node", "link"])
def test_a_run_comes_back_as_it_was(task: str, dataset: Dataset, tmp_path: Path) -> None:
    run = nora.train("timme", dataset, task, **{**SETTINGS, "epochs": 3}, cycle=2, seed=1)
    back = nora.load_run(run.save(tmp_path / "run"))
    assert back.describe() == run.describe()
    assert torch.equal(output(back), output(run))
    assert back.architecture["sizes"]["relations"] == ["friend", "reply"]
    if task == "link":
        assert torch.equal(back.task.predict(output(back)), run.task.predict(output(run)))
        assert back.task.decoder is back.model.decoder


def test_a_graph_that_has_changed_is_noticed(run: nora.Run, tmp_path: Path) -> None:
    folder = run.save(tmp_path / "run")
    other = nora.train("timme", camps(seed=3), **{**SETTINGS, "epochs": 1})
    for file in ("dataset.safetensors", "split.safetensors"):
        (other.save(tmp_path / file) / file).replace(folder / file)
    with pytest.raises(ValueError, match=r"dataset\.safetensors is not.*written"):
        nora.load_run(folder)


def test_models_and_graphs_that_do_not_fit_are_refused_with_the_remedy(dataset: Dataset) -> None:
    with pytest.raises(ValueError, match=r"dataset 'camps' has several relations.*: timme"):
        nora.train("gcn", dataset, progress=False)
    with pytest.raises(ValueError, match=r"graphs with several relations.*'pure-p'"):
        nora.train("timme", "karate", progress=False)


@pytest.mark.parametrize("task", ["node", "link"])
def test_labels_are_needed_for_both_tasks(task: str, dataset: Dataset) -> None:
    data = dataset.data.clone()
    data["user"].y = torch.full((40,), -1)
    with pytest.raises(ValueError, match=r"'nameless' has no labels"):
        nora.train("timme", Dataset("nameless", data, num_classes=2), task, progress=False)


@pytest.mark.data
@pytest.mark.slow
def test_politicians_are_classified_and_their_links_predicted(data_folder: Path) -> None:
    run = nora.train("timme", "pure-p", cycle=0, epochs=60, progress=False)
    assert run.metrics["test_accuracy"] > 0.93
    assert run.metrics["test_auc"] > 0.85
    assert all(run.metrics[f"test_auc_{name}"] > 0.7 for name in run.model.relations)
