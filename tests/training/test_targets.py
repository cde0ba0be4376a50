"""Which predictions count: words for groups of nodes, and nodes of a kind without labels."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

import nora
from nora.training.targets import group_of, kinds_without_labels, target_ids


def films(kind: bool = True, some_films_labelled: bool = False) -> nora.ingest.Reading:
    """Users see films; users have labels."""
    users, seen = [f"u{i}" for i in range(40)], [f"f{i}" for i in range(20)]
    edges = [(user, seen[(i * step) % 20]) for i, user in enumerate(users) for step in (1, 3, 7)]
    named = users + seen[:5] if some_films_labelled else users
    features = pd.DataFrame({"id": users + seen, "size": range(60)})
    if kind:
        features["kind"] = ["user"] * 40 + ["film"] * 20
    return nora.read_graph(
        pd.DataFrame(edges, columns=["source", "target"]),
        features,
        pd.DataFrame(
            {"id": named, "label": ["a", "b", "a"] * (len(named) // 3) + ["b"] * (len(named) % 3)}
        ),
    )


def test_a_kind_without_labels_is_noticed_by_a_column_of_words() -> None:
    (note,) = kinds_without_labels(films().dataset)
    assert note.startswith(
        "none of the 20 nodes with kind=film has a label: they are predicted all"
    )
    assert "targets='labelled'" in note


def test_a_kind_without_labels_is_noticed_by_the_edges() -> None:
    (note,) = kinds_without_labels(films(kind=False).dataset)
    assert note.startswith("no edge joins two labelled nodes")


@pytest.mark.parametrize("name", ["karate", "polarised"])
def test_nothing_is_noted_where_all_nodes_are_of_one_kind(name: str) -> None:
    dataset = nora.load_dataset(name)
    assert kinds_without_labels(dataset) == ()
    y = dataset.data.y.clone()
    y[torch.rand(len(y), generator=torch.Generator().manual_seed(0)) < 0.5] = -1
    dataset.data.y = y
    assert kinds_without_labels(dataset) == ()


def test_a_few_labels_of_a_kind_are_enough() -> None:
    assert kinds_without_labels(films(some_films_labelled=True).dataset) == ()


def test_groups_ids_and_names_can_be_mixed() -> None:
    dataset = films().dataset
    names = dataset.node_names
    of_films = [node for node, name in enumerate(names) if name.startswith("f")]
    assert sorted(group_of(dataset, "kind=film")) == of_films
    assert len(group_of(dataset, "labelled")) == 40
    assert group_of(dataset, "size") is None, "it is a number, and no group"
    found = target_ids(dataset, ["kind=film", "u3", names.index("u5")])
    assert found.tolist() == sorted([*of_films, names.index("u3"), names.index("u5")])
    mask = torch.zeros(60, dtype=torch.bool)
    mask[[2, 4]] = True
    assert target_ids(dataset, mask).tolist() == [2, 4]


def test_a_node_of_that_name_comes_before_a_group() -> None:
    edges = pd.DataFrame({"source": ["labelled", "b"], "target": ["b", "c"]})
    dataset = nora.read_graph(edges).dataset
    assert group_of(dataset, "labelled") is None
    assert target_ids(dataset, "labelled").tolist() == [dataset.node_names.index("labelled")]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("kind=flim", "no node is named 'kind=flim'"),
        ([99], "target node 99 is out of range"),
        ([], "targets= is empty: name.*node"),
    ],
)
def test_what_is_no_node_is_refused(wrong: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        target_ids(films().dataset, wrong)
