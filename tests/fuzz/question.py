"""From a seed to a whole case: a graph, a model, and what is asked of them.

Nodes are named by their place in the full graph (`3`, or `["p", 3]` with node types), so that a case
whose graph was cut down asks the same of what is left.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData

from by_hand import Oracle
from fuzz import grammar, graphs, typed

Case = dict[str, Any]


def new_case(seed: int, kind: str = "all") -> Case:
    """The case of a seed.

    Args:
        seed: Any number.
        kind: `data`, `hetero`, or `all` for three of the one to one of the other.
    """
    chance = random.Random(f"{kind} {seed}")
    if kind == "all":
        kind = "hetero" if chance.random() < 0.25 else "data"
    dtype = "float32" if chance.random() < 0.1 else "float64"
    smooth = dtype == "float32"
    if kind == "data":
        graph = graphs.graph_spec(chance, dtype)
        model = grammar.model_spec(chance, smooth)
    else:
        graph = typed.typed_graph_spec(chance, dtype)
        model = typed.typed_model_spec(chance, graph, smooth)
    asked = _question(chance, graph, model, kind)
    return {"seed": seed, "kind": kind, "graph": graph, "model": model, "question": asked}


def _names(graph: Case) -> list[Any]:
    if "sizes" in graph:
        return [[kind, at] for kind, n in graph["sizes"].items() for at in range(n)]
    return list(range(graph["n"]))


def _question(chance: random.Random, graph: Case, model: Case, kind: str) -> Case:
    names = _names(graph)
    some = chance.sample(names, min(len(names), 7))
    if graph.get("shape") == "follower":
        some = chance.sample(names[: graphs.CORE], 6)  # the leaves are all equal
    if kind == "data":
        # The hub, and the last, come first in many shapes.
        some += [name for name in (0, len(names) - 1) if name not in some]
    asked: Case = {
        "task": "link" if chance.random() < 0.25 and model.get("out") != "one" else "node",
        "classes": chance.choice((None, None, None, [0], [1, 0, 1])),
        "targets": None,
        "nodes": some,
        "all nodes": chance.random() < 0.3 and len(names) <= 60,
        "groups": [chance.sample(names, min(len(names), chance.choice((1, 2, 3, 5))))],
        "effects": chance.random() < 0.4,
        "brute": chance.random() < 0.1,
        "top": chance.choice((1, 3, 5)) if chance.random() < 0.12 and len(names) <= 45 else None,
        "budget": chance.choice((1e-6, 60.0)),
        "backend": chance.choice(("vectorised", "vectorised", "compiled", "auto")),
        "workers": chance.choice((1, 1, 2, None)),
        "memory": chance.choice(("2GB", "2GB", "1MB", "20KB")),
        "train": chance.random() < 0.3,
    }
    few = chance.random() < 0.25
    if asked["task"] == "link":
        model.update(return_type="raw", mode=None)
        ends = names, names
        if kind == "hetero":
            first = model["target"]
            second = chance.choice(model["types"])
            ends = tuple([name for name in names if name[0] == t] for t in (first, second))
        count = chance.choice((1, 6, 40))
        asked["pairs"] = [[chance.choice(side) for side in ends] for _ in range(count)]
        asked["decoder"] = chance.choice(("dot", "dot", "mixed", "distance", "module", "probs"))
        if few:
            asked["targets"] = sorted(chance.sample(range(count), max(1, count // 3)))
    elif few:
        able = [n for n in names if kind == "data" or n[0] == model["target"]]
        asked["targets"] = sorted(chance.sample(able, max(1, len(able) // 3)))
    return asked


class Decoder(nn.Module):
    """A decoder that is a module, with dropout, as one is trained."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lin = nn.Linear(width, 1, dtype=torch.double)
        self.drop = nn.Dropout(0.5)

    def forward(self, z: Tensor, pairs: Tensor) -> Tensor:
        both = (z[pairs[0]] * z[pairs[1]].tanh()).to(self.lin.weight.dtype)
        return self.lin(self.drop(both)).squeeze(-1)


