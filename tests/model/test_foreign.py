"""Structure that a removal would leave as it is: refused by name, or made again in every pass."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GCNConv, HeteroConv, RGATConv, SAGEConv

import by_hand
import nora
from by_hand import without
from fuzz.branches import CLASSES, ELSEWHERE, FEATURES, KEEPS, Keeps, relational, with_odd_names
from fuzz.branching import Definition, call

GRAPH = relational(4, nodes=20, edges=70)
METHODS = ("brute", "exact")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("how", [how for how, answered in KEEPS.items() if not answered])
def test_edges_that_a_removal_does_not_change_are_refused(how: str, method: str) -> None:
    data = with_odd_names(GRAPH)
    where = "parameter frozen" if "parameter" in how else r"branches\.py:\d+"
    with pytest.raises(ValueError, match=where) as caught:
        nora.influence(Keeps(data, how).double(), data, method, forward=call, progress=False)
    wanted = {"an odd name": "data.follows", "an odd name in a list": "data.sets[0]"}
    elsewhere = "edges that are not in data"
    assert wanted.get(how, elsewhere if how in ELSEWHERE else "model.") in str(caught.value)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("how", [how for how, answered in KEEPS.items() if answered])
def test_what_an_earlier_pass_has_cached_is_made_again(how: str, warm: bool, method: str) -> None:
    torch.manual_seed(0)
    model = Keeps(GRAPH, how).double().eval()
    if warm:
        with torch.no_grad():
            model(GRAPH)
    cache, kept = model.cache, dict(model.kept)
    truth = Definition(model, GRAPH)
    found = nora.influence(model, GRAPH, method, forward=call, progress=False)
    for node in (0, 5, 9):
        assert float(found.scores[node]) == pytest.approx(truth.total((node,)), rel=1e-9, abs=1e-12)
    assert model.cache is cache
    assert model.kept == kept  # it is left as found


def test_a_cache_of_another_graph_is_refused_by_name() -> None:
    model = Keeps(GRAPH, "a cached degree").double().eval()
    other = GRAPH.clone()
    other.edge_index = other.edge_index[:, :50]
    other.edge_type = other.edge_type[:50]
    with torch.no_grad():
        model(other)
    with pytest.raises(ValueError, match=r"earlier pass.*model\.kept = None"):
        nora.influence(model, GRAPH, "brute", forward=call, progress=False)


class Remembers(nn.Module):
    """Makes something of the graph in its first pass."""

    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.how, self.made, self.done = how, None, False
        self.conv = SAGEConv(FEATURES, CLASSES)

    def forward(self, data: Data) -> Tensor:
        x, edges = data.x, data.edge_index
        degrees = torch.bincount(edges[1], minlength=len(x)).double()
        if self.how == "a mean":
            self.made = x.mean(dim=0) if self.made is None else self.made
            return self.conv(x - self.made, edges)
        if self.how == "a number":
            self.made = float(degrees.max()) if self.made is None else self.made
            return self.conv(x, edges) * self.made
        if self.how == "a list of edges":
            self.made = edges.t().tolist() if self.made is None else self.made
            return self.conv(x, torch.tensor(self.made).t())
        if self.how == "a flag":
            if not self.done:
                self.made, self.done = degrees + 1, True
            return self.conv(x, edges) / self.made.unsqueeze(1)
        if not hasattr(self, "later"):
            self.later = degrees + 1
        return self.conv(x, edges) / self.later.unsqueeze(1)

    def forget(self) -> None:
        self.made, self.done = None, False
        vars(self).pop("later", None)


@pytest.mark.parametrize(
    "how", ["a mean", "a number", "a list of edges", "a flag", "an attribute that comes later"]
)
def test_whatever_a_model_has_made_of_the_graph_is_made_again(how: str) -> None:
    model = Remembers(how).double().eval()
    nodes = [0, 5, int(GRAPH.edge_index[1].mode().values)]
    truth = []
    with torch.no_grad():
        before = model(GRAPH).softmax(-1)
        for node in nodes:
            cut, stays = without(GRAPH, [node])
            model.forget()
            truth.append(float((model(cut).softmax(-1) - before[stays]).abs().sum()))
        model.forget()
        model(GRAPH)
    kept = dict(vars(model))
    found = nora.influence(model, GRAPH, "brute", nodes=nodes, forward=call, progress=False)
    assert found.scores[nodes].tolist() == pytest.approx(truth)
    assert all(vars(model)[name] is value for name, value in kept.items())


class Layer(nn.Module):
    """One convolution."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = SAGEConv(FEATURES, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index)


