"""Tables that are in memory already: pandas DataFrames in place of files."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

from nora.ingest import read_graph

EDGES = pd.DataFrame({"source": ["007", "b", "c", "c"], "target": ["b", "c", "007", "d"]})


def about_nodes(**columns: list) -> pd.DataFrame:
    return pd.DataFrame({"id": ["007", "b", "c", "d"], **columns})


def test_frames_say_the_same_as_their_files(tmp_path):
    given = {
        "edges": EDGES.assign(weight=[1.0, 2.0, 1.0, 0.5]),
        "features": about_nodes(
            age=[1, 2, None, 4],
            land=pd.Categorical(["fr", "de", None, "fr"]),
            since=pd.to_datetime(["2024-01-01", "2024-01-02", None, "2024-02-01"]),
        ),
        "labels": about_nodes(label=["x", None, "y", "x"]),
    }
    files = {}
    for role, frame in given.items():
        files[role] = tmp_path / f"{role}.csv"
        frame.to_csv(files[role], index=False)
    kept = {role: frame.copy() for role, frame in given.items()}
    one, other = read_graph(**given), read_graph(**files)
    assert one.dataset.node_names == other.dataset.node_names == ("007", "b", "c", "d")
    assert one.dataset.class_names == other.dataset.class_names
    assert one.feature_names == other.feature_names
    for key in ("x", "y", "edge_index", "edge_weight"):
        assert torch.equal(one.dataset.data[key], other.dataset.data[key]), key
    assert one.dataset.name == "edges"
    for role, frame in given.items():
        pd.testing.assert_frame_equal(frame, kept[role])


def test_a_named_index_is_a_column_and_row_numbers_are_not():
    labels = about_nodes(label=["x", "y", "x", "y"])
    indexed = read_graph(EDGES, labels=labels.set_index("id")).dataset.data
    assert torch.equal(indexed.y, read_graph(EDGES, labels=labels).dataset.data.y)
    some = about_nodes(age=[1, 2, 3, 4]).iloc[[3, 1, 0]]
    assert read_graph(EDGES, some).feature_names == ("age",)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (about_nodes(label=["x", "y", 3, "x"]), "labels: column 'label' holds values.*several"),
        (about_nodes(label=[["x"], ["y"], [], []]), r"labels: column 'label' holds list.*ignore="),
        (pd.DataFrame({"id": ["b", None], "label": ["x", "y"]}), "labels, row 2: the id is blank"),
        (pd.DataFrame({"id": [], "label": []}), "labels is empty"),
        (pd.DataFrame([["b", "x"]], columns=["id", "id"]), "two columns are called 'id'"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_its_row(labels, message):
    with pytest.raises(ValueError, match=message):
        read_graph(EDGES, labels=labels)


def test_a_column_that_is_ignored_may_hold_anything():
    features = about_nodes(age=[1, 2, 3, 4], tags=[["x"], 3, "z", None])
    assert read_graph(EDGES, features, ignore=["tags"]).feature_names == ("age",)
