"""A graph that changes: after many edits, the predictions are those of a fresh forward pass."""

from __future__ import annotations

import random

import pytest
import torch
from torch_geometric import nn as pyg
from torch_geometric.data import Data, HeteroData

import nora
from graphs import FEATURES, barabasi, directed, double, some_pairs, two_camps
from hetero_graphs import library
from hetero_graphs import network as hetero_network
from networks import network, patchwork
from nora.engine.engine import Engine
from nora.engine.exec.kernels import choice
from nora.engine.exec.update import Written


class Mirror:
    """The same graph kept by hand: features and undirected edges by the ids of the first graph."""

    def __init__(self, data: Data) -> None:
        self.x = dict(enumerate(data.x))
        self.edges = {tuple(sorted(edge)) for edge in data.edge_index.t().tolist()}
        self.next = data.num_nodes

    def predictions(self, model: torch.nn.Module) -> dict[int, torch.Tensor]:
        left = sorted(self.x)
        new = {node: at for at, node in enumerate(left)}
        ends = [(new[a], new[b]) for a, b in self.edges]
        ends += [(b, a) for a, b in ends]
        index = torch.tensor(ends, dtype=torch.long).reshape(-1, 2).t()
        with torch.no_grad():
            rows = model(torch.stack([self.x[node] for node in left]), index).softmax(dim=1)
        return dict(zip(left, rows, strict=True))

    def some_edits(self, chance: random.Random) -> nora.Edits:
        """A random edit, done here too."""
        kind = chance.choice(["remove", "lose", "gain", "features", "add", "both"])
        nodes = sorted(self.x)
        if kind == "remove" and len(nodes) > 8:
            node = chance.choice(nodes)
            del self.x[node]
            self.edges = {edge for edge in self.edges if node not in edge}
            return nora.Edits(remove=node)
        if kind == "add":
            row, friend = torch.randn(FEATURES).double(), chance.choice(nodes)
            node, self.next = self.next, self.next + 1
            self.x[node] = row
            self.edges.add((friend, node))
            return nora.Edits(add_nodes=row.unsqueeze(0), add_edges=[(node, friend)])
        lost, come = [], []
        if kind in ("lose", "both") and self.edges:
            lost = [chance.choice(sorted(self.edges))]
            self.edges -= set(lost)
        if kind in ("gain", "both"):
            free = [
                (a, b) for a in nodes for b in nodes if a < b and (a, b) not in {*self.edges, *lost}
            ]
            come = [chance.choice(free)]
            self.edges |= set(come)
        if lost or come:
            return nora.Edits(remove_edges=[edge[::-1] for edge in lost], add_edges=come)
        node, row = chance.choice(nodes), torch.randn(FEATURES).double()
        self.x[node] = row
        return nora.Edits(features={node: row})


@pytest.mark.parametrize(("name", "renew_after"), [("gcn", 7), ("gat", 1000), ("patchwork", 3)])
def test_predictions_stay_current_whatever_is_edited(name: str, renew_after: int) -> None:
    torch.manual_seed(0)
    data = Data(x=torch.randn(16, FEATURES).double(), edge_index=barabasi(16, 2))
    model = patchwork() if name == "patchwork" else network(name)
    live, mirror, chance = (
        nora.Live(model, data, renew_after=renew_after),
        Mirror(data),
        random.Random(1),
    )
    for _ in range(40):
        live.apply(mirror.some_edits(chance))
        truth = mirror.predictions(model)
        found = live.predictions
        assert set((~found.isnan().any(dim=1)).nonzero().flatten().tolist()) == set(truth)
        for node, row in truth.items():
            torch.testing.assert_close(found[node], row, rtol=0, atol=1e-9)
    assert (live.snapshots == 1) == (live.how == "rows")
    assert len(live.data.x) == len(mirror.x)
    assert data.num_nodes == 16


