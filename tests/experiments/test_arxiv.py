"""The recipe on ogbn-arxiv's graph with stand-in features, on a tiny graph in its place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nora
from nora.datasets.ogbn_arxiv_stand_in import FOLDER, GRAPH, GUESSES
from nora.experiments import arxiv, sampled
from nora.experiments import lab as laboratory
from nora.experiments.arxiv import METHODS, NOT_POSSIBLE, PAPER, fitting, sized
from nora.experiments.cells import PROFILES, Cell
from nora.experiments.lab import Lab
from nora.experiments.memory_estimate import needs
from nora.experiments.sampled import ESTIMATE, Sampled
from nora.results.agreement import pearson
from recipes import reproduce
from shell import ok, refused

NODES, SAMPLE = 90, 40
STAND_IN = "ogbn-arxiv-stand-in"


def make(folder: Path) -> None:
    """A random graph in the layout of the real one's files."""
    random = np.random.default_rng(0)
    y = random.integers(0, 4, NODES)
    parts = np.split(random.permutation(NODES), [50, 70])
    folder.mkdir(parents=True)
    np.savez(
        folder / GRAPH,
        edge_index=random.integers(0, NODES, (2, 200)),
        y=y,
        year=random.integers(2000, 2020, NODES),
        **dict(zip(("train", "valid", "test"), parts, strict=True)),
    )
    guesses = [f"{label},{other}" for label, other in zip(y, y[::-1], strict=True)]
    (folder / GUESSES).write_text("\n".join(guesses), encoding="utf-8")


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    given = tmp_path_factory.getbasetemp() / "arxiv"
    if not given.exists():
        make(given / FOLDER)
    monkeypatch.setenv("NORA_DATA", str(given))


def laboratory_in(cache: Path, *models: str, **changes: Any) -> Lab:
    settings = {"cycles": 1, "share": 0.2, "sample": SAMPLE, **changes}
    return Lab(cache, PROFILES["quick"], (STAND_IN,), models, ("node",), **settings)


