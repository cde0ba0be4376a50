"""`Influence` and `Effect` as values: rank, compare, merge, save, load."""

from __future__ import annotations

import errno
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nora
from graphs import bridge, double, some_pairs
from networks import network
from nora import Effect, Influence, LinkPrediction
from nora.report.consequences import consequence

NAN = float("nan")
SUFFIXES = pytest.mark.parametrize("suffix", ["parquet", "csv"])


def scores(*values: float, **parts: object) -> Influence:
    made = {"method": "brute", "options": {"beta": 2.0}, "seconds": 1.5, **parts}
    return Influence(torch.tensor(values, dtype=torch.float64), **made)  # type: ignore[arg-type]


def test_top_puts_the_most_influential_first_and_ties_in_order_of_id() -> None:
    top = scores(1.0, 3.0, NAN, 3.0, 2.0).top(3)
    assert top["node"].tolist() == [1, 3, 4]
    assert top["influence"].tolist() == [3, 3, 2]
    assert top["rank"].tolist() == [1, 2, 3]
    assert top.index.tolist() == [0, 1, 2]


def test_top_of_more_than_there_are_is_all_that_were_scored() -> None:
    assert scores(1.0, NAN, 3.0).top(10)["node"].tolist() == [2, 0]


@pytest.mark.parametrize("k", [0, -3])
def test_top_of_none_is_refused(k: int) -> None:
    with pytest.raises(ValueError, match=f"k must be at least 1, got {k}"):
        scores(1.0).top(k)
    with pytest.raises(ValueError, match=f"k must be at least 1, got {k}"):
        nora.what_if(network(), double(bridge()), 0).top(k)


def test_a_frame_has_one_row_per_scored_node() -> None:
    frame = scores(1.0, NAN, 3.0, names=("a", "b", "c")).to_frame()
    assert frame.to_dict("list") == {
        "node": [0, 2],
        "name": ["a", "c"],
        "influence": [1.0, 3.0],
        "rank": [2, 1],
    }


def test_a_score_is_had_by_its_node() -> None:
    made = scores(1.0, NAN, 3.0)
    assert made[2] == 3.0
    assert len(made) == 3
    assert repr(made) == (
        "Influence(method='brute', task='node', scored=2 of 3 nodes, seconds=1.5)"
    )


def test_names_must_be_as_many_as_nodes() -> None:
    with pytest.raises(ValueError, match=r"names.*3; got 2"):
        scores(1.0, 2.0, 3.0, names=("a", "b"))


def test_compare_looks_at_nodes_that_both_scored() -> None:
    found = scores(1.0, 2.0, 3.0, NAN, 9.0).compare(scores(2.0, 4.0, 6.0, 7.0, NAN))
    assert found["pearson"] == pytest.approx(1)
    assert found["spearman"] == pytest.approx(1)


def test_compare_refuses_another_graph() -> None:
    with pytest.raises(ValueError, match="cannot compare scores of 2 and 3 nodes"):
        scores(1.0, 2.0).compare(scores(1.0, 2.0, 3.0))


