"""A short run of the fuzzer, and that it finds what it is there to find."""

from __future__ import annotations

import inspect
import json
import sys
import types
from typing import Any

import pytest
import torch
from torch_geometric.nn import conv as convolutions

import by_hand
import nora
from fuzz import edge_pieces, grammar, graphs
from fuzz.layers import EXCLUDED, EXPLICIT, GENERIC
from fuzz.pool import outcomes
from fuzz.question import Case, new_case
from fuzz.script import script
from fuzz.shrink import shrink
from fuzz.trial import BAD, CATEGORIES, judge, run
from fuzz.unruly import unruly

CHUNKS, EACH, FIRST = 8, 7, 10**6


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_number_is_wrong_and_nothing_crashes(chunk: int) -> None:
    start = FIRST + chunk * EACH
    bad = [one for one in map(run, range(start, start + EACH)) if one.category in BAD]
    assert not bad, "\n".join(
        f"python -m fuzz.shrink {one.seed} all: {one.category}: {one.detail}" for one in bad
    )


def test_operations_between_nodes_and_edges_are_followed_in_every_question() -> None:
    found = [edge_pieces.run(seed) for seed in range(8)]
    assert [one.category for one in found] == ["equal"] * 8, [one.detail for one in found]


def test_every_convolution_of_pyg_is_tried_or_left_out_for_a_reason() -> None:
    tried = {name.split()[0] for name in EXPLICIT} | set(GENERIC)
    assert tried | set(EXCLUDED) >= set(convolutions.__all__)
    assert not tried & set(EXCLUDED)
    assert tried | set(EXCLUDED) <= set(convolutions.__all__)
    assert all(len(reason.split()) > 2 for reason in EXCLUDED.values())


def simple(*pieces: str, **question: Any) -> Case:
    """A plain case with these pieces in the model, one of each kind of question asked."""
    case = new_case(5, "data")
    case["graph"].update(shape="both ways", n=14, weights="positive", features="normal")
    case["graph"]["dtype"] = "float64"
    steps = [{"piece": p, "with": [s[0] for s in grammar.PIECES[p].slots]} for p in pieces]
    case["model"].update(start="tanh", steps=steps, end="linear", return_type="raw", call="plain")
    case["model"]["mode"] = None
    everything = {"task": "node", "classes": None, "targets": None, "nodes": [0, 3, 13]}
    everything |= {"groups": [[1, 2]], "effects": False, "brute": False, "top": None}
    case["question"].update({**everything, **question})
    return case


def test_every_piece_runs_and_gives_numbers() -> None:
    data = graphs.make_graph(simple()["graph"])
    for name in grammar.PIECES:
        spec = simple(name)["model"]
        total = by_hand.Oracle(grammar.build(spec, data), data, grammar.caller(spec)).total([2])
        assert total == total and total < float("inf"), name


def test_a_case_is_plain_data_and_the_same_for_the_same_seed() -> None:
    for kind in ("data", "hetero"):
        case = new_case(7, kind)
        assert json.loads(json.dumps(case)) == case == new_case(7, kind)


def test_the_oracle_knows_nothing_of_the_product() -> None:
    assert "nora" not in inspect.getsource(by_hand)


def test_right_numbers_are_equal_for_every_question() -> None:
    case = simple("GCNConv", "tanh", "SAGEConv", effects=True, brute=True, top=3)
    outcome = judge(case)
    assert (outcome.category, outcome.detail) == ("equal", "")
    assert outcome.largest > 1e-3


