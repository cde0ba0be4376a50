"""True influences of a few nodes, however they are given, and who may be given them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nora
from graphs import bridge, double
from networks import network
from nora import Influence
from nora.methods import METHODS
from nora.model import build_problem
from nora.model.known_influences import label_tensor

NAN, INF = float("nan"), float("inf")
LEARNING = [entry.name for entry in METHODS if entry.facts.labels == "required"]
OTHERS = [entry.name for entry in METHODS if entry.facts.labels is None]


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and bool(((a == b) | (a.isnan() & b.isnan())).all())


@given(
    known=st.dictionaries(
        st.integers(0, 11),
        st.floats(0, 1e6, width=32),
        min_size=1,
    )
)
def test_every_way_to_give_labels_is_the_same_tensor(known: dict[int, float]) -> None:
    expected = torch.tensor([known.get(node, NAN) for node in range(12)])
    ids, values = list(known), list(known.values())
    ways: list[Any] = [
        Influence(expected, "exact"),
        expected,
        known,
        (ids, values),
        [ids, values],
        (torch.tensor(ids), torch.tensor(values)),
        (np.array(ids), np.array(values, dtype=np.float32)),
        (iter(ids), iter(values)),
        (torch.tensor(ids, dtype=torch.int32), values),
    ]
    for way in ways:
        assert same(label_tensor(way, 12), expected)


def test_whole_numbers_become_floating_point() -> None:
    expected = torch.tensor([NAN, 2.0, 0.0])
    assert same(label_tensor({1: 2, 2: 0}, 3), expected)
    assert same(label_tensor(([1, 2], torch.tensor([2, 0])), 3), expected)
    assert same(label_tensor(torch.tensor([1, 2, 0]), 3), torch.tensor([1.0, 2.0, 0.0]))


def test_double_precision_is_kept() -> None:
    third = torch.tensor([1 / 3], dtype=torch.float64)
    assert label_tensor(([1], third), 2)[1].item() == 1 / 3
    scores = Influence(torch.tensor([1 / 3, NAN], dtype=torch.float64), "exact")
    assert label_tensor(scores, 2)[0].item() == 1 / 3


def test_the_labels_are_a_copy() -> None:
    given = torch.tensor([1.0, NAN], requires_grad=True)
    found = label_tensor(given, 2)
    assert not found.requires_grad
    found[0] = 7
    assert given[0] == 1


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.ones(4), r"\[4\]; the graph has 3 nodes.*\(ids, influences\)"),
        (torch.ones(3, 1), r"\[3, 1\].*3 nodes"),
        (Influence(torch.ones(2), "exact"), r"labels have shape \[2\]; the graph.*3 nodes"),
        (([0, 1, 2], [1.0, 2.0]), "labels name 3 nodes but give 2 influences"),
        (([0], [1.0, 2.0]), "labels name 1 nodes but give 2 influences"),
        (([], [1.0]), "labels name 0 nodes but give 1 influences"),
        (([1, 2, 1], [1.0, 2.0, 3.0]), "labels name a node twice"),
        (([0, 1], [1.0, NAN]), "labels hold NaN"),
        ({2: NAN}, "labels hold NaN"),
        (([0, 2], [1.0, -0.5]), "node 2.*-0.5.*≥ 0"),
        ({1: INF}, "1 is labelled inf"),
        (torch.tensor([NAN, 1.0, -1.0]), "node 2 is labelled -1.0"),
        (torch.tensor([-INF, 1.0, 1.0]), "node 0 is labelled -inf"),
        ({3: 1.0}, "labelled node 3.*graph has 3 nodes"),
        (([0, -1], [1.0, 1.0]), "labelled node -1 is out of range"),
        ({}, "empty: give the true influence.*nodes"),
        (([], []), "labels are empty"),
        (torch.full((3,), NAN), "labels are empty"),
    ],
)
def test_wrong_labels_are_refused_with_the_reason(labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        label_tensor(labels, 3)
    # ... and by the question itself, before any work.
    data = double(bridge())
    data = data.subgraph(torch.arange(7) < 3)
    with pytest.raises(ValueError, match=message):
        nora.influence(network(), data, LEARNING[0], labels=labels, progress=False)


def test_ids_that_are_no_integers_are_refused() -> None:
    with pytest.raises(TypeError, match="labelled node ids must be integers"):
        label_tensor(([0.5], [1.0]), 3)


def test_a_mask_in_place_of_ids_is_understood_or_refused() -> None:
    mask, values = torch.tensor([True, True, True]), torch.tensor([1.0, 2.0, 3.0])
    try:
        found = label_tensor((mask, values), 3)
    except (TypeError, ValueError):
        return
    assert found.tolist() == [1, 2, 3]


def test_a_posed_question_holds_the_labels_in_the_precision_of_its_features() -> None:
    problem = build_problem(network(), double(bridge()), labels={3: 0.5})
    known = problem.known_influence()
    assert known.dtype == torch.float64
    assert known[3] == 0.5
    assert known.isnan().sum() == 6


@pytest.mark.parametrize("method", LEARNING)
def test_a_method_that_learns_from_labels_asks_for_them_by_name(method: str) -> None:
    with pytest.raises(ValueError, match=rf"'{method}' learns from .* pass labels=\(ids, infl"):
        nora.influence(network(), double(bridge()), method, progress=False)


def test_a_question_without_labels_has_no_known_influence() -> None:
    with pytest.raises(ValueError, match=r"pass labels=\(ids, influences\)"):
        build_problem(network(), double(bridge())).known_influence()


@pytest.mark.parametrize("method", OTHERS)
def test_labels_for_a_method_that_does_not_learn_from_them_get_a_remedy(method: str) -> None:
    tunable = METHODS[method].facts.tunable
    remedy = r"nora\.tune\(" if tunable else "Leave them out"
    with pytest.raises(ValueError, match=rf"'{method}' does not learn from labels.*{remedy}"):
        nora.influence(network(), double(bridge()), method, labels={0: 1.0}, progress=False)


def test_there_are_methods_of_both_kinds() -> None:
    assert set(LEARNING) >= {"predict-n", "predict-e"}
    assert set(OTHERS) >= {"nora", "mask", "exact", "brute", "degree", "random"}
