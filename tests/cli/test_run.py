"""`nora run`: from files to a folder of results, in one command."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shlex
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

import nora
from nora.analysis.output_folder import FILES, OF_SEVERAL
from nora.cli.explore import _targets
from nora.cli.parameters import parse_nodes
from nora.ingest import encode
from nora.results.spreadsheet import unescaped
from nora.training.trust import assess
from people import CAMP, inputs, people, write_rows
from shell import document, ok, refused, run


@pytest.fixture(scope="module")
def results(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    out = tmp_path_factory.mktemp("results") / "out"
    found = document(
        "run", *inputs(folder), "--out", out, "--epochs", 40, "--top", 4, "--also", "degree"
    )
    return out, found


class TestResults:
    @pytest.mark.parametrize(
        "command",
        [
            ("rank", "--top", "3"),
            ("what-if", "--remove", "p20"),
            ("who", "--node", "p20"),
            ("flip", "p20"),
            ("group", "--size", "2"),
        ],
    )
    def test_the_folder_is_asked_as_the_run_inside_it(
        self, results: tuple[Path, dict], command: tuple[str, ...]
    ) -> None:
        out, _ = results
        name, *options = command
        reply = [
            re.sub(r"[\d.]+ m?s\b", "so long", ok(name, place, *options))
            for place in (out, out / "run")
        ]
        assert reply[0] == reply[1]

    def test_the_folder_holds_what_it_says(self, results: tuple[Path, dict]) -> None:
        out, _ = results
        assert {file.name for file in out.iterdir()} == set(FILES) - set(OF_SEVERAL)

    def test_every_node_is_in_the_table_under_its_own_id(self, results: tuple[Path, dict]) -> None:
        out, _ = results
        text = pd.read_csv(out / "scores.csv", dtype=str, keep_default_na=False)
        assert list(text)[:3] == ["id", "influence", "rank"]
        assert list(text)[-2:] == ["node", "name"]
        text["id"] = text["id"].map(unescaped)
        text["name"] = text["name"].map(unescaped)
        assert set(text["id"]) == set(people())
        parquet = pd.read_parquet(out / "scores.parquet")
        assert list(parquet) == list(text)
        assert list(parquet["id"]) == list(text["id"])
        assert list(parquet["rank"]) == list(range(1, 2 * CAMP + 1))
        assert parquet["influence"].is_monotonic_decreasing
        assert set(parquet["predicted"]) <= {"left", "right"}
        assert parquet["label"].isna().sum() == (text["label"] == "").sum() == 4
        assert {"influence_degree", "rank_degree"} <= set(parquet)
        graph = nx.from_pandas_edgelist(
            pd.read_csv(Path(results[1]["inputs"][0]["file"]), dtype=str, keep_default_na=False)
        )
        assert dict(zip(parquet["id"], parquet["degree"], strict=True)) == dict(graph.degree)

    @pytest.mark.parametrize("name", ["scores.csv", "scores.parquet"])
    def test_the_tables_load_as_scores(self, name: str, results: tuple[Path, dict]) -> None:
        out, _ = results
        scores = nora.Influence.load(out / name)
        trained = nora.load_run(out / "run")
        again = nora.influence(trained.model, trained.data, "brute", trained.task, progress=False)
        torch.testing.assert_close(scores.scores, again.scores, rtol=1e-4, atol=1e-5)
        assert scores.names == trained.dataset.node_names

    @pytest.mark.parametrize("name", ["graph.graphml", "graph.gexf"])
    def test_the_graph_files_name_the_users_nodes(
        self, name: str, results: tuple[Path, dict]
    ) -> None:
        out, _ = results
        graph = (nx.read_graphml if name.endswith("ml") else nx.read_gexf)(out / name)
        assert set(graph) == set(people())
        table = pd.read_parquet(out / "scores.parquet").set_index("name")
        for node, found in graph.nodes(data=True):
            assert found["influence"] == pytest.approx(table.loc[node, "influence"])
            assert found["predicted"] == table.loc[node, "predicted"]

    def test_effects_are_written_for_the_first_nodes(self, results: tuple[Path, dict]) -> None:
        out, found = results
        files = sorted((out / "effects").iterdir())
        assert [file.name[:4] for file in files] == ["001-", "002-", "003-", "004-"]
        effect = pd.read_csv(files[0], dtype={"id": str}, keep_default_na=False)
        assert next(iter(effect)) == "id"
        assert list(effect)[-1] == "node"
        assert effect["change"].sum() == pytest.approx(found["top"][0]["influence"], rel=1e-3)
        assert effect["change"].is_monotonic_decreasing
        assert found["top"][0]["name"] not in set(effect["id"])
        assert set(effect["from_class"]) <= {"left", "right"}
        lost = (effect["from_before"] - effect["from_after"]).abs()
        assert np.allclose(2 * lost, effect["change"], atol=1e-5), "of two classes, both change"
        moved = effect["from_class"] != effect["to_class"]
        assert (effect["to_before"] == effect["from_before"])[~moved].all()
        assert (effect["to_after"] > effect["from_after"])[moved].all()
        assert list(moved) == list(effect["flipped"])

    def test_the_page_shows_names_as_text_only(self, results: tuple[Path, dict]) -> None:
        out, _ = results
        page = (out / "report.html").read_text(encoding="utf-8")
        assert "<script>alert(1)</script>" not in page
        assert "汉字 ☃" in page

    def test_run_json_says_how_it_came_about(
        self, folder: Path, results: tuple[Path, dict]
    ) -> None:
        out, printed = results
        about = json.loads((out / "run.json").read_text(encoding="utf-8"))
        raw = (folder / "edges.csv").read_bytes()
        assert about["inputs"][0] == {
            "role": "edges",
            "file": str(folder / "edges.csv"),
            "bytes": len(raw),
            "sha256": hashlib.sha256(raw).hexdigest(),
        }
        assert about["versions"]["torch"] == torch.__version__
        assert (about["seed"], about["options"]["epochs"]) == (0, 40)
        assert about["method"]["name"] == "exact"
        assert [other["name"] for other in about["also"]] == ["degree"]
        stages = {"reading", "training", "ranking", "effects", "writing tables and graph"}
        assert stages <= set(about["seconds"])
        assert any("encoding onehot" in note for note in about["notes"])
        assert about["graph"]["classes"] == {"left": 14, "right": 14}
        assert {key: printed[key] for key in about} == about

    def test_the_same_seed_gives_the_same_scores(self, folder: Path, tmp_path: Path) -> None:
        found = []
        for name in "ab":
            ok("run", *inputs(folder), "--out", tmp_path / name, "--epochs", 40, "--top", 1)
            found.append(nora.Influence.load(tmp_path / name / "scores.parquet").scores)
        assert torch.equal(*found)


class TestQuestionsAfterwards:
    @pytest.mark.parametrize("name", ["Smith, J.", "007", "<script>alert(1)</script>"])
    def test_what_if_takes_the_users_names(self, name: str, results: tuple[Path, dict]) -> None:
        out, _ = results
        found = document("what-if", out / "run", "--remove", name)
        table = pd.read_parquet(out / "scores.parquet").set_index("name")
        assert found["total"] == pytest.approx(table.loc[name, "influence"], rel=1e-3)
        assert found["class_names"] == ["left", "right"]

    def test_rank_gives_the_same_ranking(self, results: tuple[Path, dict]) -> None:
        out, found = results
        again = document("rank", out / "run", "--method", "exact", "--top", 5)
        assert [row["name"] for row in again["top"]] == [row["name"] for row in found["top"]]

    def test_python_is_answered_with_where_the_run_is(self, results: tuple[Path, dict]) -> None:
        out, _ = results
        with pytest.raises(FileNotFoundError, match="its trained run is"):
            nora.load_run(out)

    def test_the_run_carries_its_graph_and_nothing_executable(
        self, results: tuple[Path, dict]
    ) -> None:
        out, _ = results
        assert {file.name for file in (out / "run").iterdir()} == {
            *("model.safetensors", "manifest.json", "split.safetensors"),
            *("dataset.safetensors", "dataset.json"),
        }

    def test_others_may_read_the_run_if_the_umask_lets_them(
        self, results: tuple[Path, dict], tmp_path: Path
    ) -> None:
        (tmp_path / "plain").write_text("")
        usual = (tmp_path / "plain").stat().st_mode
        for file in results[0].rglob("*"):
            assert file.is_dir() or file.stat().st_mode == usual, file

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_graph_that_may_not_be_read_says_so(
        self, results: tuple[Path, dict], tmp_path: Path
    ) -> None:
        nora.load_run(results[0] / "run").save(tmp_path / "run")
        (tmp_path / "run" / "dataset.safetensors").chmod(0)
        assert "Permission denied" in refused("rank", tmp_path / "run")

    def test_where_names_are_numbers_a_number_is_a_name(self) -> None:
        assert parse_nodes(["7"], ["9", "7", "x"], 3) == [1]
        with pytest.raises(ValueError, match="no node is named '1'"):
            parse_nodes(["1"], ["9", "7", "x"], 3)


class TestOutput:
    def test_it_says_what_it_understood_how_good_it_is_and_what_to_do_next(
        self, folder: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "o"
        result = run(
            "run", *inputs(folder), "--features", folder / "features.csv", "--out", out,
            "--encoding", "onehot", "--epochs", 40, "--top", 1,
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        assert "warning" not in result.stderr
        text = result.stdout
        assert "32 nodes" in text
        assert "2 classes ('left': 14, 'right': 14; 4 unknown)" in text
        assert "1 column of numbers was standardised" in text
        assert "balanced accuracy" in text
        assert "recall by class, on held-out" in text
        after = text.partition("Next:\n")[2].splitlines()
        assert after[0] == f"  nora explore {out}"
        assert after[1].startswith(f"  nora what-if {out} --remove ")
        assert after[2] == f"  nora top {out} --top 100"
        # They are commands that work as they stand.
        for line in after[1:3]:
            assert run(*shlex.split(line)[1:]).exit_code == 0
        for name in ("report.html", "scores.csv", "graph.graphml"):
            assert name in text

    def test_targets_and_balance_are_flags_and_stay_in_the_next_command(
        self, folder: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "o"
        result = run(
            "run", *inputs(folder), "--out", out, "--epochs", 5, "--top", 1, "--balanced",
            "--targets", "labelled", "--targets", "=1+1,Smith, J.",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        assert "predictions for 29 of 32 nodes counts (--targets)" in result.stdout
        assert "has a balanced accuracy of" in result.stdout
        line = result.stdout.splitlines()[-1]
        assert line.endswith("--top 100 --targets labelled --targets '=1+1,Smith, J.'")
        found = document(*shlex.split(line)[1:])
        table = pd.read_parquet(out / "scores.parquet")
        assert found["top"][0]["influence"] == pytest.approx(table["influence"][0], rel=1e-3)
        assert _targets(out) == json.loads((out / "run.json").read_text())["options"]["targets"]

    def test_help_shows_the_files(self) -> None:
        text = ok("run", "--help")
        assert "source,target,weight" in text
        assert "id,label" in text
        assert "Example:" in text
        assert "nora run" in ok("--help")


class TestWeakModels:
    def test_labels_by_chance_are_warned_about_everywhere(
        self, folder: Path, tmp_path: Path
    ) -> None:
        draw = random.Random(3)
        labels = write_rows(
            tmp_path / "l.csv",
            ("id", "label"),
            *((name, draw.choice(["left", "right"])) for name in people()),
        )
        out = tmp_path / "o"
        result = run(
            "run", "--edges", folder / "edges.csv", "--labels", labels, "--out", out,
            "--epochs", 10, "--top", 1,
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        assert "warning: the model is too weak" in result.stderr
        assert "another --model or --encoding may help" in result.stderr
        about = json.loads((out / "run.json").read_text())
        assert about["trust"]["weak"] is True
        assert "too weak" in about["warnings"][0]
        assert "too weak" in (out / "report.html").read_text(encoding="utf-8")

    def test_a_good_model_is_not(self, results: tuple[Path, dict]) -> None:
        _, found = results
        assert found["trust"]["weak"] is False
        assert found["warnings"] == []
        assert found["trust"]["test"] > found["trust"]["baseline"]


class TestKinds:
    def test_links_are_predicted_where_there_are_no_labels(
        self, folder: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "o"
        found = document(
            "run", "--edges", folder / "edges.csv", "--out", out, "--epochs", 10, "--top", 2,
            "--encoding", "degree+random-walk",
        )  # fmt: skip
        assert found["options"]["task"] == "link"
        assert found["trust"]["metric"] == "auc"
        assert 0.5 <= found["trust"]["baseline"] == assess(nora.load_run(out / "run")).baseline
        trained = nora.load_run(out / "run")
        assert trained.task.name == "link"
        seen = encode("degree+random-walk", trained.data.edge_index, 2 * CAMP)
        assert torch.equal(trained.data.x, seen), "features must not know of held-out edges"
        assert trained.data.num_edges < trained.dataset.data.num_edges
        effect = pd.read_csv(sorted((out / "effects").iterdir())[0])
        assert list(effect)[:2] == ["source", "target"]
        assert list(effect)[-2:] == ["source_node", "target_node"]
        assert {"before", "after"} <= set(effect)
        assert set(effect["source"].map(unescaped)) <= set(people())
        assert document("what-if", out / "run", "--remove", "007")["task"] == "link"

    def test_typed_edges_get_a_relational_model(self, folder: Path, tmp_path: Path) -> None:
        rows = pd.read_csv(folder / "edges.csv", dtype=str, keep_default_na=False)
        rows["type"] = np.where(np.arange(len(rows)) % 3 == 0, "likes", "knows")
        rows["weight"] = 2.0
        rows.to_csv(tmp_path / "e.csv", index=False)
        out = tmp_path / "o"
        found = document(
            "run", "--edges", tmp_path / "e.csv", "--labels", folder / "labels.csv",
            "--out", out, "--epochs", 20, "--top", 1, "--encoding", "onehot",
        )  # fmt: skip
        assert found["architecture"]["name"] == "rgcn"
        assert found["architecture"]["sizes"] == {"num_relations": 2}
        assert "gcn and gcnii" in "\n".join(found["notes"])
        trained = nora.load_run(out / "run")
        assert trained.dataset.edge_type_names == ("knows", "likes")
        truth = nora.influence(trained.model, trained.data, "brute", progress=False)
        scores = nora.Influence.load(out / "scores.parquet")
        torch.testing.assert_close(scores.scores, truth.scores, rtol=1e-4, atol=1e-5)
        graph = nx.read_graphml(out / "graph.graphml")
        assert {kind for *_, kind in graph.edges(data="type")} == {"knows", "likes"}

    def test_weights_count(self, folder: Path, tmp_path: Path) -> None:
        rows = pd.read_csv(folder / "edges.csv", dtype=str, keep_default_na=False)
        rows["weight"] = 1.0 + np.arange(len(rows)) % 4
        rows.to_csv(tmp_path / "e.csv", index=False)
        ok("run", "--edges", tmp_path / "e.csv", "--labels", folder / "labels.csv",
           "--out", tmp_path / "o", "--epochs", 5, "--top", 1)  # fmt: skip
        trained = nora.load_run(tmp_path / "o" / "run")
        assert sorted(set(trained.data.edge_weight.tolist())) == [1, 2, 3, 4]
        unweighted = trained.data.clone()
        del unweighted.edge_weight
        scores = nora.Influence.load(tmp_path / "o" / "scores.parquet").scores
        plain = nora.influence(trained.model, unweighted, "brute", progress=False).scores
        assert not torch.allclose(scores, plain, rtol=1e-2)
        notes = json.loads((tmp_path / "o" / "run.json").read_text())["notes"]
        assert any("(from 1 to 4)" in one for one in notes)

    def test_labels_that_are_not_used_are_reported_and_columns_left_out(
        self, folder: Path, tmp_path: Path
    ) -> None:
        found = document(
            "run", "--edges", folder / "edges.csv", "--features", folder / "features.csv",
            "--label-column", "land", "--ignore", "age", "--task", "link", "--out", tmp_path / "o",
            "--epochs", 2, "--top", 1, "--encoding", "degree",
        )  # fmt: skip
        assert set(found["graph"]["classes"]) == {"fr", "de"}
        assert not any("standardised" in note for note in found["notes"])
        assert any("labels are not used" in note for note in found["notes"])

    def test_the_written_graph_can_be_read_again(
        self, results: tuple[Path, dict], tmp_path: Path
    ) -> None:
        found = document(
            "run", "--edges", results[0] / "graph.graphml", "--out", tmp_path / "o",
            "--epochs", 5, "--top", 1,
        )  # fmt: skip
        assert found["graph"]["classes"] == {"left": 14, "right": 14}
        assert any("not used: degree, influence" in note for note in found["notes"])