@pytest.mark.parametrize("backend", ["compiled", "vectorised"])
@pytest.mark.parametrize(
    ("name", "edits"), [("gcn", 250), ("gat", 50), ("sage", 50), ("gcnii", 50), ("drgat", 50)]
)
def test_rows_are_written_back_for_hundreds_of_edits_and_nothing_is_prepared_again(
    name: str, edits: int, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "COMPILE_ABOVE", 0 if backend == "compiled" else 10**9)
    prepared, prepare = [], Engine.prepare
    monkeypatch.setattr(
        Engine, "prepare", staticmethod(lambda *given: prepared.append(1) or prepare(*given))
    )
    torch.manual_seed(1)
    data = Data(x=torch.randn(30, FEATURES).double(), edge_index=barabasi(30, 2))
    live = nora.Live(model := network(name), data)
    mirror, chance = Mirror(data), random.Random(2)
    for step in range(edits):
        some = mirror.some_edits(chance)
        if step % 5 == 0:
            reply = live.effect_of(some).total
            assert live.apply(some).total == reply
        else:
            live.apply(some)
        if step % 25 == 0 or step > edits - 5:
            truth = mirror.predictions(model)
            there = ~live.predictions.isnan().any(dim=1)
            assert there.nonzero().flatten().tolist() == sorted(truth)
            rows = torch.stack([truth[node] for node in sorted(truth)])
            torch.testing.assert_close(live.predictions[there], rows, rtol=0, atol=1e-9)
    assert live.how == "rows"
    assert len(prepared) == 1
    first = live.predictions
    for _ in range(3):
        live.apply(mirror.some_edits(chance))
    for _ in range(3):
        live.undo()
    torch.testing.assert_close(live.predictions, first, equal_nan=True)
    live.apply(nora.Edits(features={sorted(mirror.x)[0]: torch.zeros(FEATURES)}))
    graph = live.data
    with torch.no_grad():
        truth = model(graph.x, graph.edge_index).softmax(dim=1)
    there = ~live.predictions.isnan().any(dim=1)
    torch.testing.assert_close(live.predictions[there], truth, rtol=0, atol=1e-9)


class Said(torch.nn.Module):
    """Two layers that read weights or kinds of edges."""

    def __init__(self, key: str) -> None:
        super().__init__()
        make = pyg.GCNConv if key == "edge_weight" else lambda a, b: pyg.RGCNConv(a, b, 3)
        self.first, self.second, self.key = make(FEATURES, 6), make(6, 3), key

    def forward(
        self,
        x: torch.Tensor,
        edge_index: torch.Tensor,
        edge_weight: torch.Tensor | None = None,
        edge_type: torch.Tensor | None = None,
    ) -> torch.Tensor:
        caught = edge_weight if self.key == "edge_weight" else edge_type
        return self.second(self.first(x, edge_index, caught).relu(), edge_index, caught)


@pytest.mark.parametrize("key", ["edge_weight", "edge_type"])
def test_what_is_said_of_edges_is_written_back_too(key: str) -> None:
    torch.manual_seed(3)
    torch.set_default_dtype(torch.double)  # `RGCNConv` makes its sums in the default precision
    edges = sorted({tuple(pair) for pair in torch.randint(12, (40, 2)).tolist()})  # loops too
    data = Data(x=torch.randn(12, FEATURES), edge_index=torch.tensor(edges).t())
    chance = random.Random(4)

    def value() -> float | int:
        return chance.random() + 0.2 if key == "edge_weight" else chance.randrange(3)

    data[key] = torch.tensor([value() for _ in edges])
    live = nora.Live(model := Said(key).eval(), data)
    there = set(edges)
    for step in range(60):
        free = [(a, b) for a in range(12) for b in range(12) if (a, b) not in there]
        lost = chance.sample(sorted(there), 2)
        come = chance.sample(free, 2)
        again = [lost[0]] if step % 3 == 0 else []
        live.apply(
            nora.Edits(
                remove_edges=lost,
                add_edges=[(*pair, {key: value()}) for pair in [*come, *again]],
                undirected=False,
            )
        )
        there = (there - set(lost)) | set(come) | set(again)
    graph = live.data
    assert {tuple(pair) for pair in graph.edge_index.t().tolist()} == there
    with torch.no_grad():
        truth = model(graph.x, graph.edge_index, **{key: graph[key]}).softmax(dim=1)
    torch.set_default_dtype(torch.float)
    assert live.how == "rows"
    torch.testing.assert_close(live.predictions, truth, rtol=0, atol=1e-9)


def test_what_cannot_be_written_back_is_kept_by_snapshots_and_reported() -> None:
    data = double(two_camps())
    model = pyg.GATv2Conv(FEATURES, 3).double().eval()
    live = nora.Live(model, data)
    assert live.how == "not known yet"
    live.apply(nora.Edits(remove_edges=[(3, 4)]))
    assert live.how == "snapshots: a convolution is followed without a rule"


