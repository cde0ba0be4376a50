"""Tasks: from a model's output to predictions, and from two predictions to a change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import nora
from graphs import bridge, double, star
from hetero_graphs import library
from hetero_graphs import network as typed_network
from networks import network
from nora import LinkPrediction, NodeClassification
from nora.model.preserve import seeded
from nora.model.task import item_change
from nora.model.tasks.link_prediction import dot_product
from nora.results.effect import Effect

PAIRS = torch.tensor([[0, 1, 2], [1, 2, 0]])
numbers = st.floats(-20, 20, width=32)


@given(st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=5))
def test_logits_probabilities_and_log_probabilities_predict_the_same(
    rows: list[list[float]],
) -> None:
    logits = torch.tensor(rows, dtype=torch.float64)
    raw = NodeClassification("raw").predict(logits)
    torch.testing.assert_close(raw.sum(dim=1), torch.ones(len(rows), dtype=torch.float64))
    torch.testing.assert_close(NodeClassification("probs").predict(logits.softmax(dim=1)), raw)
    torch.testing.assert_close(
        NodeClassification("log_probs").predict(logits.log_softmax(dim=1)), raw
    )


@given(st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=3, max_size=3))
def test_link_logits_probabilities_and_log_probabilities_predict_the_same(
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
    with pytest.raises(ValueError, match=r"return_type is 'logits'.*\('raw'"):
        make("logits")  # type: ignore[operator]


@pytest.mark.parametrize(
    "pairs", [torch.zeros(3, 2, dtype=torch.long), torch.zeros(2, 3), torch.zeros(4).long()]
)
def test_pairs_of_the_wrong_shape_or_type_are_refused(pairs: Tensor) -> None:
    with pytest.raises(ValueError, match=r"pairs.*long tensor of shape \[2, P\]; got"):
        LinkPrediction(pairs)


@pytest.mark.parametrize("wrong", [3, -1])
def test_pairs_that_leave_the_graph_are_refused(wrong: int) -> None:
    task = LinkPrediction(torch.tensor([[0, wrong], [1, 1]]))
    with pytest.raises(ValueError, match=rf"pairs name node {wrong}: the graph has 3 nodes"):
        task.check(torch.zeros(3, 2), 3)


def test_a_decoder_without_one_score_per_pair_is_refused() -> None:
    task = LinkPrediction(PAIRS, lambda z, pairs: z[pairs[0]])
    with pytest.raises(ValueError, match=r"score per pair, shape \[3\]; it returned \[3, 2\]"):
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
    task = LinkPrediction(pairs, lambda z, p: decoder(z[p[0]], z[p[1]]).flatten(), "raw")
    effect = nora.what_if(network(), double(star()), 4, task)
    assert effect.counted.all()
    assert effect.total > 0


class Rows(nn.Module):
    """A sum over neighbours, a linear map to some columns, and a function of these."""

    def __init__(self, columns: int, last: Callable[[Tensor], Tensor] = lambda h: h) -> None:
        super().__init__()
        with seeded(0):
            self.lin = nn.Linear(3, columns).double()
        self.last = last

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(self.lin(x.index_add(0, edge_index[1], x[edge_index[0]])))


def brute(model: nn.Module, task: NodeClassification | None = None, **given: Any) -> Tensor:
    data = double(bridge())
    for key, value in given.items():
        data[key] = value
    return nora.influence(model, data, "brute", task, progress=False).scores


class TestWhatTheModelReturns:
    def test_probabilities_need_a_return_type(self) -> None:
        model = Rows(3, nn.Softmax(-1))
        with pytest.raises(ValueError, match=r"already.*return_type='probs'\), or .*'raw'"):
            brute(model)
        expected = brute(Rows(3))
        assert torch.allclose(brute(model, NodeClassification("probs")), expected)
        # A return type that is given is not questioned.
        assert not torch.allclose(brute(model, NodeClassification("raw")), expected, rtol=0.1)

    def test_log_probabilities_are_logits_too(self) -> None:
        model = Rows(3, nn.LogSoftmax(-1))
        assert torch.allclose(brute(model), brute(Rows(3)))
        assert torch.allclose(brute(model, NodeClassification("log_probs")), brute(Rows(3)))

    def test_not_said_is_raw(self) -> None:
        assert NodeClassification().return_type == "raw"
        assert NodeClassification() == NodeClassification("raw")
        assert torch.equal(brute(Rows(3)), brute(Rows(3), NodeClassification("raw")))

    def test_rows_of_other_types_do_not_hide_it(self) -> None:
        class Sure(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = typed_network()

            def forward(self, x_dict: dict, edge_index_dict: dict) -> Tensor:
                return self.inner(x_dict, edge_index_dict)["paper"].softmax(dim=-1)

        with pytest.raises(ValueError, match="seems to return probabilities already"):
            nora.what_if(Sure(), library(), ("paper", 0), NodeClassification(node_type="paper"))

    def test_scores_of_pairs_between_zero_and_one_need_a_return_type(self) -> None:
        def decoder(z: Tensor, pairs: Tensor) -> Tensor:
            return dot_product(z, pairs).sigmoid()

        pairs = torch.tensor([[0, 1, 2], [1, 2, 3]])
        data, model = double(bridge()), network()
        with pytest.raises(ValueError, match=r"the decoder returns numbers between .*'probs'"):
            nora.what_if(model, data, 5, LinkPrediction(pairs, decoder))
        reply = nora.what_if(
            model, data, 5, LinkPrediction(pairs, decoder, "probs"), method="brute"
        )
        raw = nora.what_if(model, data, 5, LinkPrediction(pairs), method="brute")
        assert reply.total == pytest.approx(raw.total)
        nora.what_if(model, data, 5, LinkPrediction(pairs, decoder, "raw"), method="brute")


class TestTwoClasses:
    @pytest.mark.parametrize("flat", [True, False])
    def test_one_number_per_node_is_about_the_second_class(self, flat: bool) -> None:
        model = Rows(1, (lambda h: h.squeeze(-1)) if flat else (lambda h: h))
        # A softmax of zero and a logit is its sigmoid.
        both = Rows(1, lambda h: torch.cat([torch.zeros_like(h), h], dim=-1))
        assert torch.allclose(brute(model), brute(both))
        assert torch.allclose(brute(model, NodeClassification(mode="binary")), brute(both))
        data = double(bridge())
        effect = nora.what_if(model, data, 3, method="brute")
        assert effect.before.shape == (7, 2)
        pd.testing.assert_frame_equal(
            effect.to_frame(), nora.what_if(both, data, 3, method="brute").to_frame()
        )

    def test_probabilities_need_a_return_type(self) -> None:
        model = Rows(1, torch.sigmoid)
        with pytest.raises(ValueError, match=r"the model returns numbers between .*'probs'"):
            brute(model)
        assert torch.allclose(brute(model, NodeClassification("probs")), brute(Rows(1)))

    def test_any_rows_are_predicted_as_they_are_among_all(self) -> None:
        output, some = torch.randn(7), torch.tensor([4, 2])
        for task, rows in [
            (NodeClassification(), output),
            (NodeClassification(), output.unsqueeze(-1)),
            (NodeClassification(mode="multilabel"), output.reshape(7, 1).repeat(1, 3)),
            (NodeClassification(), torch.randn(7, 3)),
        ]:
            assert torch.equal(task.predict(rows)[some], task.predict(rows[some]))
            assert torch.equal(task.predict(rows)[:1], task.predict(rows[:1]))

    def test_an_output_of_another_width_is_refused(self) -> None:
        with pytest.raises(
            ValueError, match=r"shape \[7\] or \[7, 1\]; the model returned \[7, 3\]"
        ):
            brute(Rows(3), NodeClassification(mode="binary"))
        with pytest.raises(ValueError, match=r"\[7, classes ≥ 2\]; the model returned \[7, 1\]"):
            brute(Rows(1), NodeClassification(mode="multiclass"))
        with pytest.raises(ValueError, match="mode is 'both'"):
            NodeClassification(mode="both")  # type: ignore[arg-type]


class TestSeveralLabels:
    LABELS = NodeClassification(mode="multilabel")

    def test_each_label_counts_by_itself(self) -> None:
        single = [brute(Rows(3, lambda h, k=k: h[:, k])) for k in range(3)]
        # Two classes move by as much in opposite directions.
        assert torch.allclose(brute(Rows(3), self.LABELS), sum(single) / 2)
        one = NodeClassification(mode="multilabel", classes=[1])
        assert torch.allclose(brute(Rows(3), one), single[1] / 2)

    def test_labels_in_the_data_that_do_not_exclude_each_other_are_noticed(self) -> None:
        y = torch.eye(3)[torch.arange(7) % 3]
        brute(Rows(3), y=y)
        y[2] = 1
        with pytest.raises(ValueError, match=r"several of 3 labels.*mode='multilabel'"):
            brute(Rows(3), y=y)
        brute(Rows(3), self.LABELS, y=y)
        brute(Rows(3), NodeClassification(mode="multiclass"), y=y)

    def test_a_flip_is_another_set_of_labels(self) -> None:
        before = torch.tensor([[0.9, 0.2, 0.6], [0.9, 0.2, 0.6], [0.1, 0.1, 0.1]])
        after = torch.tensor([[0.9, 0.4, 0.4], [0.55, 0.2, 0.6], [0.1, 0.1, 0.1]])
        effect = Effect((), before, after, torch.ones(3, dtype=torch.bool), predicts="labels")
        frame = effect.to_frame()
        assert frame["flipped"].tolist() == [True, False, False]
        assert frame["label"].tolist() == [2, 0, 0]
        assert frame["after"].tolist() == pytest.approx([0.4, 0.55, 0.1])
        assert frame["change"].tolist() == pytest.approx([0.4, 0.35, 0])

    def test_an_effect_is_drawn_and_a_report_written(self, tmp_path: Path) -> None:
        data, model = double(bridge()), Rows(3)
        data.y = torch.ones(7, 3)
        effect = nora.what_if(model, data, 3, self.LABELS, method="brute")
        assert "flipped" in repr(effect)
        effect.plot()
        assert effect._repr_html_()
        scores = nora.influence(model, data, "brute", self.LABELS, progress=False)
        page = nora.write_report(
            tmp_path / "report.html", model, data, scores, self.LABELS, effects=2
        )
        assert "</html>" in page.read_text(encoding="utf-8")

    def test_no_node_exceeds_its_bound(self) -> None:
        data = double(bridge())
        best = nora.top(Rows(5), data, 2, self.LABELS, progress=False)
        assert best.certified == 2
        scores = nora.influence(Rows(5), data, "brute", self.LABELS, progress=False)
        assert best.scores[0] == pytest.approx(float(scores.scores.max()))
        assert self.LABELS.largest_change(5) == 5
        assert NodeClassification().largest_change(5) == 2
