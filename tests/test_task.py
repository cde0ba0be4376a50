"""Tasks: from a model's output to predictions, and from two predictions to a change."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import nora
from graphs import double, star
from networks import network
from nora import LinkPrediction, NodeClassification
from nora.guard import seeded
from nora.task import dot_product, item_change

PAIRS = torch.tensor([[0, 1, 2], [1, 2, 0]])
numbers = st.floats(-20, 20, width=32)


@given(st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=5))
def test_logits_probabilities_and_log_probabilities_predict_alike(rows: list[list[float]]) -> None:
    logits = torch.tensor(rows, dtype=torch.float64)
    raw = NodeClassification("raw").predict(logits)
    torch.testing.assert_close(raw.sum(dim=1), torch.ones(len(rows), dtype=torch.float64))
    torch.testing.assert_close(NodeClassification("probs").predict(logits.softmax(dim=1)), raw)
    torch.testing.assert_close(
        NodeClassification("log_probs").predict(logits.log_softmax(dim=1)), raw
    )


@given(st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=3, max_size=3))
def test_link_logits_probabilities_and_log_probabilities_predict_alike(
    rows: list[list[float]],
) -> None:
    z = torch.tensor(rows, dtype=torch.float64) / 10
    raw = LinkPrediction(PAIRS).predict(z)

    def probability(z: Tensor, pairs: Tensor) -> Tensor:
        return dot_product(z, pairs).sigmoid()

    def log_probability(z: Tensor, pairs: Tensor) -> Tensor:
        return nn.functional.logsigmoid(dot_product(z, pairs))

    torch.testing.assert_close(LinkPrediction(PAIRS, probability, "probs").predict(z), raw)
    torch.testing.assert_close(LinkPrediction(PAIRS, log_probability, "log_probs").predict(z), raw)


def test_the_default_decoder_is_the_sigmoid_of_the_dot_product() -> None:
    z = torch.tensor([[1.0, 2.0], [0.5, -1.0], [0.0, 3.0]])
    expected = torch.tensor([0.5 - 2.0, -3.0, 6.0]).sigmoid()
    torch.testing.assert_close(LinkPrediction(PAIRS).predict(z), expected)


def test_a_decoder_of_ones_own_is_used() -> None:
    task = LinkPrediction(PAIRS, lambda z, pairs: z[pairs[0], 0] - z[pairs[1], 0])
    z = torch.tensor([[1.0], [3.0], [0.0]])
    torch.testing.assert_close(task.predict(z), torch.tensor([-2.0, 3.0, -1.0]).sigmoid())


@pytest.mark.parametrize(
    "make", [NodeClassification, lambda kind: LinkPrediction(PAIRS, dot_product, kind)]
)
def test_an_unknown_return_type_is_refused(make: object) -> None:
    with pytest.raises(ValueError, match=r"return_type is 'logits'; it must be one of \('raw'"):
        make("logits")  # type: ignore[operator]


@pytest.mark.parametrize(
    "pairs", [torch.zeros(3, 2, dtype=torch.long), torch.zeros(2, 3), torch.zeros(4).long()]
)
def test_pairs_of_the_wrong_shape_or_type_are_refused(pairs: Tensor) -> None:
    with pytest.raises(ValueError, match=r"pairs must be a long tensor of shape \[2, P\]; got"):
        LinkPrediction(pairs)


@pytest.mark.parametrize("wrong", [3, -1])
def test_pairs_that_leave_the_graph_are_refused(wrong: int) -> None:
    task = LinkPrediction(torch.tensor([[0, wrong], [1, 1]]))
    with pytest.raises(ValueError, match=rf"pairs name node {wrong}: the graph has 3 nodes"):
        task.check(torch.zeros(3, 2), 3)


def test_a_decoder_without_one_score_per_pair_is_refused() -> None:
    task = LinkPrediction(PAIRS, lambda z, pairs: z[pairs[0]])
    with pytest.raises(ValueError, match=r"one score per pair, shape \[3\]; it returned \[3, 2\]"):
        task.check(torch.zeros(3, 2), 3)


def test_pairs_that_touch_a_removed_node_do_not_survive() -> None:
    keep = torch.tensor([True, False, True])
    task, survivors = LinkPrediction(PAIRS).survivors(keep)
    assert survivors.tolist() == [False, False, True]
    assert task.pairs.tolist() == [[1], [0]]


def test_nodes_survive_where_they_are_kept() -> None:
    keep = torch.tensor([True, False, True])
    task, survivors = NodeClassification().survivors(keep)
    assert torch.equal(survivors, keep)
    assert task == NodeClassification()


def test_every_pair_is_credited_to_both_its_ends() -> None:
    credit = LinkPrediction(PAIRS).credit(torch.tensor([0.5, 0.25, 0.125]), 4)
    assert credit.tolist() == [[0.625], [0.75], [0.375], [0.0]]


def test_the_change_of_an_item_is_its_l1_distance() -> None:
    before, after = torch.tensor([[0.2, 0.8], [1.0, 0.0]]), torch.tensor([[0.5, 0.5], [1.0, 0.0]])
    torch.testing.assert_close(item_change(before, after), torch.tensor([0.6, 0.0]))
    torch.testing.assert_close(item_change(before[:, 0], after[:, 0]), torch.tensor([0.3, 0.0]))


def test_a_decoder_with_weights_is_run_in_the_reduced_graph_too() -> None:

    with seeded(0):
        decoder = nn.Bilinear(3, 3, 1).double()
    pairs = torch.tensor([[0, 1, 2], [1, 2, 3]])
    task = LinkPrediction(pairs, lambda z, p: decoder(z[p[0]], z[p[1]]).flatten())
    effect = nora.what_if(network(), double(star()), 4, task)
    assert effect.counted.all()
    assert effect.total > 0
