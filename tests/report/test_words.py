"""The words on the page: verdicts on the model, warnings, names, and that none of them becomes markup."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import nora
from nora.analysis.reporting import write_report
from nora.report.options import ReportOptions
from nora.report.page import TITLE
from nora.training.trust import verdict
from pages import page_value, words

EVIL = "</script><script>alert(1)</script>&\u2028"


@pytest.fixture(scope="module")
def run():
    return nora.train("gcn", "karate", epochs=20, progress=False)


@pytest.fixture(scope="module")
def scores(run):
    found = nora.influence(run.model, run.data, "exact", progress=False)
    return replace(found, names=run.dataset.node_names)


@pytest.fixture
def written(run, scores, tmp_path) -> Callable[..., Path]:
    """Write a page, without effects by default."""

    def write(**about: Any) -> Path:
        given = {"effects": 0, **about}
        return write_report(tmp_path / "a.html", run.model, run.data, scores, **given)

    return write


def test_without_warnings_there_is_no_caution(written):
    page = written()
    assert "Read with care" not in words(page)
    assert TITLE in words(page)


def test_a_model_no_better_than_guessing_is_called_weak(written):
    metrics = {"test_accuracy": 0.38}
    page = written(metrics=metrics)
    assert "trusted: it classifies 38.0%" in words(page)


def test_a_warning_about_something_else_does_not_hide_that_the_model_is_weak(written):
    page = written(metrics={"test_accuracy": 0.38}, warnings=["the weights were tweaked"])
    assert "The weights were tweaked." in words(page)
    assert "too weak for its influences" in words(page)


def test_the_verdict_that_is_given_is_shown_once(written):
    metrics = {"test_accuracy": 0.51, "test_auc": 0.2}
    good = verdict("accuracy", 0.9, 0.6, "always answering 'amber'", 200)
    page = written(metrics=metrics, trust=good)
    assert "Read with care" not in words(page)
    assert "test accuracy 90 % baseline: most common class 60 %" in words(page)
    weak = verdict("accuracy", 0.9, 0.95, "always answering 'amber'", 200)
    page = written(trust=weak, warnings=[weak.caution])
    assert words(page).count("too weak for its influences to be trusted") == 1


def test_only_what_the_task_asks_for_counts_against_a_model(written):
    metrics = {"test_accuracy": 0.95, "test_auc": 0.4}
    page = written(metrics=metrics)
    assert "Read with care" not in words(page)


def test_the_model_its_baseline_and_the_run_are_shown(written, run):
    metrics = {"test_accuracy": 0.9, "baseline": 0.52}
    page = written(metrics=metrics, model_name="gcn", run="my results/run")
    assert "gcn test accuracy 90 % baseline: most common class 52 %" in words(page)
    assert page_value(page)["run"] == "my results/run"
    page = written(metrics={"test_accuracy": 0.9})
    most = int(run.data.y.bincount().max())
    assert f"baseline: most common class {100 * most / 34:.0f} %" in words(page)
    assert page_value(page)["run"] is None


def test_warnings_are_sentences_without_options(written):
    warnings = ["the model is too weak: it may guess. Another --model or --encoding may help"]
    page = written(
        warnings=warnings,
        notes=["edges are read as going both ways (see --directed)"],
        metrics={"test_accuracy": 0.38},
    )
    assert "too weak: it may guess." in words(page)
    assert "read as going both ways." in words(page)
    assert "--" not in words(page)
    assert "always to guess" not in words(page)  # the warning has said it


def test_classes_named_by_numbers_are_called_classes(written):
    page = written(class_names=["0", "right", "2", "3"], effects=1)
    assert [one["name"] for one in page_value(page)["classes"]] == [
        "class 0",
        "right",
        "class 2",
        "class 3",
    ]
    assert re.search(r"from (class \d to|right to class) ", words(page))


def test_texts_from_the_data_cannot_become_markup(written):
    names = [f"{EVIL}{node}" for node in range(34)]
    page = written(
        names=names,
        class_names=[f"{EVIL}{letter}" for letter in "abcd"],
        title=EVIL,
        notes=[EVIL],
        warnings=[EVIL],
        metrics={EVIL: EVIL},
        effects=2,
    )
    text = page.read_text(encoding="utf-8")
    assert "<script>alert(1)" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert page_value(page)["node"]["name"][3] == names[3]
    # Whatever is put into the page, it holds the scripts that its policy knows, and no other.
    assert len(re.findall(r"<script", text)) == 3


def test_a_placeholder_in_a_text_is_only_text(written):
    page = written(title="{{data}} {{nothing}}")
    assert "{{data}} {{nothing}}" in words(page)


def test_a_name_that_is_no_valid_text_is_no_obstacle(written):
    names = ["\ud800"] * 34
    page = written(names=names)
    assert page_value(page)["node"]["name"][0] == "?"


def test_a_yardstick_is_not_called_influence(run, tmp_path):
    degree = nora.influence(run.model, run.data, "degree", progress=False)
    page = write_report(tmp_path / "a.html", run.model, run.data, degree, effects=2)
    assert page_value(page)["yardstick"] == "Degree"
    assert "by degree, which does not measure" in words(page)
    assert "of all influence" not in words(page)


def test_the_finding_is_the_headline_and_the_data_s_name_stands_below(written, scores):
    path = written(effects=1, title="camps")
    page = path.read_text(encoding="utf-8")
    (headline,) = re.findall(r"<h1>(.*?)</h1>", page)
    first = scores.top(1)["name"][0]
    assert headline.startswith(f"Without {first}, ")
    assert headline.endswith("other nodes would flip to another class")
    assert '<p class="subtitle">camps</p>' in page
    assert f"<title>camps: {headline}</title>" in page


def test_a_page_of_an_analysis_or_a_session_is_that_of_its_parts(run: Any, tmp_path: Path) -> None:
    session = run.session()
    scores = session.influence(progress=False)
    given = {"names": run.dataset.node_names, "effects": 3, "edges": 0, "progress": False}
    parts = write_report(tmp_path / "a.html", run.model, run.data, scores, run.task, **given)
    whole = write_report(tmp_path / "b.html", session, scores=scores, **given)
    assert page_value(whole) == page_value(parts)
    options = ReportOptions(names=run.dataset.node_names, effects=3, edges=0)
    same = write_report(tmp_path / "c.html", session, scores=scores, options=options)
    assert page_value(same) == page_value(parts)
    with pytest.raises(TypeError, match=r"no option 'effect'\. Did you mean"):
        write_report(tmp_path / "d.html", session, effect=3)


def test_what_an_analysis_shows_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges = pd.DataFrame({"source": list("aaabbcdddeef"), "target": list("bcdcddefgfgg")})
    analysis = nora.analyse(edges, epochs=5, top=2, progress=False)
    analysis.save(tmp_path / "results", progress=False)
    saved = page_value(tmp_path / "results" / "report.html")
    monkeypatch.setattr("nora.analysis.result.gather", lambda *_: pytest.fail("asked again"))
    page = page_value(write_report(tmp_path / "a.html", analysis, title="club", progress=False))
    assert page == {**saved, "title": "club", "run": None}
    fewer = page_value(write_report(tmp_path / "b.html", analysis, effects=1, progress=False))
    assert len(fewer["effects"]["of"]) == 1 < len(page["effects"]["of"])
