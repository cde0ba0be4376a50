"""Random graphs by seed, from a spec that is plain data.

A spec names a shape and a seed; `drop_nodes`, `drop_edges` and `drop_edges2` list what was taken away
since, by its position in the full graph, so that shrinking changes nothing else.
"""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

Spec = dict[str, Any]

# Width of features and of every hidden layer; of edge attributes; number of edge and node types.
WIDTH, ATTRIBUTES, RELATIONS, KINDS = 8, 4, 3, 2
# Nodes beside the leaves of a follower graph.
CORE = 12
NODE_KEYS = ("x", "pos", "n_id", "node_type")
EDGE_KEYS = ("edge_weight", "edge_attr", "edge_type")

SHAPES = (
    *("random",) * 5,
    *("both ways",) * 3,
    *("follower",) * 3,
    *("sparse", "dense", "loops", "duplicates", "isolated", "star", "in-star", "out-star"),
    *("clique", "path", "ring", "components", "one", "two", "no edge", "tree"),
    *("hub", "bipartite", "loop only"),
)
WEIGHTS = ("positive", "zeros", "ones", "counts", "signed", "cancelling", "tiny")
FEATURES = (*("normal",) * 5, "small", "large", "binary", "zero rows", "equal rows")
ORDERS = ("as made", "by target", "by source", "shuffled")


def graph_spec(chance: random.Random, dtype: str = "float64") -> Spec:
    """A random graph in words."""
    shape = chance.choice(SHAPES)
    size = chance.choice((4, 6, 9, 14, 20, 30, 40))
    if shape == "follower":
        size = chance.choice((60, 120, 250, 600))
    return {
        "shape": shape,
        "n": {"one": 1, "two": 2}.get(shape, size),
        "seed": chance.randrange(10**9),
        "order": chance.choice(ORDERS),
        "weights": chance.choice(WEIGHTS),
        "features": chance.choice(FEATURES),
        "num_nodes": chance.random() < 0.3,
        "dtype": dtype,
        "drop_nodes": [],
        "drop_edges": [],
        "drop_edges2": [],
    }


