"""Distillation: what the student minimises, what it may see, and how well it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import nora
from nora.datasets import Dataset
from nora.model.preserve import seeded
from nora.training.fits import Settings, distillation
from nora.training.fits.plain import fit_to_task
from nora.training.runs import graph_for, split_of

SETTINGS: dict[str, Any] = {"epochs": 6, "hidden_channels": 8, "progress": False}


def weights(model: nn.Module) -> list[Tensor]:
    return list(model.state_dict().values())


def test_the_divergence_is_the_formula_written_out() -> None:
    student, teacher = torch.randn(2, 4, 3).double()
    p, q = (teacher / 0.7).softmax(-1), (student / 0.7).softmax(-1)
    expected = 0.7**2 * sum((p * (p / q).log()).sum(-1)) / 4
    torch.testing.assert_close(distillation.divergence(student, teacher, 0.7), expected)


def test_the_student_minimises_mostly_the_distance_to_its_teacher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fitted: list[nn.Module] = []
    objectives: list[Any] = []
    real = distillation.fit_to_task

    def watched(network: nn.Module, *args: Any, objective: Any = None) -> dict[str, float]:
        fitted.append(network)
        objectives.append(objective)
        return real(network, *args, objective=objective)

    monkeypatch.setattr(distillation, "fit_to_task", watched)
    run = nora.train("drgat", "polarised", **SETTINGS)
    teacher, student = fitted
    assert student is run.model
    assert objectives[0] is None

    split = split_of(run.dataset, "node", 0, 0)
    with torch.no_grad():
        teacher.eval()
        p = (teacher(run.data.x, run.data.edge_index) / 0.7).softmax(-1)
        z = torch.randn(run.data.num_nodes, 2)
        q = (z / 0.7).softmax(-1)
        apart = 0.49 * (p * (p.log() - q.log())).sum(-1).mean()
        own = -z.log_softmax(-1)[split.train, run.data.y[split.train]].mean()
    torch.testing.assert_close(objectives[1](z), 0.95 * apart + 0.05 * own)


def test_teacher_and_student_stand_side_by_side_in_the_metrics() -> None:
    run = nora.train("drgat", "polarised", **SETTINGS)
    split = split_of(run.dataset, "node", 0, 0)
    with torch.no_grad():
        right = run.model(run.data.x, run.data.edge_index).argmax(-1) == run.data.y
    assert run.metrics["test_accuracy"] == pytest.approx(float(right[split.test].float().mean()))
    assert 0.5 < run.metrics["teacher_test_accuracy"] <= 1
    assert 0.5 < run.metrics["teacher_val_accuracy"] <= 1
    assert run.metrics["teacher_epochs"] == 6


def test_no_label_outside_of_training_and_validation_is_read() -> None:
    polarised = nora.load_dataset("polarised")
    split = split_of(polarised, "node", 0, 0)
    data = polarised.data.clone()
    data.y = data.y.clone()
    data.y[split.test] = 1 - data.y[split.test]
    other = Dataset("turned", data, polarised.num_classes)
    runs = [nora.train("drgat", dataset, **SETTINGS) for dataset in (polarised, other)]
    pairs = zip(weights(runs[0].model), weights(runs[1].model), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert runs[0].metrics["test_accuracy"] != runs[1].metrics["test_accuracy"]


def test_links_have_no_classes_to_teach_and_are_fitted_as_usual() -> None:
    run = nora.train("drgat", "karate", "link", **SETTINGS)
    assert not any(key.startswith("teacher") for key in run.metrics)
    split = split_of(run.dataset, "link", 0, 0)
    data = graph_for(run.dataset, split)
    with seeded(0):
        plain = nora.build_model("drgat", data.x.size(1), 8, hidden_channels=8)
        fit_to_task(plain, data, split, Settings(epochs=6, progress=False))
    pairs = zip(weights(run.model), weights(plain), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.data
@pytest.mark.slow
def test_on_cora_the_student_is_as_good_as_its_teacher_and_above_80_percent(
    data_folder: Path,
) -> None:
    run = nora.train("drgat", "cora", hidden_channels=32, patience=20, progress=False)
    assert run.metrics["test_accuracy"] > 0.8
    assert run.metrics["test_accuracy"] >= run.metrics["teacher_test_accuracy"] - 0.01
    x, edge_index = run.data.x, run.data.edge_index
    assert torch.equal(run.model(x, edge_index), run.model(x, edge_index))


@pytest.mark.data
@pytest.mark.slow
def test_it_trains_on_the_oldest_papers_of_the_arxiv_graph(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With stand-in features: that it learns on such a graph, not how well it does on ogbn-arxiv."""
    if not (data_folder / "ogbn_arxiv_graph").is_dir():
        pytest.skip(f"no ogbn_arxiv_graph in {data_folder}")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    import arxiv

    data, _, _ = arxiv.load()
    year = data.x[:, -1]
    oldest = year.argsort(stable=True)[:6000].sort().values
    papers = Dataset("oldest papers", data.subgraph(oldest), arxiv.CATEGORIES)
    run = nora.train("drgat", papers, epochs=15, hidden_channels=16, progress=False)
    most_common = float((papers.data.y == papers.data.y.mode().values).float().mean())
    assert most_common < 0.3
    assert run.metrics["teacher_test_accuracy"] > 0.6
    assert run.metrics["test_accuracy"] > 0.5
