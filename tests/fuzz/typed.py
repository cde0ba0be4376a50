"""Graphs with several node types, and models of them: specs, as in `graphs` and `grammar`."""

from __future__ import annotations

import random
import re
from typing import Any

import torch
from torch import nn
from torch_geometric.data import HeteroData

from fuzz.grammar import PIECES, RETURNS, ROWS, _indented, chosen, run_source, settle
from fuzz.graphs import FEATURES, WEIGHTS, features_of, weights_of
from fuzz.pieces import GLOBAL, ORDER, SIZES

Spec = dict[str, Any]

RELATIONS = (
    ("a", "writes", "p"), ("p", "written", "a"), ("p", "cites", "p"), ("a", "knows", "a"),
    ("v", "prints", "p"), ("p", "in", "v"), ("a", "likes", "p"),
)  # fmt: skip
BOTH = (
    *(
        "SAGEConv((8, 8), 8)",
        'SAGEConv((8, 8), 8, aggr="max")',
        "SAGEConv((8, 8), 8, root_weight=False)",
    ),
    *("GATConv((8, 8), 8, add_self_loops=False)", "GATv2Conv((8, 8), 4, 2, add_self_loops=False)"),
    *("GraphConv((8, 8), 8)", 'GraphConv((8, 8), 8, aggr="mean")', "TransformerConv((8, 8), 8)"),
    *("GeneralConv((8, 8), 8)", "ResGatedGraphConv((8, 8), 8)", 'SAGEConv((8, 8), 8, aggr="std")'),
    *("GINConv(nn.Linear(8, 8))", "LEConv((8, 8), 8)", "FiLMConv((8, 8), 8)", "MFConv((8, 8), 8)"),
    *('SAGEConv((8, 8), 8, ["mean", "max"], True)', "EdgeConv(nn.Linear(16, 8))"),
)
SAME = (
    "GCNConv(8, 8)",
    "GATConv(8, 8)",
    "TAGConv(8, 8, 2)",
    "ChebConv(8, 8, 2)",
    "OutDegreeConv()",
)
WHOLE = (
    "SAGEConv((-1, -1), {})", "GATConv((-1, -1), {}, add_self_loops=False)", "GraphConv((-1, -1), {})",
    'SAGEConv((-1, -1), {}, aggr="max")', "GATv2Conv((-1, -1), {}, add_self_loops=False)",
)  # fmt: skip
# Pieces that need nothing of the graph but `h`.
ALONE = {
    name: piece
    for name, piece in {**ROWS, **GLOBAL, **ORDER, **SIZES}.items()
    if not re.search(
        r"(?<!\.)\b(edge_\w+|pos|n_id|node_type|data|x|h0)\b", f"{piece.lines} {piece.slots}"
    )
}
CALM = [name for name, piece in ALONE.items() if piece.row]


def typed_graph_spec(chance: random.Random, dtype: str = "float64") -> Spec:
    """A random graph with two or three node types, in words."""
    sizes = {"a": chance.choice((1, 3, 8, 15)), "p": chance.choice((2, 6, 12, 20))}
    if chance.random() < 0.6:
        sizes["v"] = chance.choice((1, 2, 5))
    able = [one for one in RELATIONS if one[0] in sizes and one[2] in sizes]
    some = chance.sample(able, min(len(able), chance.choice((2, 3, 3, 4, 6))))
    return {
        "sizes": sizes,
        "relations": [[*one, chance.choice((0, 2, 10, 10, 30))] for one in sorted(some)],
        "seed": chance.randrange(10**9),
        "weights": chance.choice(WEIGHTS),
        "features": chance.choice(FEATURES),
        "dtype": dtype,
        "drop_nodes": [],
        "drop_edges": [],
    }


def make_typed_graph(spec: Spec) -> HeteroData:
    """The graph that a spec describes; edges to drop are `[relation, position]`."""
    dice = torch.Generator().manual_seed(spec["seed"])
    real, data = getattr(torch, spec["dtype"]), HeteroData()
    gone = {tuple(one) for one in spec["drop_nodes"]}
    stays = {
        kind: torch.tensor([(kind, at) not in gone for at in range(n)], dtype=torch.bool)
        for kind, n in spec["sizes"].items()
    }
    for kind, n in spec["sizes"].items():
        data[kind].x = features_of(spec["features"], n, dice)[stays[kind]].to(real)
    for at, (source, name, target, count) in enumerate(spec["relations"]):
        ends = [torch.randint(spec["sizes"][k], (count,), generator=dice) for k in (source, target)]
        weight = weights_of(spec["weights"], count, dice)
        left = stays[source][ends[0]] & stays[target][ends[1]]
        left[[edge for relation, edge in spec["drop_edges"] if relation == at]] = False
        moved = [
            (stays[k].long().cumsum(0) - 1)[end[left]]
            for k, end in zip((source, target), ends, strict=True)
        ]
        data[source, name, target].edge_index = torch.stack(moved)
        data[source, name, target].edge_weight = weight[left].to(real)
    return data


