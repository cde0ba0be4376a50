"""What holds for every method. A new method is tested by being registered."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import nora
from graphs import GRAPHS, double, some_pairs, without_edges
from half import half
from networks import PLAIN, network, patchwork
from nora import Influence, LinkPrediction, NodeClassification
from nora.methods import METHODS
from nora.model.task import Task

# A method that chooses another one gives what that one gives: tests/methods/test_auto.py.
NAMES = [entry.name for entry in METHODS if not entry.facts.chooses]
EXACT = [entry.name for entry in METHODS if entry.facts.exact and entry.name != "brute"]

every_method = pytest.mark.parametrize("method", NAMES)
every_task = pytest.mark.parametrize("task", ["node", "link"])


def posed(kind: str, task: str) -> tuple[Data, Task]:
    data = double(GRAPHS[kind]())
    return data, NodeClassification() if task == "node" else LinkPrediction(some_pairs(data))


def score(method: str, data: Data, task: Task, **changes: object) -> Influence:
    model = changes.pop("model", None) or network()
    if METHODS[method].facts.labels == "required":
        # The true influence of most nodes, so that a few are held back too.
        known = range(data.num_nodes - 1)
        truth = nora.influence(model, data, "brute", task, nodes=known, progress=False)
        changes["labels"] = truth
        changes.setdefault("epochs", 20)  # what holds of every method holds of a hasty one
    return nora.influence(model, data, method, task, progress=False, **changes)


def is_fact(method: str, fact: str) -> bool:
    return getattr(METHODS[method].facts, fact)


@pytest.mark.parametrize(("method", "task", "kind"), half(NAMES, ["node", "link"], GRAPHS))
def test_every_node_gets_a_finite_score_and_those_left_out_get_nan(
    method: str, task: str, kind: str
) -> None:
    data, task_for = posed(kind, task)
    result = score(method, data, task_for)
    assert result.scores.shape == (data.num_nodes,)
    assert result.scores.is_floating_point()
    assert torch.isfinite(result.scores).all()
    assert (result.scores >= 0).all()
    assert (result.scores > 0).any()
    assert (result.method, result.task) == (method, task)
    assert result.seconds > 0
    asked = [1, 3, 4]
    some = score(method, data, task_for, nodes=asked).scores
    assert (~some.isnan()).nonzero().flatten().tolist() == asked
    torch.testing.assert_close(some[asked], result.scores[asked], rtol=1e-9, atol=1e-12)


@every_task
@pytest.mark.parametrize("method", [name for name in NAMES if is_fact(name, "uses_model")])
def test_nodes_without_edges_have_no_influence(method: str, task: str) -> None:
    data, task_for = posed("isolated", task)
    apart = without_edges(data)
    assert apart.tolist() == [4, 5]
    assert score(method, data, task_for).scores[apart].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("task", "kind", "name"), half(["node", "link"], GRAPHS, [*PLAIN, "patchwork"])
)
@pytest.mark.parametrize("method", EXACT)
def test_exact_methods_equal_brute_force(method: str, task: str, kind: str, name: str) -> None:
    data, task_for = posed(kind, task)
    model = patchwork() if name == "patchwork" else network(name, norm=True, layers=3)
    truth = score("brute", data, task_for, model=model).scores
    found = score(method, data, task_for, model=model).scores
    torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", EXACT)
@every_task
def test_exact_methods_equal_brute_force_on_targets(method: str, task: str) -> None:
    data, task_for = posed("two_camps", task)
    truth = score("brute", data, task_for, targets=[1, 4]).scores
    found = score(method, data, task_for, targets=[1, 4]).scores
    torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-9)


@every_task
@every_method
def test_targets_are_honoured_or_refused(method: str, task: str) -> None:
    data, task_for = posed("two_camps", task)
    items = task_for.num_items(data.num_nodes)
    if not is_fact(method, "uses_targets"):
        with pytest.raises(ValueError, match=f"method '{method}' does not look at predictions"):
            score(method, data, task_for, targets=[0])
        return
    every = score(method, data, task_for)
    named = score(method, data, task_for, targets=range(items))
    torch.testing.assert_close(named.scores, every.scores, rtol=1e-9, atol=1e-12)
    few = score(method, data, task_for, targets=[0, 1])
    assert torch.isfinite(few.scores).all()
    assert few.scores.sum() < 0.9 * every.scores.sum()


@every_task
@every_method
def test_a_second_call_gives_the_same_scores_to_the_last_bit(method: str, task: str) -> None:
    data, task_for = posed("bridge", task)
    first = score(method, data, task_for)
    torch.manual_seed(99)
    assert torch.equal(score(method, data, task_for).scores, first.scores)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@every_method
def test_saved_scores_come_back_with_their_provenance(
    method: str, suffix: str, tmp_path: Path
) -> None:
    data, task_for = posed("bridge", "link")
    made = score(method, data, task_for, nodes=[0, 2, 5])
    back = Influence.load(made.save(tmp_path / f"scores.{suffix}"))
    assert torch.equal(back.scores.nan_to_num(-1), made.scores.nan_to_num(-1))
    assert back.scores.dtype == made.scores.dtype
    assert (back.method, back.task, back.seconds) == (method, "link", made.seconds)
    assert back.options == made.options
    assert back.details == made.details


@every_task
@every_method
def test_a_model_written_by_a_user_works_unchanged(method: str, task: str) -> None:
    data, task_for = posed("bridge", task)
    scores = score(method, data, task_for, model=patchwork(cached=True)).scores
    assert torch.isfinite(scores).all()
    fresh = score(method, data, task_for, model=patchwork(cached=False)).scores
    if method != "cauchy":  # a sketch depends on how the model is followed
        torch.testing.assert_close(scores, fresh)


@every_method
def test_the_part_of_the_graph_that_is_not_asked_about_changes_nothing(method: str) -> None:
    """Extra tensors on the graph (labels, masks, names) do not concern a method."""
    data, task = posed("two_camps", "node")
    plain = score(method, data, task).scores
    data.y = torch.zeros(8, dtype=torch.long)
    data.train_mask = torch.ones(8, dtype=torch.bool)
    data.title = "two camps"
    assert torch.equal(score(method, data, task).scores, plain)


@every_method
def test_every_method_says_what_it_is_in_one_line(method: str) -> None:
    summary = METHODS[method].summary
    assert 10 < len(summary) < 100
    assert "\n" not in summary


def test_the_methods_of_the_foundation_are_there() -> None:
    assert {"brute", "nora", "nora-t1", "nora-t2", "degree", "pagerank"} <= set(NAMES)
