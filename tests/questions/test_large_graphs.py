"""Large graphs: one pass over the graph and checks on parts of it, with the same answers and refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, MessagePassing, SAGEConv
from torch_geometric.utils import barabasi_albert_graph, degree, to_undirected

import nora
from nora.engine.lower.lowerings import LOWERINGS
from nora.engine.ops.aggregate import Aggregate
from nora.model import problem as problems
from nora.model.preserve import ForwardPasses

NODES, FEATURES, CLASSES = 1500, 4, 3
ASKED = [5, 9, 700]


@pytest.fixture(autouse=True)
def every_graph_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "LARGE_EDGES", 1)


@pytest.fixture(scope="module")
def ring() -> Data:
    """A ring with a few chords: a prediction depends on a small part of it."""
    random = torch.Generator().manual_seed(0)
    ids = torch.arange(NODES)
    chords = torch.randint(NODES, (2, 60), generator=random)
    edges = torch.cat([torch.stack([ids, (ids + 1) % NODES]), chords], dim=1)
    x = torch.randn(NODES, FEATURES, generator=random).double()
    return Data(x=x, edge_index=to_undirected(edges))


class Two(nn.Module):
    """Two layers."""

    def __init__(self, layer: Callable[[int, int], nn.Module] = SAGEConv) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = layer(FEATURES, 8), layer(8, CLASSES)
        self.double().eval()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index).relu(), edge_index)


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many nodes the graph of every pass had."""
    found: list[int] = []
    run = ForwardPasses.run

    def counted(self: ForwardPasses, call: Any, model: Any, data: Any, *others: Any) -> Any:
        found.append(data.num_nodes)
        return run(self, call, model, data, *others)

    monkeypatch.setattr(ForwardPasses, "run", counted)
    return found


def asked(model: nn.Module, data: Data, **options: Any) -> nora.Influence:
    options = {"backend": "vectorised", "progress": False, **options}
    return nora.influence(model, data, "exact", nodes=ASKED, **options)


def truth(model: nn.Module, data: Data) -> Tensor:
    return nora.influence(model, data, "brute", nodes=ASKED, progress=False).scores[ASKED]


@pytest.mark.parametrize("layer", [SAGEConv, GCNConv])
def test_the_model_runs_once_over_the_whole_graph(
    ring: Data, layer: type[nn.Module], sizes: list[int]
) -> None:
    model = Two(layer)
    found = asked(model, ring)
    assert sizes.count(NODES) == 1
    assert max(size for size in sizes if size < NODES) < NODES / 2
    assert found.details["verified"] == found.details["verified_by_part"] >= 2
    torch.testing.assert_close(found.scores[ASKED], truth(model, ring), rtol=1e-9, atol=1e-12)


def test_a_number_for_verify_asks_for_full_passes(ring: Data, sizes: list[int]) -> None:
    found = asked(Two(), ring, verify=3)
    assert sizes.count(NODES - 1) == 3
    assert found.details["verified"] == 3
    assert "verified_by_part" not in found.details


def test_full_passes_verify_where_a_prediction_depends_on_most_of_the_graph(
    sizes: list[int],
) -> None:
    star = torch.stack([torch.arange(1, NODES), torch.zeros(NODES - 1, dtype=torch.long)])
    data = Data(x=torch.randn(NODES, FEATURES).double(), edge_index=to_undirected(star))
    model = Two()
    found = asked(model, data)
    assert sizes.count(NODES - 1) == found.details["verified"]
    torch.testing.assert_close(found.scores[ASKED], truth(model, data), rtol=1e-9, atol=1e-12)


