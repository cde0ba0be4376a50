"""Cells finished elsewhere: they stand in a report as if they had been made here, and say where they were."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from nora.experiments import RECIPES
from nora.experiments import lab as laboratory
from nora.experiments.benchmark import Benchmark
from nora.experiments.cells import PROFILES, Cell
from nora.experiments.earlier import read_earlier
from nora.experiments.lab import Lab
from recipes import reproduce
from shell import ok, refused

MODELS = ("gcn", "sage", "gat")
TAKERS = [entry.name for entry in RECIPES if entry.facts.takes_cells]
CELLS = [Cell("karate", model, "node") for model in MODELS]
QUICK = [
    "--datasets",
    "karate",
    "--models",
    "gcn,sage,gat",
    "--tasks",
    "node",
    "--profile",
    "quick",
]
FAST = [*QUICK, "--cycles", 1, "--share", 0.3]


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)


def karate(cache: Path, *cells: Cell) -> Lab:
    """The grid of all models, or some of its cells."""
    grid = Lab(cache, PROFILES["quick"], ["karate"], MODELS, ["node"], cycles=1, share=0.3)
    return replace(grid, only=cells) if cells else grid


def report(name: str, lab: Lab, out: Path, *earlier: Path, finished: bool = True) -> Path:
    """Where the JSON file of a report is, whose folder is its command."""
    command = f"nora reproduce {name} --out {out.name}"
    reproduce(name, lab, out, command, finished=finished, earlier=earlier)
    return out / f"{name}.json"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache per cell of the first two, and the reports made from them."""
    folder = tmp_path_factory.mktemp("place")
    for cell in CELLS[:2]:
        for name in TAKERS:
            lab = karate(folder / f"cache-{cell.model}", cell)
            report(name, lab, folder / cell.model, finished=False)
    return folder


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("train", "influence", "tune_problems"):
        monkeypatch.setattr(laboratory, name, lambda *_, **__: pytest.fail("work was begun"))


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("name", TAKERS)
def test_two_caches_give_the_tables_of_one(name: str, place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "cache-gcn", tmp_path / "both")
    shutil.copytree(place / "cache-sage", tmp_path / "both", dirs_exist_ok=True)
    expected = report(name, karate(tmp_path / "both"), tmp_path / "expected")
    sage, gcn = (place / model / f"{name}.json" for model in ("sage", "gcn"))
    half = report(name, karate(place / "cache-gcn"), tmp_path / "half", sage)
    none = report(name, karate(tmp_path / "empty"), tmp_path / "none", sage, gcn)
    for file in (half, none):
        assert read(file)["tables"] == read(expected)["tables"]
        assert read(file)["about"]["missing"] == ["karate-gat-node"]
        assert file.with_suffix(".png").exists() == expected.with_suffix(".png").exists()
        if name == "truth":
            truth = Benchmark.load(expected.with_suffix(".parquet"))
            found = Benchmark.load(file.with_suffix(".parquet"))
            pd.testing.assert_frame_equal(found.frame, truth.frame)
            pd.testing.assert_frame_equal(found.models, truth.models)
    whole, parts = (read(file)["about"]["seconds"] for file in (expected, half))
    (taken,) = read(half)["about"]["taken_over"]
    assert parts + taken["seconds"] == pytest.approx(whole, abs=0.11)
    assert read(none)["about"]["seconds"] == 0


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("name", ["sketch", "truth"])
def test_every_cell_keeps_its_origin_from_file_to_file(
    name: str, place: Path, tmp_path: Path
) -> None:
    sage = place / "sage" / f"{name}.json"
    both = report(name, karate(place / "cache-gcn"), tmp_path / "both", sage)
    again = report(name, karate(tmp_path / "empty"), tmp_path / "again", both)
    about = {file: read(file)["about"] for file in (sage, both, again)}
    keys = ("command", "commit", "seconds", "machine", "nora")
    from_sage = {
        "cells": ["karate-sage-node"],
        "cells_made": 1,
        **{key: about[sage][key] for key in keys},
    }
    from_both = {
        "cells": ["karate-gcn-node"],
        "cells_made": 1,
        **{key: about[both][key] for key in keys},
    }
    assert [entry.items() >= from_sage.items() for entry in about[both]["taken_over"]] == [True]
    first, second = about[again]["taken_over"]
    assert (first.items() >= from_both.items(), second.items() >= from_sage.items()) == (True, True)
    text = again.with_suffix(".md").read_text(encoding="utf-8")
    assert "made by `nora reproduce" in text


