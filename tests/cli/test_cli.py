"""The command line: what each command prints, writes and refuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import nora
from elsewhere import started
from nora.cli.demonstration import _as_called
from nora.files import check_folder
from nora.model import Problem
from nora.outputs import check_table
from nora.results.spreadsheet import unescaped
from shell import document, ok, refused, run

COMMANDS = [
    *("run", "example", "demo", "train", "rank", "top", "fragile", "what-if", "tune", "group"),
    *("who", "flip", "merge", "reproduce", "methods", "models", "datasets"),
]


@pytest.fixture(scope="module")
def camps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "polarised"
    nora.train("gcn", "polarised", epochs=5, progress=False).save(folder)
    return folder


class TestHelp:
    def test_without_a_command_help_is_shown(self) -> None:
        assert "nora demo" in ok()

    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_shows_an_example(self, command: str) -> None:
        help_text = ok(command, "--help")
        assert "Example:" in help_text
        assert f"nora {command}" in help_text

    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_can_speak_json(self, command: str) -> None:
        assert "--json" in ok(command, "--help")

    def test_version(self) -> None:
        assert ok("--version") == f"nora {nora.__version__}\n"


class TestStartup:
    def test_help_does_not_import_torch(self) -> None:
        code = (
            "import sys\n"
            "from nora.cli import app\n"
            "app(['rank', '--help'], standalone_mode=False)\n"
            "sys.exit('torch' in sys.modules)"
        )
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

    @pytest.mark.parametrize(
        ("first", "given", "then"),
        [
            ("", None, "PASSIVE"),
            ("", "ACTIVE", "ACTIVE"),
            ("import torch", None, None),  # it has read it already
        ],
    )
    def test_threads_sleep_while_they_wait_unless_the_user_wants_otherwise(
        self, first: str, given: str | None, then: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
        if given is not None:
            monkeypatch.setenv("OMP_WAIT_POLICY", given)
        code = f"{first}\nimport nora, os\nassert os.environ.get('OMP_WAIT_POLICY') == {then!r}"
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_python_dash_m_nora_is_the_command(self) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "nora", "--help"], check=True, capture_output=True, text=True
        )
        assert "Usage: nora" in done.stdout

    def test_import_adds_little_to_torch(self) -> None:
        code = (
            "import time, torch\n"
            "start = time.perf_counter()\n"
            "import nora\n"
            "print(time.perf_counter() - start)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        )
        assert float(done.stdout) < 0.2


class TestCatalogue:
    @pytest.mark.parametrize(
        ("command", "name"), [("methods", "brute"), ("models", "gcn"), ("datasets", "karate")]
    )
    def test_one_line_each(self, command: str, name: str) -> None:
        lines = ok(command).splitlines()
        entries = document(command)
        assert [line.split()[0] for line in lines] == [entry["name"] for entry in entries]
        assert name in {entry["name"] for entry in entries}
        assert all(entry["summary"] for entry in entries)


class TestTrain:
    def test_makes_a_run_that_loads(self, tmp_path: Path) -> None:
        out = tmp_path / "run"
        ok("train", "--dataset", "karate", "--model", "sage", "--epochs", 3, "--hidden", 8,
           "--layers", 3, "--dropout", 0.1, "--seed", 4, "--cycle", 2, "--out", out)  # fmt: skip
        loaded = nora.load_run(out)
        sizes = {"hidden_channels": 8, "num_layers": 3, "dropout": 0.1}
        assert loaded.architecture["name"] == "sage"
        assert loaded.architecture["sizes"] == sizes
        assert (loaded.seed, loaded.cycle) == (4, 2)

    def test_json_describes_the_run(self, tmp_path: Path) -> None:
        about = document(
            "train", "--dataset", "karate", "--task", "link", "--epochs", 2, "--lr", 0.1,
            "--out", tmp_path / "run",
        )  # fmt: skip
        assert about["task"] == "link"
        assert about["training"]["lr"] == 0.1
        assert about["run"] == str(tmp_path / "run")

    def test_without_out_the_folder_is_named_after_what_is_in_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        ok("train", "--dataset", "karate", "--epochs", 1)
        assert (tmp_path / "runs" / "karate-gcn" / "manifest.json").exists()

    def test_an_existing_run_is_kept_unless_forced(self, tmp_path: Path) -> None:
        command = ["train", "--dataset", "karate", "--epochs", 1, "--out", tmp_path / "run"]
        ok(*command)
        assert "--force" in refused(*command)
        ok(*command, "--force", "--seed", 1)
        assert nora.load_run(tmp_path / "run").seed == 1

    def test_force_never_deletes_what_is_no_run(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.tex").write_text("years of work")
        refused("train", "--dataset", "karate", "--out", tmp_path, "--force")
        assert (tmp_path / "thesis.tex").exists()

    def test_paper_settings_are_used_and_overridden(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: dict[str, Any] = {}

        def record(*args: Any, **settings: Any) -> None:
            asked.update(settings)
            raise OSError("enough")

        monkeypatch.setattr(nora, "train", record, raising=False)
        refused("train", "--dataset", "cora", "--paper", "--layers", 3, "--out", tmp_path / "run")
        assert asked["hidden_channels"] == 1024
        assert asked["num_layers"] == 3
        assert asked["lr"] == 0.01

    def test_missing_data_is_a_message_not_a_traceback(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NORA_DATA", str(tmp_path / "nowhere"))
        assert "NORA_DATA" in refused("train", "--dataset", "cora", "--out", tmp_path / "run")


class TestRank:
    def test_prints_the_first_and_writes_all(self, camps: Path, tmp_path: Path) -> None:
        out = tmp_path / "new" / "scores.csv"
        printed = ok("rank", camps, "--method", "nora", "--top", 3, "--out", out)
        frame = pd.read_csv(out)
        first = unescaped(frame.loc[frame["rank"] == 1, "name"].item())
        assert len(frame) == 1000
        assert first in printed
        assert str(out) in printed

    def test_json_holds_scores_and_provenance(self, karate: Path) -> None:
        found = document("rank", karate, "--method", "brute", "--top", 2)
        trained = nora.load_run(karate)
        truth = nora.influence(trained.model, trained.data, "brute", progress=False).top(2)
        assert [row["node"] for row in found["top"]] == truth["node"].tolist()
        assert found["top"][0]["influence"] == pytest.approx(truth["influence"][0])
        assert (found["method"], found["scored"], found["num_nodes"]) == ("brute", 34, 34)

    def test_exact_is_the_default(self, karate: Path) -> None:
        brute = document("rank", karate, "--method", "brute")
        found = document("rank", karate)
        assert found["method"] == "exact"
        assert found["top"][0]["node"] == brute["top"][0]["node"]

    def test_options_reach_the_method(self, karate: Path) -> None:
        options = ["--option", "beta=2.5", "--option", "weighting=sum"]
        used = document("rank", karate, "--method", "nora", *options)["options"]
        assert (used["beta"], used["weighting"]) == (2.5, "sum")

    def test_nodes_by_id_and_by_name(self, camps: Path) -> None:
        name = nora.load_dataset("polarised").node_names[7]
        found = document("rank", camps, "--method", "brute", "--nodes", f"3,{name}", "--nodes", 5)
        assert {row["node"] for row in found["top"]} == {3, 5, 7}
        assert name in {row["name"] for row in found["top"]}

    def test_targets_restrict_what_counts(self, karate: Path, links: Path) -> None:
        every = document("rank", karate, "--method", "brute", "--nodes", 0)["top"][0]
        one = ["--method", "brute", "--nodes", 0, "--targets", "member 2"]
        assert 0 < document("rank", karate, *one)["top"][0]["influence"] < every["influence"]
        pairs = ["--method", "brute", "--nodes", 0, "--targets", "3,4"]
        assert document("rank", links, *pairs)["task"] == "link"

    def test_checkpoint_resumes(self, karate: Path, tmp_path: Path) -> None:
        command = ["rank", karate, "--method", "brute", "--checkpoint", tmp_path / "parts"]
        first = document(*command)
        parts = set((tmp_path / "parts").iterdir())
        assert document(*command)["top"] == first["top"]
        assert set((tmp_path / "parts").iterdir()) == parts

    def test_shards_merge_to_the_whole(self, karate: Path, tmp_path: Path) -> None:
        whole = document("rank", karate, "--method", "brute", "--top", 34)["top"]
        folders = [tmp_path / "1", tmp_path / "2"]
        for part, folder in enumerate(folders, start=1):
            command = ["rank", karate, "--method", "brute", "--shard", f"{part}/2"]
            found = document(*command, "--checkpoint", folder)
            assert found["scored"] == 17
        out = tmp_path / "scores.parquet"
        merged = document("merge", *folders, "--out", out, "--top", 34)
        assert [row["node"] for row in merged["top"]] == [row["node"] for row in whole]
        assert len(nora.Influence.load(out)) == 34

    def test_shard_takes_every_nth_of_the_asked_nodes(self, karate: Path, tmp_path: Path) -> None:
        out = tmp_path / "scores.csv"
        ok("rank", karate, "--method", "brute", "--nodes", "9,1,5", "--shard", "2/2", "--out", out)
        assert pd.read_csv(out)["node"].tolist() == [5]

    def test_checks_come_before_the_run_is_even_read(self, tmp_path: Path) -> None:
        nowhere = tmp_path / "nowhere"
        assert "unknown method" in refused("rank", nowhere, "--method", "magic")
        assert "format" in refused("rank", nowhere, "--out", "scores.xlsx")
        assert "not a trained run" in refused("rank", nowhere, "--method", "brute")


class TestWhatIf:
    def test_names_who_changes_and_to_which_class(self, camps: Path) -> None:
        trained = nora.load_run(camps)
        names = trained.dataset.node_names
        assert names is not None
        effect = nora.what_if(trained.model, trained.data, 26)
        printed = ok("what-if", camps, "--remove", 26, "--top", 1)
        assert names[26] in printed
        assert names[effect.top(1)["node"][0]] in printed
        assert "amber" in printed or "teal" in printed

    def test_several_are_removed_together(self, karate: Path) -> None:
        one = document("what-if", karate, "--remove", "0,33")
        other = document("what-if", karate, "--remove", "member 1", "--remove", "33")
        assert one["removed"] == [0, 33]
        assert one == other
        assert len(one["top"]) == 10

    def test_a_link_run_tells_pairs(self, links: Path, tmp_path: Path) -> None:
        out = tmp_path / "changes.csv"
        found = document("what-if", links, "--remove", 0, "--out", out)
        assert found["task"] == "link"
        assert {"source", "target", "before", "after"} <= set(found["top"][0])
        assert "0" not in pd.read_csv(out)["source"].astype(str).tolist()
        assert "member" in ok("what-if", links, "--remove", 0)


class TestDemo:
    def test_ranks_explains_and_draws(self, tmp_path: Path) -> None:
        found = document("demo", "--out", tmp_path / "demo", "--method", "nora", "--seed", 1)
        assert len(found["top"]) == 10
        assert {"name", "degree", "camp", "influence"} <= set(found["top"][0])
        assert found["removed"] == [found["top"][0]["node"]]
        for path in found["files"].values():
            assert Path(path).stat().st_size > 1000

    def test_what_to_type_next_is_what_the_shell_finds(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        command = tmp_path / "bin" / "nora"
        command.parent.mkdir()
        command.touch(mode=0o755)
        monkeypatch.setenv("PATH", str(command.parent))
        monkeypatch.setattr("sys.argv", [str(command)])
        assert _as_called() == "nora"
        monkeypatch.setenv("PATH", "")
        assert _as_called() == str(command)
        monkeypatch.setattr("sys.argv", [str(tmp_path / "nora" / "__main__.py")])
        assert _as_called() == "python -m nora"


class TestErrors:
    def test_no_rights_no_output(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
        with pytest.raises(PermissionError, match="not writable"):
            check_folder(tmp_path / "new")
        with pytest.raises(IsADirectoryError):
            (tmp_path / "folder.csv").mkdir()
            check_table(tmp_path / "folder.csv")

    def test_interruption_keeps_finished_work(
        self, karate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder, calls = tmp_path / "parts", iter(range(3))
        command = ["rank", karate, "--method", "brute", "--checkpoint", folder]
        predict = Problem.predict_without

        def interrupted(*args: Any) -> Any:
            if next(calls, None) is None:
                raise KeyboardInterrupt
            return predict(*args)

        with monkeypatch.context() as patch:
            patch.setattr(Problem, "predict_without", interrupted)
            result = run(*command)
        assert result.exit_code == 130
        assert result.stderr.startswith(f"interrupted: finished work is kept in {folder};")
        assert sum(len(pd.read_parquet(part)) for part in folder.glob("part-*")) == 3
        assert document(*command)["scored"] == 34

    @pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
    def test_control_c_and_sigterm_end_with_status_130(
        self, sent: signal.Signals, camps: Path, tmp_path: Path
    ) -> None:
        folder = tmp_path / "parts"
        # A shell that starts the tests in the background makes everything ignore the signal.
        code = (
            "import runpy, signal\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "runpy.run_module('nora', run_name='__main__')"
        )
        asked = ["rank", camps, "--method", "brute", "--checkpoint", folder]
        process = started(code, *asked, out=tmp_path)
        _wait_for((folder / "manifest.json").exists)
        os.kill(process.pid, sent)
        process.join(60)
        assert (process.exitcode, (tmp_path / "out").read_text()) == (130, "")
        message = (tmp_path / "err").read_text()
        assert message.startswith("interrupted: ")
        assert message.count("\n") == 1

    def test_interruption_without_checkpoint_says_how_to_keep_work(
        self, karate: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _raise_in_influence(KeyboardInterrupt(), monkeypatch)
        result = run("rank", karate, "--method", "brute")
        assert result.exit_code == 130
        assert "--checkpoint" in result.stderr

    def test_interrupted_training_says_that_nothing_was_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def stop(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(nora, "train", stop, raising=False)
        result = run("train", "--dataset", "karate", "--out", tmp_path / "run")
        assert (result.exit_code, result.stderr) == (130, "interrupted: nothing was written\n")


def _raise_in_influence(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(nora.Session, "influence", fail)


def _wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("nora wh", "what-if"), ("nora wh", "who"), ("nora rank --certi", "--certify")],
)
def test_shells_complete_commands_and_options(typed: str, offered: str) -> None:
    asked = {
        "_NORA_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
    }
    code = "import sys; sys.argv = ['nora']; from nora.cli import app; app(prog_name='nora')"
    found = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True
    )
    assert offered in found.stdout.split(), found
