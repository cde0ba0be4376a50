"""Fingerprints: what computes differently is distinguished, and what computes the same is not."""

from __future__ import annotations

import copy
import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import (
    GAE,
    GATConv,
    GCNConv,
    HeteroConv,
    TransformerConv,
)
from torch_geometric.transforms import SIGN, Compose, ToUndirected

import nora
from fingerprinted import (
    DECODERS_THAT_DIFFER,
    GRAPHS_THAT_DIFFER,
    MODELS_THAT_DIFFER,
    Net,
    Setting,
    a_graph,
    code,
    digests,
    hooked,
    notebook_net,
    parametrised,
    scaled,
    scripted,
    typed,
)
from graphs import FEATURES, bridge, double, some_pairs, two_camps
from networks import network, patchwork
from nora import LinkPrediction, NodeClassification
from nora.model import build_problem
from nora.model.content import UnknownContentError, content_digest
from nora.model.fingerprint import fingerprint, graph_fingerprint
from nora.model.preserve import seeded

PIECES = ("model", "graph", "task", "targets", "labels")


@pytest.mark.parametrize("pair", MODELS_THAT_DIFFER.values(), ids=MODELS_THAT_DIFFER.keys())
def test_models_that_differ(pair: tuple[nn.Module, nn.Module]) -> None:
    assert content_digest(pair[0]) != content_digest(pair[1])


@pytest.mark.parametrize("pair", DECODERS_THAT_DIFFER.values(), ids=DECODERS_THAT_DIFFER.keys())
def test_decoders_that_differ(pair: tuple[Any, Any]) -> None:
    data = double(bridge())
    prints = [
        fingerprint(
            build_problem(network(), data, LinkPrediction(some_pairs(data), decoder=decoder)),
            "brute",
            {},
        )
        for decoder in pair
    ]
    assert differing(*prints) == ["task"]


def differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    assert one.keys() == other.keys()
    return [key for key in one if one[key] != other[key]]


@pytest.mark.parametrize("pair", GRAPHS_THAT_DIFFER.values(), ids=GRAPHS_THAT_DIFFER.keys())
def test_graphs_that_differ(pair: tuple[Any, Any]) -> None:
    assert content_digest(pair[0]) != content_digest(pair[1])


def test_a_saved_run_tells_sizes_and_sparse_matrices_apart_too() -> None:
    for name in ("isolated nodes", "sparse rows", "sparse entries", "nodes of each type"):
        one, other = GRAPHS_THAT_DIFFER[name]
        assert graph_fingerprint(one) != graph_fingerprint(other), name
    # As in the runs that were saved before.
    assert graph_fingerprint(nora.load_dataset("karate").data) == "ef253930fe404482"


QUESTIONS_THAT_DIFFER = {
    "classes": ("task", {"task": NodeClassification(classes=[1])}),
    "return type": ("task", {"task": NodeClassification(return_type="log_probs")}),
    "mode": ("task", {"task": NodeClassification(mode="multilabel")}),
    "links": ("task", {"task": LinkPrediction(torch.tensor([[0], [1]]))}),
    "targets": ("targets", {"targets": [0, 1]}),
    "labels": ("labels", {"labels": {0: 1.0}}),
    "forward": ("model", {"forward": lambda model, data: model(data.x, data.edge_index)}),
    "transform": ("model", {"transform": ToUndirected()}),
}


@pytest.mark.parametrize(
    ("named", "changed"), QUESTIONS_THAT_DIFFER.values(), ids=QUESTIONS_THAT_DIFFER.keys()
)
def test_a_question_that_differs_says_in_what(named: str, changed: dict[str, Any]) -> None:
    plain = fingerprint(build_problem(network(), double(bridge())), "brute", {})
    other = fingerprint(build_problem(network(), double(bridge()), **changed), "brute", {})
    assert differing(plain, other) == [named]
    assert set(PIECES) < plain.keys()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SIGN(1), SIGN(2)),
        (Compose([SIGN(1)]), Compose([SIGN(2)])),
        (ToUndirected(reduce="add"), ToUndirected(reduce="mean")),
        (lambda data: SIGN(1)(data), lambda data: SIGN(2)(data)),
    ],
)
def test_transforms_that_differ(one: Any, other: Any) -> None:
    assert content_digest(one) != content_digest(other)


def test_relations_and_pairs_of_a_task_are_distinguished() -> None:
    data = double(bridge())
    pairs = some_pairs(data)

    def decoder(z: Tensor, pairs: Tensor, relation: Tensor) -> Tensor:
        return z[pairs[0]].sum(-1) * relation

    relations = [torch.full(pairs.shape[1:], kind) for kind in (0, 1)]
    tasks = [LinkPrediction(pairs, decoder, relation=relation) for relation in relations]
    tasks.append(LinkPrediction(pairs.flip(0), decoder, relation=relations[0]))
    prints = [
        fingerprint(build_problem(network(), data, task), "brute", {})["task"] for task in tasks
    ]
    assert len(set(prints)) == 3


