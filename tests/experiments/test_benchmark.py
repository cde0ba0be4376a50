"""The published truth: what is written is what was computed, and scores are compared with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from nora.experiments.benchmark import Benchmark, model_fingerprint
from nora.experiments.cells import PROFILES, Cell
from nora.experiments.lab import TRUTH, Lab
from nora.experiments.single import per_model
from recipes import reproduce

CELL = Cell("karate", "gcn", "node")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    cache = tmp_path_factory.mktemp("cache")
    return Lab(cache, PROFILES["quick"], ["karate"], ["gcn"], ["node", "link"], cycles=2, share=0.3)


@pytest.fixture(scope="module")
def written(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out")
    reproduce("truth", lab, out, "nora reproduce truth")
    return out / "truth.parquet"


def test_it_holds_every_exact_influence_to_the_last_bit(lab: Lab, written: Path) -> None:
    benchmark = Benchmark.load(written)
    assert benchmark.cells == lab.cells
    assert benchmark.about["command"] == "nora reproduce truth"
    for cell in lab.cells:
        labelled = benchmark.labelled(cell).nonzero().flatten()
        assert sorted(lab.labelled(cell).tolist()) == labelled.tolist()
        for cycle in range(2):
            assert torch.equal(benchmark.truth(cell, cycle), lab.scores(cell, cycle, TRUTH).scores)
            mine = model_fingerprint(lab.run(cell, cycle).model)
            assert benchmark.fingerprint(cell, cycle) == mine
    assert benchmark.fingerprint(CELL, 0) != benchmark.fingerprint(CELL, 1)
    # Anybody can read it without this package.
    frame = pd.read_parquet(written)
    assert len(frame) == 34 * 2 * 2
    card = written.with_suffix(".md").read_text(encoding="utf-8")
    assert all(f"`{column}`" in card for column in frame.columns)


def test_scores_are_compared_as_the_tables_do(lab: Lab, written: Path) -> None:
    benchmark = Benchmark.load(written)
    cauchy = [found.scores for found in lab.all_scores(CELL, "cauchy")]
    (row,) = benchmark.compare({"karate-gcn-node": cauchy}).to_dict("records")
    found = per_model(lab, ("cauchy",)).query("task == 'node'")["pearson"]
    reply = f"{found.mean():.3f} ({found.min():.3f} to {found.max():.3f})"
    assert (row["cell"], row["models"], row["pearson"]) == ("karate-gcn-node", 2, reply)
    unseen = ~benchmark.labelled(CELL).numpy()
    means = [lab.mean_scores(CELL, name).double().numpy()[unseen] for name in ("cauchy", TRUTH)]
    assert row["pearson of averages"] == pytest.approx(np.corrcoef(*means)[0, 1], abs=1e-6)

    degree = lab.scores(CELL, 0, "degree").scores
    assert benchmark.compare({"karate": degree})["cell"].tolist() == [str(c) for c in lab.cells]


def test_what_does_not_fit_is_refused(written: Path, tmp_path: Path) -> None:
    benchmark = Benchmark.load(written)
    refusals = [
        ({"karat": torch.zeros(34)}, "Did you mean 'karate'"),
        ({"karate": torch.zeros(33)}, r"\[34\], got \[33\]"),
        ({"karate": [torch.zeros(34)]}, "one vector for each of the 2 models.*got 1"),
        ({"karate": torch.full((34,), torch.nan)}, "must be finite"),
    ]
    for scores, says in refusals:
        with pytest.raises(ValueError, match=says):
            benchmark.compare(scores)
    with pytest.raises(ValueError, match="there is no cycle 7"):
        benchmark.truth(CELL, 7)
    other = tmp_path / "other.parquet"
    pd.DataFrame({"a": [1]}).to_parquet(other)
    with pytest.raises(ValueError, match="is not a benchmark"):
        Benchmark.load(other)
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(ValueError, match="is not a Parquet file"):
        Benchmark.load(tmp_path / "text.parquet")
