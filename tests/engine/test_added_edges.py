"""Added edges with their attributes, by the engine: the same as a pass on the new graph."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data, HeteroData

import hetero_graphs
import nora
from edit_batches import batch_of
from nora.engine.edit_support import unsupported_edits
from nora.engine.effects import Effects
from nora.engine.engine import Engine
from nora.engine.exec.kernels.choice import pick_backend
from nora.graph.edge_lookup import EdgeLookup
from nora.graph.edits import Edits
from nora.model.edited import predict_after
from nora.model.preserve import seeded
from nora.models.timme import TIMME

WIDTH = 4


@pytest.fixture(autouse=True)
def in_double() -> Iterator[None]:
    torch.set_default_dtype(torch.double)
    with torch.no_grad():
        yield
    torch.set_default_dtype(torch.float)


def mlp(a: int, b: int) -> nn.Module:
    return nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, b))


Layer = Callable[[int, int], nn.Module]
WEIGHTED: dict[str, Layer] = {
    "gcn": pyg.GCNConv,
    "gcn-improved": lambda a, b: pyg.GCNConv(a, b, improved=True),
    "gcn-bare": lambda a, b: pyg.GCNConv(a, b, normalize=False),
    "graph": pyg.GraphConv,
    "graph-mean": lambda a, b: pyg.GraphConv(a, b, aggr="mean"),
    "tag": lambda a, b: pyg.TAGConv(a, b, K=2),
    "sg": lambda a, b: pyg.SGConv(a, b, K=2),
    "cheb": lambda a, b: pyg.ChebConv(a, b, K=2),
    "le": pyg.LEConv,
}
ATTRIBUTES: dict[str, Layer] = {
    "gat": lambda a, b: pyg.GATConv(a, b, heads=2, concat=False, edge_dim=3),
    "gatv2": lambda a, b: pyg.GATv2Conv(a, b, edge_dim=3),
    "transformer": lambda a, b: pyg.TransformerConv(a, b, edge_dim=3),
    "gine": lambda a, b: pyg.GINEConv(mlp(a, b), edge_dim=3),
    "nn": lambda a, b: pyg.NNConv(a, b, nn.Linear(3, a * b)),
    "pna": lambda a, b: pyg.PNAConv(
        a, b, ["mean", "max", "std"], ["identity"], torch.tensor([0, 1, 2]), edge_dim=3
    ),
}
TYPED: dict[str, Layer] = {
    "rgcn": lambda a, b: pyg.RGCNConv(a, b, 3),
    "rgcn-bases": lambda a, b: pyg.RGCNConv(a, b, 3, num_bases=2, aggr="add"),
    "rgcn-fast": lambda a, b: pyg.FastRGCNConv(a, b, 3),
    "rgat": lambda a, b: pyg.RGATConv(a, b, 3),
}
BY_RULES = {
    "gcn",
    "gcn-improved",
    "gcn-bare",
    "graph",
    "graph-mean",
    "tag",
    "sg",
    "rgcn",
    "rgcn-fast",
}
SAID: dict[str, tuple[str, dict[str, Layer]]] = {
    "edge_weight": ("weight", WEIGHTED),
    "edge_attr": ("attr", ATTRIBUTES),
    "edge_type": ("type", TYPED),
}


class Two(nn.Module):
    """Two layers that read one more tensor of edges."""

    def __init__(self, layer: Layer, key: str) -> None:
        super().__init__()
        self.first, self.second, self.key = layer(WIDTH, 5), layer(5, 3), key

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_type: Tensor | None = None,
    ) -> Tensor:
        caught = {"edge_weight": edge_weight, "edge_attr": edge_attr, "edge_type": edge_type}[
            self.key
        ]
        return self.second(self.first(x, edge_index, caught).relu(), edge_index, caught)


def random_graph(seed: int, key: str, loops: bool = False, both_ways: bool = False) -> Data:
    chance, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    nodes = 11
    pairs = {tuple(chance.sample(range(nodes), 2)) for _ in range(24)}
    pairs |= {(node, node) for node in range(0, nodes, 3) if loops}
    pairs |= {pair[::-1] for pair in pairs} if both_ways else set()
    edges = sorted(pairs)
    chance.shuffle(edges)
    data = Data(
        x=torch.randn(nodes, WIDTH, generator=generator), edge_index=torch.tensor(edges).t()
    )
    data[key] = said_of(key, len(edges), generator)
    return data


def said_of(key: str, count: int, generator: torch.Generator) -> Tensor:
    if key == "edge_type":
        return torch.randint(3, (count,), generator=generator)
    if key == "edge_attr":
        return torch.randn(count, 3, generator=generator)
    return torch.rand(count, generator=generator) + 0.1


def new_edges(data: Data, key: str, chance: random.Random, count: int = 3) -> list[Any]:
    there = {tuple(pair) for pair in data.edge_index.t().tolist()}
    free = [
        (a, b)
        for a in range(data.num_nodes)
        for b in range(a)
        if (a, b) not in there and (b, a) not in there
    ]
    generator = torch.Generator().manual_seed(chance.randrange(1000))
    pairs = chance.sample(free, count)
    return [
        (*pair, {key: row}) for pair, row in zip(pairs, said_of(key, count, generator), strict=True)
    ]


def all_at_once(data: Data, key: str, seed: int) -> Iterator[Edits]:
    """New edges, what an edge says exchanged, and everything together."""
    chance = random.Random(seed)
    come = new_edges(data, key, chance)
    ends = {node for one in come for node in one[:2]}
    lost = chance.sample([tuple(pair) for pair in data.edge_index.t().tolist()], 2)
    again = (*lost[0], {key: said_of(key, 1, torch.Generator().manual_seed(seed))[0]})
    gone = next(node for node in range(data.num_nodes) if node not in ends | set(lost[0]))
    row = torch.ones(WIDTH)
    yield Edits(add_edges=come)
    yield Edits(remove_edges=lost[:1], add_edges=[again])
    yield Edits(remove=gone, remove_edges=lost, add_edges=[*come, again], features={min(ends): row})


def engine_of(model: nn.Module, data: Any, task: Any = None, backend: str = "vectorised") -> Engine:
    problem = nora.Session(model, data, task).problem()
    with problem.evaluating():
        return Engine.prepare(problem, pick_backend(backend, problem, 1))


class NothingWrong(dict[str, str]):
    """As if every kind of edit had been compared with the definition, and found right."""

    def __contains__(self, kind: object) -> bool:
        return True

    def __getitem__(self, kind: str) -> str:
        return ""


def check(engine: Engine, edits: Edits, reason: str = "") -> None:
    """The raw engine, without the comparison that goes before the first answer, is right or refuses."""
    engine.program.compared = NothingWrong()
    done = edits.resolve(engine.problem.data)
    assert reason in unsupported_edits(engine, done)
    if reason:
        return
    assert unsupported_edits(engine, done) == ""
    with engine.problem.evaluating():
        truth = predict_after(engine.problem, engine.before, done)
        found = engine.effect_of(done.to(engine.before.device))
    left = truth.survivors
    torch.testing.assert_close(found[left], truth.predictions[left], rtol=0, atol=1e-9)


CASES = [(key, name) for key, (_, layers) in SAID.items() for name in layers]


@pytest.mark.parametrize(("key", "name"), CASES)
def test_new_edges_bring_what_is_said_of_them(key: str, name: str) -> None:
    for seed, backend in enumerate(
        ["vectorised", "compiled"] if name in BY_RULES else ["vectorised"]
    ):
        data = random_graph(seed, key, both_ways=seed == 1)
        with seeded(3):
            model = Two(SAID[key][1][name], key).eval()
        engine = engine_of(model, data, backend=backend)
        for edits in all_at_once(data, key, seed):
            check(engine, edits)


@pytest.mark.parametrize("backend", ["vectorised", "compiled"])
@pytest.mark.parametrize("name", ["gcn", "gcn-improved", "gcn-bare", "graph"])
def test_weighted_self_loops_go_come_and_change(name: str, backend: str) -> None:
    data = random_graph(4, "edge_weight", loops=True)
    with seeded(3):
        model = Two(WEIGHTED[name], "edge_weight").eval()
    engine = engine_of(model, data, backend=backend)
    other = {"edge_weight": 0.7}
    check(engine, Edits(remove_edges=[(3, 3), (0, 0)]))
    check(engine, Edits(add_edges=[(1, 1, other)]))
    check(engine, Edits(remove_edges=[(3, 3)], add_edges=[(3, 3, other), (2, 2, other)]))
    check(engine, Edits(remove=0, remove_edges=[(3, 3)], add_edges=[(1, 1, other)]))


def test_all_edges_are_ranked_though_some_are_weighted_self_loops() -> None:
    data = random_graph(4, "edge_weight", loops=True)
    with seeded(3):
        model = Two(WEIGHTED["gcn"], "edge_weight").eval()
    fast = nora.edge_influence(model, data, progress=False).to_frame()
    slow = nora.edge_influence(model, data, method="brute", progress=False).to_frame()
    keys = ["source", "target"]
    both = fast.merge(slow, on=keys)
    assert len(both) == data.num_edges
    assert (both["influence_x"] - both["influence_y"]).abs().max() < 1e-9


@pytest.mark.parametrize("name", ["mixed", "mean", "to_hetero"])
def test_new_edges_of_every_type(name: str) -> None:
    data = hetero_graphs.library()
    data = data.apply(lambda rows: rows.double() if rows.is_floating_point() else rows)
    engine = engine_of(
        hetero_graphs.network(name), data, nora.NodeClassification(node_type="paper")
    )
    come, lost = {}, {}
    for key in data.edge_types:
        there = {tuple(pair) for pair in data[key].edge_index.t().tolist()}
        free = [
            (a, b)
            for a in range(data[key[0]].num_nodes)
            for b in range(data[key[2]].num_nodes)
            if (a, b) not in there and (b, a) not in there and a != b
        ]
        come[key], lost[key] = free[:2], sorted(there)[:1]
        check(engine, Edits(add_edges={key: free[:2]}))
    kind = data.node_types[0]
    row = {(kind, 1): data[kind].x[0] + 1}
    check(engine, Edits(add_edges=come, remove_edges=lost, features=row))


@pytest.mark.parametrize("backend", ["vectorised", "compiled"])
def test_a_blend_over_the_whole_graph_hears_of_new_edges(backend: str) -> None:
    data, relations = HeteroData(), ("friend", "reply")
    data["user"].x = torch.arange(12)
    with seeded(1):
        for relation in relations:
            data["user", relation, "user"].edge_index = torch.randint(12, (2, 25))
        model = TIMME(12, 2, relations=relations, hidden_channels=5, task="node").eval()
    engine = engine_of(model, data, backend=backend)
    friend, reply = data.edge_types
    lost = {reply: [tuple(data[reply].edge_index[:, 0].tolist())]}
    there = {tuple(pair) for pair in data[friend].edge_index.t().tolist()}
    free = [(a, b) for a in range(12) for b in range(12) if a != b and (a, b) not in there]
    check(engine, Edits(add_edges={friend: free[::30]}))
    check(engine, Edits(add_edges={friend: free[::30]}, remove_edges=lost, remove=11))


def test_what_edges_say_is_not_read_off_once_where_it_picks_edges() -> None:
    class Picky(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.SAGEConv(WIDTH, 3)

        def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
            return self.conv(x, edge_index[:, edge_weight > 0])

    data = random_graph(5, "edge_weight")
    engine = engine_of(Picky().eval(), data)
    check(
        engine,
        Edits(
            add_edges=[
                (*new_edges(data, "edge_weight", random.Random(0))[0][:2], {"edge_weight": -1.0})
            ]
        ),
        reason="selects",
    )


def test_an_edge_of_a_relation_without_edges_takes_a_full_pass() -> None:
    data = random_graph(6, "edge_type")
    data.edge_type = data.edge_type.clamp(max=1)
    model = Two(TYPED["rgcn"], "edge_type").eval()
    pair = new_edges(data, "edge_type", random.Random(0))[0][:2]
    engine = engine_of(model, data)
    check(engine, Edits(add_edges=[(*pair, {"edge_type": 1})]))
    check(engine, Edits(add_edges=[(*pair, {"edge_type": 2})]), reason="no edge of the added type")
    whole = nora.Session(model, data).what_if(add_edges=[(*pair, {"edge_type": 2})])
    truth = nora.what_if(model, data, add_edges=[(*pair, {"edge_type": 2})], method="brute")
    torch.testing.assert_close(whole.after, truth.after, rtol=0, atol=1e-9)


def test_edges_that_some_layers_use_otherwise_than_others_take_a_full_pass() -> None:
    class Forwards(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.SAGEConv(WIDTH, 3)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.conv(x, edge_index[:, edge_index[0] < edge_index[1]])

    data = random_graph(7, "edge_weight")
    del data.edge_weight
    engine = engine_of(Forwards().eval(), data)
    pair = new_edges(data, "edge_weight", random.Random(0))[0][:2]
    check(engine, Edits(add_edges=[pair]), reason="differently from others")


@pytest.mark.parametrize(
    ("key", "name"), [("edge_weight", "gcn"), ("edge_attr", "gatv2"), ("edge_type", "rgcn")]
)
def test_adding_back_restores_the_predictions(key: str, name: str) -> None:
    data = random_graph(8, key)
    with seeded(3):
        model = Two(SAID[key][1][name], key).eval()
    gone = Edits(remove_edges=[tuple(data.edge_index[:, at].tolist()) for at in (0, 3, 5)])
    session = nora.Session(model, gone.apply(data))
    back = gone.undo(data)
    engine = engine_of(model, session.data)
    check(engine, back)
    whole = nora.Session(model, data).problem().predict()
    torch.testing.assert_close(session.what_if(back).after, whole, rtol=0, atol=1e-9)


def test_a_full_pass_is_said_in_the_result() -> None:
    data = random_graph(8, "edge_weight")
    model = Two(WEIGHTED["gcn"], "edge_weight").eval()
    session = nora.Session(model, data)
    session.prepared.pays = lambda *_: True  # type: ignore[method-assign]
    pair = new_edges(data, "edge_weight", random.Random(0))[0]
    assert session.what_if(add_edges=[pair]).fallback == ""
    new = {"edge_weight": 1.0}
    edits = Edits(add_nodes=torch.ones(1, WIDTH), add_edges=[(11, 0, new)])
    assert session.what_if(edits).fallback == "a node is added"


def test_new_edges_of_a_type_are_compared_with_the_definition_before_the_first_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = hetero_graphs.library()
    task = nora.NodeClassification(node_type="paper")
    engine = engine_of(hetero_graphs.network("mixed"), data, task)
    honest = Engine.effect_of
    cites = ("paper", "cites", "paper")

    def wrong_for_citations(self: Engine, removals: Any) -> Tensor:
        found = honest(self, removals)
        return found + 0.1 if cites in removals.added_edges else found

    monkeypatch.setattr(Engine, "effect_of", wrong_for_citations)
    free = (0, 6) if not EdgeLookup(data).types[cites].holds(torch.tensor([[0], [6]])) else (6, 0)
    there = EdgeLookup(data).types["author", "writes", "paper"]
    pair = next(
        (a, b) for a in range(5) for b in range(7) if not there.holds(torch.tensor([[a], [b]]))
    )
    other = Edits(add_edges={"writes": [pair]})
    with engine.problem.evaluating():
        assert unsupported_edits(engine, other.resolve(data)) == ""
        with pytest.warns(RuntimeWarning, match="after a change of new edges .*cites"):
            assert "differ" in unsupported_edits(
                engine, Edits(add_edges={"cites": [free]}).resolve(data)
            )


def test_a_batch_of_several_edits_that_add_edges_gives_what_each_alone_gives() -> None:
    data = random_graph(4, "edge_weight")
    with seeded(3):
        engine = engine_of(Two(WEIGHTED["gcn"], "edge_weight").eval(), data)
    come = new_edges(data, "edge_weight", random.Random(1))
    edits = [Edits(add_edges=come[:1]), Edits(remove=9), Edits(features={3: torch.ones(WIDTH)})]
    edits += [Edits(add_edges=come[1:3], features={3: -torch.ones(WIDTH)})]
    batch = batch_of(edits, data)
    assert unsupported_edits(engine, batch) == ""
    assert bool((engine.cost_of(batch) > 0).all())  # by which chunks are bounded
    seen = 0
    for moves in Effects(engine.problem, engine.before, engine).moves(batch):
        for at, which in enumerate(moves.which.tolist()):
            found = engine.before.clone()
            mine = moves.removal == at
            found[moves.item[mine]] = moves.after[mine]
            with engine.problem.evaluating():
                alone = edits[which].resolve(data)
                truth = predict_after(engine.problem, engine.before, alone)
            left = truth.survivors
            torch.testing.assert_close(found[left], truth.predictions[left], rtol=0, atol=1e-9)
            seen += 1
    assert seen == len(edits)
