"""What `nora run` refuses, and what it leaves then: nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from people import STRANGE, inputs, write_rows
from shell import ok, refused, run


class TestRefused:
    def test_a_folder_that_is_not_empty_is_left_alone(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "mine.txt").write_text("mine")
        args = ["run", *inputs(folder), "--out", tmp_path, "--epochs", 2]
        for extra in ([], ["--force"]):
            message = refused(*args, *extra)
            assert "not made by 'nora run'" in message
        assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]

    def test_earlier_results_are_replaced_only_when_forced(
        self, folder: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "o"
        args = ["run", *inputs(folder), "--out", out, "--top", 1, "--epochs"]
        ok(*args, 2)
        assert "is not empty" in refused(*args, 3)
        ok(*args, 3, "--force")
        assert json.loads((out / "run.json").read_text())["options"]["epochs"] == 3
        (out / "mine.txt").write_text("mine")
        assert "holds files of yours (mine.txt)" in refused(*args, 4, "--force")
        assert (out / "mine.txt").exists()

    def test_a_place_that_cannot_be_written_is_found_first(
        self, folder: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "a" / "b" / ("long" * 80)
        assert "File name too long" in refused("run", *inputs(folder), "--out", out)
        assert list(tmp_path.iterdir()) == []

    def test_a_missing_file_is_noticed_before_torch_is_loaded(self, tmp_path: Path) -> None:
        code = (
            "import sys; from nora.cli import app\n"
            "try: app(['run', '--edges', 'nosuch.csv'])\n"
            "except SystemExit as end: print(end.code, 'torch' in sys.modules)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.stdout == "2 False\n"
        assert done.stderr == "error: no such file: nosuch.csv\n"

    def test_a_failure_on_the_way_leaves_nothing(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("nora.analysis.writing.write_graph", full)
        message = refused_after_output(*inputs(folder), "--out", tmp_path / "o", "--epochs", 2)
        assert "No space left on device" in message
        assert list(tmp_path.iterdir()) == []

    def test_errors_name_file_and_line_and_come_before_any_work(
        self, folder: Path, tmp_path: Path
    ) -> None:
        bad = tmp_path / "bad.csv"
        bad.write_text("id,label\n007,left\n,right\n")
        out = tmp_path / "o"
        message = refused("run", "--edges", folder / "edges.csv", "--labels", bad, "--out", out)
        assert "line 3: the id is blank" in message
        assert not out.exists()

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ([(name, "left") for name in STRANGE], "nothing to learn"),
            ([("007", "left"), ("p1", "right")], "2 nodes are labelled; at least 5"),
            (
                [("007", "left"), *((f"P{n}", "right") for n in range(20))],
                "l.csv match no node (e.g. 'P0', line 3)",
            ),
        ],
    )
    def test_labels_that_cannot_be_learnt_are_refused(
        self, rows: list[tuple], message: str, folder: Path, tmp_path: Path
    ) -> None:
        labels = write_rows(tmp_path / "l.csv", ("id", "label"), *rows)
        assert message in refused(
            "run", "--edges", folder / "edges.csv", "--labels", labels, "--out", tmp_path / "o"
        )


def refused_after_output(*args: object) -> str:
    """The message of an error that comes after something was printed."""
    result = run("run", *args)
    assert result.exit_code == 2, result.output
    return result.stderr
