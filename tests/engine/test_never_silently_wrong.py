"""Models and graphs on which probing once went wrong without a word; the oracle is made by hand."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.utils import add_remaining_self_loops

import by_hand
import nora

FEATURES, CLASSES = 6, 3


def right(model: nn.Module, data: Data, nodes, **options) -> nora.Influence:
    """Ask for these nodes; a fallback is allowed, a wrong number is not."""
    model = model.double().eval()
    nodes = list(nodes)
    truth = by_hand.influence(model, data, nodes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = nora.influence(model, data, "exact", nodes=nodes, progress=False, **options)
    torch.testing.assert_close(found.scores[nodes], truth, rtol=1e-9, atol=1e-9)
    return found


def group(model: nn.Module, data: Data, nodes: list[int]) -> None:
    """The same for nodes that go together."""
    model = model.double().eval()
    truth = by_hand.influence(model, data, [nodes])[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = nora.what_if(model, data, nodes)
    assert found.total == pytest.approx(float(truth), rel=1e-9, abs=1e-9)


LEAVES, CORE = 300, 20


@pytest.fixture(scope="module")
def followers() -> Data:
    """Leaves without in-edges follow a hub, beside a small core: most nodes have no in-edges."""
    random = torch.Generator().manual_seed(1)
    leaves = torch.arange(LEAVES) + 1
    hub = torch.stack([leaves, torch.zeros_like(leaves)])
    core = torch.randint(CORE, (2, 4 * CORE), generator=random) + 1 + LEAVES
    x = torch.randn(1 + LEAVES + CORE, FEATURES, generator=random).double()
    return Data(x=x, edge_index=torch.cat([hub, core], dim=1))


class One(nn.Module):
    """One convolution."""

    def __init__(self, conv: nn.Module, out: nn.Module | None = None) -> None:
        super().__init__()
        self.conv, self.out = conv, out or nn.Identity()

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        if edge_weight is None:
            return self.out(self.conv(x, edge_index))
        return self.out(self.conv(x, edge_index, edge_weight))


SEVERAL_HOPS = {
    "cheb": lambda: One(pyg.ChebConv(FEATURES, CLASSES, K=4)),
    "arma": lambda: One(pyg.ARMAConv(FEATURES, CLASSES, num_stacks=2, num_layers=3)),
    "lg": lambda: One(LightLayers(), nn.Linear(FEATURES, CLASSES)),
    "ssg": lambda: One(pyg.SSGConv(FEATURES, CLASSES, alpha=0.1, K=3)),
    "mixhop": lambda: One(pyg.MixHopConv(FEATURES, CLASSES, powers=[0, 1, 3])),
    "eg": lambda: One(pyg.EGConv(FEATURES, 4, num_heads=2, aggregators=["symnorm", "mean"])),
    "gated": lambda: One(pyg.GatedGraphConv(FEATURES, num_layers=3)),
}


class LightLayers(nn.Module):
    """A layer of the user's that hops three times."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.LGConv()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for _ in range(3):
            x = self.conv(x, edge_index)
        return x


@pytest.mark.parametrize("name", SEVERAL_HOPS)
def test_several_hops_in_one_layer_beside_many_without_in_edges(name, followers):
    torch.manual_seed(2)
    model = SEVERAL_HOPS[name]()
    nodes = [0, 1, 2, *range(1 + LEAVES, 1 + LEAVES + CORE)]
    found = right(model, followers, nodes)
    assert "fallback" not in found.details
    truth = by_hand.influence(model, followers, range(followers.num_nodes))
    best = nora.top(model, followers, 5, progress=False)
    expected = truth.topk(5)
    certified = best.certified
    assert best.nodes[:certified] == tuple(expected.indices[:certified].tolist()) or (
        torch.allclose(truth[list(best.nodes[:certified])], expected.values[:certified], atol=1e-9)
    )


class Between(nn.Module):
    """Two convolutions and something between them."""

    def __init__(self, between, first=None) -> None:
        super().__init__()
        self.first, self.second = pyg.SAGEConv(FEATURES, 8), pyg.SAGEConv(8, CLASSES)
        self.between, self.before = between, first or (lambda x: x)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.first(self.before(x), edge_index)
        return self.second(self.between(h), edge_index)


@pytest.fixture
def small() -> Data:
    torch.manual_seed(5)
    return Data(x=torch.randn(30, FEATURES).double(), edge_index=torch.randint(30, (2, 90)))


