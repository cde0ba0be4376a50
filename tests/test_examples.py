"""The scripts under `examples/` run, quickly, and find what they say they look for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from elsewhere import printed

EXAMPLES = Path(__file__).parents[1] / "examples"


# One interpreter for all of them: importing torch and PyG takes longer than most do.
RUNNER = """
import contextlib, io, json, os, runpy, sys, traceback
results = {}
for path in sys.argv[1:]:
    out, name = io.StringIO(), os.path.basename(path)
    try:
        with contextlib.redirect_stdout(out):
            runpy.run_path(path, run_name="__main__")
        results[name] = [out.getvalue(), None]
    except BaseException:
        results[name] = [out.getvalue(), traceback.format_exc()]
print(json.dumps(results))
"""


class Examples:
    """What every example printed, and the folder they ran in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        caught = printed(RUNNER, *sorted(EXAMPLES.glob("*.py")), cwd=folder)
        self.reply = json.loads(caught.splitlines()[-1])

    def printed(self, name: str) -> str:
        text, failure = self.reply[name]
        assert failure is None, failure
        return text


@pytest.fixture(scope="module")
def examples(tmp_path_factory) -> Examples:
    return Examples(tmp_path_factory.mktemp("examples"))


def accuracy(text: str) -> int:
    found = re.search(r"was not shown: (\d+)%", text)
    assert found
    return int(found[1])


def table(text: str, heading: str) -> list[list[str]]:
    """The rows below a heading, the first of them the columns."""
    lines = text.partition(heading)[2].partition("\n\n")[0].splitlines()
    return [line.split() for line in lines[1:]]


def test_a_model_of_ones_own(examples):
    text = examples.printed("own_model.py")
    assert accuracy(text) > 80
    columns, *rows = table(text, "The most influential accounts")
    assert columns == ["node", "name", "influence", "rank"]
    assert [row[3] for row in rows] == ["1", "2", "3", "4", "5"]
    influences = [float(row[2]) for row in rows]
    assert influences == sorted(influences, reverse=True)
    first = re.search(r"Without (@\w+), predictions change by ([\d.]+) in total", text)
    assert first
    assert first[1] == rows[0][1]
    assert float(first[2]) == influences[0]
    moved = re.search(r"(\d+) accounts would be placed in the other camp", text)
    assert moved
    assert text.count("→") == min(5, int(moved[1])) > 0
    assert "Top ten: All 10 certified" in text
    assert re.search(r"Degree against influence: Pearson 0\.\d\d, Spearman 0\.\d\d", text)
    assert (examples.folder / "runs" / "own-model.parquet").exists()


def test_a_graph_with_node_types(examples):
    text = examples.printed("hetero.py")
    assert accuracy(text) > 80
    columns, *rows = table(text, "Across all types")
    assert columns == ["type", "node", "influence", "rank"]
    assert len({row[0] for row in rows}) > 1
    _, *authors = table(text, "Among the authors alone")
    among_all = [row[1:3] for row in rows if row[0] == "author"]
    assert [row[:2] for row in authors][: len(among_all)] == among_all[: len(authors)]
    without = re.search(r"Without author (\d+), the papers change by ([\d.]+)", text)
    assert without
    assert list(without.groups()) == authors[0][:2]
    assert text.count("→") == 3
    assert re.search(r"Without author \d+ and venue \d+: [\d.]+ \(one by one: [\d.]+\)", text)


def test_a_detector_of_bots(examples):
    text = examples.printed("bots.py")
    assert accuracy(text) > 88  # five of six are people
    columns, *rows = table(text, "The most influential accounts")
    assert columns == ["node", "influence", "rank", "bot"]
    assert len(rows) == 5
    means = re.search(r"influence of a bot ([\d.]+), of a person ([\d.]+)", text)
    assert means
    assert float(means[1]) > float(means[2])
    group = re.search(r"changes most together: \[(.*)\]", text)
    assert group
    assert len({int(one) for one in group[1].split(",")} & set(range(500, 600))) == 5


def test_a_model_of_a_leaderboard(examples):
    text = examples.printed("leaderboard.py")
    assert accuracy(text) > 70
    columns, *rows = table(text, "Papers that later papers")
    assert columns == ["node", "influence", "rank", "label", "known"]
    both = re.search(r"Without paper (\d+): ([\d.]+). Without its label alone: ([\d.]+)", text)
    assert both
    assert both[1] == rows[0][0]
    assert float(both[2]) == float(rows[0][1]) > float(both[3]) > 0


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_every_example_says_how_it_is_run(name):
    assert f"    python examples/{name}\n" in (EXAMPLES / name).read_text(encoding="utf-8")
