"""What a page and a whole run cost: one engine, a handful of passes, however much is asked."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import nora
from nora.engine.engine import Engine
from nora.models.stack import Stack

# 3 checks (the output, whether it is the same again, whether it goes by the nodes' numbers), 1 that `auto`
# times, 4 recordings of what the model does, up to 4 removals of nodes and 3 of edges that are compared with
# the definition.
HANDFUL = 15


class Work:
    """How often an engine was prepared and the model run; no part of what a model is."""

    preparations = passes = 0

    def __getstate__(self) -> dict[str, int]:
        return {}


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """Counts from now on, for models and engines."""
    # Whether an engine pays is decided as for users, not as the other tests have it.
    monkeypatch.setattr("nora.engine.verify.PREPARING_SHARE", 0.2)
    found, prepare, call = Work(), Engine.prepare, Stack.__call__

    def prepared(*given, **more):
        found.preparations += 1
        return prepare(*given, **more)

    def called(self, *given, **more):
        found.passes += 1
        return call(self, *given, **more)

    monkeypatch.setattr(Engine, "prepare", staticmethod(prepared))
    monkeypatch.setattr(Stack, "__call__", called)
    return found


def test_a_page_prepares_one_engine_and_runs_the_model_a_handful_of_times(
    work: Work, tmp_path: Path
) -> None:
    run = nora.train("gcn", "polarised", epochs=5, progress=False)
    scores = nora.influence(run.model, run.data, "exact", progress=False)
    work.preparations = work.passes = 0
    nora.write_report(tmp_path / "a.html", run.model, run.data, scores)
    assert work.preparations == 1
    assert 0 < work.passes <= HANDFUL


def test_ranking_and_page_of_one_s_own_files_share_one_engine(work: Work, tmp_path: Path) -> None:
    # So few nodes that the ranking by itself is not worth an engine.
    data = nora.load_dataset("polarised").data
    few = data.edge_index[:, (data.edge_index < 400).all(dim=0)]
    ties = pd.DataFrame(few.t().numpy(), columns=["source", "target"]).astype(str)
    labels = pd.DataFrame({"id": [str(node) for node in range(400)], "label": data.y[:400].numpy()})

    def trained(text: str) -> None:
        if text.startswith("\nThe model ("):
            work.passes = 0

    found = nora.analyse(ties, labels=labels, epochs=5, progress=False, on_message=trained)
    found.save(tmp_path / "out", progress=False)
    assert work.preparations == found.session.prepared.preparations == 1
    assert 0 < work.passes <= HANDFUL


def test_few_removals_in_all_are_left_to_full_passes(work: Work, tmp_path: Path) -> None:
    run = nora.train("gcn", "karate", epochs=5, progress=False)
    scores = nora.influence(run.model, run.data, "exact", progress=False)
    nora.write_report(tmp_path / "a.html", run.model, run.data, scores, effects=1, edges=0)
    assert work.preparations == 0


def test_whether_an_engine_pays_may_be_asked_any_number_of_times(work: Work) -> None:
    run = nora.train("gcn", "karate", epochs=5, progress=False)
    session = run.session()
    assert not any(session.prepared.pays(session.problem(), 20) for _ in range(100))


def test_what_is_expected_is_not_counted_twice(work: Work) -> None:
    run = nora.train("gcn", "karate", epochs=5, progress=False)
    session = run.session()
    session.prepared.expect(100)
    for node in range(100):
        session.what_if(node % 34)
    assert work.preparations == 0  # it was expected, and found not to be worth an engine
    for node in range(200):
        session.what_if(node % 34)
        if work.preparations:
            break
    assert 20 < node < 150  # unexpectedly more of the same