def inactive_clamp(h: Tensor) -> Tensor:
    return h.clamp_(-4.5, 4.5)


def by_largest(h: Tensor) -> Tensor:
    return h / h.abs().max().clamp(min=0.1)


def by_floor(h: Tensor) -> Tensor:
    return h / h.abs().max().clamp(min=1e3)


def rolled(h: Tensor) -> Tensor:
    return h + h.roll(1, 0)


def by_kinds(h: Tensor) -> Tensor:
    return h / h.sign().unique().numel() + h / (h * 8).round().unique().numel()


def by_column(h: Tensor) -> Tensor:
    return h / h.abs().amax(dim=0).clamp(min=1e-3)


def normalised(h: Tensor) -> Tensor:
    return F.normalize(h.relu(), dim=0)


GLOBAL = [inactive_clamp, by_largest, by_floor, rolled, by_kinds, by_column, normalised]


@pytest.mark.parametrize("between", GLOBAL, ids=lambda f: f.__name__)
def test_what_depends_on_all_rows_or_on_removed_values(between, small):
    torch.manual_seed(0)
    right(Between(between), small, range(30))
    group(Between(between), small, [3, 4, 9])


def test_a_clamp_that_acts_only_without_a_node():
    """On `G` every value stays in bounds; without node 0 its receivers leave them."""
    edges = [(0, k) for k in range(1, 6)] + [(k, 0) for k in range(1, 6)] + [(6, k) for k in (1, 2)]
    x = torch.ones(7, FEATURES).double() * torch.linspace(0.5, 1, 7).double()[:, None]
    x[0], x[6] = -30, 40
    data = Data(x=x, edge_index=torch.tensor(edges).t().contiguous())
    torch.manual_seed(0)
    model = One(Clamped())
    right(model, data, range(7))


class Clamped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sum, self.out = pyg.SimpleConv(aggr="sum"), nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.out(self.sum(x, edge_index).clamp_(-200.0, 30.0) / 20)


@pytest.mark.parametrize("leading", [lambda x: x / x.abs().max(), lambda x: F.normalize(x, dim=0)])
def test_features_divided_by_what_all_of_them_say(leading, small):
    small.x[5:20] = 0
    small.x[3] *= 20
    torch.manual_seed(0)
    right(Between(torch.relu, leading), small, range(30))


class Scaled(pyg.MessagePassing):
    """A layer that divides by the largest value of any node."""

    def __init__(self) -> None:
        super().__init__(aggr="add")
        self.lin = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.propagate(edge_index, x=self.lin(x))
        return 5 * h / h.max().clamp(min=1)


def test_a_layer_that_divides_by_a_maximum_over_all_nodes(small):
    torch.manual_seed(0)
    right(One(Scaled()), small, range(30))


class Keeping(nn.Module):
    """Keeps its input on itself during `forward`."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = pyg.SAGEConv(FEATURES, FEATURES), pyg.SAGEConv(FEATURES, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.res = x
        h = self.first(x, edge_index).relu()
        return self.second(h + self.res, edge_index)


class KeepingBlock(nn.Module):
    """A map that passes through an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, h: Tensor) -> Tensor:
        self.kept = h
        return self.lin(h).tanh() + self.kept


@pytest.mark.parametrize("backend", ["compiled", "vectorised"])
def test_modules_that_keep_something_on_themselves_with_several_threads(backend, small):
    torch.manual_seed(0)
    for model in (Keeping(), Between(KeepingBlock())):
        options = {"workers": 4, "memory": "20KB", "backend": backend}
        right(model, small, range(30), **options)


class Relational(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = pyg.RGATConv(FEATURES, 4, 2, heads=2)
        self.second = pyg.RGATConv(8, CLASSES, 2)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index, edge_type).relu(), edge_index, edge_type)


@pytest.mark.parametrize("backend", ["compiled", "vectorised"])
def test_rgat_keeps_its_attention_and_is_asked_by_several_threads(backend, small):
    torch.manual_seed(0)
    small.edge_type = torch.randint(2, (90,))
    right(Relational(), small, range(30), workers=4, memory="20KB", backend=backend)