class Turned(torch.nn.Module):
    """Hears those whom it points to."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.SAGEConv(FEATURES, 3)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.conv(x, edge_index.flip(0))


def test_a_model_that_turns_edges_round_is_kept_by_snapshots() -> None:
    torch.manual_seed(0)
    data, model = double(directed()), Turned().double()
    edits = nora.Edits(remove_edges=[tuple(data.edge_index[:, 0].tolist())])
    graph = edits.apply(data)
    truth = model(graph.x, graph.edge_index).softmax(dim=1).detach()
    live = nora.Live(model, data)
    torch.testing.assert_close(live.effect_of(edits).after, truth)
    live.apply(edits)
    torch.testing.assert_close(live.predictions, truth)
    assert live.how.startswith("snapshots: ") and "another order" in live.how


def test_an_edge_of_a_new_type_is_added_and_removed() -> None:
    torch.manual_seed(4)
    torch.set_default_dtype(torch.double)
    edges = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
    data = Data(x=torch.randn(5, FEATURES), edge_index=edges, edge_type=torch.zeros(5).long())
    live = nora.Live(model := Said("edge_type"), data)
    first = live.predictions
    other = [
        nora.Edits(remove_edges=[(0, 1)], add_edges=[(0, 1, {"edge_type": 2})]),
        nora.Edits(add_edges=[(3, 1, {"edge_type": 2})]),
        nora.Edits(remove_edges=[(2, 3)], add_edges=[(4, 2, {"edge_type": 1})]),
    ]
    for edits in other:
        reply = live.effect_of(edits).after
        live.apply(edits)
        graph = live.data
        truth = model(graph.x, graph.edge_index, None, graph.edge_type).softmax(dim=1).detach()
        torch.testing.assert_close(reply, truth, rtol=0, atol=1e-9)
        torch.testing.assert_close(live.predictions, truth, rtol=0, atol=1e-9)
    for _ in other:
        live.undo()
    torch.testing.assert_close(live.predictions, first)
    assert live.apply(nora.Edits(features={0: data.x[1]})).total > 0
    assert live.how == "rows"
    torch.set_default_dtype(torch.float)


def test_rows_written_back_wrongly_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    after = Written.after
    monkeypatch.setattr(
        Written,
        "after",
        lambda self, *given: (lambda item, rows: (item, rows + 0.1))(*after(self, *given)),
    )
    data, model = double(two_camps()), network()
    live = nora.Live(model, data)
    with pytest.warns(RuntimeWarning, match="by snapshots instead"):
        live.apply(nora.Edits(remove_edges=[(3, 4)]))
    new = live.data
    with torch.no_grad():
        truth = model(new.x, new.edge_index).softmax(dim=1)
    torch.testing.assert_close(live.predictions, truth)
    live.apply(nora.Edits(add_edges=[(3, 4)]))
    with torch.no_grad():
        whole = model(data.x, data.edge_index).softmax(dim=1)
    torch.testing.assert_close(live.predictions, whole)


def test_an_effect_is_computed_without_applying_it() -> None:
    data, model = double(two_camps()), network()
    live = nora.Live(model, data)
    live.apply(nora.Edits(remove=2, add_edges=[(0, 7)]))
    before = live.predictions.clone()
    edits = nora.Edits(remove_edges=[(3, 4)], features={5: [1.0, 2.0, 3.0]})
    effect = live.effect_of(edits)
    torch.testing.assert_close(live.predictions, before, equal_nan=True)
    both = nora.Edits(remove=2, add_edges=[(0, 7)]) + edits
    whole = nora.what_if(model, data, both, method="brute")
    torch.testing.assert_close(effect.after, whole.after, equal_nan=True)
    torch.testing.assert_close(effect.before, before, equal_nan=True)
    assert (effect.removed_edges, effect.changed_features) == (((3, 4),), (5,))
    applied = live.apply(edits)
    assert applied.total == pytest.approx(effect.total)
    torch.testing.assert_close(live.predictions, whole.after, equal_nan=True)


def test_an_added_node_without_edges_has_a_prediction() -> None:
    data = double(two_camps())
    torch.manual_seed(0)
    model = pyg.Sequential(
        "x, edge_index", [(pyg.GCNConv(FEATURES, 3, normalize=False), "x, edge_index -> x")]
    ).double()
    live = nora.Live(model, data)
    some = nora.Edits(add_nodes=torch.ones(2, FEATURES).double())
    alone = model(torch.ones(1, FEATURES).double(), data.edge_index[:, :0]).softmax(dim=1).detach()
    torch.testing.assert_close(live.effect_of(some).added, alone.expand(2, -1))
    live.apply(some)
    torch.testing.assert_close(live.predictions[8:], alone.expand(2, -1))
    live.undo()
    live.apply(nora.Edits(add_nodes=torch.ones(1, FEATURES).double(), add_edges=[(0, 8)]))
    graph = live.data
    truth = model(graph.x, graph.edge_index).softmax(dim=1).detach()
    torch.testing.assert_close(live.predictions, truth)
    assert live.how == "rows"


def test_edits_can_be_taken_back() -> None:
    data, model = double(directed()), network("sage")
    live = nora.Live(model, data, renew_after=2)
    first = live.predictions.clone()
    live.apply(nora.Edits(remove=1))
    second = live.predictions.clone()
    live.apply(nora.Edits(remove_edges=[(3, 4)], add_edges=[(4, 3)]))
    live.undo()
    torch.testing.assert_close(live.predictions, second, equal_nan=True)
    live.apply(nora.Edits(add_nodes=torch.ones(1, FEATURES).double(), add_edges=[(6, 0)]))
    assert live.predictions.shape == (7, 3)
    live.undo()
    live.undo()
    torch.testing.assert_close(live.predictions, first)
    with pytest.raises(ValueError, match="undo"):
        live.undo()


def test_a_node_comes_back_whose_neighbour_has_gone_before_it() -> None:
    data, model = double(two_camps()), network()
    a, b = data.edge_index[:, 0].tolist()
    live = nora.Live(model, data)
    first = live.predictions
    live.apply(nora.Edits(remove=a))
    without = live.predictions
    live.apply(nora.Edits(remove=b))
    live.undo()
    live.apply(nora.Edits(features={b: data.x[a]}))
    live.undo()
    torch.testing.assert_close(live.predictions, without, equal_nan=True)
    graph = nora.Edits(remove=a, features={b: data.x[a]}).apply(data)
    live.apply(nora.Edits(features={b: data.x[a]}))
    truth = model(graph.x, graph.edge_index).softmax(dim=1).detach()
    left = ~live.predictions.isnan().any(dim=1)
    torch.testing.assert_close(live.predictions[left], truth, rtol=0, atol=1e-9)
    assert live.how == "rows"
    live.undo()
    live.undo()
    torch.testing.assert_close(live.predictions, first)


def test_one_direction_goes_where_that_is_said() -> None:
    data, model = double(two_camps()), network()
    live = nora.Live(model, data)
    one_way = nora.Edits(remove_edges=[(3, 4)], undirected=False)
    live.apply(one_way)
    live.apply(nora.Edits(remove_edges=[(0, 1)]))  # both ways, as the first graph is
    left = nora.Edits(remove_edges=[(0, 1), (1, 0), (3, 4)], undirected=False).apply(data)
    with torch.no_grad():
        truth = model(left.x, left.edge_index).softmax(dim=1)
    torch.testing.assert_close(live.predictions, truth)


def test_types() -> None:
    data, model = library(), hetero_network()
    task = nora.NodeClassification(node_type="paper")
    live = nora.Live(model, data, task, renew_after=3)
    edge = tuple(data["author", "writes", "paper"].edge_index[:, 0].tolist())
    steps = [
        nora.Edits(remove=("author", 1)),
        nora.Edits(add_nodes={"paper": torch.ones(1, 6).double()}, add_edges={"cites": [(7, 2)]}),
        nora.Edits(remove=("paper", 0), features={("venue", 1): torch.zeros(3).double()}),
        nora.Edits(remove_edges={"cites": [(7, 2)]}, add_edges={"cites": [(2, 7)]}),
    ]
    if edge[0] not in (1,) and edge[1] != 0:
        steps.append(nora.Edits(remove_edges={"writes": [edge]}))
    for step in steps:
        live.apply(step)
        with torch.no_grad():
            graph = live.data
            assert isinstance(graph, HeteroData)
            truth = model(graph.x_dict, graph.edge_index_dict)["paper"].softmax(dim=1)
        there = ~live.predictions.isnan().any(dim=1)
        torch.testing.assert_close(live.predictions[there], truth)
    assert live.predictions.shape == (8, 3)
    assert live.data["author"].num_nodes == 4
    assert live.data["paper"].num_nodes == 7


REFUSED = [
    (nora.Edits(remove=2), "node 2 was removed"),
    (nora.Edits(add_edges=[(0, 2)]), "node 2 was removed"),
    (nora.Edits(features={2: [0.0, 0, 0]}), "node 2 was removed"),
    (nora.Edits(remove_edges=[(3, 4)]), "edge . is not in the graph|edge .–. is not in the graph"),
    (nora.Edits(add_edges=[(0, 1)]), "is in the graph already"),
    (nora.Edits(remove=9), "node 9 is out of range"),
    (nora.Edits(add_edges=[(0, 9)]), "node 9 is out of range"),
    (nora.Edits(features={0: [1.0]}), "must have the shape"),
    (nora.Edits(), "the edits are empty"),
]


@pytest.mark.parametrize(("edits", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_cannot_be_applied_is_refused_and_changes_nothing(
    edits: nora.Edits, message: str
) -> None:
    live = nora.Live(network(), double(two_camps()))
    live.apply(nora.Edits(remove=2))
    live.apply(nora.Edits(remove_edges=[(3, 4)]))
    before = live.predictions.clone()
    with pytest.raises(ValueError, match=message):
        live.apply(edits)
    torch.testing.assert_close(live.predictions, before, equal_nan=True)
    live.apply(nora.Edits(add_edges=[(3, 4)]))


def test_what_cannot_be_kept_current_is_refused() -> None:
    data = double(two_camps())
    with pytest.raises(ValueError, match="task predicts links"):
        nora.Live(network(), data, nora.LinkPrediction(some_pairs(data)))
    with pytest.raises(ValueError, match="renew_after must be at least 1"):
        nora.Live(network(), data, renew_after=0)
    with pytest.raises(TypeError, match=r"nora\.Edits"):
        nora.Live(network(), data).apply(3)
    live = nora.Live(model := network(), data)
    with torch.no_grad():
        next(model.parameters()).add_(1)
    with pytest.raises(RuntimeError, match="has changed since"):
        live.apply(nora.Edits(remove=2))


CITES = ("paper", "cites", "paper")


class Citing(torch.nn.Module):
    """Papers hear those that cite them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.HeteroConv({CITES: pyg.SAGEConv(3, 2).double()})

    def forward(self, x_dict, edge_index_dict):
        return self.conv(x_dict, edge_index_dict)


