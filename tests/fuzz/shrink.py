"""The smallest case that still fails, and a script of it: `python -m fuzz.shrink SEED [KIND]`."""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from fuzz.grammar import PIECES
from fuzz.graphs import make_graph
from fuzz.question import Case, new_case
from fuzz.script import script
from fuzz.trial import BAD, judge

PLAIN_QUESTION = {
    "effects": False, "brute": False, "top": None, "classes": None, "targets": None, "train": False,
    "all nodes": False, "workers": 1, "memory": "2GB", "backend": "vectorised", "task": "node",
}  # fmt: skip
PLAIN_GRAPH = {"features": "normal", "weights": "ones", "order": "as made", "num_nodes": False}
PLAIN_MODEL = {
    "start": "tanh", "end": "linear", "outputs": 2, "return_type": "raw", "call": "plain", "out": "dict",
    "mode": None
}  # fmt: skip


def shrink(case: Case, fails: Callable[[Case], bool] | None = None, seconds: float = 120.0) -> Case:
    """Drop steps, options, nodes and edges while the case still fails.

    Args:
        case: A case that fails.
        fails: Whether a case does; by default, whether it is as bad as the given one.
        seconds: When to be content.
    """
    if fails is None:
        category = judge(case).category
        if category not in BAD:
            raise ValueError(f"seed {case['seed']} does not fail, it is {category!r}")
        fails = lambda smaller: judge(smaller).category == category  # noqa: E731
    end, before = time.monotonic() + seconds, None
    while before != case and time.monotonic() < end:
        before = case
        for pass_ in (_questions, _models, _nodes, _edges):
            case = _reduced(case, pass_, fails, end)
    return case


def _reduced(case: Case, pass_: Callable[..., Any], fails: Callable[..., bool], end: float) -> Case:
    """The case after one kind of change has been tried until none of it helps any more."""
    again = True
    while again and time.monotonic() < end:
        again = False
        for smaller in pass_(case):
            if time.monotonic() > end:
                break
            if smaller != case and fails(smaller):
                case, again = smaller, True
                break
    return case


def _with(case: Case, part: str, **changes: Any) -> Case:
    smaller = copy.deepcopy(case)
    smaller[part].update(copy.deepcopy(changes))
    return smaller


def _questions(case: Case) -> Iterator[Case]:
    asked, graph = case["question"], case["graph"]
    for key, value in PLAIN_QUESTION.items():
        if asked[key] != value:
            yield _with(case, "question", **{key: value})
    for key in ("nodes", "groups", "pairs"):
        given = asked.get(key) or []
        if asked["targets"] is None or key != "pairs":
            for part in _without_parts(given):
                if part or key == "groups":
                    yield _with(case, "question", **{key: part})
    for at, group in enumerate(asked["groups"]):
        for part in _without_parts(group):
            groups = [*asked["groups"][:at], part, *asked["groups"][at + 1 :]]
            yield _with(case, "question", groups=groups)
    for key, value in PLAIN_GRAPH.items():
        if key in graph and graph[key] != value:
            yield _with(case, "graph", **{key: value})


def _without_parts(given: list[Any]) -> Iterator[list[Any]]:
    """The list without ever smaller parts of it.

    >>> list(_without_parts([1, 2, 3]))
    [[3], [1, 2], [2, 3], [1, 3], [1, 2]]
    """
    size = (len(given) + 1) // 2
    while size:
        for at in range(0, len(given), size):
            if size < len(given):
                yield given[:at] + given[at + size :]
        size = size // 2


def _models(case: Case) -> Iterator[Case]:
    spec = case["model"]
    for key, value in PLAIN_MODEL.items():
        if key in spec and spec[key] != value:
            yield _with(case, "model", **{key: value})
    if "steps" in spec:
        for steps in _fewer_steps(spec["steps"]):
            yield _with(case, "model", steps=steps)
        return
    for at, layer in enumerate(spec["layers"]):
        others = [*spec["layers"][:at], *spec["layers"][at + 1 :]]
        if others:
            yield _with(case, "model", layers=others)
        plain = {"residual": False, "mixed": False, "aggr": "sum"}
        by = [{"by": {**layer["by"], key: "SAGEConv((8, 8), 8)"}} for key in layer["by"]]
        steps = [{"steps": fewer} for fewer in _fewer_steps(layer["steps"])]
        for change in [*({key: value} for key, value in plain.items()), *by, *steps]:
            layers = [*spec["layers"][:at], {**layer, **change}, *spec["layers"][at + 1 :]]
            if layers != spec["layers"]:
                yield _with(case, "model", layers=layers)


def _fewer_steps(steps: list[Case]) -> Iterator[list[Case]]:
    for at in range(len(steps)):
        yield steps[:at] + steps[at + 1 :]
    for at, step in enumerate(steps):
        for slot, choices in enumerate(PIECES[step["piece"]].slots):
            if step["with"][slot] != choices[0]:
                picks = [*step["with"][:slot], choices[0], *step["with"][slot + 1 :]]
                yield [*steps[:at], {**step, "with": picks}, *steps[at + 1 :]]


def _nodes(case: Case) -> Iterator[Case]:
    """Without nodes, except the one that is asked for first."""
    graph, asked = case["graph"], case["question"]
    if case["kind"] == "data":
        everyone: list[Any] = list(range(graph["n"]))
    else:
        everyone = [[kind, at] for kind, n in graph["sizes"].items() for at in range(n)]
    left = [name for name in everyone if name not in graph["drop_nodes"]]
    free = [name for name in left if name not in asked["nodes"][:1]]
    for fewer in _without_parts(free):
        gone = [name for name in everyone if name not in fewer and name not in asked["nodes"][:1]]
        yield _with(case, "graph", drop_nodes=gone)


def _edges(case: Case) -> Iterator[Case]:
    graph = case["graph"]
    if case["kind"] == "data":
        full = make_graph({**graph, "drop_nodes": [], "drop_edges": [], "drop_edges2": []})
        for key, name in (("drop_edges", "edge_index"), ("drop_edges2", "edge_index2")):
            gone = set(graph["drop_nodes"])
            pairs = full[name].t().tolist()
            stay = [at for at, pair in enumerate(pairs) if not gone & set(pair)]
            yield from _dropped(case, key, stay, list(range(len(pairs))))
        return
    every = [[r, at] for r, one in enumerate(graph["relations"]) for at in range(one[3])]
    yield from _dropped(case, "drop_edges", every, every)


def _dropped(case: Case, key: str, stay: list[Any], every: list[Any]) -> Iterator[Case]:
    left = [edge for edge in stay if edge not in case["graph"][key]]
    for fewer in [[], *_without_parts(left)]:
        if left:
            yield _with(case, "graph", **{key: [edge for edge in every if edge not in fewer]})


def main(arguments: list[str]) -> None:
    """Shrink the case of a seed and print its script."""
    kind = arguments[1] if len(arguments) > 1 else "all"
    small = shrink(new_case(int(arguments[0]), kind))
    print(script(small))


if __name__ == "__main__":
    main(sys.argv[1:])
