"""What is summed over the predictions that change: each measure beside a few lines that say the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import nora
from graphs import GRAPHS, double, some_pairs, two_camps
from hetero_graphs import library
from hetero_graphs import network as hetero_network
from networks import network


@pytest.fixture
def data() -> Data:
    data = double(two_camps())
    data.y = torch.tensor([0, 1, 2, 0, 1, 2, -1, 0])
    data.test_mask = torch.tensor([True, True, False, False, True, False, True, True])
    data.camp = ["left"] * 4 + ["right"] * 3 + [None]
    return data


@torch.no_grad()
def both(model: torch.nn.Module, data: Data, node: int) -> tuple[Tensor, Tensor, Tensor]:
    """Predictions of all others with and without a node, and their ids."""
    before = model(data.x, data.edge_index).softmax(dim=-1)
    left = nora.Edits(remove=node).apply(data)
    after = model(left.x, left.edge_index).softmax(dim=-1)
    others = torch.arange(len(before))[torch.arange(len(before)) != node]
    return before[others], after, others


def by_hand(of_each: Callable[..., Tensor]) -> Callable[[torch.nn.Module, Data], list[float]]:
    def total(model: torch.nn.Module, data: Data) -> list[float]:
        return [
            float(of_each(*both(model, data, node), data).sum()) for node in range(data.num_nodes)
        ]

    return total


def right(predicted: Tensor, truth: Tensor) -> Tensor:
    return (predicted.argmax(dim=1) == truth).double()


def entropy(predicted: Tensor, truth: Tensor) -> Tensor:
    return -predicted[torch.arange(len(truth)), truth.clamp(min=0)].log()


TRUTH = {
    "change": by_hand(lambda before, after, items, data: (before - after).abs().sum(dim=1)),
    "flips": by_hand(lambda before, after, items, data: before.argmax(1) != after.argmax(1)),
    "class:2": by_hand(lambda before, after, items, data: (after - before)[:, 2]),
    "accuracy": by_hand(
        lambda before, after, items, data: (
            (right(after, data.y[items]) - right(before, data.y[items])) / 7
        )
    ),
    "loss:test": by_hand(
        lambda before, after, items, data: (
            (entropy(after, data.y[items]) - entropy(before, data.y[items]))
            * (data.test_mask & (data.y >= 0))[items]
            / 4
        )
    ),
}


@pytest.mark.parametrize("measure", sorted(TRUTH))
def test_every_measure_is_what_it_says(measure: str, data: Data) -> None:
    for seed in (0, 3):
        model = network(seed=seed)
        found = nora.influence(model, data, measure=measure, progress=False)
        assert found.scores.tolist() == pytest.approx(TRUTH[measure](model, data), abs=1e-9)
        if measure != "change":
            assert (found.measure, found.method) == (measure, "exact")


def test_several_measures_come_from_one_run(data: Data) -> None:
    model = network()
    found = nora.influence(model, data, measure=list(TRUTH), progress=False)
    assert found.measure == "change"
    assert list(found.columns) == list(TRUTH)[1:]
    for name, values in found.columns.items():
        assert values.tolist() == pytest.approx(TRUTH[name](model, data), abs=1e-9)
    assert list(found.to_frame()) == ["node", "influence", *found.columns, "rank"]


def test_groups_add_up_to_the_whole(data: Data) -> None:
    model = network()
    found = nora.influence(model, data, measure=["change", "flips"], by="camp", progress=False)
    assert list(found.columns) == [
        "change of left", "change of right", "flips", "flips of left", "flips of right",
    ]  # fmt: skip
    for node in range(8):
        before, after, items = both(model, data, node)
        moved = (before - after).abs().sum(dim=1)
        assert found.columns["change of left"][node] == pytest.approx(float(moved[items < 4].sum()))
        of_right = float(moved[(items > 3) & (items < 7)].sum())
        assert found.columns["change of right"][node] == pytest.approx(of_right)
    given = nora.influence(model, data, by=[0, 1] * 4, progress=False)
    whole = given.columns["change of 0"] + given.columns["change of 1"]
    torch.testing.assert_close(whole, given.scores)


def test_a_function_is_a_measure(data: Data) -> None:
    model = network()

    def largest(before: Tensor, after: Tensor, items: Tensor) -> Tensor:
        return (before - after).abs().amax(dim=1) * (items != 0)

    found = nora.influence(model, data, measure=largest, progress=False)
    assert found.measure == "largest"
    for node in range(8):
        before, after, items = both(model, data, node)
        truth = (before - after).abs().amax(dim=1)[items != 0].sum()
        assert found[node] == pytest.approx(float(truth), abs=1e-9)
    named = nora.influence(model, data, measure={"mine": largest}, targets=[1, 2], progress=False)
    assert named.measure == "mine"
    # Called like the definition, it is still a function of one's own.
    other = nora.influence(model, data, measure={"change": largest}, progress=False)
    torch.testing.assert_close(other.scores, found.scores)


def test_targets_and_classes_count(data: Data) -> None:
    model = network(seed=3)
    some = nora.influence(model, data, measure="flips", targets=[0, 5], progress=False)
    for node in range(8):
        before, after, items = both(model, data, node)
        flipped = (before.argmax(1) != after.argmax(1)) & ((items == 0) | (items == 5))
        assert some[node] == int(flipped.sum())
    task = nora.NodeClassification(classes=[1])
    found = nora.influence(model, data, task=task, measure=["change", "flips"], progress=False)
    plain = nora.influence(model, data, "brute", task, progress=False)
    torch.testing.assert_close(found.scores, plain.scores)
    every = nora.influence(model, data, measure="flips", progress=False)
    torch.testing.assert_close(found.columns["flips"], every.scores)
    alone = nora.influence(model, data, task=task, measure=["change"], progress=False)
    torch.testing.assert_close(alone.scores, plain.scores)


def test_exact_and_brute_agree(data: Data) -> None:
    asked = {"measure": ["change", "flips", "loss", "class:0"], "by": "y", "progress": False}
    for name in ("gat", "sage"):
        one, other = (
            nora.influence(network(name), data, method, **asked) for method in ("exact", "brute")
        )
        torch.testing.assert_close(one.scores, other.scores)
        for key, values in one.columns.items():
            torch.testing.assert_close(values, other.columns[key], atol=1e-9, rtol=0)


def test_links_flip_at_one_half() -> None:
    data, model = double(two_camps()), network(seed=2)
    task = nora.LinkPrediction(some_pairs(data))
    found = nora.influence(model, data, task=task, measure=["flips", "change"], progress=False)
    for node in range(8):
        assert found[node] == len(nora.what_if(model, data, node, task).flips())
    torch.testing.assert_close(
        found.columns["change"], nora.influence(model, data, "brute", task).scores.double()
    )


def test_numbers_and_labels() -> None:
    data = double(two_camps())
    data.y = torch.randn(8, 3, dtype=torch.double)
    model = network()
    found = nora.influence(model, data, task=nora.NodeRegression(), measure="loss", progress=False)
    with torch.no_grad():
        before = model(data.x, data.edge_index)
        left = nora.Edits(remove=3).apply(data)
        after = model(left.x, left.edge_index)
    others = torch.arange(8) != 3
    worse = (after - data.y[others]).square() - (before - data.y)[others].square()
    assert found[3] == pytest.approx(float(worse.mean(dim=1).sum() / 8))
    data.y = (torch.randn(8, 3) > 0).long()
    task = nora.NodeClassification(mode="multilabel")
    both_of = nora.influence(model, data, task=task, measure=["accuracy", "flips"], progress=False)
    reply = [torch.sigmoid(rows) > 0.5 for rows in (before[others], after)]
    truth = data.y[others].bool()
    gained = ((reply[1] == truth).double() - (reply[0] == truth).double()).mean(dim=1).sum() / 8
    assert both_of[3] == pytest.approx(float(gained))
    assert both_of.columns["flips"][3] == int((reply[0] != reply[1]).any(dim=1).sum())


def test_types_have_labels_masks_and_groups_of_their_own() -> None:
    data, model = library(edges=8), hetero_network()
    data["paper"].y = torch.tensor([0, 1, 2, 0, 1, 2, 0])
    data["paper"].test_mask = torch.tensor([True, True, False, False, True, False, True])
    data["author"].y = torch.tensor([5, 5, 5, 5, 5])
    task = nora.NodeClassification(node_type="paper")
    asked = {"measure": ["loss:test", "flips"], "by": "y", "progress": False}
    found = nora.influence(model, data, task=task, **asked)
    effect = nora.what_if(model, data, ("author", 2), task)
    frame = effect.to_frame().set_index("node")
    assert found.columns["flips"][2] == frame["flipped"].sum()
    before, after = (rows[5:12] for rows in (effect.before, effect.after))
    y, mask = data["paper"].y, data["paper"].test_mask
    truth = ((entropy(after, y) - entropy(before, y)) * mask).sum() / 4
    assert found["author", 2] == pytest.approx(float(truth), abs=1e-9)
    reply = effect.measured(["loss:test", "flips"], data, by="y")
    assert reply == pytest.approx(
        {"loss:test": found["author", 2], **{k: float(v[2]) for k, v in found.columns.items()}},
        abs=1e-12,
    )


@pytest.mark.parametrize("kind", ["directed", "isolated", "looped"])
def test_an_effect_is_measured_the_same_way(kind: str) -> None:
    data, model = double(GRAPHS[kind]()), network(seed=3)
    data.y = torch.arange(data.num_nodes) % 3
    names = ["change", "flips", "loss", "accuracy", "class:1"]
    found = nora.influence(model, data, measure=names, progress=False)
    effect = nora.what_if(model, data, 2)
    reply = effect.measured(names, data)
    assert reply["change"] == pytest.approx(effect.total, abs=1e-12)
    assert reply["flips"] == len(effect.flips()) == effect.measured("flips")
    for name, values in found.columns.items():
        assert reply[name] == pytest.approx(float(values[2]), abs=1e-9)
    assert effect.measured("class:b", class_names="abc") == pytest.approx(reply["class:1"])


def test_scores_by_measures_are_kept_and_saved(data: Data, tmp_path: Path) -> None:
    model = network()
    asked = {"measure": ["flips", "change"], "by": "camp", "progress": False}
    some = nora.influence(model, data, nodes=[1, 3], checkpoint=tmp_path / "run", **asked)
    assert int((~some.scores.isnan()).sum()) == 2
    found = nora.influence(model, data, checkpoint=tmp_path / "run", **asked)
    plain = nora.influence(model, data, **asked)
    pd.testing.assert_frame_equal(found.to_frame(), plain.to_frame())
    pd.testing.assert_frame_equal(
        nora.merge_checkpoints([tmp_path / "run"]).to_frame(), plain.to_frame()
    )
    for other in ({"measure": "change"}, {"measure": ["flips", "change"]}, {"measure": "flips"}):
        with pytest.raises(ValueError, match="belongs to another run"):
            nora.influence(
                model, data, "exact", checkpoint=tmp_path / "run", progress=False, **other
            )
    for suffix in ("csv", "parquet"):
        back = nora.Influence.load(plain.save(tmp_path / f"scores.{suffix}"))
        pd.testing.assert_frame_equal(back.to_frame(), plain.to_frame())
        assert back.measure == "flips"
    parts = [
        nora.influence(model, data, nodes=nodes, **asked) for nodes in ([0, 1, 2], range(3, 8))
    ]
    merged = nora.Influence.merge(parts)
    pd.testing.assert_frame_equal(merged.to_frame(), plain.to_frame())
    mean = nora.Influence.mean([plain, plain])
    torch.testing.assert_close(mean.columns["change"], plain.columns["change"])
    assert plain[:2].columns["change"].isnan().sum() == 6


def test_a_function_in_a_checkpoint_is_distinguished_from_another(
    data: Data, tmp_path: Path
) -> None:
    def one(before: Tensor, after: Tensor, items: Tensor) -> Tensor:
        return (before - after)[:, 0]

    def other(before: Tensor, after: Tensor, items: Tensor) -> Tensor:
        return (before - after)[:, 1]

    asked = {"checkpoint": tmp_path / "run", "progress": False}
    nora.influence(network(), data, measure={"mine": one}, **asked)
    with pytest.raises(ValueError, match="its options differ"):
        nora.influence(network(), data, measure={"mine": other}, **asked)


def test_the_largest_in_size_come_first(data: Data) -> None:
    found = nora.influence(network(), data, measure="class:1", progress=False)
    values = found.sort()["influence"]
    assert values.abs().is_monotonic_decreasing
    assert "measure='class:1'" in repr(found)
    assert found.plot(3) is not None


REFUSED = [
    ({"measure": "loss:val"}, r"needs data\.val_mask.*are: test"),
    ({"measure": "class"}, "needs a class"),
    ({"measure": "class:3"}, r"'3' is not a class of this model\..*0 … 2"),
    ({"measure": "flips:2"}, "takes no argument"),
    ({"measure": []}, "measure is empty"),
    ({"measure": ["flips", "flips"]}, "names 'flips' twice"),
    ({"measure": 3}, "must be a name, a function"),
    ({"measure": [3]}, "a measure is a name or a function"),
    ({"measure": lambda before, after, items: before}, "must give one value per item"),
    ({"by": "cam"}, "attribute.*nodes. Did you mean 'camp'"),
    ({"by": [1, 2]}, "by must.*8; got 2"),
    ({"by": "x"}, "must be one value per node"),
    ({"by": [None] * 8}, "by has no known value"),
    ({"measure": "flips", "method": "nora"}, "the change of predictions only"),
    ({"measure": "flips", "method": "exakt"}, "Did you mean 'exact'"),
    ({"measure": "flips", "verifi": 2}, "option 'verifi'. Did you mean 'verify'"),
    ({"measure": "flips", "labels": {0: 1.0}}, "learn from labels"),
]


@pytest.mark.parametrize(("asked", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_cannot_be_measured_is_refused(asked: dict, message: str, data: Data) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        nora.influence(network(), data, progress=False, **asked)


def test_measures_that_do_not_fit_the_task_are_refused(data: Data) -> None:
    model = network()
    links = nora.LinkPrediction(some_pairs(data))
    for measure, task, message in (
        ("flips", nora.NodeRegression(), "the task predicts values"),
        ("accuracy", nora.NodeRegression(), "the task predicts values"),
        ("class:1", links, "the task predicts links"),
        ("loss", links, "the task predicts links"),
    ):
        with pytest.raises(ValueError, match=message):
            nora.influence(model, data, task=task, measure=measure, progress=False)
    with pytest.raises(ValueError, match="by= groups predictions of nodes"):
        nora.influence(model, data, task=links, by="camp", progress=False)
    del data.y
    with pytest.raises(ValueError, match="data has no y"):
        nora.influence(model, data, measure="loss", progress=False)
    data.y = torch.full((8,), 3)
    with pytest.raises(ValueError, match=r"data\.y names class 3.*model predicts 3 classes"):
        nora.influence(model, data, measure="loss", progress=False)
    data.y = torch.full((8,), -1)
    with pytest.raises(ValueError, match="no prediction that counts has a label"):
        nora.influence(model, data, measure="accuracy", progress=False)


def test_a_run_knows_its_classes_and_its_split() -> None:
    run = nora.train("gcn", "karate", epochs=5, progress=False)
    session = run.session()
    found = session.influence(measure=["accuracy:test", "class:1"], progress=False)
    assert not found.scores.isnan().any()
    with pytest.raises(ValueError, match="masks: 'test' must be a mask"):
        nora.Session(run.model, run.data, masks={"test": torch.tensor([1, 2])})


@pytest.mark.parametrize("measure", ["flips", "class:1", "change"])
def test_who_and_which_group_by_a_measure(measure: str, data: Data) -> None:
    session = nora.Session(network(), data)
    node = 2
    truth = {
        other: session.what_if(other).measured(measure, data) for other in range(data.num_nodes)
    }
    reply = session.influencers(node, data.num_nodes, measure=measure, progress=False)
    alone = nora.Session(network(), data, targets=[node])
    mine = {
        other: alone.what_if(other).measured(measure, data)
        for other in range(data.num_nodes)
        if other != node
    }
    found = dict(zip(reply["node"], reply["influence"], strict=True))
    assert set(found) == {other for other, value in mine.items() if value}
    for other, value in found.items():
        assert value == pytest.approx(mine[other], abs=1e-9)
    sizes = [abs(value) for value in reply["influence"]]
    assert sizes == sorted(sizes, reverse=True)

    group = session.best_group(2, measure=measure, progress=False)
    assert group.measure == measure
    both = session.what_if(list(group.nodes)).measured(measure, data)
    assert group.total == pytest.approx(abs(both), abs=1e-9)
    assert group.influences == pytest.approx([abs(truth[one]) for one in group.nodes], abs=1e-9)
    first = sorted(truth, key=lambda one: (-abs(truth[one]), one))[:2]
    assert group.total >= abs(session.what_if(first).measured(measure, data)) - 1e-9


def test_who_and_which_group_take_one_measure(data: Data) -> None:
    session = nora.Session(network(), data)
    with pytest.raises(ValueError, match=r"influencers are ranked.*got 2: change, flips"):
        session.influencers(0, measure=["change", "flips"], progress=False)
    with pytest.raises(ValueError, match=r"group is chosen.*measure, got 2"):
        session.best_group(2, measure=["change", "flips"], progress=False)
