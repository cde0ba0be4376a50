"""Random models, random graphs, random edits of all kinds at once: what a graph made by hand gives."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data

import nora
from nora.engine import verify as verification

WIDTH, CLASSES = 4, 3
Layer = Callable[[int, int], nn.Module]
PLAIN: dict[str, Layer] = {
    "gcn": pyg.GCNConv,
    "gcn-bare": lambda a, b: pyg.GCNConv(a, b, normalize=False),
    "sage": pyg.SAGEConv,
    "sage-max": lambda a, b: pyg.SAGEConv(a, b, aggr="max"),
    "gat": lambda a, b: pyg.GATConv(a, b, heads=2, concat=False),
    "gin": lambda a, b: pyg.GINConv(nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, b))),
    "graph": pyg.GraphConv,
    "sg": lambda a, b: pyg.SGConv(a, b, K=2),
    "tag": lambda a, b: pyg.TAGConv(a, b, K=2),
    "gatv2": pyg.GATv2Conv,
    "cheb": lambda a, b: pyg.ChebConv(a, b, K=2),
    "transformer": pyg.TransformerConv,
}
WEIGHTED = {name: PLAIN[name] for name in ("gcn", "gcn-bare", "graph", "sg", "tag", "cheb")}
TYPED: dict[str, Layer] = {
    "rgcn": lambda a, b: pyg.RGCNConv(a, b, 3),
    "rgcn-fast": lambda a, b: pyg.FastRGCNConv(a, b, 3),
}
POOLS = {"": PLAIN, "edge_weight": WEIGHTED, "edge_type": TYPED}


@pytest.fixture(autouse=True)
def by_the_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(verification, "PREPARING_SHARE", math.inf)
    torch.set_default_dtype(torch.double)
    with torch.no_grad():
        yield
    torch.set_default_dtype(torch.float)


class Net(nn.Module):
    """A few layers, residuals, activations in place; some turn the edges round."""

    def __init__(self, chance: random.Random, key: str) -> None:
        super().__init__()
        pool = POOLS[key]
        self.key, self.turned = key, chance.random() < 0.1
        names = [chance.choice(sorted(pool)) for _ in range(chance.choice([1, 2, 2, 3]))]
        self.convs = nn.ModuleList([pool[name](WIDTH, WIDTH) for name in names])
        self.end = nn.Linear(WIDTH, CLASSES)
        self.residual = [chance.random() < 0.3 for _ in names]

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_type: Tensor | None = None,
    ) -> Tensor:
        attributes = {"": (), "edge_weight": (edge_weight,), "edge_type": (edge_type,)}[self.key]
        edges = edge_index.flip(0) if self.turned else edge_index
        for conv, residual in zip(self.convs, self.residual, strict=True):
            new = conv(x, edges, *attributes)
            x = (new + x if residual else new).tanh_()
        return self.end(x)


@dataclass
class Hand:
    """A graph by the ids that its nodes have for ever."""

    rows: dict[int, Tensor]
    edges: list[tuple[int, int, dict]]
    key: str
    next: int = field(init=False)

    def __post_init__(self) -> None:
        self.next = max(self.rows) + 1
        pairs = {edge[:2] for edge in self.edges}
        self.undirected = all((b, a) in pairs for a, b in pairs)

    def data(self) -> Data:
        place = {node: at for at, node in enumerate(sorted(self.rows))}
        ends = [(place[a], place[b]) for a, b, _ in self.edges]
        found = Data(
            x=torch.stack([self.rows[node] for node in sorted(self.rows)]),
            edge_index=torch.tensor(ends, dtype=torch.long).reshape(-1, 2).t(),
        )
        if self.key:
            kind = torch.long if self.key == "edge_type" else torch.double
            attributes = [edge[2][self.key] for edge in self.edges]
            found[self.key] = torch.tensor(attributes, dtype=kind)
        return found

    def predictions(self, model: nn.Module, count: int) -> Tensor:
        data = self.data()
        out = model(data.x, data.edge_index, data.get("edge_weight"), data.get("edge_type"))
        found = torch.full((count, CLASSES), math.nan)
        found[sorted(self.rows)] = out.softmax(dim=1)
        return found

    def attributes(self, chance: random.Random) -> dict:
        value = chance.randrange(3) if self.key == "edge_type" else chance.random() + 0.1
        return {self.key: value} if self.key else {}

    def edited(self, chance: random.Random) -> tuple[nora.Edits, Hand]:
        """Some of all kinds at once, and the graph after it."""
        there, nodes = sorted({edge[:2] for edge in self.edges}), sorted(self.rows)
        few = len(nodes) <= 5
        gone = [] if few or chance.random() < 0.5 else [chance.choice(nodes)]
        lost = chance.sample(there, min(len(there), chance.randrange(3)))
        rows = [torch.randn(WIDTH) for _ in range(chance.choice([0, 0, 1, 2]))]
        left = [node for node in nodes if node not in gone]
        ids = [*left, *range(self.next, self.next + len(rows))]
        come: dict[tuple[int, int], dict] = {}
        for _ in range(chance.randrange(4)):
            a, b = chance.choice(ids), chance.choice(ids)
            if not {(a, b), (b, a)} & {*there, *come}:
                come[a, b] = self.attributes(chance)
        if lost and self.key and not set(lost[0]) & set(gone):
            come[lost[0]] = self.attributes(chance)  # other values
        features = {chance.choice(left): torch.randn(WIDTH)}
        edits = nora.Edits(
            remove=gone,
            remove_edges=lost,
            add_edges=[
                (*pair, attributes) if attributes else pair for pair, attributes in come.items()
            ],
            add_nodes=torch.stack(rows) if rows else None,
            features=features,
        )
        without = {*lost, *((b, a) for a, b in lost if self.undirected)}
        edges = [edge for edge in self.edges if edge[:2] not in without]
        for (a, b), attributes in come.items():
            edges.append((a, b, attributes))
            if self.undirected and a != b:
                edges.append((b, a, attributes))
        edges = [edge for edge in edges if not set(edge[:2]) & set(gone)]
        every = {**self.rows, **dict(enumerate(rows, self.next)), **features}
        after = Hand(
            {node: row for node, row in every.items() if node not in gone}, edges, self.key
        )
        after.next, after.undirected = self.next + len(rows), self.undirected
        return edits, after


def posed(seed: int) -> tuple[random.Random, Hand, nn.Module]:
    torch.manual_seed(seed)
    chance = random.Random(seed)
    key = chance.choice(["", "", *POOLS])
    count = chance.randint(6, 12)
    pairs = {(chance.randrange(count), chance.randrange(count)) for _ in range(2 * count)}
    if chance.random() < 0.5:
        pairs |= {(b, a) for a, b in pairs}
    graph = Hand({node: torch.randn(WIDTH) for node in range(count)}, [], key)
    graph = Hand(graph.rows, [(a, b, graph.attributes(chance)) for a, b in sorted(pairs)], key)
    return chance, graph, Net(chance, key).eval()


@pytest.mark.parametrize("seed", range(10))
def test_what_if_is_what_a_graph_made_by_hand_gives_and_undoing_leads_back(seed: int) -> None:
    chance, graph, model = posed(seed)
    data, count = graph.data(), graph.next
    session = nora.Session(model, data)
    for _ in range(3):
        edits, after = graph.edited(chance)
        truth = after.predictions(model, after.next)
        found = session.what_if(edits)
        torch.testing.assert_close(found.after, truth[:count], rtol=0, atol=1e-9, equal_nan=True)
        if after.next > count:
            torch.testing.assert_close(found.added, truth[count:], rtol=0, atol=1e-9)
        back = nora.what_if(model, edits.apply(data), edits.undo(data))
        old = [node for node in sorted(after.rows) if node < count]
        order = [*old, *(node for node in range(count) if node not in after.rows)]
        kept = [at for at, node in enumerate(sorted(after.rows)) if node < count]
        rows = [back.after[kept]] + ([] if back.added is None else [back.added])
        whole = graph.predictions(model, count)[order]
        torch.testing.assert_close(torch.cat(rows), whole, rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(100, 110))
def test_live_stays_what_a_graph_made_by_hand_gives(seed: int) -> None:
    chance, graph, model = posed(seed)
    live = nora.Live(model, graph.data(), renew_after=chance.choice([2, 64]))
    past: list[Hand] = []
    for _ in range(8):
        if past and chance.random() < 0.25:
            live.undo()
            graph = past.pop()
        else:
            edits, after = graph.edited(chance)
            truth = after.predictions(model, after.next)
            reply = live.effect_of(edits)
            rows = reply.after if reply.added is None else torch.cat([reply.after, reply.added])
            torch.testing.assert_close(rows, truth, rtol=0, atol=1e-9, equal_nan=True)
            live.apply(edits)
            past, graph = [*past, graph], after
        truth = graph.predictions(model, len(live.predictions))
        torch.testing.assert_close(live.predictions, truth, rtol=0, atol=1e-9, equal_nan=True)
