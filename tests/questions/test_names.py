"""Names in Python: nodes and classes are given and shown by name in every question."""

from __future__ import annotations

import pytest

import nora

CLASSES = ["red", "green", "blue", "grey"]
NAMED = ("ann", "bob", "cid", "dan", "eve", "fay", "gus", "hal")


@pytest.fixture(scope="module")
def asked():
    run = nora.train("gcn", "karate", epochs=60, progress=False)
    names = [*NAMED, *(f"member {k}" for k in range(len(NAMED), 34))]
    return run.model, run.data, {"names": names, "class_names": CLASSES}


def test_scores_are_asked_for_by_name(asked):
    model, data, named = asked
    scores = nora.influence(model, data, progress=False, **named)
    plain = nora.influence(model, data, progress=False)
    assert scores["bob"] == plain[1]
    assert scores[["bob", "eve"]].top(5)["name"].tolist() == ["bob", "eve"]
    with pytest.raises(KeyError, match=r"named 'bobb'. Did you mean 'bob'"):
        scores["bobb"]
    with pytest.raises(KeyError, match="no node is named 'bob'"):
        plain["bob"]
    again = nora.influence(model, data, nodes=["bob"], progress=False, **named)
    assert again["bob"] == pytest.approx(scores["bob"]) and again.names == scores.names


def test_an_effect_shows_who_went_and_classes_by_name(asked):
    model, data, named = asked
    edits = dict(remove_edges=[("ann", "cid")], add_edges=[("eve", "hal")])
    edits |= dict(features={"bob": data.x[5]})
    effect = nora.what_if(model, data, "gus", **edits, **named)
    assert effect.removed == (6,)
    shown = repr(effect)
    assert "removed_edges=[('ann', 'cid')]" in shown
    assert "changed_features=['bob']" in shown
    flips = nora.what_if(model, data, 33, **named).flips()
    assert len(flips) > 0
    classes = named["class_names"]
    assert flips["to_class_name"].tolist() == [classes[k] for k in flips["to_class"]]
    assert flips["name"].tolist() == [named["names"][k] for k in flips["node"]]


def test_the_plot_of_an_effect_names_classes_by_itself(asked):
    model, data, named = asked
    axes = nora.what_if(model, data, 33, **named).plot().axes[0]
    remarks = [label.get_text() for label in axes.child_axes[0].get_yticklabels()]
    assert any(name in one for one in remarks for name in CLASSES)


def test_an_effect_keeps_its_names_in_its_file(asked, tmp_path):
    model, data, named = asked
    effect = nora.what_if(model, data, "ann", **named)
    back = nora.Effect.load(effect.save(tmp_path / "effect.parquet"))
    assert repr(back) == repr(effect) and back.class_names == tuple(CLASSES)


def test_flips_fragile_predictions_and_groups_are_shown_by_name(asked):
    model, data, named = asked
    fragile = nora.fragile(model, data, progress=False, **named)
    first = fragile.flips.iloc[0]
    assert first["removed_name"] == named["names"][first["removed"]]
    assert first["to_class_name"] == named["class_names"][first["to_class"]]
    by_edges = nora.fragile(model, data, by="edges", progress=False, **named).flips
    assert (by_edges["source_name"] == [named["names"][k] for k in by_edges["source"]]).all()
    found = nora.flip(model, data, named["names"][first["node"]], progress=False, **named)
    assert f"Flip(node={first['name']!r}, size=1, removed=[" in repr(found)
    assert repr(named["names"][found.removed[0]]) in repr(found)
    assert first["name"] in found._repr_html_()
    group = nora.best_group(model, data, 2, progress=False, **named)
    assert f"nodes=[{named['names'][group.nodes[0]]!r}, " in repr(group)
    assert nora.top(model, data, 2, progress=False, **named).to_frame()["name"].notna().all()


def test_edges_and_influencers_are_asked_for_by_name(asked):
    model, data, named = asked
    edges = nora.edge_influence(model, data, progress=False, **named)
    plain = nora.edge_influence(model, data, progress=False)
    assert edges["ann", "bob"] == plain[0, 1] == edges["bob", "ann"]
    with pytest.raises(KeyError, match="no node is named 'zoe'"):
        edges["ann", "zoe"]
    matrix = nora.influence_matrix(model, data, ["ann"], progress=False, **named)
    assert set(matrix["removed_name"]) == {"ann"}
    who = nora.influencers(model, data, "ann", 3, progress=False, **named)
    assert who["name"].tolist() == [named["names"][k] for k in who["node"]]


def test_as_many_names_as_nodes_are_asked_for(asked):
    model, data, _ = asked
    with pytest.raises(ValueError, match=r"names.*34; got 2"):
        nora.what_if(model, data, 0, names=["ann", "bob"])