def test_it_runs_from_end_to_end_and_says_everywhere_that_features_are_stand_ins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = laboratory_in(tmp_path / "cache", "gcn", "drgat")
    reproduce("arxiv", lab, tmp_path / "one", "again")
    assert {path.suffix for path in (tmp_path / "one").iterdir()} == {".json", ".md", ".png"}
    document = json.loads((tmp_path / "one" / "arxiv.json").read_text(encoding="utf-8"))
    agreement, cost, quality, tuned, everything = document["tables"].values()
    rows = [(row["model"], row["method"]) for row in agreement]
    assert rows == [(m, n) for m in ("gcn", "drgat") for n in (*METHODS, ESTIMATE)]
    assert {row["dataset"] for row in everything} == {STAND_IN}
    assert all(row["judged on"] <= 32 for row in agreement)  # 8 of 40 tune
    assert [row["median error"] is None for row in agreement] == 2 * [*[True] * 6, False]
    paper = {(row["model"], row["method"]): row[PAPER] for row in agreement}
    assert paper["gcn", "nora"] == 0.956
    assert paper["gcn", "degree"] is None
    assert [row["nodes"] for row in cost] == [SAMPLE] * 2
    assert [(row["layers"], row["hidden"], row["epochs"]) for row in quality] == [(3, 256, 3)] * 2
    assert [row["labelled"] for row in tuned] == [8] * 6
    assert document["about"]["features"].startswith("stand-in:")
    text = (tmp_path / "one" / "arxiv.md").read_text(encoding="utf-8")
    assert text.splitlines()[0].startswith("# ogbn-arxiv's graph with stand-in features")
    assert "is one on ogbn-arxiv" in text

    for module, names in ((laboratory, ("train",)), (sampled, ("Session", "tune_problems"))):
        for name in names:
            monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("done a second time"))
    reproduce("arxiv", lab, tmp_path / "two", "again")
    for name in ("arxiv.json", "arxiv.md"):
        assert (tmp_path / "two" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()


def test_figures_are_those_of_the_sample_that_did_not_tune(tmp_path: Path) -> None:
    lab = laboratory_in(tmp_path / "cache", "sage")
    report = reproduce("arxiv", lab, tmp_path / "out", "again")
    table = report.tables[0][1].set_index("method")
    one = Sampled(sized(lab), lab.cells[0], 0, SAMPLE)
    run = sized(lab).run(lab.cells[0], 0)
    truth = nora.influence(run.model, run.data, "brute", run.task).scores
    kept = one.truth().scores
    assert (~kept.isnan()).nonzero().flatten().tolist() == one.sample.tolist()
    torch.testing.assert_close(kept[one.sample], truth[one.sample], rtol=1e-3, atol=1e-5)
    assert set(one.labelled.tolist()) < set(one.sample.tolist())
    judged = one.sample[~torch.isin(one.sample, one.labelled)]
    assert table.loc["degree", "judged on"] == len(judged) == 32
    expected = pearson(one.scores("degree").scores[judged], truth[judged])
    assert table.loc["degree", "pearson"] == pytest.approx(expected, abs=1e-4)
    assert set(one.labelled.tolist()) <= set(one.seen(ESTIMATE).tolist())
    assert table.loc[ESTIMATE, "pearson"] > 0.9


def test_what_does_not_fit_into_memory_is_made_smaller_and_reported_with_its_gigabytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = laboratory_in(tmp_path / "cache", "gcn", "gat")
    gcn, gat = lab.cells
    sizes = [arxiv.cell_needs(sized(lab), cell).most for cell in lab.cells]
    assert sizes[0] < sizes[1]
    limit = sum(sizes) / 2
    monkeypatch.setattr(arxiv, "memory_for_a_cell", lambda: limit)
    report = reproduce("arxiv", lab, tmp_path / "out", "again")
    whole = sized(lab)
    found = fitting(whole)
    cut = arxiv.hidden(found[gat], gat)
    assert (found[gcn], arxiv.hidden(found[gcn], gcn)) == (whole, 256)
    assert cut in (128, 64, 32, 16)
    larger = replace(whole, profile=replace(whole.profile, hidden=2 * cut))
    needed = [arxiv.cell_needs(one, gat).most for one in (found[gat], larger)]
    assert needed[0] <= limit < needed[1]
    (_, agreement), _, (_, quality), _, (heading, table) = report.tables
    assert heading == NOT_POSSIBLE
    assert table[["model", "hidden", "hidden size used"]].to_numpy().tolist() == [
        ["gat", 256, str(cut)]
    ]
    assert float(table["forth and back (nora)"].iloc[0]) > 0
    for one in (agreement, quality):
        assert one.groupby("model")["hidden"].unique().map(list).to_dict() == {
            "gcn": [256],
            "gat": [cut],
        }

    monkeypatch.setattr(arxiv, "memory_for_a_cell", lambda: 1.0)
    monkeypatch.setattr(laboratory, "train", lambda *_, **__: pytest.fail("it was begun"))
    nothing = reproduce("arxiv", lab, tmp_path / "none", "again")
    ((heading, refused_all),) = nothing.tables
    assert (heading, nothing.figure) == (NOT_POSSIBLE, None)
    assert refused_all["hidden size used"].tolist() == ["none", "none"]


def test_links_can_be_asked_for_too(tmp_path: Path) -> None:
    lab = replace(laboratory_in(tmp_path / "cache", "gcn"), tasks=("link",))
    report = reproduce("arxiv", lab, tmp_path / "out", "again")
    (_, table), _, (_, quality), *_ = report.tables
    assert table.set_index("method").loc["nora", PAPER] == 0.977
    assert quality["metric"].tolist() == ["auc"]


def test_finished_cells_are_reported_alone(tmp_path: Path) -> None:
    both = laboratory_in(tmp_path / "cache", "gcn", "sage")
    reproduce("arxiv", replace(both, models=("gcn",)), tmp_path / "one", "again")
    reproduce("arxiv", both, tmp_path / "some", "again", finished=True)
    one, some = (
        json.loads((tmp_path / name / "arxiv.json").read_text("utf-8")) for name in ("one", "some")
    )
    assert some["tables"] == one["tables"]
    assert some["about"]["missing"] == [f"{STAND_IN}-sage-node"]


def test_sizes_are_the_papers_and_the_profile_caps_epochs() -> None:
    for name, epochs in (("quick", 3), ("compact", 30), ("paper", 500)):
        lab = sized(replace(laboratory_in(Path("x"), "gcn"), profile=PROFILES[name]))
        settings = lab.profile.training(Cell(STAND_IN, "drgat", "node"))
        assert (settings["epochs"], settings["hidden_channels"]) == (epochs, 256)
        assert (settings["num_layers"], settings["heads"], settings["norm"]) == (3, 3, True)


def test_the_real_sizes_of_attention_do_not_fit_where_sums_do() -> None:
    """The messages alone are `[E, 3, 256]`: 7 GB, made once for the senders and once weighted."""
    found = {}
    for model in ("gcn", "sage", "gat", "gcnii", "drgat"):
        settings = PROFILES["paper"].training(Cell(STAND_IN, model, "node"))
        for key in ("epochs", "patience", "lr", "weight_decay"):
            del settings[key]
        found[model] = needs(model, settings, (41, 40), 169_343, 2_315_598)
    assert all(found[model].most < 13e9 for model in ("gcn", "sage", "gcnii"))
    assert all(found[model].passing > 14e9 for model in ("gat", "drgat"))
    assert found["gat"].training < 13e9  # by sparse products
    assert found["drgat"].training > 28e9


def test_a_sample_is_refused_where_all_nodes_are_known(tmp_path: Path) -> None:
    message = refused("reproduce", "skew", "--sample", 9, "--out", tmp_path)
    assert "--sample is for arxiv" in message


def test_the_command_takes_one_cycle_and_a_sample(tmp_path: Path) -> None:
    asked = ["--profile", "quick", "--models", "gcn", "--sample", 20, "--cache", tmp_path / "cache"]
    ok("reproduce", "arxiv", *asked, "--out", tmp_path / "out")
    about = json.loads((tmp_path / "out" / "arxiv.json").read_text("utf-8"))["about"]
    assert (about["cycles"], about["sample"], about["epochs"]) == (1, 20, 3)
    assert about["command"].endswith("--cycles 1 --share 0.1 --seed 0 --sample 20")
