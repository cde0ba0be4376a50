"""One model at a time: metrics by hand, and the averages beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from nora.experiments.cells import PROFILES, Cell
from nora.experiments.lab import TRUTH, Lab
from nora.experiments.single import RANK, cells_table, expected_table, median_error, per_model

CELL = Cell("karate", "gcn", "node")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    cache: Path = tmp_path_factory.mktemp("cache")
    return Lab(cache, PROFILES["quick"], ["karate"], ["gcn"], ["node"], cycles=2, share=0.3)


def test_every_model_is_compared_with_its_own_truth_on_unseen_nodes(lab: Lab) -> None:
    found = per_model(lab, ("degree", "cauchy"))
    assert found[["method", "cycle"]].values.tolist() == [
        ["degree", 0],
        ["degree", 1],
        ["cauchy", 0],
        ["cauchy", 1],
    ]
    seen = set(lab.labelled(CELL).tolist())
    unseen = [node for node in range(34) if node not in seen]
    for _, row in found.iterrows():
        scores = lab.scores(CELL, row["cycle"], row["method"]).scores.double().numpy()[unseen]
        truth = lab.scores(CELL, row["cycle"], TRUTH).scores.double().numpy()[unseen]
        assert row["pearson"] == pytest.approx(np.corrcoef(scores, truth)[0, 1])
        first = set(np.argsort(-truth, kind="stable")[:2])  # a tenth of 24
        assert row["top_10%"] == len(first & set(np.argsort(-scores, kind="stable")[:2])) / 2
        off = np.median(np.abs(scores - truth) / truth)
        expected = np.nan if row["method"] in RANK else off
        assert row["median error"] == pytest.approx(expected, nan_ok=True)


def test_tables_tell_mean_and_range_over_models(lab: Lab) -> None:
    found = per_model(lab, ("degree", "cauchy"))
    low, high = sorted(found[found["method"] == "degree"]["pearson"])
    reply = f"{(low + high) / 2:.3f} ({low:.3f} to {high:.3f})"
    expected = expected_table(found).set_index("method")
    assert expected.loc["degree", "pearson"] == reply
    assert expected.loc["degree", "median error"] == "–"
    assert expected.loc["cauchy", "median error"] != "–"
    assert expected["models"].tolist() == [2, 2]
    (row,) = cells_table(found).to_dict("records")
    assert (row["dataset"], row["degree"]) == ("karate", reply)


def test_nodes_without_influence_do_not_count_in_the_median_error() -> None:
    assert np.isnan(median_error(torch.tensor([1.0, 2.0]), torch.zeros(2)))