def edges_of(shape: str, n: int, dice: torch.Generator) -> Tensor:
    """Edges `[2, E]` of a shape; `follower`: many leaves, one hub, and a small core beside them."""

    def some(count: int, low: int = 0, high: int = n) -> Tensor:
        return torch.randint(low, max(high, low + 1), (2, count), generator=dice)

    def both(edges: Tensor) -> Tensor:
        return torch.cat([edges, edges.flip(0)], dim=1)

    rest, hub = torch.arange(1, n), torch.zeros(n - 1, dtype=torch.long)
    if shape in ("one", "no edge"):
        return torch.empty(2, 0, dtype=torch.long)
    if shape == "two":
        return torch.tensor([[0, 1, 1], [1, 0, 1]])[
            :, : int(torch.randint(1, 4, (), generator=dice))
        ]
    if shape == "loop only":
        return torch.arange(0, n, 2).repeat(2, 1)
    if shape == "star":
        return both(torch.stack([hub, rest]))
    if shape == "in-star":
        return torch.stack([rest, hub])
    if shape == "out-star":
        return torch.stack([hub, rest])
    if shape == "follower":
        core = CORE
        leaves = torch.arange(core, n)
        follow = torch.stack([leaves, torch.zeros_like(leaves)])
        extra = torch.stack([leaves[::5], some(1, 0, core)[0].expand(len(leaves[::5]))])
        return torch.cat([follow, extra, some(3 * core, 0, core)], dim=1)
    if shape == "clique":
        few = min(n, 10)
        return (1 - torch.eye(few)).nonzero().t().contiguous()
    if shape == "path":
        return both(torch.stack([rest - 1, rest])) if n % 2 else torch.stack([rest - 1, rest])
    if shape == "ring":
        return both(torch.stack([torch.arange(n), (torch.arange(n) + 1) % n]))
    if shape == "tree":
        return both(torch.stack([(rest - 1) // 3, rest]))
    if shape == "components":
        half = n // 2
        return torch.cat([some(n, 0, half), both(some(half, half, n - 1))], dim=1)
    if shape == "hub":
        return torch.cat([both(torch.stack([hub, rest])), some(n)], dim=1)
    if shape == "bipartite":
        half = max(1, n // 2)
        ends = some(3 * n, 0, half)
        return torch.stack([ends[0], (ends[1] + half).clamp(max=n - 1)])
    if shape == "sparse":
        return some(max(1, n // 2))
    if shape == "dense":
        return some(min(8 * n, 200))
    edges = some(
        3 * n if shape != "isolated" else 2 * n, 0, n if shape != "isolated" else n // 2 + 1
    )
    if shape == "both ways":
        edges = both(edges)
    if shape == "loops":
        edges = torch.cat(
            [edges, torch.arange(0, n, 2).repeat(2, 1), torch.zeros_like(edges[:, :2])], 1
        )
    if shape == "duplicates":
        edges = torch.cat([edges, edges[:, :n], edges[:, : n // 2]], dim=1)
    return edges


def features_of(how: str, n: int, dice: torch.Generator, width: int = WIDTH) -> Tensor:
    """Node features `[n, width]`, float64."""
    x = torch.randn(n, width, generator=dice, dtype=torch.double)
    if how == "small":
        return 1e-3 * x
    if how == "large":
        return 20.0 * x
    if how == "binary":
        return (x > 0.7).double()
    if how == "zero rows":
        x[: (4 * n) // 5] = 0.0
    if how == "equal rows":
        x[1::2] = x[:1]
    return x


def weights_of(how: str, count: int, dice: torch.Generator) -> Tensor:
    """Edge weights `[count]`, float64; `cancelling` ones sum to nothing, or nearly, here and there."""
    u = torch.rand(count, generator=dice, dtype=torch.double)
    if how == "zeros":
        return torch.where(u < 0.3, 0.0, u)
    if how == "ones":
        return torch.ones_like(u)
    if how == "counts":
        return (3 * u).floor()
    if how == "signed":
        return 0.5 * (u - 0.4)
    if how == "cancelling":
        return torch.tensor([0.1, 0.2, -0.1, -0.2, 0.3, 1.0], dtype=torch.double)[(6 * u).long()]
    return 1e-6 * u if how == "tiny" else u + 0.1


def make_graph(spec: Spec) -> Data:
    """The graph that a spec describes: `x`, `edge_index` and everything a model may ask for."""
    dice = torch.Generator().manual_seed(spec["seed"])
    n, real = spec["n"], getattr(torch, spec["dtype"])
    edges, second = edges_of(spec["shape"], n, dice), edges_of("sparse", n, dice)
    if spec["shape"] in ("one", "no edge"):
        second = edges
    if spec["order"] == "shuffled":
        edges = edges[:, torch.randperm(edges.size(1), generator=dice)]
    elif spec["order"] != "as made":
        edges = edges[:, edges[1 if spec["order"] == "by target" else 0].argsort(stable=True)]
    count = edges.size(1)
    data = Data(
        x=features_of(spec["features"], n, dice).to(real),
        edge_index=edges,
        edge_weight=weights_of(spec["weights"], count, dice).to(real),
        edge_attr=torch.randn(count, ATTRIBUTES, generator=dice, dtype=torch.double).to(real),
        edge_type=torch.randint(0, RELATIONS, (count,), generator=dice),
        pos=torch.randn(n, 3, generator=dice, dtype=torch.double).to(real),
        n_id=torch.randperm(n, generator=dice),
        node_type=torch.randint(0, KINDS, (n,), generator=dice),
        edge_index2=second,
        edge_weight2=weights_of("positive", second.size(1), dice).to(real),
    )
    if spec["num_nodes"]:
        data.num_nodes = n
    return _dropped(data, spec)


def _dropped(data: Data, spec: Spec) -> Data:
    """The graph without what the spec takes away."""
    stays = torch.ones(spec["n"], dtype=torch.bool)
    stays[spec["drop_nodes"]] = False
    new_id = stays.long().cumsum(0) - 1
    for index, dropped, keys in (
        ("edge_index", spec["drop_edges"], EDGE_KEYS),
        ("edge_index2", spec["drop_edges2"], ("edge_weight2",)),
    ):
        edges = data[index]
        left = stays[edges[0]] & stays[edges[1]]
        left[dropped] = False
        data[index] = new_id[edges[:, left]]
        for key in keys:
            data[key] = data[key][left]
    for key in NODE_KEYS:
        data[key] = data[key][stays]
    if spec["num_nodes"]:
        data.num_nodes = int(stays.sum())
    return data


def kept_nodes(spec: Spec) -> dict[int, int]:
    """The position of every node that is left, by its position in the full graph."""
    left = [node for node in range(spec["n"]) if node not in set(spec["drop_nodes"])]
    return {node: at for at, node in enumerate(left)}
