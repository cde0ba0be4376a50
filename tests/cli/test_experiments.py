"""`nora tune`, `nora rank` with found or published options, and `nora reproduce`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import nora
from nora.experiments import RECIPES
from nora.experiments import lab as laboratory
from nora.training.splits import few_shot
from shell import document, ok, refused, run

QUICK = ["--datasets", "karate", "--models", "gcn", "--tasks", "node", "--profile", "quick"]


@pytest.fixture
def karate(tmp_path: Path) -> Path:
    nora.train("gcn", "karate", epochs=20, progress=False).save(tmp_path / "karate")
    return tmp_path / "karate"


class TestTune:
    def test_options_and_labels_are_kept_with_the_run_and_used_by_rank(self, karate: Path) -> None:
        about = document("tune", karate, "--share", 0.3, "--seed", 2)
        labels = nora.Influence.load(karate / "tuned" / "nora-labels.parquet")
        asked = few_shot(34, 0.3, 2)
        assert (~labels.scores.isnan()).nonzero().flatten().tolist() == asked.tolist()
        trained = nora.load_run(karate)
        truth = nora.influence(trained.model, trained.data, "exact", nodes=asked, progress=False)
        torch.testing.assert_close(labels.scores[asked], truth.scores[asked])
        tuned = nora.Tuned.load(karate / "tuned" / "nora.json")
        assert (about["options"], about["labelled"]) == (tuned.options, 10)
        again = nora.tune(trained.model, trained.data, truth, "nora", progress=False)
        assert tuned.options == again.options

        ranked = document("rank", karate, "--method", "nora", "--tuned")
        assert tuned.options.items() <= ranked["options"].items()
        plain = document("rank", karate, "--method", "nora")
        assert plain["options"] != ranked["options"]

    def test_what_is_typed_comes_before_what_was_tuned(self, karate: Path) -> None:
        beta = document("tune", karate, "--share", 0.3)["options"]["beta"]
        other = beta + 1
        ranked = document(
            "rank", karate, "--method", "nora", "--tuned", "--option", f"beta={other}"
        )
        assert ranked["options"]["beta"] == other

    def test_a_method_that_learns_gets_the_labels_it_was_tuned_with(self, karate: Path) -> None:
        text = ok("tune", karate, "--method", "predict-n", "--share", 0.3, "--trials", 2)
        assert "2 settings tried" in text
        assert "--method predict-n --tuned" in text
        ranked = document("rank", karate, "--method", "predict-n", "--tuned")
        assert ranked["scored"] == 34
        tuned = nora.Tuned.load(karate / "tuned" / "predict-n.json")
        labels = nora.Influence.load(karate / "tuned" / "predict-n-labels.parquet")
        trained = nora.load_run(karate)
        expected = nora.influence(
            trained.model, trained.data, "predict-n", labels=labels, progress=False, **tuned.options
        )
        best = expected.top(3)["node"].tolist()
        assert [row["node"] for row in ranked["top"]][:3] == best

    def test_labels_may_be_given_in_place_of_a_sample(self, karate: Path, tmp_path: Path) -> None:
        known = tmp_path / "known.parquet"
        ok("rank", karate, "--nodes", "0,3,9,12,20,33", "--out", known)
        assert document("tune", karate, "--labels", known)["labelled"] == 6
        assert document("rank", karate, "--method", "predict-n", "--labels", known)["scored"] == 34


class TestRank:
    def test_published_options_are_used(
        self, karate: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[tuple[str, ...]] = []

        def publish(*where: str) -> dict[str, Any]:
            asked.append(where)
            return {"beta": 7.0}

        monkeypatch.setattr("nora.tuning.published.published_options", publish)
        ranked = document("rank", karate, "--method", "nora", "--paper")
        assert asked == [("nora", "gcn", "karate", "node")]
        assert ranked["options"]["beta"] == 7.0


class TestReproduce:
    def test_list_names_every_experiment(self) -> None:
        lines = ok("reproduce", "list").splitlines()
        assert [line.split()[0] for line in lines] == [entry.name for entry in RECIPES]
        assert {"citation", "ablation", "skew", "stability", "time"} <= {
            line.split()[0] for line in lines
        }

    def test_an_experiment_is_written_and_goes_on_from_its_cache(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out, cache = tmp_path / "out", tmp_path / "cache"
        asked = ["reproduce", "ablation", *QUICK, "--cycles", 1, "--cache", cache, "--out", out]
        first = run(*asked)
        assert first.exit_code == 0, first.output
        assert "Means over all cells" in first.stdout
        assert "train karate-gcn-node cycle 0" in first.stderr
        written = (out / "ablation.json").read_bytes()
        about = json.loads(written, parse_constant=pytest.fail)["about"]
        assert about["command"] == (
            "nora reproduce ablation --profile quick --datasets karate --models gcn --tasks node "
            "--cycles 1 --share 0.1 --seed 0"
        )
        assert (out / "ablation.md").exists()
        assert (out / "ablation.png").exists()

        monkeypatch.setattr(laboratory, "train", lambda *_, **__: pytest.fail("trained again"))
        assert "exists already" in refused(*asked)
        assert document(*asked, "--force")["title"] == "What do NORA's two parts contribute?"
        assert (out / "ablation.json").read_bytes() == written

    def test_no_name_is_cut_at_80_columns(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        asked = ["reproduce", "ablation", *QUICK, "--cycles", 1, "--cache", tmp_path / "cache"]
        text = run(*asked, "--out", tmp_path / "out").stdout
        shown, _, _ = text.partition("Written: ")
        assert max(len(line) for line in shown.splitlines()) <= 80
        written = json.loads((tmp_path / "out" / "ablation.json").read_text(encoding="utf-8"))
        for heading, table in written["tables"].items():
            if "every model" in heading:
                assert heading not in text
                continue
            for name in [*table[0], *(str(row.get("method", "")) for row in table)]:
                assert name in text
        # Of one cell and cycle, mean and range are the same number.
        row = written["tables"]["One model: what to expect (mean, range over models)"][0]
        assert row["pearson"] in text
        mean = written["tables"]["Means over all cells"][0]["pearson"]
        assert row["pearson"] == f"{mean:.3f} ({mean:.3f} to {mean:.3f})"

    def test_an_interruption_says_where_finished_work_is(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(laboratory, "train", interrupt)
        cache = tmp_path / "cache"
        result = run("reproduce", "skew", *QUICK, "--cache", cache, "--out", tmp_path / "out")
        assert result.exit_code == 130
        assert f"finished work is kept in {cache}" in result.stderr
        assert not (tmp_path / "out").exists()

    def test_without_a_cache_folder_the_users_own_is_taken(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        ok("reproduce", "skew", *QUICK, "--cycles", 1, "--out", tmp_path / "out")
        kept = tmp_path / "nora" / "experiments"
        assert len(list((kept / "runs").iterdir())) == 1