def test_merge_joins_parts() -> None:
    whole = Influence.merge([scores(1.0, NAN, NAN), scores(NAN, NAN, 3.0), scores(1.0, 2.0, NAN)])
    assert whole.scores.tolist() == [1, 2, 3]
    assert whole.seconds == 4.5
    assert whole.options == {"beta": 2.0}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (scores(NAN, 2.0, method="nora"), "parts differ in method: brute.*nora"),
        (scores(NAN, 2.0, task="link"), "parts differ in task: node.*link"),
        (scores(NAN, 2.0, options={"beta": 3.0}), "parts differ in options"),
        (scores(NAN, 2.0, NAN), "parts have 2 and 3 nodes"),
        (scores(1.5, 2.0), "different scores.*same node"),
    ],
)
def test_merge_refuses_what_does_not_belong_together(other: Influence, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Influence.merge([scores(1.0, NAN), other])


def test_merge_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to merge"):
        Influence.merge([])


def test_merge_leaves_its_parts_untouched() -> None:
    part = scores(1.0, NAN)
    Influence.merge([part, scores(NAN, 2.0)])
    assert part.scores.isnan().tolist() == [False, True]


def test_parts_of_a_graph_merge_into_the_whole() -> None:
    model, data = network(), double(bridge())
    parts = [
        nora.influence(model, data, "brute", nodes=nodes, progress=False)
        for nodes in ([0, 1, 2], [3, 4], [5, 6])
    ]
    whole = nora.influence(model, data, "brute", progress=False)
    assert torch.equal(Influence.merge(parts).scores, whole.scores)


@SUFFIXES
@given(
    values=st.lists(
        st.one_of(st.floats(allow_infinity=False, allow_nan=False), st.just(NAN)), min_size=1
    )
)
@settings(max_examples=60, deadline=None)
def test_scores_come_back_from_a_file_to_the_last_bit(
    suffix: str, values: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("scores") / f"s.{suffix}"
    back = Influence.load(scores(*values).save(path))
    assert back.scores.dtype == torch.float64
    np.testing.assert_array_equal(back.scores.numpy(), np.array(values))


def test_a_csv_is_readable_by_anybody(tmp_path: Path) -> None:
    path = scores(1.0, 3.0, names=("a", "b")).save(tmp_path / "s.csv")
    assert path.read_text() == "node,name,influence,rank\n1,b,3.0,1\n0,a,1.0,2\n"


@pytest.mark.parametrize("name", ["scores.txt", "scores", "scores.json"])
def test_a_file_name_of_no_known_format_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"format of '{name}': use a \.parquet or \.csv name"):
        scores(1.0).save(tmp_path / name)
    with pytest.raises(ValueError, match=r"use a \.parquet or \.csv name"):
        Influence.load(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@SUFFIXES
def test_a_missing_file_is_named(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=rf"no such file: .*absent\.{suffix}"):
        Influence.load(tmp_path / f"absent.{suffix}")


def test_a_csv_without_its_provenance_is_refused(tmp_path: Path) -> None:
    path = scores(1.0).save(tmp_path / "s.csv")
    (tmp_path / "s.csv.meta.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"needs.*provenance file s\.csv\.meta\.json"):
        Influence.load(path)


def test_a_table_from_elsewhere_is_refused(tmp_path: Path) -> None:
    pd.DataFrame({"node": [0]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(ValueError, match=r"other\.parquet was not written.*nora"):
        Influence.load(tmp_path / "other.parquet")


def test_an_effect_is_not_read_as_scores(tmp_path: Path) -> None:
    path = nora.what_if(network(), double(bridge()), 3).save(tmp_path / "e.parquet")
    with pytest.raises(ValueError, match="holds 'effect', expected 'influence'"):
        Influence.load(path)


@pytest.mark.parametrize("name", ["s.parquet", "s.csv.meta.json"])
def test_a_damaged_file_is_named(name: str, tmp_path: Path) -> None:
    path = scores(1.0, 2.0).save(tmp_path / name.removesuffix(".meta.json"))
    (tmp_path / name).write_bytes(b"\x80\x04cos\nsystem\n")
    with pytest.raises(ValueError, match=f"{name} is not readable"):
        Influence.load(path)


@SUFFIXES
def test_a_full_disk_leaves_the_old_files_and_no_new_ones(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = scores(1.0, 2.0).save(tmp_path / f"s.{suffix}")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    monkeypatch.setattr(pyarrow.parquet, "write_table", full)
    for target in (path, tmp_path / f"new.{suffix}"):
        with pytest.raises(OSError, match="No space left"):
            scores(7.0, 8.0).save(target)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def effect() -> Effect:
    """Node 1 is removed; node 0 flips from class 0 to 1, node 2 moves a little, node 3 stays."""
    before = torch.tensor([[0.6, 0.4], [0.5, 0.5], [0.9, 0.1], [0.2, 0.8]])
    after = torch.tensor([[0.3, 0.7], [NAN, NAN], [0.8, 0.2], [0.2, 0.8]])
    return Effect((1,), before, after, torch.tensor([True, False, True, True]))


def test_an_effect_knows_who_changes_by_how_much_and_to_which_class() -> None:
    made = effect()
    assert made.change.tolist() == pytest.approx([0.6, 0, 0.2, 0])
    assert made.total == pytest.approx(0.8)
    frame = made.to_frame()
    assert frame["node"].tolist() == [0, 2, 3]
    assert frame["from_class"].tolist() == [0, 0, 1]
    assert frame["to_class"].tolist() == [1, 0, 1]
    assert frame["flipped"].tolist() == [True, False, False]
    assert made.flips()["node"].tolist() == [0]
    assert made.top(2)["node"].tolist() == [0, 2]
    assert repr(made) == "Effect(removed=[1], total=0.8, nodes changed=2, flipped=1)"


def test_what_has_changed_is_counted_the_same_everywhere() -> None:
    before = torch.tensor([[0.5, 0.5], [0.9, 0.1], [0.8, 0.2], [0.5, 0.5]])
    # By far, by enough, by less than that, not at all.
    after = torch.tensor([[0.2, 0.8], [0.89, 0.11], [0.7999, 0.2001], [0.5, 0.5]])
    made = Effect((), before, after, counted=torch.ones(4, dtype=torch.bool))
    assert made.noticed == 2
    assert "nodes changed=2," in repr(made)
    assert "2 nodes changed" in made._repr_html_()
    assert "2 nodes change," in made.plot().get_suptitle()
    assert consequence(made).reached == 2


def test_numbers_have_changed_when_rounding_cannot_have_done_it() -> None:
    before = torch.tensor([[1000.0], [1.0], [0.0]])
    after = before + torch.tensor([[1e-4], [0.5], [0.0]])  # one unit in the last place of 1000
    made = Effect((), before, after, torch.ones(3, dtype=torch.bool), predicts="values")
    assert float(made.change[0]) > 0 and made.noticed == 1


def test_an_effect_on_links_knows_pairs_and_crossed_halves() -> None:
    made = Effect(
        removed=(9,),
        before=torch.tensor([0.6, 0.9, 0.3]),
        after=torch.tensor([0.4, NAN, 0.35]),
        counted=torch.tensor([True, False, True]),
        task="link",
        pairs=torch.tensor([[0, 9, 2], [1, 1, 0]]),
        names=tuple("abcdefghij"),
    )
    frame = made.to_frame()
    assert frame["source"].tolist() == [0, 2]
    assert frame["target_name"].tolist() == ["b", "a"]
    assert frame["change"].tolist() == pytest.approx([0.2, 0.05])
    assert frame["flipped"].tolist() == [True, False]
    assert made.total == pytest.approx(0.25)
    assert list(made.flips()["source_name"]) == ["a"]


def test_the_flips_are_the_nodes_whose_likeliest_class_changes() -> None:
    model, data = network(seed=4), double(bridge())
    made = nora.what_if(model, data, [2, 4])
    with torch.no_grad():
        kept = [0, 1, 3, 5, 6]
        before = model(data.x, data.edge_index).argmax(dim=1)[kept]
        alone = data.subgraph(torch.tensor(kept))
        after = model(alone.x, alone.edge_index).argmax(dim=1)
    frame = made.to_frame()
    assert frame["node"].tolist() == kept
    assert frame["from_class"].tolist() == before.tolist()
    assert frame["to_class"].tolist() == after.tolist()
    expected = {node for node, a, b in zip(kept, before, after, strict=True) if a != b}
    assert set(made.flips()["node"]) == expected


def test_an_effect_counts_targets_only() -> None:
    model, data = network(), double(bridge())
    made = nora.what_if(model, data, 3, targets=[2, 3])
    assert made.to_frame()["node"].tolist() == [2]
    assert made.total == pytest.approx(float(nora.what_if(model, data, 3).change[2]))


def test_an_effect_on_links_counts_pairs_between_remaining_nodes() -> None:
    data = double(bridge())
    task = LinkPrediction(some_pairs(data))
    frame = nora.what_if(network(), data, [2, 4], task).to_frame()
    assert len(frame) == sum(2 not in pair and 4 not in pair for pair in task.pairs.t().tolist())
    assert not frame[["source", "target"]].isin([2, 4]).any().any()


@SUFFIXES
def test_an_effect_is_saved_as_a_table(suffix: str, tmp_path: Path) -> None:
    path = effect().save(tmp_path / f"e.{suffix}")
    table = pd.read_parquet(path) if suffix == "parquet" else pd.read_csv(path)
    assert table["node"].tolist() == [0, 2, 3]
    assert table["flipped"].tolist() == [True, False, False]


def shown(result: object) -> str:
    """What a notebook shows, with the words of the caption and the cells apart."""
    text = result._repr_html_()  # type: ignore[attr-defined]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


def test_a_notebook_shows_the_first_nodes_with_how_they_were_found() -> None:
    text = shown(scores(*range(12), names=tuple("abcdefghijkl")))
    assert "The 10 most influential of 12 nodes" in text
    assert "method brute · node task · 1.5 s" in text
    assert "node name influence rank 11 l 11.0000 1 10 k 10.0000 2 " in text
    assert text.rstrip().endswith("2 c 2.0000 10")


def test_a_notebook_says_when_not_all_nodes_were_scored() -> None:
    assert "2 nodes that were scored, of 3" in shown(scores(1, NAN, 3))
    assert "of 0 nodes that were scored, of 2" in shown(scores(NAN, NAN))


def test_a_notebook_shows_who_changes() -> None:
    text = shown(effect())
    assert "Without node 1 2 nodes changed, 1 to another class · 0.8 in all · node task" in text
    assert "node change from_class to_class flipped 0 0.6000 0 1 yes 2 0.2000 0 0 3 0.0000" in text
    edges = replace(effect(), removed=(), removed_edges=((0, 2),), names=tuple("abcd"))
    assert "Without edge a – c" in shown(edges)
    assert "node 1, node 2, node 3 and 2 more" in shown(replace(effect(), removed=(1, 2, 3, 4, 5)))


def test_a_notebook_shows_pairs() -> None:
    data = double(bridge())
    text = shown(nora.what_if(network(), data, [2, 4], LinkPrediction(some_pairs(data))))
    assert "pairs changed" in text
    assert "source target change before after flipped" in text


def test_a_notebook_shows_what_is_certain_and_what_a_group_does() -> None:
    model, data = network(), double(bridge())
    best = nora.top(model, data, k=3, progress=False)
    assert best.certificate in shown(best)
    group = nora.best_group(model, data, size=2, progress=False)
    assert "2 nodes that change most together" in shown(group)
    assert "chosen by" in shown(group)


def test_what_a_notebook_shows_is_text_and_needs_nothing_from_elsewhere() -> None:
    names = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a&b", "x" * 500)
    made = replace(effect(), names=names)
    both = scores(4.0, 3.0, 2.0, 1.0, names=names, method="<b>bold</b>"), made
    for html in (result._repr_html_() for result in both):
        assert not re.search(r"<(script|img|b)\b", html)
        assert not re.search(r"https?:|url\(|<link|<style", html)
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
        assert "x" * 100 not in html
    assert "a&amp;b" in both[0]._repr_html_()
