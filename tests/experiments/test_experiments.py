"""Experiments: everything is made once, tuning sees the labels alone, reports are complete."""

from __future__ import annotations

import json
import runpy
import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import nora
from nora.experiments import RECIPES, label_usage, lookup, published, running_time
from nora.experiments import lab as laboratory
from nora.experiments.cached_truth import save_truth
from nora.experiments.cells import PROFILES, Cell
from nora.experiments.citation import COMPARED, YARDSTICKS, evaluated
from nora.experiments.lab import TRUTH, Lab
from nora.experiments.runner import markdown
from nora.experiments.skew import lorenz, top_share
from nora.experiments.stability import sizes
from nora.registry import member_of
from nora.results.agreement import evaluate, pearson
from nora.tuning.published import published_options
from recipes import reproduce

CELL = Cell("karate", "gcn", "node")
# A tenth of the club is too few members to learn from.
SHARES = (0.2, 0.3, 0.4, 0.5)
# Recipes for graphs with relations have a file of their own.
# Those of Twitter, and of ten papers of one graph, are run by tests of their own.
RAN = [
    entry.name
    for entry in RECIPES
    if "timme" not in entry.facts.models and entry.name != "arxiv-case"
]


def karate(cache: Path, **changes: Any) -> Lab:
    settings = {"datasets": ("karate",), "models": ("gcn",), "tasks": ("node",), "cycles": 2}
    return Lab(cache, PROFILES["quick"], **{"share": 0.3, **settings, **changes})


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """All tests that may share their work share it."""
    return karate(tmp_path_factory.mktemp("cache"))