def test_a_models_own_decoder_belongs_to_the_model() -> None:
    data = bridge()
    prints = []
    for seed in (0, 1):
        with seeded(seed):
            model = GAE(GCNConv(FEATURES, 3))
        problem = build_problem(model, data, LinkPrediction(some_pairs(data)))
        prints.append(fingerprint(problem, "brute", {}))
    assert differing(*prints) == ["model"]


# Pairs that must be equal


def after(model: nn.Module, change: Callable[[nn.Module], Any]) -> nn.Module:
    model = copy.deepcopy(model)
    change(model)
    return model


def forward_pass(model: nn.Module) -> None:
    data = double(two_camps())
    model(data.x, data.edge_index)


def hook_and_remove(model: nn.Module) -> None:
    model.register_forward_hook(lambda *_: None).remove()


class Remembers(nn.Module):
    """A property that is computed once."""

    @functools.cached_property
    def eye(self) -> Tensor:
        return torch.eye(2)


def attentive(used: bool) -> nn.Module:
    with seeded(0):
        layer = TransformerConv(3, 3)
    layer._alpha = torch.rand(3) if used else None
    return layer


MODELS_THAT_ARE_EQUAL = {
    "rebuilt": (network(), network()),
    "copied": (patchwork(), copy.deepcopy(patchwork())),
    "in training": (network(), after(network(), nn.Module.train)),
    "cached normalisation": (
        patchwork(cached=True),
        after(patchwork(cached=True), forward_pass),
    ),
    "attention left behind": (attentive(False), attentive(True)),
    "a cached property": (Remembers(), after(Remembers(), lambda model: model.eye)),
    "a hook that was removed": (network(), after(network(), hook_and_remove)),
    "frozen weights": (network(), after(network(), lambda model: model.requires_grad_(False))),
    "a hook set later": (
        after(Net(), lambda m: m.register_forward_hook(torch.add)),
        after(Net(), lambda m: (hook_and_remove(m), m.register_forward_hook(torch.add))),
    ),
    "order of attributes": (Net(a=1, b=2), Net(b=2, a=1)),
    "a cell run again": (notebook_net("relu"), notebook_net("relu")),
    "an unused global": (
        Net(a=code("A = 1\nmade = lambda x: x")),
        Net(a=code("A = 2\nmade = lambda x: x")),
    ),
    "another line, name and comment": (
        Net(a=code("def made(x): return x * 2")),
        Net(a=code("\n# twice\ndef double(x):\n    return x * 2\nmade = double")),
    ),
    "to_hetero": (typed("relu"), copy.deepcopy(typed("relu"))),
    "parametrised": (parametrised(0), copy.deepcopy(parametrised(0))),
    "scripted": (scripted(2), after(scripted(2), nn.Module.eval)),
    "non-contiguous": (Net(a=torch.eye(3)[:, :2]), Net(a=torch.eye(3)[:, :2].contiguous())),
    "a copied dataclass": (Net(a=Setting(1.0)), Net(a=copy.deepcopy(Setting(1.0)))),
}


@pytest.mark.parametrize("pair", MODELS_THAT_ARE_EQUAL.values(), ids=MODELS_THAT_ARE_EQUAL.keys())
def test_models_that_are_equal(pair: tuple[nn.Module, nn.Module]) -> None:
    assert content_digest(pair[0]) == content_digest(pair[1])


def test_every_registered_model_and_many_layers_are_read_and_equal_to_their_copies() -> None:
    models = [network(name) for name in ("gcn", "sage", "gat", "gcnii")]
    models.append(HeteroConv({("a", "to", "a"): GATConv(3, 3)}))
    models += [nn.LSTM(3, 3), nn.MultiheadAttention(4, 2), nn.utils.weight_norm(nn.Linear(2, 2))]
    for model in models[:-1]:
        assert content_digest(model) == content_digest(copy.deepcopy(model))
    assert len({content_digest(model) for model in models}) == len(models)


def test_what_is_said_in_two_ways_is_one_graph_and_one_task() -> None:
    plain, other = a_graph(), a_graph(num_nodes=4)
    reordered = Data(edge_index=plain.edge_index, x=plain.x)
    assert content_digest(plain) == content_digest(other) == content_digest(reordered)
    prints = [
        fingerprint(build_problem(network(), double(bridge()), task), "brute", {})
        for task in (None, NodeClassification(), NodeClassification(return_type="raw"))
    ]
    assert prints[0] == prints[1] == prints[2]