class Global(Layer):
    """Reads a graph of the module it is written in."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, GRAPH.edge_index)


class Parents(Layer):
    """Node ids in an attribute of the nodes."""

    def forward(self, x: Tensor, edge_index: Tensor, parent: Tensor) -> Tensor:
        return self.conv(x, edge_index) + self.conv(x[parent], edge_index)


class Made(Layer):
    """Makes its edges by NumPy, again in every pass: slow, and right."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, torch.from_numpy(edge_index.numpy()[::-1].copy()))


class Ordered(Layer):
    """Rows of nodes by ids of others: edges, in effect."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("order", torch.arange(GRAPH.num_nodes).flip(0))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x[self.order], edge_index)


@pytest.mark.parametrize("method", METHODS)
def test_a_global_graph_is_refused(method: str) -> None:
    with pytest.raises(ValueError, match=r"data, at test_foreign.py.*closure"):
        nora.influence(Global().double(), GRAPH, method, progress=False)


@pytest.mark.parametrize("method", METHODS)
def test_edges_in_the_closure_of_forward_are_refused(method: str) -> None:
    edges = GRAPH.edge_index.clone()

    def forward(model: Any, data: Data) -> Tensor:
        return model(data.x, edges)

    with pytest.raises(ValueError, match="reads edges that are not"):
        nora.influence(Layer().double(), GRAPH, method, forward=forward, progress=False)


def test_node_ids_in_an_attribute_of_nodes_are_refused() -> None:
    data = GRAPH.clone()
    data.parent = torch.arange(20).roll(1)

    def forward(model: Any, data: Data) -> Tensor:
        return model(data.x, data.edge_index, data.parent)

    with pytest.raises(ValueError, match=r"uses data\.parent as node ids"):
        nora.influence(Parents().double(), data, "brute", forward=forward, progress=False)


class Rolled(Layer):
    """Rows of the nodes before, and a constant that is beside the point."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x.roll(1, 0)[:, torch.tensor([1, 0, 2, 3])], edge_index)


class Marked(Layer):
    """Some nodes by their ids, each for itself."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        mark = torch.zeros(len(x), 1, dtype=x.dtype)
        mark[[3, 7]] = 1.0
        return self.conv(x, edge_index) * (1 + mark)


class Looped(Layer):
    """Goes through the edges of the graph in Python."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out = x.clone()
        for source, target in edge_index.t().tolist():
            out[target] = out[target] + x[source]
        return self.conv(out, edge_index)


class Embedded(Layer):
    """Has a row of its own for every node."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(GRAPH.num_nodes, FEATURES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x + self.rows.weight, edge_index)


def test_rows_by_ids_of_other_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"test_foreign\.py"):
        nora.influence(Ordered().double(), GRAPH, "brute", progress=False)


def test_groups_that_are_as_many_as_the_nodes_are_no_edges() -> None:
    data = GRAPH.clone()
    data.cluster = torch.randperm(20)

    def forward(model: Any, data: Data) -> Tensor:
        groups = torch.zeros(20, FEATURES, dtype=torch.double)
        pooled = groups.index_add(0, data.cluster, data.x)
        return model(data.x + pooled[data.cluster].relu(), data.edge_index)

    found = nora.influence(Layer().double(), data, "brute", forward=forward, progress=False)
    assert bool((found.scores > 0).any())


def test_a_list_of_pairs_in_data_keeps_its_ids() -> None:
    data = GRAPH.clone()
    data.pairs = GRAPH.edge_index.t().tolist()

    def forward(model: Any, data: Data) -> Tensor:
        return model(data.x, torch.tensor(data.pairs).t())

    with pytest.warns(RuntimeWarning, match="uses node ids.*isolated"):
        found = nora.influence(Layer().double(), data, "brute", forward=forward, progress=False)
    true = nora.influence(Layer().double(), GRAPH, "brute", progress=False)
    torch.testing.assert_close(found.scores, true.scores, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", [Made, Layer, Rolled, Looped, Marked, Embedded])
def test_nothing_else_is_refused(kind: type) -> None:
    isolates = kind in (Marked, Embedded)
    with pytest.warns(RuntimeWarning, match="isolated") if isolates else nullcontext():
        found = nora.influence(kind().double(), GRAPH, "brute", progress=False)
    assert bool((found.scores > 0).any())


class Noisy(nn.Module):
    """Adds noise to its rows."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = GCNConv(FEATURES, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x + torch.randn_like(x), edge_index)