class Normalised(nn.Module):
    """Sums of neighbours, made unit vectors: what is left of a sum must be exactly nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(FEATURES, 8, bias=False)
        self.conv = pyg.SimpleConv(aggr="sum")
        self.out = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.out(F.normalize(self.conv(self.lin(x), edge_index, edge_weight), dim=-1))


def test_a_group_that_sends_all_messages_leaves_no_residue():
    torch.manual_seed(0)
    edges = [(s, t) for s in range(4) for t in range(4, 9)] + [(9, 10), (10, 9), (9, 4)]
    x = torch.randn(11, FEATURES).double() * 10 ** torch.linspace(-3, 3, 11).double()[:, None]
    data = Data(x=x, edge_index=torch.tensor(edges).t().contiguous())
    group(Normalised(), data, [0, 1, 2, 3])
    group(Normalised(), data, [0, 1, 2, 3, 9])
    for normalize in (True, False):
        group(SageNorm(normalize), data, [0, 1, 2, 3])
        right(SageNorm(normalize), data, range(11))
    right(Normalised(), data, range(11))


class SageNorm(nn.Module):
    def __init__(self, normalize: bool) -> None:
        super().__init__()
        options = {"normalize": normalize, "root_weight": False, "bias": False, "aggr": "sum"}
        self.conv = pyg.SAGEConv(FEATURES, CLASSES, **options)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return F.normalize(self.conv(x, edge_index), dim=-1)


@pytest.mark.parametrize(
    "model",
    [
        lambda: One(pyg.GCNConv(FEATURES, CLASSES, add_self_loops=False)),
        lambda: One(pyg.GCNConv(FEATURES, CLASSES)),
        lambda: One(pyg.GraphConv(FEATURES, CLASSES)),
        lambda: One(pyg.ChebConv(FEATURES, CLASSES, K=3)),
        lambda: Normalised(),
    ],
    ids=["gcn", "gcn-loops", "graph-conv", "cheb", "normalised"],
)
def test_signed_weights_that_cancel_without_a_node(model):
    """Without node 0, what comes in at node 4 and what goes out from node 3 is nothing at all."""
    torch.manual_seed(0)
    weight = {
        (0, 4): 0.7, (1, 4): 0.3, (2, 4): -0.3, (1, 5): 0.4, (2, 5): 0.6, (4, 5): 1.0, (5, 0): 0.5,
        (4, 0): 0.3, (3, 0): 0.7, (3, 5): 0.3, (3, 1): -0.3, (5, 1): 0.9, (0, 1): 0.4, (1, 2): 0.2,
    }  # fmt: skip
    data = Data(
        x=torch.randn(6, FEATURES).double(),
        edge_index=torch.tensor(list(weight)).t().contiguous(),
        edge_weight=torch.tensor(list(weight.values())).double(),
    )
    truth = by_hand.influence(model().double(), data, range(6))
    fine = truth.isfinite().nonzero().flatten().tolist()
    assert 0 in fine
    right(model(), data, fine)
    group(model(), data, [0, 2])


class Hidden(nn.Module):
    """NaN on the way, taken out again."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = pyg.SimpleConv(aggr="sum"), pyg.SAGEConv(FEATURES, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.first(x.sqrt(), edge_index).nan_to_num(0.5), edge_index)


class Infinite(Hidden):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.first(1 / x.relu(), edge_index)
        return self.second(h.nan_to_num(0.5, 2.0, -2.0), edge_index)


@pytest.mark.parametrize("kind", [Hidden, Infinite])
def test_nan_and_infinity_behind_nan_to_num(kind, small):
    torch.manual_seed(0)
    small.x = small.x.abs()
    small.x[4, :] = -1
    small.x[7, 2] = -1
    right(kind(), small, range(30))
    group(kind(), small, [4, 7])


def test_the_largest_number_of_an_edge_is_not_the_number_of_nodes():
    """`add_remaining_self_loops(edge_index)` gives the last node no loop once it has no edge."""
    torch.manual_seed(0)
    path = torch.arange(11)
    edges = torch.stack([path, path + 1])
    data = Data(x=torch.randn(12, 8).double(), edge_index=torch.cat([edges, edges.flip(0)], dim=1))

    class Loops(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.GraphConv(8, 3)

        def forward(self, x, edge_index):
            return self.conv(x, add_remaining_self_loops(edge_index)[0])

    model = Loops().double().eval()
    with pytest.warns(RuntimeWarning, match="edge_index.*num_nodes="):
        found = nora.influence(model, data, "exact", progress=False)
    truth = by_hand.influence(model, data, range(12))
    torch.testing.assert_close(found.scores, truth, rtol=1e-9, atol=1e-9)