def test_a_forward_pass_leaves_no_trace() -> None:
    data, model = double(two_camps()), patchwork(cached=True)
    problem = build_problem(model, data)
    with problem.evaluating():
        before = fingerprint(problem, "brute", {})
        problem.run(data)
        assert fingerprint(problem, "brute", {}) == before


def test_compiling_changes_nothing() -> None:
    plain = Net(a=nn.ReLU())
    assert content_digest(Net(a=torch.compile(nn.ReLU()))) == content_digest(plain)
    assert content_digest(Net(a=torch.compile(nn.Tanh()))) != content_digest(plain)
    assert content_digest(after(plain, nn.Module.compile)) == content_digest(plain)
    assert content_digest(torch.compile(scaled)) == content_digest(scaled)


ELSEWHERE = """
import sys
sys.path.insert(0, sys.argv[1])
from nora.model.content import content_digest
content_digest(int)  # classes are known without any other import
import fingerprinted
print(*fingerprinted.digests())
"""


def test_another_process_with_other_hashes_finds_the_same() -> None:
    caught = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ELSEWHERE, Path(__file__).parents[1]],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert caught.stdout.split() == digests()


# Values of any kind


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.0, -0.0, 1.0, float("nan")]),
    st.text("ab'", max_size=2),
    st.binary(max_size=2),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(VALUES, VALUES)
def test_values_are_equal_when_they_are_written_the_same(one: Any, other: Any) -> None:
    assert (content_digest(one) == content_digest(other)) == (repr(one) == repr(other))
    assert content_digest(one) == content_digest(copy.deepcopy(one))


def test_circles_end_and_are_distinguished() -> None:
    def circle(size: int, last: int = 0) -> list[Any]:
        first: list[Any] = []
        here = first
        for at in range(size - 1):
            following: list[Any] = [at == size - 2 and last]
            here.append(following)
            here = following
        here.append(first)
        return first

    assert content_digest(circle(3)) == content_digest(circle(3))
    assert content_digest(circle(3)) != content_digest(circle(4))
    assert content_digest(circle(3)) != content_digest(circle(3, last=1))
    model = Net()
    model.__dict__["whole"] = model
    model.act = model.conv.forward
    assert content_digest(model) == content_digest(copy.deepcopy(model))
    # Who is meant by a circle within a part that is used twice.
    shared: list[Any] = []
    a, b = [shared], [shared]
    shared.append(a)
    apart: list[Any] = []
    c = [apart]
    apart.append(c)
    assert content_digest([a, b]) != content_digest([a, c])


def test_functions_that_call_each_other_end() -> None:
    text = """
def even(n): return True if n == 0 else odd(n - 1)
def odd(n): return False if n == 0 else even(n - {step})
made = even
"""
    one, again, other = (content_digest(code(text.format(step=step))) for step in (1, 1, 2))
    assert one == again != other


def opened() -> Any:
    return Path(os.devnull).open()


@pytest.mark.parametrize(
    ("model", "where"),
    [
        (lambda file: Net(log=file), r"model\.log is"),
        (lambda file: Net(notes={"a": [1, file]}), r"model\.notes\['a'\]\[1\] is"),
        (lambda file: Net(act=lambda x: file.write(str(x))), r"model\.act → file is"),
        (lambda file: Net(set=Setting(file)), r"model\.set\.scale is"),
        (lambda file: hooked(functools.partial(print, file=file)), r"_forward_hooks\[0\]\[0\]"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_way_to_it(
    model: Callable[[Any], nn.Module], where: str
) -> None:
    with opened() as file:
        problem = build_problem(model(file), bridge())
        with pytest.raises(UnknownContentError, match=rf"{where}.*TextIOWrapper.*key="):
            fingerprint(problem, "brute", {})
        one, again, other = (fingerprint(problem, "brute", {}, key) for key in ("a", "a", "b"))
    assert one == again
    assert differing(one, other) == ["model", "key"]


def test_in_the_graph_it_is_refused_as_well() -> None:
    with opened() as file:
        problem = build_problem(network(), double(bridge()))
        problem.data.log = file
        with pytest.raises(UnknownContentError, match=r"data\.log is"):
            fingerprint(problem, "brute", {})


def test_too_deep_a_nesting_is_an_error_that_says_so() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(UnknownContentError, match="nested too deeply"):
        content_digest({"model": nested})


def test_a_large_graph_takes_no_time() -> None:
    data = Data(x=torch.rand(50_000, 200), edge_index=torch.randint(50_000, (2, 500_000)))
    start = time.perf_counter()
    content_digest(data)
    assert time.perf_counter() - start < 5