@pytest.mark.usefixtures("no_work")
def test_a_cell_of_the_cache_comes_before_that_of_a_file(place: Path, tmp_path: Path) -> None:
    theirs = read(place / "gcn" / "sketch.json")
    for row in theirs["tables"]["Everything"]:
        row["value"] = 0.5
    file = tmp_path / "theirs.json"
    file.write_text(json.dumps(theirs))
    own = report("sketch", karate(place / "cache-gcn"), tmp_path / "own", file)
    assert read(own)["tables"] == read(place / "gcn" / "sketch.json")["tables"]
    assert "taken_over" not in read(own)["about"]
    given = report("sketch", karate(tmp_path / "empty"), tmp_path / "given", file)
    assert {row["value"] for row in read(given)["tables"]["Everything"]} == {0.5}


def test_what_a_file_has_is_not_worked_on_again(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine, trained = laboratory.train, []

    def train(model: str, *args: Any, **kwargs: Any) -> Any:
        trained.append(model)
        return genuine(model, *args, **kwargs)

    monkeypatch.setattr(laboratory, "train", train)
    files = [place / model / "truth.json" for model in ("gcn", "sage")]
    lab = karate(tmp_path / "cache")
    whole = report("truth", lab, tmp_path / "whole", *files, finished=False)
    assert trained == ["gat"]
    assert [row["model"] for row in read(whole)["tables"]["Models"]] == list(MODELS)
    assert "missing" not in read(whole)["about"]


def test_a_first_sketch_without_intervals_can_be_taken_over(place: Path, tmp_path: Path) -> None:
    document = read(place / "gcn" / "sketch.json")
    del document["tables"]["Everything"], document["about"]["experiment"]
    file = tmp_path / "first.json"
    file.write_text(json.dumps(document))
    found = report("sketch", karate(tmp_path / "empty"), tmp_path / "out", file)
    assert read(found)["tables"]["Every cell"] == document["tables"]["Every cell"]
    assert {row["low"] for row in read(found)["tables"]["Everything"]} == {None}


class TestRefused:
    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"profile": PROFILES["compact"]}, "quick, and compact is asked"),
            ({"seed": 1}, "seed is 0, and 1 is asked"),
            ({"cycles": 2}, "cycles is 1, and 2 is asked"),
            ({"share": 0.2}, "labelled share is 0.3, and 0.2.*asked for"),
            ({"methods": ("cauchy",)}, "cauchy, pearson in karate-gcn-node"),
        ],
    )
    def test_other_settings(self, change: dict, says: str, place: Path, tmp_path: Path) -> None:
        lab = replace(karate(tmp_path), **change)
        with pytest.raises(ValueError, match=says):
            read_earlier("citation", lab, place / "gcn" / "citation.json")

    def test_another_recipe_and_recipes_that_cannot(self, place: Path, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="sketch, and citation is asked"):
            read_earlier("citation", karate(tmp_path), place / "gcn" / "sketch.json")
        with pytest.raises(ValueError, match=r"use an earlier report.*citation, sketch"):
            read_earlier("skew", karate(tmp_path), place / "gcn" / "sketch.json")

    @pytest.mark.parametrize(
        ("damage", "says"),
        [
            (lambda tables: tables.pop("Everything"), "no table 'Everything'"),
            (
                lambda tables: tables["Everything"].pop(),
                "'Everything' has no row.*random, top_10%",
            ),
            (lambda tables: tables["Tuned options"].clear(), "'cell' of its table 'Tuned options'"),
            (lambda tables: tables["Tuned options"][0].pop("options"), "'options' of its table"),
            (lambda tables: tables.update({"Everything": 3}), "one of its tables is damaged"),
            (lambda tables: tables["Everything"][0].update(value="x"), "'value' of its table"),
            (
                lambda tables: tables["Everything"].append(tables["Everything"][0]),
                "rows of its table 'Everything'.*twice",
            ),
            (
                lambda tables: tables["How good are the models?"][0].update(model="sage"),
                "no rows of karate-sage-node",
            ),
        ],
    )
    def test_a_damaged_table(
        self, damage: Callable[[dict], Any], says: str, place: Path, tmp_path: Path
    ) -> None:
        document = read(place / "gcn" / "citation.json")
        damage(document["tables"])
        file = tmp_path / "damaged.json"
        file.write_text(json.dumps(document))
        with pytest.raises(ValueError, match=f"{re.escape(str(file))}: .*{says}"):
            read_earlier("citation", karate(tmp_path), file)

    @pytest.mark.parametrize("text", ["", "[1, 2]", '{"about": {}}', '{"about": {"com'])
    def test_a_file_that_is_no_report(self, text: str, tmp_path: Path) -> None:
        file = tmp_path / "other.json"
        file.write_text(text)
        with pytest.raises(ValueError, match=r"not JSON|not a report of 'nora reproduce'"):
            read_earlier("citation", karate(tmp_path), file)

    def test_origins_that_cannot_be_read(self, place: Path, tmp_path: Path) -> None:
        document = read(place / "gcn" / "sketch.json")
        file = tmp_path / "damaged.json"
        for damaged in (3, [3], [{"command": "x"}]):
            document["about"]["taken_over"] = damaged
            file.write_text(json.dumps(document))
            with pytest.raises(ValueError, match=r"cells it has taken over.*damaged"):
                read_earlier("sketch", karate(tmp_path), file)

    def test_a_benchmark_of_another_time(self, place: Path, tmp_path: Path) -> None:
        shutil.copy(place / "gcn" / "truth.json", tmp_path)
        with pytest.raises(FileNotFoundError, match=r"truth\.parquet"):
            read_earlier("truth", karate(tmp_path), tmp_path / "truth.json")
        shutil.copy(place / "sage" / "truth.parquet", tmp_path)
        with pytest.raises(ValueError, match="not written with it"):
            read_earlier("truth", karate(tmp_path), tmp_path / "truth.json")