def decoder_of(name: str, width: int) -> Callable[..., Tensor] | None:
    """A decoder by its name; None is the dot product."""
    if name == "dot":
        return None
    if name == "mixed":
        return lambda z, pairs: (z[pairs[0]] * z[pairs[1]].flip(-1)).sum(-1) - z[pairs[1]][:, 0]
    if name == "probs":
        return lambda z, pairs: (z[pairs[0]] * z[pairs[1]]).sum(-1).sigmoid()
    if name == "distance":
        return lambda z, pairs: 1 - (z[pairs[0]] - z[pairs[1]]).square().sum(-1)
    torch.manual_seed(width)
    return Decoder(width).eval()


@dataclass
class Posed:
    """A case made real.

    Attributes:
        model: The model, in the mode it is to be found in.
        data: The graph.
        forward: What is passed as `forward=`; None where the usual call will do.
        oracle: The definition's answers.
        nodes: The nodes to remove, as one names them in a call.
        groups: Groups to remove together.
        targets: What is passed as `targets=`.
        everyone: All nodes.
        starts: With node types, where each begins by global ids.
    """

    model: nn.Module
    data: Data | HeteroData
    forward: Callable[..., Any] | None
    oracle: Oracle
    nodes: list[Any]
    groups: list[list[Any]]
    targets: list[Any] | None
    everyone: list[Any]
    starts: dict[str, int]

    def line(self, name: Any) -> int:
        """The position of a node by global ids."""
        return self.starts[name[0]] + name[1] if isinstance(name, tuple) else name

    def in_double(self) -> Oracle:
        """The same question in double precision, of the same weights and features."""
        data = copy.deepcopy(self.data)
        data.apply(lambda value: value.double() if value.is_floating_point() else value)
        return copy.deepcopy(self.oracle).__class__(
            **{
                **{k: v for k, v in vars(self.oracle).items() if not k.startswith("_")},
                "model": copy.deepcopy(self.model).double(),
                "data": data,
            }
        )


def pose(case: Case) -> Posed:
    """Graph, model and question of a case."""
    graph, spec, asked = case["graph"], case["model"], case["question"]
    if case["kind"] == "data":
        data: Data | HeteroData = graphs.make_graph(graph)
        place: dict[Any, Any] = dict(graphs.kept_nodes(graph))
        model = grammar.build(spec, data)
        call = grammar.caller(spec)
        forward = None if grammar.how(spec) == "plain" else call
        starts, kinds = {}, ()
    else:
        data = typed.make_typed_graph(graph)
        model = typed.build_typed(spec, data)
        place, gone = {}, {tuple(one) for one in graph["drop_nodes"]}
        starts, passed = {}, 0
        for kind, n in graph["sizes"].items():
            left = [at for at in range(n) if (kind, at) not in gone]
            place.update({(kind, at): (kind, new) for new, at in enumerate(left)})
            starts[kind], passed = passed, passed + len(left)
        call, forward = (lambda model, data: model(data.x_dict, data.edge_index_dict)), None
        kinds = (spec["target"],)
    model.train(asked["train"])

    def there(names: list[Any]) -> list[Any]:
        keys = [tuple(name) if isinstance(name, list) else name for name in names]
        return [place[key] for key in keys if key in place]

    oracle = Oracle(model, data, call, return_type=spec["return_type"], classes=asked["classes"])
    if spec.get("mode"):
        oracle.mode = "binary" if grammar.binary(spec) else spec["mode"]
    targets = asked["targets"]
    if asked["task"] == "link":
        whole = [there(pair) for pair in asked["pairs"]]
        stay = [at for at, pair in enumerate(whole) if len(pair) == 2]
        bare = [[e[1] if isinstance(e, tuple) else e for e in whole[at]] for at in stay]
        oracle.pairs = torch.tensor(bare, dtype=torch.long).reshape(-1, 2).t().contiguous()
        oracle.decoder = decoder_of(asked["decoder"], spec["outputs"])
        oracle.return_type = "probs" if asked["decoder"] == "probs" else "raw"
        oracle.classes = None
        if kinds:
            kinds = tuple(end[0] for end in asked["pairs"][0])
        if targets is not None:
            targets = [stay.index(at) for at in targets if at in stay]
            oracle.targets = targets
    elif targets is not None:
        targets = there(targets)
        oracle.targets = [one[1] if isinstance(one, tuple) else one for one in targets]
    oracle.kinds = kinds
    return Posed(
        model=model,
        data=data,
        forward=forward,
        oracle=oracle,
        nodes=there(asked["nodes"]),
        groups=[group for group in map(there, asked["groups"]) if group],
        targets=targets,
        everyone=list(place.values()),
        starts=starts,
    )