class Mean(MessagePassing):
    """The mean of the neighbours."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(aggr="mean")
        self.lin = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=self.lin(x))


@pytest.fixture
def stale_rule() -> Iterator[None]:
    """A rule that is right for the graph, and keeps the weights of its edges when a node is removed."""

    @nora.rule(Mean)
    def mean(builder: Any, conv: Any, x: Any, edge_index: Tensor) -> Any:
        share = 1 / degree(edge_index[1], NODES).double()[edge_index[1]]
        return builder.propagate(builder.rows(conv.lin, x), builder.edges(edge_index, share))

    yield
    del LOWERINGS[Mean]


@pytest.mark.usefixtures("stale_rule")
def test_a_rule_that_is_wrong_only_after_a_removal_is_found_out(ring: Data) -> None:
    model = Two(Mean)
    with pytest.warns(RuntimeWarning, match="falls back to brute force: without node"):
        found = asked(model, ring)
    assert found.details["followed"] == "brute"
    torch.testing.assert_close(found.scores[ASKED], truth(model, ring))


def test_an_operation_that_fails_falls_back(ring: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise IndexError("no such row")

    monkeypatch.setattr(Aggregate, "changed", fails)
    monkeypatch.setattr(Aggregate, "passed_on", fails)
    model = Two()
    with pytest.warns(RuntimeWarning, match="an operation does not run .*no such row"):
        found = asked(model, ring)
    assert found.details["followed"] == "brute"
    torch.testing.assert_close(found.scores[ASKED], truth(model, ring))


def test_a_model_that_fails_on_parts_is_verified_by_full_passes(
    ring: Data, sizes: list[int]
) -> None:
    class Whole(Two):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            # Samples, with at most a few hundred nodes, are traced; the ring's parts are smaller.
            if x.size(0) < 60:
                raise ZeroDivisionError
            return super().forward(x, edge_index)

    model = Whole()
    found = asked(model, ring)
    assert found.details["followed"] == "engine"
    assert "verified_by_part" not in found.details
    assert sizes.count(NODES - 1) == found.details["verified"]
    torch.testing.assert_close(found.scores[ASKED], truth(model, ring))


def test_a_random_model_is_refused(ring: Data) -> None:
    class Random(Two):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return nn.functional.dropout(super().forward(x, edge_index), training=True)

    with pytest.raises(ValueError, match="not deterministic"):
        asked(Random(), ring)


def test_edges_from_elsewhere_are_refused(ring: Data) -> None:
    class Closed(Two):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return super().forward(x, ring_edges)

    ring_edges = ring.edge_index.clone()
    with pytest.raises(ValueError, match="edges"):
        asked(Closed(), ring)


def test_weights_by_node_id_isolate_the_removed_node(ring: Data) -> None:
    class Known(Two):
        def __init__(self) -> None:
            super().__init__()
            self.own = nn.Parameter(torch.randn(NODES, FEATURES).double())

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return super().forward(x + self.own, edge_index)

    model = Known()
    with pytest.warns(RuntimeWarning, match="isolated"):
        found = asked(model, ring)
    assert found.details["removal"] == "isolated"
    with pytest.warns(RuntimeWarning, match="isolated"):
        torch.testing.assert_close(found.scores[ASKED], truth(model, ring))


def test_a_cache_of_the_model_is_made_again(ring: Data) -> None:
    class Caching(Two):
        cached: Tensor | None = None

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            if self.cached is None:
                self.cached = degree(edge_index[1], len(x)).double().unsqueeze(1)
            return super().forward(x / self.cached, edge_index)

    model = Caching()
    with torch.no_grad():
        model(ring.x, ring.edge_index)  # as training leaves it
    found = asked(model, ring)
    fresh = Caching()
    torch.testing.assert_close(found.scores[ASKED], truth(fresh, ring))
    assert found.details["followed"] == "engine"


def test_structure_among_the_features_is_recognised() -> None:
    torch.manual_seed(0)
    edges = barabasi_albert_graph(NODES, 3)
    column = degree(edges[1], NODES).double().sqrt().unsqueeze(1)
    x = torch.cat([torch.randn(NODES, FEATURES - 1).double(), column], dim=1)
    with pytest.warns(RuntimeWarning, match="follows from the degrees"):
        asked(Two(), Data(x=x, edge_index=edges))


def test_an_engine_is_kept_and_opened(ring: Data, tmp_path: Any) -> None:
    model = Two()
    folder = nora.prepare(model, ring, tmp_path / "engine", progress=False)
    found = nora.Session.open(folder, model).influence("exact", nodes=ASKED, progress=False)
    torch.testing.assert_close(found.scores[ASKED], truth(model, ring), rtol=1e-9, atol=1e-12)