@pytest.mark.parametrize("renew_after", [1, 64])
def test_typed_edges_that_happen_to_have_their_reverse_still_go_one_way(renew_after: int) -> None:
    torch.manual_seed(0)
    model, data = Citing().eval(), HeteroData()
    data["paper"].x = torch.randn(6, 3).double()
    data[CITES].edge_index = torch.tensor([[0, 1, 1, 4, 5], [1, 0, 2, 5, 4]])
    live = nora.Live(model, data, renew_after=renew_after)
    row = torch.ones(3).double()
    live.apply(nora.Edits(remove_edges={CITES: [(1, 2)]}))  # what is left is symmetric
    live.apply(nora.Edits(features={("paper", 0): row}))
    live.apply(nora.Edits(remove_edges={CITES: [(0, 1)]}, add_edges={CITES: [(2, 3)]}))
    edges = torch.tensor([[1, 4, 5, 2], [0, 5, 4, 3]])
    x = data["paper"].x.clone()
    x[0] = row
    with torch.no_grad():
        truth = model({"paper": x}, {CITES: edges})["paper"].softmax(dim=1)
    torch.testing.assert_close(live.predictions, truth, rtol=1e-12, atol=1e-12)


def test_nodes_with_one_number_each_may_come_in_several_edits() -> None:
    torch.manual_seed(0)
    model = nora.build_model("timme", 10, 2, relations=["f"], hidden_channels=4).eval()
    data = HeteroData()
    data["user"].x = torch.arange(5)
    data["user", "f", "user"].edge_index = torch.tensor([[0, 1], [1, 2]])
    live = nora.Live(model, data)
    live.apply(nora.Edits(add_nodes={"user": torch.tensor([5, 6])}))
    live.apply(nora.Edits(add_nodes={"user": torch.tensor([7])}))
    assert live.data["user"].x.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("weight", [-1.2, -1.3])
