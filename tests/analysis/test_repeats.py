"""`repeats=` and `models=`: the same as asking each model by itself, in files and on the page."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pandas as pd
import pytest
import torch

import nora
from people import inputs, write_files
from shell import ok, refused


@pytest.fixture(scope="module")
def club() -> tuple[pd.DataFrame, pd.DataFrame]:
    data = nora.load_dataset("karate").data
    edges = pd.DataFrame(data.edge_index.t().tolist(), columns=["source", "target"])
    return edges, pd.DataFrame({"id": range(34), "label": data.y.tolist()})


@pytest.fixture(scope="module")
def found(club: tuple[pd.DataFrame, pd.DataFrame]) -> nora.Analysis:
    edges, labels = club
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nora.analyse(
            edges,
            labels=labels,
            models=["gcn", "sage"],
            repeats=2,
            seed=3,
            epochs=20,
            progress=False,
        )


def test_every_member_is_what_an_analysis_of_its_own_gives(
    club: tuple[pd.DataFrame, pd.DataFrame], found: nora.Analysis
) -> None:
    edges, labels = club
    held = found.stability
    assert held is not None
    assert [(one.model, one.seed) for one in held.members] == [
        ("gcn", 3),
        ("gcn", 4),
        ("sage", 3),
        ("sage", 4),
    ]
    assert held.k == 8  # a quarter of 34
    assert torch.equal(held.scores[0], found.scores.scores.double())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = nora.analyse(edges, labels=labels, model="sage", seed=4, epochs=20, progress=False)
    torch.testing.assert_close(held.scores[3], alone.scores.scores.double(), rtol=1e-4, atol=1e-5)
    assert alone.stability is None
    assert held.members[3].value == alone.trust.value


def test_tables_picture_record_and_page_tell_of_it(found: nora.Analysis, tmp_path: Path) -> None:
    held = found.stability
    assert held is not None
    folder = found.save(tmp_path / "out", progress=False)
    scores = pd.read_csv(folder / "scores.csv").set_index("node")
    node = held.first[0]
    assert scores.loc[node, "influence_mean"] == pytest.approx(float(held.mean[node]))
    assert scores.loc[node, "times_in_top_8"] == int(held.times_first[node])
    assert len(pd.read_csv(folder / "models.csv")) == 4
    assert len(pd.read_csv(folder / "agreement.csv")) == 6
    assert (folder / "stability.png").stat().st_size > 1000
    about = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert about["stability"]["verdict"] == held.verdict
    assert about["options"]["repeats"] == 2
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert f"{int(held.times_first[node])} of 4" in page
    assert page.count('<circle class="here"') == 8
    assert nora.Influence.load(folder / "scores.parquet").top(1)["node"][0] == node


def test_a_ranking_that_one_model_decides_is_said_to_be_none_first_of_all(tmp_path: Path) -> None:
    from nora.results.stability import Member, Stability

    run = nora.train("gcn", "karate", epochs=5, progress=False)
    scores = run.influence(progress=False)
    rows = torch.stack([scores.scores, -scores.scores, -scores.scores])
    members = tuple(Member("gcn", seed, "accuracy", 0.9, False, "exact") for seed in range(3))
    held = Stability(members, rows, 5)
    path = tmp_path / "page.html"
    nora.write_report(path, run.model, run.data, scores, stability=held, effects=1)
    page = path.read_text(encoding="utf-8")
    assert "one model: of its first 5 nodes" in page
    assert page.index("Read with care") < page.index("What stands out")
    assert page.count('<tr class="alone">') == 5


def test_the_command_takes_both_and_refuses_what_contradicts(tmp_path: Path) -> None:
    asked = ["run", *inputs(write_files(tmp_path)), "--out", tmp_path / "out", "--epochs", 3]
    text = ok(*asked, "--models", "gcn,sage", "--top", 3)
    assert "Training 1 other model, to see whether" in text
    assert "sage, seed 0: accuracy" in text
    assert "times_in_top_3" in text
    again = [*asked[:-4], "--out", tmp_path / "no"]
    assert "give one of them" in refused(*again, "--models", "gcn,sage", "--model", "gat")
    assert "for other seeds give --repeats" in refused(*again, "--models", "gcn,gcn")
    assert "Did you mean 'sage'?" in refused(*again, "--models", "gcn,sag")
    assert "--repeats" in refused(*again, "--repeats", 0)