class OnFew(nn.Module):
    """A layer between weights that have as many rows and columns as a small graph has nodes."""

    def __init__(self, nodes: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.given = nn.Linear(FEATURES, nodes)
        self.square = nn.Parameter(torch.randn(nodes, nodes))
        self.norm = nn.BatchNorm1d(nodes)
        self.conv = SAGEConv(nodes, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(self.norm(self.given(x) @ self.square), edge_index)


@pytest.mark.parametrize(
    "edges",
    [
        [(i, j) for i in range(8) for j in range(8) if i != j],
        [(2, 2), (3, 4), (7, 1), (6, 3)],
    ],
    ids=["a complete graph", "degrees of 0 and 1"],
)
def test_weights_of_the_size_of_a_small_graph_are_no_structure(edges: list) -> None:
    data = Data(x=torch.randn(8, FEATURES), edge_index=torch.tensor(edges).t())
    data.x, model = data.x.double(), OnFew(8).double().eval()
    found = nora.influence(model, data, "exact", backend="vectorised", progress=False)
    truth = by_hand.influence(model, data, list(range(8)))
    torch.testing.assert_close(found.scores, truth, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("nodes", [None, [3]], ids=["all", "one"])
def test_a_random_model_is_refused_for_few_nodes_too(method: str, nodes: list[int] | None) -> None:
    with pytest.raises(ValueError, match="not deterministic"):
        nora.influence(Noisy().double(), GRAPH, method, nodes=nodes, progress=False)


class Accumulated(nn.Module):
    """Rows summed in their order, passed along typed edges alone: nodes without edges show no order."""

    def __init__(self) -> None:
        super().__init__()
        self.start, self.end = nn.Linear(8, 8), nn.Linear(8, 2)
        self.conv = RGATConv(8, 8, 3)

    def forward(self, data: Data) -> Tensor:
        h = self.start(data.x).tanh().cumsum(dim=0) / 10
        return self.end(self.conv(h, data.edge_index, data.edge_type))


def test_an_order_of_the_nodes_that_only_edges_show_is_not_taken_for_ids() -> None:
    torch.manual_seed(0)
    model = Accumulated().double().eval()
    edges = torch.tensor([[2, 3, 4, 1, 5], [1, 4, 2, 5, 3]])
    data = Data(torch.randn(6, 8).double(), edges, edge_type=torch.tensor([0, 1, 2, 0, 1]))
    found = nora.influence(model, data, "exact", nodes=[0, 2], forward=call, progress=False)
    truth = by_hand.influence(model, data, [0, 2], call=call)
    assert float(truth[0]) > 1e-4
    assert found.scores[[0, 2]].tolist() == pytest.approx(truth.tolist())


class OneEdge(nn.Module):
    """An edge that stands in the code."""

    def __init__(self, source: int, target: int) -> None:
        super().__init__()
        self.conv, self.ends = GCNConv(8, 3), [[source], [target]]

    def forward(self, data: Data) -> Tensor:
        return self.conv(data.x, torch.cat([data.edge_index, torch.tensor(self.ends)], dim=1))


@pytest.mark.parametrize("ends", [(0, 1), (1, 0), (2, 5), (7, 3), (4, 6), (6, 0), (3, 2)])
def test_one_edge_in_the_code_is_refused_whichever_it_is(ends: tuple[int, int]) -> None:
    torch.manual_seed(0)
    data = Data(torch.randn(8, 8).double(), torch.randint(8, (2, 20)))
    with pytest.raises(ValueError, match="edges that are not in data"):
        nora.influence(OneEdge(*ends).double().eval(), data, forward=call, progress=False)


class LessTheFirst(Layer):
    """Every row less that of the first node, whichever it is."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x - x[0], edge_index)


def test_a_comparison_with_the_first_node_is_answered() -> None:
    model = LessTheFirst().double().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = nora.influence(model, GRAPH, "exact", progress=False)
    truth = by_hand.influence(model, GRAPH, [0, 5], call=lambda m, d: m(d.x, d.edge_index))
    assert found.scores[[0, 5]].tolist() == pytest.approx(truth.tolist())


class LessTheFourth(Layer):
    """Every row less that of node 3: as if there were an edge from it to all."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x - x[3], edge_index)


NEIGHBOURS = [GRAPH.edge_index[0, GRAPH.edge_index[1] == node].tolist() for node in range(20)]


class ByRows(Layer):
    """Takes the rows apart, and sums those of neighbours from a list."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        rows = x.unbind()
        near = [sum((rows[k] for k in NEIGHBOURS[i] if k < len(x)), rows[i]) for i in range(len(x))]
        return self.conv(torch.stack(near), edge_index)


class ByComparing(Layer):
    """Finds one other node for each by comparing ids, which are in the last column of the features."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        same = x[:, -1:].abs().mul(10).long() % 20 == torch.arange(len(x))
        return self.conv(x + same.double() @ x, edge_index)


class NeedsEdges(ByRows):
    """Cannot be run without any edge."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index) * (1 + int(edge_index.max() < 0))


@pytest.mark.parametrize("kind", [LessTheFourth, ByRows, ByComparing, NeedsEdges])
def test_node_ids_that_no_operation_of_torch_reads_as_such_are_refused(kind: type) -> None:
    with pytest.raises(ValueError, match=r"edges that are not in data, or .* ids .*data\.x"):
        nora.influence(kind().double().eval(), GRAPH, "brute", progress=False)


class OneMarked(Layer):
    """One node by its id."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        mark = torch.zeros(len(x), 1, dtype=x.dtype)
        mark[3] = 1.0
        return self.conv(x, edge_index) * (1 + mark)


class RowsToSpare(Layer):
    """Has a row of its own for every node, and more."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(GRAPH.num_nodes + 4, FEATURES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x + self.rows(torch.arange(len(x))), edge_index)


@pytest.mark.parametrize("kind", [OneMarked, RowsToSpare])
def test_what_a_model_knows_of_a_node_stays_with_it(kind: type) -> None:
    model = kind().double().eval()
    with pytest.warns(RuntimeWarning, match="isolated"):
        found = nora.influence(model, GRAPH, "brute", nodes=[1], progress=False)
    edges = GRAPH.edge_index[:, (GRAPH.edge_index != 1).all(dim=0)]
    with torch.no_grad():
        change = model(GRAPH.x, GRAPH.edge_index).softmax(-1) - model(GRAPH.x, edges).softmax(-1)
    change[1] = 0
    assert float(found.scores[1]) == pytest.approx(float(change.abs().sum()))


class Halves(Layer):
    """The first half of the rows counts twice, however many there are."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        half = x.size(0) // 2
        return self.conv(torch.cat([2 * x[:half], x[half:]]), edge_index)


def test_half_of_the_rows_is_a_place_and_no_id() -> None:
    model = Halves().double().eval()
    found = nora.influence(model, GRAPH, "brute", nodes=[0, 15], progress=False)
    truth = by_hand.influence(model, GRAPH, [0, 15], call=lambda m, d: m(d.x, d.edge_index))
    assert found.scores[[0, 15]].tolist() == pytest.approx(truth.tolist())


def test_a_layer_that_needs_sorted_edges_is_not_taken_for_one_with_ids() -> None:
    torch.manual_seed(0)
    edges = GRAPH.edge_index[:, GRAPH.edge_index[1].argsort(stable=True)]
    model = SAGEConv(FEATURES, CLASSES, aggr="lstm").double().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = nora.influence(model, Data(GRAPH.x, edges), "brute", progress=False)
    assert "removal" not in found.details


class FirstTwice(Layer):
    """The first row counts twice, whichever node it is."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(torch.cat([2 * x[:1], x[1:]]), edge_index)


def test_the_first_row_is_a_place_and_no_id() -> None:
    model = FirstTwice().double().eval()
    found = nora.influence(model, GRAPH, "exact", nodes=[0, 5], progress=False)
    truth = by_hand.influence(model, GRAPH, [0, 5], call=lambda m, d: m(d.x, d.edge_index))
    assert found.scores[[0, 5]].tolist() == pytest.approx(truth.tolist())


def _users_and_items() -> HeteroData:
    random = torch.Generator().manual_seed(3)
    data = HeteroData()
    for kind, count in (("user", 20), ("item", 24)):
        data[kind].x = torch.randn(count, FEATURES, generator=random, dtype=torch.double)
        data[kind].special = torch.zeros(count, 1, dtype=torch.double)
    data["user"].special[[3, 7]] = 1.0
    ends = [torch.randint(count, (60,), generator=random) for count in (20, 24)]
    data["user", "rates", "item"].edge_index = torch.stack(ends)
    data["item", "rev_rates", "user"].edge_index = torch.stack(ends[::-1])
    return data


class OfTypes(nn.Module):
    """Two layers on users and items, with something done to users in between."""

    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.how = how
        self.convs = nn.ModuleList(
            HeteroConv(
                {
                    ("user", "rates", "item"): SAGEConv((-1, -1), CLASSES),
                    ("item", "rev_rates", "user"): SAGEConv((-1, -1), CLASSES),
                }
            )
            for _ in range(2)
        )

    def forward(self, data: HeteroData) -> dict[str, Tensor]:
        x = self.convs[0](data.x_dict, data.edge_index_dict)
        users = x["user"]
        if self.how == "by id":
            mark = torch.zeros(len(users), 1, dtype=users.dtype)
            mark[[3, 7]] = 1.0
            x["user"] = users * (1 + mark)
        elif self.how == "by feature":
            x["user"] = users * (1 + data["user"].special)
        elif self.how == "in order":
            x["user"] = users + users.roll(1, 0)
        else:
            x["user"] = users.index_add(0, torch.tensor([5, 9]), users[[3, 7]])
        return self.convs[1](x, data.edge_index_dict)


def _of_types(how: str, **options: Any) -> Any:
    model, data = OfTypes(how).double().eval(), _users_and_items()
    with torch.no_grad():
        model(data)
    task = nora.NodeClassification(node_type="user")
    return nora.influence(model, data, task=task, forward=call, progress=False, **options)


@pytest.mark.parametrize("method", METHODS)
def test_node_ids_of_one_type_in_the_code_stay_with_their_nodes(method: str) -> None:
    with pytest.warns(RuntimeWarning, match="uses node ids.*isolated"):
        found = _of_types("by id", method=method)
    true = _of_types("by feature", method="brute")
    torch.testing.assert_close(found.scores, true.scores, rtol=1e-9, atol=1e-12)


def test_an_order_of_the_nodes_of_a_type_is_not_taken_for_ids() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = _of_types("in order", method="brute")
    assert bool((found.scores > 0).any())


def test_edges_between_nodes_of_a_type_that_stand_in_the_code_are_refused() -> None:
    with pytest.raises(ValueError, match="edges that are not in data"):
        _of_types("an edge", method="brute")


class ScoresPairs(nn.Module):
    """Scores pairs of nodes itself, some nodes more than others."""

    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.how, self.conv = how, GCNConv(FEATURES, 6)

    def forward(self, x: Tensor, edge_index: Tensor, edge_label_index: Tensor) -> Tensor:
        h, special = self.conv(x[:, :-1], edge_index), x[:, -1:]
        mark = torch.zeros(len(h), 1, dtype=h.dtype)
        if self.how == "by id":
            mark[[3, 7]] = 1.0
        elif self.how == "by feature":
            mark = special
        elif self.how == "in order":
            h = h + h.roll(1, 0)
        else:
            h = h.index_add(0, torch.tensor([5]), h[[3]])
        h = h * (1 + mark)
        return h[edge_label_index].prod(dim=0).sum(dim=-1)


def _of_pairs(how: str, **options: Any) -> Any:
    special = torch.zeros(20, 1, dtype=torch.double)
    special[[3, 7]] = 1.0
    data = Data(torch.cat([GRAPH.x, special], dim=1), GRAPH.edge_index)
    pairs = torch.randint(20, (2, 30), generator=torch.Generator().manual_seed(1))
    model = ScoresPairs(how).double().eval()
    task = nora.LinkPrediction(pairs)
    return nora.influence(model, data, task=task, progress=False, **options)


@pytest.mark.parametrize("method", METHODS)
def test_node_ids_in_the_code_of_a_model_that_scores_pairs_stay_with_their_nodes(
    method: str,
) -> None:
    with pytest.warns(RuntimeWarning, match="uses node ids.*isolated"):
        found = _of_pairs("by id", method=method)
    true = _of_pairs("by feature", method="brute")
    torch.testing.assert_close(found.scores, true.scores, rtol=1e-9, atol=1e-12)


def test_an_order_in_a_model_that_scores_pairs_is_not_taken_for_ids() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = _of_pairs("in order", method="brute")
    assert bool((found.scores > 0).any())


def test_an_edge_in_the_code_of_a_model_that_scores_pairs_is_refused() -> None:
    with pytest.raises(ValueError, match="edges that are not in data"):
        _of_pairs("an edge", method="brute")