def test_added_weights_whose_sums_cancel_take_a_full_pass(weight: float) -> None:
    """In float32 0.1 + 0.1 + 1 − 1.2 is 0, and in float64 it is not; with −1.3 the model predicts NaN."""
    node = torch.arange(30)
    edge_index = torch.cat(
        [torch.stack([node, (node + 1) % 30]), torch.stack([node, (node + 5) % 30])], dim=1
    )
    torch.manual_seed(0)
    data = Data(x=torch.randn(30, 4), edge_index=edge_index, edge_weight=torch.full((60,), 0.1))

    class Weighted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.GCNConv(4, 3)

        def forward(
            self, x: torch.Tensor, edge_index: torch.Tensor, edge_weight: torch.Tensor
        ) -> torch.Tensor:
            return self.conv(x, edge_index, edge_weight)

    live = nora.Live(model := Weighted().eval(), data)
    live.apply(nora.Edits(features={0: torch.ones(4)}))
    assert live.how == "rows"
    added = nora.Edits(add_edges=[(9, 3, {"edge_weight": weight})], undirected=False)
    back = nora.Edits(remove_edges=[(9, 3)], undirected=False)
    for edits in (added, back, nora.Edits(features={0: torch.zeros(4)})):
        live.apply(edits)
        graph = live.data
        with torch.no_grad():
            truth = model(graph.x, graph.edge_index, graph.edge_weight).softmax(dim=1)
        torch.testing.assert_close(live.predictions, truth, equal_nan=True)


