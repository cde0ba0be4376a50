"""Edges and fragile nodes on the page: exact where there is time, in words where there is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import nora
from nora.analysis.as_time_allows import SECONDS, first_edges, fragile_counts
from pages import page_value, words


@pytest.fixture(scope="module")
def run() -> Any:
    return nora.train("gcn", "karate", epochs=30, progress=False)


@pytest.fixture(scope="module")
def page(run: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    scores = nora.influence(run.model, run.data, "exact", progress=False)
    path = tmp_path_factory.mktemp("page") / "a.html"
    return nora.write_report(path, run.model, run.data, scores, edges=20)


def test_the_first_edges_are_those_of_edge_influence(page: Path, run: Any) -> None:
    found = page_value(page)["edges"]
    truth = nora.edge_influence(run.model, run.data, measure=["change", "flips"], progress=False)
    first = truth.top(20)
    ends = list(zip(found["source"], found["target"], strict=True))
    assert ends == list(zip(first["source"], first["target"], strict=True))
    assert found["influence"] == pytest.approx(first["influence"].tolist(), rel=1e-4)
    assert found["flips"] == first["flips"].tolist()
    assert (found["scored"], found["of"], found["directed"]) == (78, 78, False)
    assert "78 edges that the model sees, removed" in words(page)


def test_the_fragile_column_counts_single_removals_that_flip(page: Path, run: Any) -> None:
    truth = nora.fragile(run.model, run.data, progress=False)
    assert page_value(page)["node"]["fragile"] == truth.counts.tolist()
    assert int(truth.counts.sum()) > 0
    assert "34 nodes removed by itself" in words(page)


def test_where_time_is_short_the_page_says_what_is_missing(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for question in ("edges", "fragile"):
        monkeypatch.setitem(SECONDS, question, 1e-9)
    monkeypatch.setattr("nora.analysis.as_time_allows.EDGES_AT_ONCE", 16)
    scores = nora.influence(run.model, run.data, "exact", progress=False)
    path = nora.write_report(tmp_path / "a.html", run.model, run.data, scores, effects=1)
    value = page_value(path)
    scored = value["edges"]["scored"]
    assert scored in (1, 16) and value["edges"]["of"] == 78
    assert "fragile" not in value["node"]
    assert f"{scored} of the 78 edges that the model sees, those at the most" in words(path)
    assert "34 nodes takes longer than a page" in words(path)
    # Those at the most influential nodes, exactly.
    ends = torch.tensor([value["edges"]["source"], value["edges"]["target"]])
    assert int(scores.top(1)["node"][0]) in ends
    truth = nora.edge_influence(run.model, run.data, ends, progress=False)
    assert sorted(value["edges"]["influence"], reverse=True) == value["edges"]["influence"]
    assert value["edges"]["influence"] == pytest.approx(
        truth.top(len(ends[0]))["influence"].tolist(), rel=1e-4
    )


def test_no_edges_are_shown_when_none_are_asked_for_or_there_are_none(
    run: Any, tmp_path: Path
) -> None:
    scores = nora.influence(run.model, run.data, "exact", progress=False)
    path = nora.write_report(tmp_path / "a.html", run.model, run.data, scores, effects=1, edges=0)
    assert page_value(path)["edges"] is None
    alone = Data(x=run.data.x, edge_index=torch.empty(2, 0, dtype=torch.long))
    session = nora.Session(run.model, alone)
    assert first_edges(session, np.ones(34)) is None
    with pytest.raises(ValueError, match="edges must be at least 0"):
        nora.write_report(tmp_path / "a.html", run.model, run.data, scores, edges=-1)


def test_links_have_edges_and_no_fragile_nodes(tmp_path: Path) -> None:
    run = nora.train("gcn", "karate", "link", epochs=10, progress=False)
    scores = nora.influence(run.model, run.data, "exact", run.task, progress=False)
    path = nora.write_report(tmp_path / "a.html", run.model, run.data, scores, run.task, effects=2)
    value = page_value(path)
    truth = nora.edge_influence(run.model, run.data, task=run.task, progress=False)
    assert value["edges"]["of"] == len(truth)
    assert value["edges"]["influence"][0] == pytest.approx(truth.top(1)["influence"][0], rel=1e-4)
    assert "fragile" not in value["node"]
    assert fragile_counts(nora.Session(run.model, run.data, run.task)) is None


def test_a_model_that_cannot_be_followed_has_the_same_edges(run: Any) -> None:
    class Inverse(torch.nn.Module):
        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            total = x.new_zeros(x.shape).index_add(0, edge_index[1], x[edge_index[0]])
            return torch.linalg.pinv(total @ total.t() + torch.eye(len(x))) @ total[:, :2]

    session = nora.Session(Inverse(), run.data)
    with pytest.warns(RuntimeWarning, match="falls back"):
        found = first_edges(session, np.ones(34), 5)
    truth = nora.edge_influence(Inverse(), run.data, method="brute", progress=False).top(5)
    assert found is not None
    np.testing.assert_allclose(found.influence, truth["influence"], rtol=1e-5)
