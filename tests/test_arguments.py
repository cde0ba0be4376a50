"""Arguments of the wrong kind are refused in one sentence that says what was got."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nora

RUN = nora.train("gcn", "karate", epochs=2, progress=False)
MODEL, DATA = RUN.model, RUN.data
SCORES = nora.Influence(torch.ones(3), "brute")
EMPTY = torch.zeros(2, 0, dtype=torch.long)


def ask(*args: Any, **given: Any) -> Any:
    return nora.influence(MODEL, DATA, *args, progress=False, **given)


def on(**changes: Any) -> Any:
    data = DATA.clone()
    for key, value in changes.items():
        setattr(data, key, value)
    return nora.influence(MODEL, data, progress=False)


def train(**given: Any) -> Any:
    return nora.train(
        **{"model": "gcn", "dataset": "karate", "epochs": 1, "progress": False} | given
    )


def links(pairs: Any) -> Any:
    return ask(task=nora.LinkPrediction(pairs))


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "x as an array": (lambda: on(x=DATA.x.numpy()), "x must be a tensor, got ndarray"),
    "x as a list": (lambda: on(x=DATA.x.tolist()), "x must be a tensor, got list"),
    "x without numbers": (lambda: on(x=DATA.x.to("meta")), "x is on the device 'meta'"),
    "x in other numbers": (
        lambda: on(x=DATA.x.double()),
        "use x.to(torch.float32)",
    ),
    "edges as an array": (
        lambda: on(edge_index=DATA.edge_index.numpy()),
        "edge_index must be a tensor, got ndarray",
    ),
    "edges as floats": (lambda: on(edge_index=DATA.edge_index.float()), "edge_index"),
    "edges in three rows": (lambda: on(edge_index=torch.zeros(3, 5).long()), "edge_index"),
    "edges out of range": (lambda: on(edge_index=DATA.edge_index + 30), "edge_index"),
    "edges below zero": (lambda: on(edge_index=DATA.edge_index - 1), "edge_index"),
    "too few weights": (lambda: on(edge_weight=torch.ones(3)), "edge_weight"),
    "weights as an array": (lambda: on(edge_weight=np.ones(156)), "edge_weight"),
    "a graph as a dictionary": (lambda: nora.influence(MODEL, {}), "data must be a torch_geom"),
    "no model": (
        lambda: nora.influence(None, DATA),
        "got NoneType",
    ),
    "a model's class": (lambda: nora.influence(type(MODEL), DATA), "model must be a torch.nn"),
    "model and graph swapped": (lambda: nora.influence(DATA, MODEL), "model must be a torch.nn"),
    "a budget in words": (
        lambda: ask(budget="1min"),
        "budget of 'auto' takes a number, got '1min'",
    ),
    "no budget": (lambda: ask(budget=None), "budget of 'auto' takes a number, got None"),
    "a negative budget": (lambda: ask(budget=-1), "budget must be positive, got -1"),
    "a budget that is NaN": (lambda: ask(budget=float("nan")), "budget must be positive"),
    "a tolerance in words": (lambda: ask("exact", tolerance="low"), "takes a number, got 'low'"),
    "a tolerance yes": (lambda: ask("exact", tolerance=True), "takes a number, got True"),
    "a negative tolerance": (lambda: ask("exact", tolerance=-1), "tolerance"),
    "no nodes": (lambda: ask(nodes=[]), "nodes= names no node"),
    "half a node": (lambda: ask(nodes=[1.5]), "node ids must be integers"),
    "nodes that are not there": (lambda: ask(nodes=[99]), "node 99 is out of range"),
    "a mask too short": (
        lambda: ask(nodes=torch.ones(3).bool()),
        "mask has 3 entries, expected 34",
    ),
    "no node among nodes": (lambda: ask(nodes=[None]), "whole numbers from 0 to 33, got [None]"),
    "a node without end": (lambda: nora.what_if(MODEL, DATA, 2**70), "whole numbers from 0 to 33"),
    "a removal yes": (lambda: nora.what_if(MODEL, DATA, True), "whole numbers, one or several"),
    "groups by number": (
        lambda: ask("exact", measure="flips", by=3),
        "one value per node; got 3",
    ),
    "a checkpoint in a file": (
        lambda: ask("brute", checkpoint=__file__),
        "test_arguments.py is a file",
    ),
    "a report of another kind": (
        lambda: nora.write_report("r.pdf", MODEL, DATA, ask()),
        "use a .html name",
    ),
    "a report of nothing": (
        lambda: nora.write_report("r.html", MODEL, DATA, None),
        "scores must be a nora.Influence",
    ),
    "edges as a dictionary": (
        lambda: nora.read_graph({"source": [1], "target": [2]}),
        "a pandas DataFrame, got {",
    ),
    "numbers to evaluate": (lambda: nora.evaluate(1, 2), "must be a nora.Influence, or a list"),
    "a number for scores": (
        lambda: nora.to_networkx(DATA, 3),
        "or a tensor, got 3",
    ),
    "a rule for no class": (lambda: nora.rule(3), "classes of convolutions, e.g. GCNConv; got 3"),
    "nodes by name": (lambda: ask(nodes="1"), "node ids are numbers, got '1'"),
    "targets that are not there": (lambda: ask(targets=[99]), "99 is out of range"),
    "no targets": (lambda: ask(targets=[]), "target"),
    "a method by number": (lambda: ask(3), "unknown method 3"),
    "a task by name": (lambda: ask(task="node"), "task must be a NodeClassification"),
    "a task's class": (lambda: ask(task=nora.NodeClassification), "task must be a NodeClass"),
    "a checkpoint by number": (lambda: ask("brute", checkpoint=3), "checkpoint must be a string"),
    "a seed too large": (lambda: ask("cauchy", seed=10**20), "must fit into 64 bits"),
    "a seed in words": (lambda: ask("cauchy", seed="a"), "takes a whole number, got 'a'"),
    "half a seed": (lambda: ask("random", seed=1.5), "takes a whole number, got 1.5"),
    "samples in words": (lambda: ask("cauchy", samples="many"), "a whole number, got 'many'"),
    "no samples": (lambda: ask("cauchy", samples=0), "samples"),
    "a rate in words": (lambda: ask("mask", lr="x"), "option lr of 'mask' takes a number"),
    "no epochs of a mask": (lambda: ask("mask", epochs=0), "epochs"),
    "memory in words": (lambda: ask("exact", memory="lots"), "lots"),
    "less than no memory": (lambda: ask("exact", memory=-3), "memory"),
    "workers in words": (lambda: ask("exact", workers="2"), "workers of 'exact' takes a whole"),
    "less than no workers": (lambda: ask("exact", workers=-3), "workers"),
    "an unknown backend": (lambda: ask("exact", backend="gpu"), "gpu"),
    "an unknown option": (lambda: ask("nora", betta=1), "has no option 'betta'. Did you mean"),
    "no labels": (lambda: ask("predict-n"), "label"),
    "empty labels": (lambda: ask("predict-n", labels={}), "labels are empty"),
    "labels as a text": (lambda: ask("predict-n", labels="x"), "labels must be an Influence"),
    "labels of no node": (lambda: ask("predict-n", labels={99: 1.0}), "99 is out of range"),
    "labels unknown": (lambda: ask("predict-n", labels={1: float("nan")}), "labels hold NaN"),
    "labels below zero": (lambda: ask("predict-n", labels={1: -1.0}), "influences are ≥ 0"),
    "removing all": (lambda: nora.what_if(MODEL, DATA, range(34)), "all 34 nodes"),
    "removing nothing": (
        lambda: nora.what_if(MODEL, DATA),
        "the edit is empty: give remove=",
    ),
    "removing None": (lambda: nora.what_if(MODEL, DATA, None), "e.g. 17 or [3, 17]; got None"),
    "removing half": (lambda: nora.what_if(MODEL, DATA, 1.5), "e.g. 17 or [3, 17]; got 1.5"),
    "removing by name": (lambda: nora.what_if(MODEL, DATA, "a"), "node ids are numbers"),
    "removing below zero": (lambda: nora.what_if(MODEL, DATA, -1), "node -1 is out of range"),
    "edges as a text": (lambda: nora.what_if(MODEL, DATA, remove_edges="ab"), "edge"),
    "edges of three": (lambda: nora.what_if(MODEL, DATA, remove_edges=[(1, 2, 3)]), "edge"),
    "edges by number": (lambda: nora.what_if(MODEL, DATA, remove_edges=3), "edge"),
    "an edge that is not there": (
        lambda: nora.what_if(MODEL, DATA, remove_edges=[(0, 33)]),
        "edge 0–33 is not in the graph",
    ),
    "no pairs": (lambda: links(EMPTY), "the task has no pairs"),
    "pairs as an empty list": (lambda: links([]), "pairs must be a long tensor of shape [2, P]"),
    "pairs as a list": (lambda: links([[0, 1]]), "torch.tensor(pairs).t()"),
    "pairs in three rows": (lambda: links(torch.zeros(3, 2).long()), "got torch.int64 of shape"),
    "pairs as floats": (lambda: links(torch.zeros(2, 2)), "got torch.float32"),
    "pairs of no node": (lambda: links(torch.tensor([[0], [99]])), "99"),
    "no classes": (lambda: ask(task=nora.NodeClassification(classes=[])), "classes"),
    "a class that is not there": (
        lambda: ask(task=nora.NodeClassification(classes=[99])),
        "99",
    ),
    "the first none": (lambda: nora.top(MODEL, DATA, 0), "k must lie between 1 and 34"),
    "the first in words": (lambda: nora.top(MODEL, DATA, "5"), "k must be a whole number, got '5'"),
    "the first two and a half": (lambda: nora.top(MODEL, DATA, 2.5), "k must be a whole number"),
    "more than there are": (lambda: nora.top(MODEL, DATA, 100), "between 1 and 34"),
    "a top budget in words": (lambda: nora.top(MODEL, DATA, 3, budget="1min"), "got '1min'"),
    "a top budget of nothing": (lambda: nora.top(MODEL, DATA, 3, budget=0), "must be positive"),
    "a group of none": (lambda: nora.best_group(MODEL, DATA, 0), "size is 0"),
    "a group of all": (lambda: nora.best_group(MODEL, DATA, 34), "which is every node"),
    "a group in words": (lambda: nora.best_group(MODEL, DATA, "3"), "size must be a whole number"),
    "no candidates": (lambda: nora.best_group(MODEL, DATA, 1, candidates=[]), "0 candidates"),
    "too few candidates": (lambda: nora.best_group(MODEL, DATA, 3, candidates=[1]), "1 candidate"),
    "less than no rechecks": (lambda: nora.best_group(MODEL, DATA, 2, recheck=-1), "recheck"),
    "influencers of no node": (lambda: nora.influencers(MODEL, DATA, 99), "99 is out of range"),
    "no influencers": (lambda: nora.influencers(MODEL, DATA, 1, 0), "1"),
    "no rows": (lambda: nora.influence_matrix(MODEL, DATA, nodes=[]), "names no node"),
    "a large training seed": (lambda: train(seed=10**20), "seed must fit into 64 bits"),
    "a training seed in words": (lambda: train(seed="a"), "seed must be a whole number"),
    "half a training seed": (lambda: train(seed=1.5), "seed must be a whole number"),
    "no epochs": (lambda: train(epochs=0), "epochs must be at least 1, got 0"),
    "epochs in words": (lambda: train(epochs="5"), "epochs must be a whole number, got '5'"),
    "a training rate in words": (lambda: train(lr="x"), "lr must be a number, got 'x'"),
    "a rate below zero": (lambda: train(lr=-1), "lr must be at least 0, got -1"),
    "a cycle too many": (lambda: train(cycle=9), "cycle"),
    "an unknown task": (lambda: train(task="edge"), "it must be 'node' or 'link'"),
    "no width": (lambda: train(hidden_channels=0), "hidden_channels must be at least 1, got 0"),
    "a width in words": (lambda: train(hidden_channels="a"), "must be a whole number, got 'a'"),
    "no layers": (lambda: train(num_layers=0), "num_layers must be at least 1, got 0"),
    "all dropped out": (lambda: train(dropout=2), "dropout must be at most 1, got 2"),
    "an unknown size": (
        lambda: train(hiden=3),
        "'gcn' has no option 'hiden'. Did you mean 'hidden",
    ),
    "a bare graph": (lambda: train(dataset=DATA), "Dataset(name, data, num_classes)"),
    "a model in place of its name": (lambda: train(model=MODEL), "unknown model a GCN"),
    "channels in words": (lambda: nora.build_model("gcn", "a", 2), "in_channels must be a whole"),
    "no trials": (lambda: nora.tune(MODEL, DATA, {0: 1.0}, "mask", trials=0), "trials must be at"),
    "trials in words": (lambda: nora.tune(MODEL, DATA, {0: 1.0}, "mask", trials="3"), "got '3'"),
    "nothing to tune from": (lambda: nora.tune(MODEL, DATA, {}, "nora"), "labels are empty"),
    "a tuning seed below zero": (lambda: nora.tune(MODEL, DATA, {0: 1.0}, "mask", seed=-1), "seed"),
    "nothing to load": (lambda: nora.Influence.load(None), "path must be"),
    "a run by number": (lambda: nora.load_run(3), "folder must be"),
    "a path by number": (lambda: SCORES.save(3), "pathlib.Path, got 3"),
    "nothing to merge": (lambda: nora.merge_checkpoints([]), "nothing to merge"),
    "a merge of what is not there": (
        lambda: nora.merge_checkpoints("nowhere"),
        "is not a checkpoint",
    ),
    "the best in words": (lambda: SCORES.top("3"), "k must be a whole number, got '3'"),
    "scores as a table": (lambda: nora.Influence(torch.ones(2, 2), "a"), "tensor [num_nodes]"),
    "scores as an array": (lambda: nora.Influence(np.ones(2), "a"), "torch.as_tensor(scores)"),
    "scores as a list": (lambda: nora.Influence([1.0], "a"), "torch.as_tensor(scores)"),
    "compared with a number": (lambda: SCORES.compare(3), "an Influence to compare with, got 3"),
    "compared with others": (
        lambda: nora.evaluate(SCORES, nora.Influence(torch.ones(2), "a")),
        "2",
    ),
    "no file": (lambda: nora.analyse(None), "a pandas DataFrame or a NetworkX graph, got None"),
    "a file by number": (lambda: nora.analyse(3), "a pandas DataFrame or a NetworkX graph, got 3"),
    "a file that is not there": (lambda: nora.analyse("missing.csv"), "no such file: missing.csv"),
    "a graph by number": (lambda: nora.to_networkx(3), "got int"),
    "a dataset by number": (lambda: nora.load_dataset(3), "unknown dataset 3"),
    "one name for all": (lambda: nora.Session(MODEL, DATA, names=["a"]), "34; got 1"),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_in_one_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call, says = CASES[name]
    with pytest.raises((ValueError, TypeError, OSError)) as caught:
        call()
    message = str(caught.value)
    assert says in message and "\n" not in message and len(message) < 400
    assert list(tmp_path.iterdir()) == []


def test_an_index_out_of_range_is_one_sentence_too() -> None:
    with pytest.raises(IndexError, match=r"node 99 is out of range.*3 nodes"):
        SCORES[99]


@pytest.mark.parametrize(
    "good", [np.int64(3), np.float32(2.0), torch.tensor(4.0)], ids=lambda one: type(one).__name__
)
def test_numbers_of_numpy_and_torch_are_numbers(good: Any) -> None:
    assert ask("exact", tolerance=good * 0).scores.numel() == 34


def test_a_budget_without_end_is_one() -> None:
    assert "any time" in ask(budget=float("inf")).details["auto"]["reason"]