def test_effects_and_predictions_stay_those_of_their_time() -> None:
    data = Data(x=torch.randn(40, FEATURES).double(), edge_index=barabasi(40, 2))
    live = nora.Live(network("sage"), data)
    seen, effects = [live.predictions], []
    for edits in (
        nora.Edits(remove_edges=[tuple(data.edge_index[:, 0].tolist())]),
        nora.Edits(remove=7),
        nora.Edits(features={3: torch.zeros(FEATURES).double()}),
        nora.Edits(add_nodes=data.x[:1], add_edges=[(40, 5)]),
    ):
        kept = [one.clone() for one in seen]
        effects.append(live.apply(edits))
        assert all(map(lambda a, b: torch.equal(a.nan_to_num(), b.nan_to_num()), seen, kept))
        seen.append(live.predictions)
    assert live.how == "rows"
    for effect, before, after in zip(effects, seen, seen[1:], strict=False):
        assert torch.equal(effect.before.nan_to_num(9), before.nan_to_num(9))
        assert torch.equal(effect.after.nan_to_num(9), after[: len(before)].nan_to_num(9))
        assert effect.total == pytest.approx(float(effect.change.sum()), rel=1e-6)
    assert torch.equal(effects[3].added, seen[4][40:])
    live.undo()
    assert torch.equal(live.predictions.nan_to_num(9), seen[3].nan_to_num(9))