class TestCommand:
    @pytest.mark.usefixtures("no_work")
    def test_parts_are_put_together(self, place: Path, tmp_path: Path) -> None:
        files = [place / model / "citation.json" for model in ("gcn", "sage")]
        asked = ["reproduce", "citation", *FAST, "--cache", tmp_path / "empty", "--out", tmp_path]
        given = [word for file in files for word in ("--with", file)]
        text = ok(*asked, "--finished", *given)
        assert "Means over all cells" in text
        about = read(tmp_path / "citation.json")["about"]
        assert about["command"].endswith(f"--finished --with {files[0]} --with {files[1]}")
        assert about["missing"] == ["karate-gat-node"]
        message = refused(*asked, "--finished", "--with", tmp_path / "citation.json", "--force")
        assert "an input of this run" in message

    def test_single_cells_are_worked_on_by_name(self, tmp_path: Path) -> None:
        asked = [
            "reproduce",
            "truth",
            *FAST,
            "--cache",
            tmp_path / "cache",
            "--out",
            tmp_path / "a",
        ]
        ok(*asked, "--cells", "karate-gat-node, karate-gcn-node")
        document = read(tmp_path / "a" / "truth.json")
        assert [row["model"] for row in document["tables"]["Models"]] == ["gcn", "gat"]
        assert "--cells karate-gat-node,karate-gcn-node" in document["about"]["command"]
        assert len(list((tmp_path / "cache" / "runs").iterdir())) == 2

    @pytest.mark.usefixtures("no_work")
    @pytest.mark.parametrize(
        ("args", "says"),
        [
            (["citation", *FAST, "--cells", "karate-gnc-node"], "Did you mean 'karate-gcn-node'?"),
            (["citation", *FAST, "--cells", ","], "no name is given"),
            (["skew", *FAST, "--cells", "karate-gcn-node"], "puts cells together"),
            (
                ["skew", *FAST, "--with", "a.json"],
                "--beside are for citation, sketch, truth",
            ),
            (["citation", *FAST, "--with", "nowhere.json"], "nowhere.json"),
        ],
    )
    def test_what_cannot_be_is_refused(self, args: list, says: str, tmp_path: Path) -> None:
        message = refused("reproduce", *args, "--cache", tmp_path / "c", "--out", tmp_path / "o")
        assert says in message
        assert list(tmp_path.iterdir()) == []
