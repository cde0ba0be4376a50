"""From a seed to a model: a random spec, its source code, and the module.

The source is what a user might have written, and what a failure is reported with.
"""

from __future__ import annotations

import copy
import inspect
import linecache
import math
import random
import re
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
import torch_geometric.utils as tools
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from fuzz import custom
from fuzz.habits import STATE, WRAPPED
from fuzz.layers import CUSTOM, EXPLICIT, GENERIC, POPULAR, Piece
from fuzz.norms import AGGREGATIONS, NORMS
from fuzz.pieces import GLOBAL, IN_PLACE, LAYOUT, ORDER, PLAIN, SIZES, TIGHT
from fuzz.structure import STRUCTURE

Spec = dict[str, Any]
LAYERS = {**EXPLICIT, **GENERIC, **AGGREGATIONS, **CUSTOM}
FAMILIES = (
    *(PLAIN, IN_PLACE, LAYOUT, GLOBAL, ORDER, SIZES, TIGHT),
    *(STATE, WRAPPED, NORMS, STRUCTURE),
)
# What treats every row by itself.
ROWS = {
    name: piece
    for name, piece in {**PLAIN, **IN_PLACE, **LAYOUT, **WRAPPED, **STATE, **NORMS, **TIGHT}.items()
    if piece.row
}
PIECES: dict[str, Piece] = {
    name: piece for family in (*FAMILIES, LAYERS) for name, piece in family.items()
}

GRAPH_NAMES = (
    *("edge_index", "edge_weight", "edge_attr", "edge_type"),
    *("pos", "n_id", "node_type", "edge_index2", "edge_weight2"),
)
# What the product fills in by itself where a model's `forward` names it.
USUAL = set(GRAPH_NAMES[:4])
RETURNS = {"raw": "z", "probs": "z.softmax(dim=-1)", "log_probs": "z.log_softmax(dim=-1)"}
# Where every column is a probability of its own.
SINGLE_RETURNS = {"raw": "z", "probs": "z.sigmoid()", "log_probs": "F.logsigmoid(z)"}
STARTS = {
    "linear": "h = h0 = self.start(x)",
    "tanh": "h = self.start(x).tanh()\nh0 = h",
    "bare": "h = h0 = x",
    "copy": "h, h0 = self.start(x).relu(), x",
}
ENDS = {
    "linear": ("self.end = nn.Linear(8, {c})", "z = self.end(h)"),
    "cat": (
        'self.jump = JumpingKnowledge("cat")\nself.end = nn.Linear(8 * {k}, {c})',
        "z = self.end(self.jump(hs))",
    ),
    "max": (
        'self.jump = JumpingKnowledge("max")\nself.end = nn.Linear(8, {c})',
        "z = self.end(self.jump(hs))",
    ),
    "lstm": (
        'self.jump = JumpingKnowledge("lstm", 8, {k})\nself.end = nn.Linear(8, {c})',
        "z = self.end(self.jump(hs))",
    ),
    "layer": ("self.end = GCNConv(8, {c})", "z = self.end(h, edge_index)"),
}
NAMESPACE = {
    **{key: value for key, value in vars(tools).items() if not key.startswith("_")},
    **{key: getattr(pyg, key) for key in dir(pyg) if not key.startswith("_")},
    **{key: value for key, value in vars(custom).items() if inspect.isclass(value)},
    **{"torch": torch, "nn": nn, "F": F, "math": math, "checkpoint": checkpoint},
    **{"gcn_norm": gcn_norm, "Tensor": torch.Tensor},
}  # fmt: skip


def chosen(name: str, chance: random.Random) -> Spec:
    """A piece with random choices; the plainest is taken as often as all others together."""
    piece = PIECES[name]
    picks = [
        slot[0] if chance.random() < 0.5 or len(slot) == 1 else chance.choice(slot[1:])
        for slot in piece.slots
    ]
    return {"piece": name, "with": picks}


def model_spec(chance: random.Random, smooth: bool = False) -> Spec:
    """A random model in words.

    Args:
        chance: Where choices come from.
        smooth: Leave out what rounding may change by more than rounding.
    """
    calm = chance.random() < 0.6
    steps = []
    for _ in range(chance.choice((1, 1, 2, 2, 3))):
        names = POPULAR if chance.random() < 0.4 else list(LAYERS)
        steps.append(chosen(chance.choice(names), chance))
        if chance.random() < 0.5:
            steps.append(chosen("tanh", chance))
        for _ in range(chance.choice((0, 0, 1, 1, 2))):
            family = chance.choice((ROWS, ROWS, ROWS, STRUCTURE) if calm else FAMILIES)
            at = len(steps) if chance.random() < 0.8 else chance.randrange(len(steps) + 1)
            steps.insert(at, chosen(chance.choice(list(family)), chance))
    if smooth:
        steps = [step for step in steps if not PIECES[step["piece"]].jump]
    return {
        "seed": chance.randrange(10**9),
        "start": chance.choice(("tanh", "tanh", "linear", "bare", "copy")),
        "steps": steps,
        "end": chance.choice((*("linear",) * 7, "cat", "max", "lstm", "layer")),
        "outputs": chance.choice((2, 3, 5)),
        "mode": chance.choice((*(None,) * 10, "multilabel", "binary", "flat binary")),
        "return_type": chance.choice(("raw", "raw", "raw", "probs", "log_probs")),
        "call": chance.choice(("plain", "plain", "named", "data", "tuple", "dict")),
    }