@pytest.mark.parametrize("backend", ["compiled", "vectorised"])
def test_weights_stay_beside_their_edges_when_others_come_and_go(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "COMPILE_ABOVE", 0 if backend == "compiled" else 10**9)

    class Weighted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.GCNConv(FEATURES, 3)

        def forward(self, x: torch.Tensor, edges: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return self.conv(x, edges, w)

    torch.manual_seed(0)
    edge_index = barabasi(30, 3)
    weight = torch.rand(edge_index.size(1)) + 0.5
    data = Data(x=torch.randn(30, FEATURES), edge_index=edge_index, edge_weight=weight)
    model = Weighted().eval()
    live = nora.Live(
        model, data, forward=lambda model, data: model(data.x, data.edge_index, data.edge_weight)
    )
    chance, distinct = random.Random(0), edge_index.t().unique(dim=0).tolist()
    for edge in chance.sample(distinct, 12):
        live.apply(nora.Edits(remove_edges=[tuple(edge)], undirected=False))
        live.apply(
            nora.Edits(
                add_edges=[(*edge, {"edge_weight": chance.random() + 0.5})], undirected=False
            )
        )
    assert live.how == "rows"
    assert live._live[0].engine.backend.__name__.endswith(backend)
    graph = live.data
    with torch.no_grad():
        truth = model(graph.x, graph.edge_index, graph.edge_weight).softmax(dim=1)
    assert torch.allclose(live.predictions, truth, atol=1e-5)


@pytest.mark.parametrize("backend", ["compiled", "vectorised"])
@pytest.mark.parametrize("name", ["gcn", "sage", "gat"])
def test_rounding_errors_do_not_add_up_over_many_edits(
    name: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "COMPILE_ABOVE", 0 if backend == "compiled" else 10**9)
    torch.manual_seed(0)
    data = Data(x=torch.randn(60, FEATURES), edge_index=barabasi(60, 3))
    model = network(name).float()
    live, node = nora.Live(model, data), int(data.edge_index[0].bincount().argmax())
    large, own = 30 * torch.randn(2, FEATURES), data.x[node]
    for step in range(300):  # a hub's row becomes large and small again
        live.apply(nora.Edits(features={node: own if step % 2 else large[step // 2 % 2]}))
    assert live.how == "rows"
    with torch.no_grad():
        truth = model.double()(data.x.double(), data.edge_index).softmax(dim=1)
    torch.testing.assert_close(live.predictions.double(), truth, rtol=0, atol=3e-6)


@pytest.mark.parametrize("name", ["gcn", "sage", "gat"])
@pytest.mark.parametrize("undone", [False, True])
def test_an_edit_that_is_interrupted_leaves_the_graph_before_it(
    name: str, undone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    data = Data(x=torch.randn(30, FEATURES).double(), edge_index=barabasi(30, 3))
    live = nora.Live(model := network(name), data)
    edges = [tuple(data.edge_index[:, at].tolist()) for at in (0, 9, 20)]
    live.apply(nora.Edits(remove_edges=[edges[0]]))
    before, finish = live.predictions, Written.finish

    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Written, "finish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        live.undo() if undone else live.apply(nora.Edits(remove_edges=[edges[1]]))
    monkeypatch.setattr(Written, "finish", finish)
    assert torch.equal(live.predictions, before)
    for edits in (nora.Edits(remove_edges=[edges[2]]), nora.Edits(add_edges=[edges[2]])):
        live.apply(edits)
        with torch.no_grad():
            truth = model(live.data.x, live.data.edge_index).softmax(dim=1)
        torch.testing.assert_close(live.predictions, truth, rtol=0, atol=1e-9)
    live.undo()
    live.undo()
    torch.testing.assert_close(live.predictions, before, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["gcn", "sage", "gat"])
def test_edges_of_a_hub_come_and_go_without_its_other_neighbours(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A star whose hub loses its edges one by one, until none is left, and gets them again."""
    monkeypatch.setattr(choice, "COMPILE_ABOVE", 0)
    torch.manual_seed(0)
    leaves = torch.arange(1, 40)
    edges = torch.stack([torch.zeros_like(leaves), leaves])
    data = Data(x=torch.randn(40, FEATURES), edge_index=torch.cat([edges, edges.flip(0)], dim=1))
    model = network(name).float()
    live = nora.Live(model, data)
    every = [(0, leaf) for leaf in leaves.tolist()]
    steps = [nora.Edits(remove_edges=[edge]) for edge in every]
    steps += [nora.Edits(add_edges=[edge]) for edge in every]
    steps += [nora.Edits(remove_edges=every[:-1]), nora.Edits(add_edges=every[:-1])]
    for edits in steps:
        live.apply(edits)
        graph = live.data
        with torch.no_grad():
            truth = model.double()(graph.x.double(), graph.edge_index).softmax(dim=1)
        model.float()
        torch.testing.assert_close(live.predictions.double(), truth, rtol=0, atol=1e-6)
    assert live.how == "rows"


def test_an_edge_comes_and_goes_at_nodes_that_come_and_go() -> None:
    """The same edge twice, self-loops, a node added, connected and removed, and all of it undone."""
    data, model = double(two_camps()), network()
    live = nora.Live(model, data)
    row = torch.ones(1, FEATURES).double()
    steps = [
        nora.Edits(remove_edges=[(3, 4)]),
        nora.Edits(add_edges=[(3, 4)]),
        nora.Edits(remove_edges=[(3, 4)], add_edges=[(3, 4)]),
        nora.Edits(add_nodes=row),
        nora.Edits(add_edges=[(8, 8), (8, 0)]),
        nora.Edits(remove_edges=[(8, 8)], features={8: 2 * row[0]}),
        nora.Edits(add_edges=[(8, 8), (3, 3)]),
        nora.Edits(remove=8),
        nora.Edits(add_nodes=row, add_edges=[(9, 3), (9, 0)]),
        nora.Edits(remove=[3, 9]),
        nora.Edits(remove_edges=[(0, 1), (4, 5)], add_edges=[(0, 4), (1, 5), (0, 5)]),
        nora.Edits(remove_edges=[(0, 4), (1, 5), (0, 5)]),
    ]
    seen = []
    for edits in steps:
        seen.append((live.predictions, live.data))
        found = live.effect_of(edits).after
        live.apply(edits)
        graph = live.data
        truth = model(graph.x, graph.edge_index).softmax(dim=1).detach()
        left = ~live.predictions.isnan().any(dim=1)
        torch.testing.assert_close(live.predictions[left], truth, rtol=0, atol=1e-9)
        torch.testing.assert_close(
            found, live.predictions[: len(found)], rtol=0, atol=1e-12, equal_nan=True
        )
    assert live.how == "rows"
    assert (int(left.sum()), len(live.data.x), live.snapshots) == (7, 7, 1)
    for predictions, graph in reversed(seen):
        live.undo()
        assert torch.equal(live.predictions.nan_to_num(9), predictions.nan_to_num(9))
        assert torch.equal(live.data.x, graph.x)
        ends = [sorted(map(tuple, one.edge_index.t().tolist())) for one in (live.data, graph)]
        assert ends[0] == ends[1]
    again = steps[0] + nora.Edits(remove=7)
    live.apply(again)
    graph = live.data
    truth = model(graph.x, graph.edge_index).softmax(dim=1).detach()
    torch.testing.assert_close(live.predictions[:7], truth, rtol=0, atol=1e-9)


def test_edits_are_undone_across_a_full_pass_and_more_rows() -> None:
    torch.manual_seed(0)
    torch.set_default_dtype(torch.double)  # `RGCNConv` makes its sums in the default precision
    node = torch.arange(12)
    edges = torch.stack([node, (node + 1) % 12])
    data = Data(x=torch.randn(12, FEATURES), edge_index=edges, edge_type=node % 2)
    live = nora.Live(model := Said("edge_type").eval(), data)
    steps = [
        nora.Edits(remove_edges=[(3, 4)], add_edges=[(3, 4, {"edge_type": 0})]),
        nora.Edits(remove=7),
        nora.Edits(add_edges=[(5, 2, {"edge_type": 2})]),  # a full pass: no edge had this type
        nora.Edits(remove_edges=[(5, 2)]),
        nora.Edits(add_nodes=torch.randn(100, FEATURES)),  # more than there are free rows
        nora.Edits(add_edges=[(0, 50, {"edge_type": 1}), (50, 50, {"edge_type": 0})]),
        nora.Edits(remove=[0, 60], features={50: torch.zeros(FEATURES)}),
    ]

    def check() -> None:
        graph = live.data
        with torch.no_grad():
            truth = model(graph.x, graph.edge_index, None, graph.edge_type).softmax(dim=1)
        left = ~live.predictions.isnan().any(dim=1)
        torch.testing.assert_close(live.predictions[left], truth, rtol=0, atol=1e-9)

    seen, hows = [], []
    for edits in steps:
        seen.append((live.predictions, live.data))
        live.apply(edits)
        hows.append(live.how)
        check()
    assert hows == ["rows", "rows", "not known yet", *["rows"] * 4]
    for predictions, graph in reversed(seen):
        live.undo()
        torch.testing.assert_close(live.predictions, predictions, equal_nan=True, rtol=0, atol=0)
        assert torch.equal(live.data.x, graph.x)
        caught = [
            sorted(zip(*one.edge_index.tolist(), one.edge_type.tolist(), strict=True))
            for one in (live.data, graph)
        ]
        assert caught[0] == caught[1]
    live.apply(steps[1])
    check()
    torch.set_default_dtype(torch.float)
