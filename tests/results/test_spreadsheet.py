"""No spreadsheet runs what stands in our tables, and every text comes back as it was."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pandas as pd
import pytest
import torch

import nora
from nora.results.spreadsheet import escaped, unescaped, write_csv

SIGNS = ["=", "+", "-", "@", "\t", "\r", "\n", "\x01", "\x7f", "＝", "＋", "－", "＠"]
NAMES = (
    *(f"{sign}HYPERLINK(1)" for sign in SIGNS),
    *(f"'{sign}x" for sign in SIGNS),
    "''=x",
    "'quoted'",
    "'",
    "plain",
    "a,b",
    'say "=1"',
    "line\nbreak",
    "-5",
    "+49 30 1234",
    "nan",
    "",
)


def test_every_text_comes_back() -> None:
    assert [unescaped(escaped(name)) for name in NAMES] == list(NAMES)
    assert len({escaped(name) for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_names_come_back_from_files(suffix: str, tmp_path: Path) -> None:
    scores = nora.Influence(torch.arange(len(NAMES)).double(), "brute", names=NAMES)
    assert nora.Influence.load(scores.save(tmp_path / f"s.{suffix}")).names == NAMES


def test_no_cell_of_text_begins_like_a_formula(tmp_path: Path) -> None:
    frame = pd.DataFrame({"=name": NAMES, "-number": range(len(NAMES))})
    write_csv(frame, tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert not [cell for cell in cells if cell[:1] in SIGNS]
    assert list(frame.columns) == ["=name", "-number"], "the caller's frame is left alone"


def test_numbers_stay_numbers(tmp_path: Path) -> None:
    write_csv(pd.DataFrame({"change": [-0.5, -1e-9], "n": [-1, 2]}), tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "change,n\n-0.5,-1\n-1e-09,2\n"


def test_what_nora_run_writes_is_safe_too(tmp_path: Path) -> None:
    names = [f"=cmd|{number}" for number in range(8)]
    ties = pd.DataFrame(
        {"source": [*names, *names], "target": [*names[1:], names[0], *names[3:], *names[:3]]}
    )
    with pytest.warns(UserWarning):
        analysis = nora.analyse(ties, epochs=2, top=2, progress=False)
    folder = analysis.save(tmp_path / "results", progress=False)
    for table in folder.rglob("*.csv"):
        rows = csv.reader(table.open(newline="", encoding="utf-8"))
        assert not [cell for row in rows for cell in row if cell.startswith("=")], table
    assert set(nora.Influence.load(folder / "scores.csv").names or ()) == set(names)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_no_flipped_byte_goes_unseen(suffix: str, tmp_path: Path) -> None:
    values = torch.rand(40, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    scores = nora.Influence(values, "brute", names=("n",) * 40)
    path = scores.save(tmp_path / f"s.{suffix}")
    content = path.read_bytes()
    seen = 0
    for place in range(0, len(content), max(len(content) // 60, 1)):
        changed = bytearray(content)
        changed[place] ^= 4
        path.write_bytes(changed)
        try:
            back = nora.Influence.load(path)
        except ValueError as error:
            assert str(path) in str(error)
            seen += 1
        else:
            # Statistics and the like, which nothing is made of.
            assert torch.equal(back.scores, scores.scores) and back.names == scores.names
            assert back.provenance() == scores.provenance()
    assert seen > 30


def test_an_edited_table_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = nora.Influence(torch.tensor([1.0, 2.0]), "brute").save(tmp_path / "s.csv")
    path.write_text(path.read_text().replace("2.0", "3.0"))
    with pytest.raises(ValueError, match=r"s\.csv than is there now.*\"sha256\""):
        nora.Influence.load(path)
    meta = tmp_path / "s.csv.meta.json"
    about = json.loads(meta.read_text())
    meta.write_text(json.dumps(about | {"method": "exact"}))
    with pytest.raises(ValueError, match="was changed after it was saved"):
        nora.Influence.load(path)
    del about["sha256"]
    meta.write_text(json.dumps(about))
    assert nora.Influence.load(path).scores.tolist() == [1.0, 3.0]