def source(spec: Spec, measuring: bool = False) -> str:
    """The model as Python source: a class `Model`; `measuring` finds limits (see `Piece.limit`)."""
    init, body = [], []
    if spec["start"] != "bare":
        init.append("self.start = nn.Linear(8, 8)")
    body += [STARTS[spec["start"]]]
    lists = spec["end"] in ("cat", "max", "lstm")
    if lists:
        body.append("hs = [h]")
    kept = 1
    for i, step in enumerate(spec["steps"]):
        piece = PIECES[step["piece"]]
        if piece.init:
            init.append(piece.init.format(*step["with"], i=i))
        if piece.limit and measuring:
            body.append(f"self.t{i} = {piece.limit}")
        body.append(piece.lines.format(*step["with"], i=i))
        if lists and step["piece"] in LAYERS:
            body.append("hs.append(h)")
            kept += 1
    made, called = ENDS[spec["end"]]
    init.append(made.format(c=1 if binary(spec) else spec["outputs"], k=kept))
    body += [called] + ["z = z.squeeze(-1)"] * (spec["mode"] == "flat binary")
    body += ["return " + _returned(spec)]
    text = "\n".join(body)
    if how(spec) == "data":
        names = ["x", *used(spec)]
        opening = f"{', '.join(names)} = " + ", ".join(f"data.{name}" for name in names)
        arguments, text = "data", f"{opening}\n{text}"
    else:
        arguments = ", ".join(["x", *used(spec)])
    return (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        + _indented("\n".join(init))
        + f"\n\n    def forward(self, {arguments}):\n"
        + _indented(text)
        + "\n"
    )


def binary(spec: Spec) -> bool:
    """Whether the model gives one number per node."""
    return spec["mode"] in ("binary", "flat binary")


def _returned(spec: Spec) -> str:
    found = (SINGLE_RETURNS if spec["mode"] else RETURNS)[spec["return_type"]]
    return {"tuple": f"h, {found}", "dict": f'{{"z": {found}, "h": h}}'}.get(spec["call"], found)


def _indented(text: str) -> str:
    return "\n".join("        " + line for line in text.split("\n"))


def used(spec: Spec) -> list[str]:
    """What of the graph the model's lines name, `edge_index` always among them."""
    lines = [PIECES[step["piece"]].lines.format(*step["with"], i=0) for step in spec["steps"]]
    words = set(re.findall(r"(?<!\.)\b\w+\b", "\n".join(lines))) | {"edge_index"}
    return [name for name in GRAPH_NAMES if name in words]


def how(spec: Spec) -> str:
    """How the model is called: as the spec wants it, or with `data` where a piece needs that."""
    if any(PIECES[step["piece"]].data for step in spec["steps"]):
        return "data"
    if spec["call"] == "plain" and not set(used(spec)) <= USUAL:
        return "named"
    return spec["call"]


def call_source(spec: Spec) -> str:
    """`lambda model, data: …` that gives the model's predictions."""
    inside = "data" if how(spec) == "data" else ", ".join(f"data.{n}" for n in ["x", *used(spec)])
    pick = {"tuple": "[1]", "dict": '["z"]'}.get(spec["call"], "")
    return f"lambda model, data: model({inside}){pick}"


def settle(model: nn.Module, seed: int) -> nn.Module:
    """Weights as if trained: none is zero, and running statistics are not those of a new layer."""
    dice = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            noise = torch.randn(value.shape, generator=dice)
            if name.endswith("running_var"):
                value.copy_(noise.abs() + 0.5)
            elif name.endswith("running_mean") or value.requires_grad:
                value.add_(0.1 * noise)
    return model


def run_source(text: str, name: str) -> dict[str, Any]:
    """The names that a source defines; its lines can be shown in tracebacks."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space = {**NAMESPACE, "__name__": "fuzz.generated"}
    exec(compile(text, name, "exec"), space)
    return space


def build(spec: Spec, data: Any) -> nn.Module:
    """The model of a spec for a graph, in training mode.

    Example:
        >>> from fuzz.graphs import graph_spec, make_graph
        >>> data = make_graph(graph_spec(random.Random(1)))
        >>> type(build(model_spec(random.Random(1)), data)).__name__
        'Model'
    """
    model = _built(spec, data.x.dtype)
    for name, value in limits(spec, data).items():
        setattr(model, name, value)
    return model


def _built(spec: Spec, dtype: torch.dtype, measuring: bool = False) -> nn.Module:
    text = source(spec, measuring)
    made = run_source(text, f"<fuzz model {spec['seed']}{' measuring' * measuring}>")["Model"]
    torch.manual_seed(spec["seed"])
    return settle(made(), spec["seed"]).to(dtype)


def limits(spec: Spec, data: Any) -> dict[str, float]:
    """The limits of a model's pieces on a graph, by attribute; see `Piece.limit`."""
    pieces = [PIECES[step["piece"]] for step in spec["steps"]]
    if not any(piece.limit for piece in pieces):
        return {}
    model = _built(spec, data.x.dtype, measuring=True).eval()
    with torch.no_grad():
        caller(spec)(model, copy.deepcopy(data))
    found = {f"t{i}": getattr(model, f"t{i}") for i, piece in enumerate(pieces) if piece.limit}
    return {
        name: value + 1e-4 * abs(value) * (-1 if value < 0 else 1) for name, value in found.items()
    }


def caller(spec: Spec) -> Callable[[nn.Module, Any], Any]:
    """How the model of a spec is called."""
    return eval(call_source(spec), {})


def jumps(spec: Spec) -> bool:
    """Whether rounding may change the model's output by more than rounding."""
    return any(PIECES[step["piece"]].jump for step in spec["steps"])
