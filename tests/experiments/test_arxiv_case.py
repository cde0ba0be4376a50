"""The case study's ten papers: the ids, and the truth of hubs and others."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from nora.experiments import RECIPES, arxiv_case
from nora.experiments.arxiv_case import TEN, candidates, truth_of_candidates
from nora.experiments.cells import PROFILES, Cell
from nora.experiments.lab import Lab
from recipes import reproduce

QUICK = replace(PROFILES["quick"], epochs=3)


@pytest.mark.data
def test_the_papers_ten_are_what_the_graphs_mapping_says() -> None:
    file = Path(os.environ["NORA_DATA"]) / "ogbn_arxiv_graph" / "ogbn_arxiv_nofeat.npz"
    with np.load(file) as raw:
        for node, paper_id, year in TEN.values():
            assert (raw["paper_id"][node], raw["year"][node]) == (paper_id, year)


def test_candidates_are_hubs_and_random_others_and_their_truth_is_exact(tmp_path: Path) -> None:
    lab = Lab(tmp_path, QUICK, ("karate",), ("gcn",), ("node",), cycles=1, sample=10)
    cell = Cell("karate", "gcn", "node")
    hubs, others = candidates(lab, cell)
    assert {0, 33} <= set(hubs.tolist())
    assert not set(hubs.tolist()) & set(others.tolist())
    found = truth_of_candidates(lab, cell, 0).get().scores
    known = torch.cat([hubs, others]).sort().values
    assert torch.equal(found.isfinite().nonzero().flatten(), known)
    brute = lab.run(cell, 0).influence("brute", nodes=known).scores
    assert torch.allclose(found[known], brute[known], atol=1e-4)


def test_a_graph_without_the_ten_papers_is_refused_before_any_work(tmp_path: Path) -> None:
    lab = Lab(tmp_path, QUICK, ("karate",), ("gcn",), ("node",), cycles=1)
    with pytest.raises(ValueError, match=r"karate has 34 nodes.*--datasets"):
        RECIPES["arxiv-case"].value.plan(lab)
    assert list(tmp_path.iterdir()) == []


def test_the_ten_are_ranked_by_influence_and_by_degree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arxiv_case, "TEN", {"first": (0, 1, 2014), "second": (33, 2, 2015)})
    lab = Lab(tmp_path / "cache", QUICK, ("karate",), ("gcn",), ("node",), cycles=1, sample=10)
    report = reproduce("arxiv-case", lab, tmp_path, "a command")
    ((_, table),) = report.tables
    scores = truth_of_candidates(lab, lab.cells[0], 0).get().scores.nan_to_num(-1)
    assert table["rank by degree"].tolist() == [2, 1]
    ranks = [int((scores > scores[node]).sum()) + 1 for node in (0, 33)]
    assert table["rank by influence"].tolist() == ranks