def typed_model_spec(chance: random.Random, graph: Spec, smooth: bool = False) -> Spec:
    """A random model for a graph's types, in words."""
    kind = chance.choice((*("HeteroConv",) * 5, *("to_hetero",) * 2, "HGTConv", "HANConv"))
    if kind == "to_hetero" and {one[2] for one in graph["relations"]} != set(graph["sizes"]):
        kind = "HeteroConv"  # it needs edges to every type
    layers = []
    for _ in range(chance.choice((1, 1, 1, 2, 2)) if kind == "HeteroConv" else 1):
        by = {}
        for source, name, target, _ in graph["relations"]:
            able = (*BOTH, *SAME) if source == target else BOTH
            by[f"{source} {name} {target}"] = chance.choice(able)
        names = CALM if chance.random() < 0.7 else list(ALONE)
        steps = [chosen(chance.choice(names), chance) for _ in range(chance.choice((0, 0, 1, 2)))]
        layers.append(
            {
                "by": by,
                "aggr": chance.choice(("sum", "sum", "mean", "max", "min")),
                "residual": chance.random() < 0.4,
                "mixed": chance.random() < 0.1,
                "steps": [s for s in steps if not (smooth and PIECES[s["piece"]].jump)],
                "on": chance.choice(list(graph["sizes"])),
            }
        )
    return {
        "kind": kind,
        "seed": chance.randrange(10**9),
        "types": list(graph["sizes"]),
        "relations": [one[:3] for one in graph["relations"]],
        "layers": layers,
        "whole": chance.choice(WHOLE),
        "out": chance.choice(("dict", "dict", "one")),
        "target": chance.choice([t for t in graph["sizes"] if t != "v"]),
        "outputs": chance.choice((2, 3)),
        "return_type": chance.choice(("raw", "raw", "probs", "log_probs")),
    }


def typed_source(spec: Spec) -> str:
    """The model as Python source: a class `Model`; of `to_hetero`, what it is made from."""
    c, head = (
        spec["outputs"],
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n",
    )
    if spec["kind"] == "to_hetero":
        init = [f"self.a = {spec['whole'].format(8)}", f"self.b = {spec['whole'].format(c)}"]
        returned = RETURNS[spec["return_type"]].replace("z", "self.b(self.n(h), edge_index)")
        body = ["h = self.a(x, edge_index).relu()", f"return {returned}"]
        init.append("self.n = nn.Linear(8, 8)")
        return head + _method(init, "x, edge_index", body)
    metadata = repr((spec["types"], [tuple(one) for one in spec["relations"]]))
    init = [f"self.start = nn.ModuleDict({{t: nn.Linear(8, 8) for t in {spec['types']}}})"]
    body = ["h_dict = {t: self.start[t](x).tanh() for t, x in x_dict.items()}"]
    for at, layer in enumerate(spec["layers"]):
        if spec["kind"] != "HeteroConv":
            init.append(f"self.c{at} = {spec['kind']}(8, 8, {metadata}, heads=2)")
        else:
            made = ", ".join(f"{tuple(key.split())}: {conv}" for key, conv in layer["by"].items())
            init.append(f'self.c{at} = HeteroConv({{{made}}}, aggr="{layer["aggr"]}")')
        body += [f"new = self.c{at}(h_dict, edge_index_dict)"]
        kept = "h_dict[t] + new[t].tanh()" if layer["residual"] else "new[t].tanh()"
        body += [
            f"h_dict = {{t: {kept} if new.get(t) is not None else h for t, h in h_dict.items()}}"
        ]
        if layer["mixed"]:
            body += ["h_dict = {t: h + h_dict['a'].mean(dim=0) for t, h in h_dict.items()}"]
        for number, step in enumerate(layer["steps"]):
            piece, i = PIECES[step["piece"]], f"{at}_{number}"
            if piece.init:
                init.append(piece.init.format(*step["with"], i=i))
            body += [f"h = h_dict[{layer['on']!r}]", piece.lines.format(*step["with"], i=i)]
            body += [f"h_dict[{layer['on']!r}] = h"]
    init.append(f"self.end = nn.Linear(8, {c})")
    returned = RETURNS[spec["return_type"]].replace("z", "self.end(h)")
    one = f"h = h_dict[{spec['target']!r}]\nreturn {returned}"
    body += [
        one if spec["out"] == "one" else f"return {{t: {returned} for t, h in h_dict.items()}}"
    ]
    return head + _method(init, "x_dict, edge_index_dict", body)


def _method(init: list[str], arguments: str, body: list[str]) -> str:
    lines = _indented("\n".join(init)), _indented("\n".join(body))
    return f"{lines[0]}\n\n    def forward(self, {arguments}):\n{lines[1]}\n"


def build_typed(spec: Spec, data: HeteroData) -> nn.Module:
    """The model of a spec, which has seen the graph once where its widths are lazy."""
    made = run_source(typed_source(spec), f"<fuzz typed model {spec['seed']}>")
    torch.manual_seed(spec["seed"])
    model = made["Model"]()
    if spec["kind"] == "to_hetero":
        metadata = (spec["types"], [tuple(one) for one in spec["relations"]])
        model = made["to_hetero"](model, metadata, aggr=spec["layers"][0]["aggr"])
        with torch.no_grad():
            model.double()(
                {k: v.double() for k, v in data.x_dict.items()}, dict(data.edge_index_dict)
            )
    return settle(model.float(), spec["seed"]).to(data[spec["types"][0]].x.dtype)