def forbid(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name in names:
        monkeypatch.setattr(laboratory, name, lambda *_, **__: pytest.fail("done a second time"))


def strict(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)


class TestRunner:
    def test_the_main_table_is_written_with_all_methods_and_a_second_run_does_nothing(
        self, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reproduce("citation", lab, tmp_path / "one", "nora reproduce citation")
        written = {path.suffix for path in (tmp_path / "one").iterdir()}
        assert written == {".json", ".md", ".png"}
        document = strict(tmp_path / "one" / "citation.json")
        expected, means, cells, quality, _, widths, tuned, everything, single = document[
            "tables"
        ].values()
        assert [row["models"] for row in expected] == [2] * len(expected)
        assert [row["metric"] for row in quality] == ["accuracy"]
        assert len(single) == 2 * len(expected)
        assert {row["method"] for row in tuned} == set(COMPARED)
        methods = [*COMPARED, *YARDSTICKS]
        assert [row["method"] for row in means] == methods
        assert [row["method"] for row in widths] == methods
        assert {"dataset", "model", "task", *methods} == set(cells[0])
        assert {row["method"] for row in everything} == set(methods)
        assert document["about"]["command"] == "nora reproduce citation"
        assert (document["about"]["cycles"], document["about"]["profile"]) == (2, "quick")
        text = (tmp_path / "one" / "citation.md").read_text(encoding="utf-8")
        assert all(f"| {method} |" in text for method in methods)
        assert "70% of them" in text
        assert "hidden sizes cut to 32" in text

        forbid(monkeypatch, "train", "influence", "tune_problems")
        caught: list[str] = []
        reproduce("citation", lab, tmp_path / "two", "nora reproduce citation", caught.append)
        assert len(caught) == 1
        for name in ("citation.json", "citation.md"):
            again = (tmp_path / "two" / name).read_bytes()
            assert again == (tmp_path / "one" / name).read_bytes()

    def test_the_table_holds_what_evaluating_the_scores_gives(self, lab: Lab) -> None:
        found = evaluated(lab, ("nora", "degree"))
        for method in ("nora", "degree"):
            truth = lab.mean_scores(CELL, TRUTH)
            unseen = torch.ones(34, dtype=torch.bool)
            unseen[lab.labelled(CELL)] = False
            expected = pearson(lab.mean_scores(CELL, method)[unseen], truth[unseen])
            mine = found[(found["method"] == method) & (found["metric"] == "pearson")]
            assert mine["value"].tolist() == pytest.approx([expected], abs=1e-6)
            assert mine["paper"].isna().all()

    def test_what_was_finished_before_an_interruption_is_not_done_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        small = karate(tmp_path / "cache", models=("gcn", "sage"), cycles=1)
        done: list[str] = []
        genuine = {name: getattr(laboratory, name) for name in ("train", "influence")}

        def interrupted(kind: str, limit: int) -> None:
            def step(*args: Any, **kwargs: Any) -> Any:
                if len(done) == limit:
                    raise KeyboardInterrupt
                found = genuine[kind](*args, **kwargs)
                done.append(kind)
                return found

            monkeypatch.setattr(laboratory, kind, step)

        interrupted("train", 3)
        interrupted("influence", 3)
        with pytest.raises(KeyboardInterrupt):
            reproduce("skew", small, tmp_path / "out", "again")
        assert not (tmp_path / "out").exists()
        interrupted("train", 99)
        interrupted("influence", 99)
        reproduce("skew", small, tmp_path / "out", "again")
        assert done == ["train", "influence", "train", "influence"]
        assert (tmp_path / "out" / "skew.json").exists()

    def test_finished_cells_are_reported_alone_and_the_missing_ones_by_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        both = karate(tmp_path / "cache", models=("gcn", "sage"), cycles=1)
        with pytest.raises(ValueError, match="none of 2 cells is finished"):
            reproduce("ablation", both, tmp_path / "out", "again", finished=True)
        reproduce("ablation", replace(both, models=("gcn",)), tmp_path / "one", "again")
        both.run(Cell("karate", "sage", "node"), 0)  # begun, not finished

        forbid(monkeypatch, "train", "influence", "tune_problems")
        reproduce("ablation", both, tmp_path / "out", "again", finished=True)
        one, some = (strict(tmp_path / name / "ablation.json") for name in ("one", "out"))
        assert some["tables"] == one["tables"]
        assert some["about"]["missing"] == ["karate-sage-node"]
        text = (tmp_path / "out" / "ablation.md").read_text(encoding="utf-8")
        assert "not counted: karate-sage-node" in text
        with pytest.raises(ValueError, match="skew puts cells together"):
            reproduce("skew", both, tmp_path / "no", "again", finished=True)

    def test_an_interrupted_grid_has_its_first_cells_finished(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        both = karate(tmp_path / "cache", models=("gcn", "sage"), cycles=1)
        genuine = laboratory.train

        def first_alone(model: str, *args: Any, **kwargs: Any) -> Any:
            if model == "sage":
                raise KeyboardInterrupt
            return genuine(model, *args, **kwargs)

        monkeypatch.setattr(laboratory, "train", first_alone)
        with pytest.raises(KeyboardInterrupt):
            reproduce("citation", both, tmp_path / "out", "again")
        reproduce("citation", both, tmp_path / "out", "again", finished=True)
        about = strict(tmp_path / "out" / "citation.json")["about"]
        assert about["missing"] == ["karate-sage-node"]

    def test_the_remaining_cells_are_listed_after_every_step(self, tmp_path: Path) -> None:
        caught: list[str] = []
        small = karate(tmp_path / "cache", models=("gcn", "sage"), cycles=1)
        reproduce("skew", small, tmp_path / "out", "again", caught.append)
        assert caught[0] == "skew: 4 steps, 0 of them done before"
        assert caught[1].startswith("[1/4] train karate-gcn-node cycle 0: ")
        assert "(3 left, at least " in caught[1]  # nothing is known of `exact` yet
        assert "(2 left, about " in caught[2]
        assert "left" not in caught[4]

    @pytest.mark.parametrize(
        ("dataset", "name"),
        [("karate", "citation"), pytest.param("cora", "ablation", marks=pytest.mark.data)],
    )
    def test_with_everything_deleted_the_command_gives_the_same_tables(
        self, dataset: str, name: str, tmp_path: Path
    ) -> None:
        found = []
        for _ in range(2):
            cell = karate(tmp_path / "cache", datasets=(dataset,), cycles=1)
            reproduce(name, cell, tmp_path / "results", "again")
            found.append(strict(tmp_path / "results" / f"{name}.json")["tables"])
            shutil.rmtree(tmp_path / "results")
            shutil.rmtree(tmp_path / "cache")
        assert found[0] == found[1]

    @pytest.mark.parametrize("name", RAN)
    def test_every_recipe_runs_and_gives_full_tables(
        self, name: str, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(label_usage, "SHARES", SHARES)
        report = reproduce(name, lab, tmp_path, "again")
        assert report.tables
        assert all(len(table) for _, table in report.tables)
        document = strict(tmp_path / f"{name}.json")
        shown = [heading for heading, _ in (*report.tables, *report.raw)]
        assert list(document["tables"]) == shown
        about = document["about"]
        assert (about["seconds"] > 0, about["machine"]["cores"] > 0) == (True, True)
        assert f"commit {about['commit']}" in (tmp_path / f"{name}.md").read_text("utf-8")
        assert (tmp_path / f"{name}.png").exists() == (report.figure is not None)
        assert report.title in (tmp_path / f"{name}.md").read_text(encoding="utf-8")


class TestRecipes:
    def test_running_times_belong_to_the_way_they_were_measured(
        self, lab: Lab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cell = lab.cells[0]
        before = running_time.timing_step(lab, cell).path
        assert running_time.timing_step(lab, cell).path == before
        known = Lab.code

        def code(self: Lab, *things: Any, **more: Any) -> str:
            mine = things == (running_time.__name__,)
            return "other code" if mine else known(self, *things, **more)

        monkeypatch.setattr(Lab, "code", code)
        assert running_time.timing_step(lab, cell).path != before

    def test_running_times_are_measured_once(self, lab: Lab) -> None:
        first = RECIPES["time"].value.report(lab).tables[0][1]
        again = RECIPES["time"].value.report(lab).tables[0][1]
        pd.testing.assert_frame_equal(first, again)
        seconds = first.drop(columns=["cell", "paper's brute, GPU"]).iloc[0]
        assert (seconds > 0).all()
        assert seconds["brute / nora"] == seconds["brute (extrapolated)"] / seconds["nora"]

    def test_more_labels_are_really_used(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(label_usage, "SHARES", SHARES)
        (_, single), (_, table), *_ = RECIPES["labels"].value.report(lab).tables
        assert single["method"].tolist() == list(label_usage.METHODS_SHOWN)
        assert table["method"].tolist() == list(label_usage.METHODS_SHOWN)
        for share in (0.2, 0.5):
            here = replace(lab, share=share)
            assert here.tuned(CELL, "nora").labelled == round(share * 34)
            scores, truth = here.all_scores(CELL, "nora"), here.all_scores(CELL, TRUTH)
            found = evaluate(scores, truth, seen=here.labelled(CELL), resamples=0)
            assert table[f"{share:.0%}"][0] == pytest.approx(found.loc["pearson", "value"])
            alone = [
                evaluate(a, b, seen=here.labelled(CELL), resamples=0).loc["pearson", "value"]
                for a, b in zip(scores, truth, strict=True)
            ]
            assert single[f"{share:.0%}"][0] == pytest.approx(np.mean(alone))

    def test_the_case_study_calls_nodes_by_name_and_ranks_them_by_truth(
        self, tmp_path: Path
    ) -> None:
        named = karate(tmp_path, datasets=("polarised",), cycles=1)
        report = reproduce("case", named, tmp_path / "out", "again")
        (heading, table), names = report.tables[0], nora.load_dataset("polarised").node_names
        assert heading == "polarised, gcn, node task"
        truth = named.mean_scores(named.cells[0], TRUTH)
        assert table["node"].tolist() == [names[node] for node in truth.topk(10).indices]
        assert set(table["class"]) <= {"amber", "teal"}
        assert table["influence"].is_monotonic_decreasing
        hub = int(named.mean_scores(named.cells[0], "degree").argmax())
        assert table.set_index("rank by degree")["node"].get(1, names[hub]) == names[hub]

    def test_stability_compares_models_of_different_sizes(self, lab: Lab) -> None:
        assert sizes(lab, CELL) == [8, 16, 32]
        table = RECIPES["stability"].value.report(lab).tables[0][1]
        found = [lab.mean_scores(CELL, TRUTH, hidden) for hidden in (8, 16, 32)]
        assert lab.run(CELL, 1, 8).architecture["sizes"]["hidden_channels"] == 8
        pairs = [(0, 1), (0, 2), (1, 2)]
        expected = np.mean([pearson(found[a], found[b]) for a, b in pairs])
        assert table["here"][0] == pytest.approx(expected)
        assert np.isnan(table["here"][1])  # one architecture cannot be compared with another
        torch.testing.assert_close(found[2], lab.mean_scores(CELL, TRUTH))

    def test_shares_of_the_top_nodes_by_hand(self) -> None:
        scores = np.array([1.0, 6.0, 0.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        assert top_share(scores, 10) == 60.0
        assert top_share(scores, 1) == 60.0  # at least one node
        assert top_share(scores, 30) == 90.0
        nodes, share = lorenz(scores)
        assert nodes.tolist() == [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
        assert share.tolist() == [60, 80, 90, 100, 100, 100, 100, 100, 100, 100]

    def test_figures_the_paper_does_not_have_are_nan(self) -> None:
        assert lookup(published()["pearson"], "node", "cora", "gcn", "nora") == 0.903
        for keys in (("node", "karate"), ("node", "cora", "gcn", "nora", "more"), ("edge",)):
            assert np.isnan(lookup(published()["pearson"], *keys, *["x"] * (len(keys) < 2)))

    def test_markdown_escapes_pipes_and_shows_unknown_numbers_as_a_dash(self) -> None:
        table = pd.DataFrame({"name": ["a|b", "c"], "value": [0.12345, float("nan")]})
        assert markdown(table).splitlines() == [
            "| name | value |",
            "|---|---:|",
            r"| a\|b | 0.123 |",
            "| c | – |",
        ]


class TestTuning:
    @pytest.mark.parametrize("poison", [float("nan"), 1e6])
    def test_it_sees_nothing_of_the_truth_outside_the_labels(
        self, poison: float, lab: Lab, tmp_path: Path
    ) -> None:
        poisoned = karate(tmp_path)
        lab.all_scores(CELL, TRUTH)  # trained, whichever test comes first
        shutil.copytree(lab.cache / "runs", tmp_path / "runs")
        for cycle in range(2):
            truth = lab.scores(CELL, cycle, TRUTH)
            values = torch.full_like(truth.scores, poison)
            values[lab.labelled(CELL)] = truth.scores[lab.labelled(CELL)]
            path = poisoned.truth_step(CELL, cycle).path
            save_truth(replace(truth, scores=values), path, poisoned.method_code(TRUTH))
            loaded = poisoned.scores(CELL, cycle, TRUTH).scores
            assert torch.equal(loaded.nan_to_num(-1), values.nan_to_num(-1))
        for method in ("nora", "mask", "predict-n"):
            assert poisoned.tuned(CELL, method).options == lab.tuned(CELL, method).options
            assert poisoned.tuned(CELL, method).pearson == lab.tuned(CELL, method).pearson

    def test_another_truth_at_the_labelled_nodes_is_seen(self, lab: Lab, tmp_path: Path) -> None:
        other = karate(tmp_path)
        lab.all_scores(CELL, TRUTH)
        shutil.copytree(lab.cache / "runs", tmp_path / "runs")
        for cycle in range(2):
            truth = lab.scores(CELL, cycle, TRUTH)
            swapped = replace(truth, scores=truth.scores.max() - truth.scores)
            save_truth(swapped, other.truth_step(CELL, cycle).path, other.method_code(TRUTH))
        assert other.tuned(CELL, "nora").options != lab.tuned(CELL, "nora").options


class TestCache:
    def test_every_setting_has_a_place_of_its_own(self, lab: Lab) -> None:
        compact = replace(lab, profile=PROFILES["compact"])
        runs = [
            lab.run_step(CELL, 0, None).path,
            lab.run_step(CELL, 1, None).path,
            lab.run_step(CELL, 0, 8).path,
            compact.run_step(CELL, 0, None).path,
            replace(lab, seed=1).run_step(CELL, 0, None).path,
            lab.run_step(Cell("karate", "sage", "node"), 0, None).path,
            lab.run_step(Cell("karate", "gcn", "link"), 0, None).path,
        ]
        assert len(set(runs)) == len(runs)
        places = (Lab.tuned_step, lambda lab, cell, method: lab.score_step(cell, 0, method))
        for place in places:
            labs = [lab, compact, *(replace(lab, **c) for c in ({"seed": 1}, {"share": 0.2}))]
            paths = {place(one, CELL, "nora").path for one in [*labs, replace(lab, cycles=1)]}
            assert len(paths) == len(labs) + 1

    def test_the_order_of_datasets_and_the_share_do_not_move_what_they_do_not_change(
        self, lab: Lab
    ) -> None:
        both = [replace(lab, datasets=names) for names in (("karate", "x"), ("x", "karate"))]
        assert both[0].run_step(CELL, 0, None).path == both[1].run_step(CELL, 0, None).path
        assert both[0].tuned_step(CELL, "nora").path == both[1].tuned_step(CELL, "nora").path
        fewer = replace(lab, share=0.1, cycles=1)
        assert fewer.run_step(CELL, 0, None).path == lab.run_step(CELL, 0, None).path
        assert fewer.score_step(CELL, 0, TRUTH).path == lab.score_step(CELL, 0, TRUTH).path


@pytest.mark.skipif(not find_spec("ogb"), reason="the extra [ogb] is not installed")
def test_an_ogbn_arxiv_cell_works_from_end_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = runpy.run_path(str(Path(__file__).parents[1] / "datasets" / "test_ogbn_arxiv.py"))[
        "make"
    ]
    make(tmp_path / "given" / "ogbn_arxiv")
    monkeypatch.setenv("NORA_DATA", str(tmp_path / "given"))
    monkeypatch.setattr("nora.datasets.ogbn_arxiv.PUBLISHED", (8, 6))  # papers and citations
    lab = karate(tmp_path / "cache", datasets=("ogbn-arxiv",), share=0.5)
    reproduce("ablation", lab, tmp_path / "out", "again")
    cells = strict(tmp_path / "out" / "ablation.json")["tables"]
    row = cells["Pearson in every cell (difference to the paper)"][0]
    assert (row["dataset"], row["model"], row["task"]) == ("ogbn-arxiv", "gcn", "node")
    assert "(" in row["nora"]  # the paper has a figure for this cell
    assert lab.mean_scores(lab.cells[0], TRUTH).shape == (8,)


class TestPresets:
    def test_published_options_are_the_papers(self) -> None:
        expected = {"lr": 0.001, "alpha": 0.5, "beta": 1.0, "epochs": 200, "as_published": True}
        assert published_options("mask", "gcn", "cora") == expected
        whole = published_options("nora", "sage", "pubmed", "link")
        parts = [published_options(f"nora-t{k}", "sage", "pubmed", "link") for k in (1, 2)]
        assert parts[0].keys() == {"beta", "p"}
        assert parts[1].keys() == {"k1", "k2", "k2_prime"}
        assert parts[0].items() | parts[1].items() <= whole.items()

    def test_what_the_paper_does_not_publish_is_refused_by_name(self) -> None:
        with pytest.raises(ValueError, match=r"options for 'exact'.*nora"):
            published_options("exact", "gcn", "cora")
        with pytest.raises(ValueError, match=r"'nora' for gcn.*karate \(node task\)"):
            published_options("nora-t1", "gcn", "karate")
        with pytest.raises(ValueError, match="Did you mean 'compact'"):
            member_of("profile", "compakt", PROFILES)