@pytest.mark.parametrize("question", ["influence", "what_if", "top"])
def test_a_slightly_wrong_number_is_found(question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = getattr(nora, question)

    def wrong(*arguments: Any, **options: Any) -> Any:
        found = right(*arguments, **options)
        if question == "influence":
            found.scores.mul_(1 + 1e-5)
        elif question == "what_if":
            found.after[3] += 1e-5
        else:
            object.__setattr__(found, "scores", tuple(1e-5 + s for s in found.scores))
        return found

    monkeypatch.setattr(nora, question, wrong)
    outcome = judge(simple("GCNConv", effects=True, top=3))
    assert outcome.category == "wrong"
    assert question in outcome.detail or "exact" in outcome.detail


def test_a_false_certificate_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = nora.influence

    def last(model: Any, data: Any, k: int, task: Any, **options: Any) -> Any:
        scores = right(model, data, "exact", task, progress=False).scores
        worst = scores.argsort()[:k]
        return nora.Top(tuple(worst.tolist()), tuple(scores[worst].tolist()), k, 14, 14, 0.0, 0.0)

    monkeypatch.setattr(nora, "top", last)
    outcome = judge(simple("GCNConv", top=3))
    assert outcome.category == "wrong" and "certified" in outcome.detail


@pytest.mark.parametrize(
    "error", [KeyError("x"), ValueError("not enough values to unpack"), RuntimeError("no")]
)
def test_an_error_that_explains_nothing_is_a_crash(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(nora, "influence", broken)
    assert judge(simple("GCNConv")).category == "crash"


def test_a_changed_model_or_graph_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = nora.influence

    def careless(model: Any, data: Any, *arguments: Any, **options: Any) -> Any:
        found = right(model, data, *arguments, **options)
        data.x[0] += 1
        model.end.bias.data += 1
        torch.rand(1)
        return found

    monkeypatch.setattr(nora, "influence", careless)
    outcome = judge(simple("GCNConv"))
    assert outcome.category == "wrong"
    assert all(part in outcome.detail for part in ("end.bias", "data.x", "random state"))


def test_a_refusal_names_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    right = nora.influence

    def astray(*arguments: Any, **options: Any) -> Any:
        return right(*arguments, **{**options, "nodes": [99]})

    monkeypatch.setattr(nora, "influence", astray)
    outcome = judge(simple("GCNConv"))
    assert outcome.category == "refused" and "99 is out of range" in outcome.detail


def test_a_failing_case_shrinks_to_what_fails() -> None:
    case = simple("tanh", "GCNConv", "position", "SAGEConv", "mean", effects=True, top=3)

    def fails(smaller: Case) -> bool:
        names = [step["piece"] for step in smaller["model"]["steps"]]
        data = graphs.make_graph(smaller["graph"])
        return "SAGEConv" in names and data.edge_index.size(1) >= 2

    small = shrink(case, fails)
    left = graphs.make_graph(small["graph"])
    assert [step["piece"] for step in small["model"]["steps"]] == ["SAGEConv"]
    assert left.edge_index.size(1) == 2 and left.num_nodes <= 4
    assert small["question"]["top"] is None and len(small["question"]["nodes"]) == 1
    assert fails(small)


def test_shrinking_what_does_not_fail_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fail"):
        shrink(simple("GCNConv"))


@pytest.mark.parametrize("kind", ["data", "hetero"])
def test_a_script_asks_what_the_case_asks(
    kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = simple("own attention", "degree") if kind == "data" else new_case(3, "hetero")
    case["question"].update(
        effects=False, brute=False, top=None, nodes=case["question"]["nodes"][:2]
    )
    text = script(case)
    space = types.ModuleType("asked")
    monkeypatch.setitem(sys.modules, "asked", space)  # PyG looks annotations up there
    exec(compile(text, "<script>", "exec"), vars(space))
    printed = capsys.readouterr().out
    assert "fuzz" not in text.replace("fuzz model", "")
    true = text.rsplit("# [", 1)[1].split("]")[0]
    numbers = printed[printed.index("[") + 1 : printed.index("]")]
    found = [float(one) for one in numbers.split(",")]
    assert found == pytest.approx([float(one) for one in true.split(",")], abs=1e-3)


def test_a_trial_that_dies_or_hangs_costs_one_seed() -> None:
    found = {one["seed"]: one for one in outcomes(range(4), "data", 2, patience=2, trial=unruly)}
    assert {seed: one["category"] for seed, one in found.items()} == {
        0: "equal", 1: "crash", 2: "crash", 3: "equal"
    }  # fmt: skip
    assert "ended with 3" in found[1]["detail"] and "no answer" in found[2]["detail"]
    assert set(CATEGORIES) >= {one["category"] for one in found.values()}
