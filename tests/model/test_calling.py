"""Models of links are asked as PyG writes them, with nothing but the pairs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GAE, VGAE, GCNConv, SAGEConv, to_hetero
from torch_geometric.utils import to_torch_csr_tensor

import nora
from graphs import FEATURES, bridge, directed, double, some_pairs, weighted
from hetero_graphs import library
from networks import network
from nora import LinkPrediction
from nora.model import build_problem
from nora.model.checks import check_model
from nora.model.preserve import seeded


class Convs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        with seeded(0):
            self.conv1, self.conv2 = GCNConv(FEATURES, 5), GCNConv(5, 4)
            self.bend = nn.Parameter(torch.randn(4))
        self.double()

    def rows(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.conv2(self.conv1(x, edge_index, edge_weight).relu(), edge_index, edge_weight)

    def scores(self, z: Tensor, pairs: Tensor) -> Tensor:
        return (z[pairs[0]] * self.bend * z[pairs[1]]).sum(dim=-1)


class InTwo(Convs):
    """PyG's link prediction example: no forward at all."""

    def encode(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.rows(x, edge_index, edge_weight)

    def decode(self, z: Tensor, edge_label_index: Tensor) -> Tensor:
        return self.scores(z, edge_label_index)


class Direct(Convs):
    def forward(self, x: Tensor, edge_index: Tensor, edge_label_index: Tensor) -> Tensor:
        return self.scores(self.rows(x, edge_index), edge_label_index)


def with_all_arguments(data: Data, pairs: Tensor) -> Tensor:
    """The same, with everything said."""
    model = Convs()
    return nora.influence(
        model,
        data,
        "brute",
        LinkPrediction(pairs, model.scores, "raw"),
        forward=lambda model, data: model.rows(data.x, data.edge_index, data.get("edge_weight")),
        progress=False,
    ).scores


@pytest.mark.parametrize("build", [bridge, weighted, directed])
def test_encode_and_decode_are_found(build: Any) -> None:
    data = double(build())
    pairs = some_pairs(data)
    model = InTwo()
    found = nora.influence(model, data, "brute", LinkPrediction(pairs), progress=False).scores
    assert torch.allclose(found, with_all_arguments(data, pairs))
    effect = nora.what_if(model, data, 1, LinkPrediction(pairs), method="brute")
    assert effect.total == pytest.approx(float(found[1]))


def test_a_model_that_scores_pairs_itself_is_asked_with_those_that_survive() -> None:
    data = double(bridge())
    pairs = some_pairs(data)
    problem = check_model(build_problem(Direct(), data, LinkPrediction(pairs)))
    assert problem.direct
    assert torch.allclose(problem.predict(), problem.items(data, problem.task))
    found = nora.influence(Direct(), data, "brute", LinkPrediction(pairs), progress=False).scores
    assert torch.allclose(found, with_all_arguments(data, pairs))
    few = nora.influence(
        Direct(), data, "brute", LinkPrediction(pairs), targets=[0, 2], progress=False
    )
    assert float(few.scores.sum()) < float(found.sum())


def test_methods_that_need_rows_say_so() -> None:
    data = double(bridge())
    with pytest.raises(ValueError, match=r"needs an output per node.*encode"):
        nora.influence(Direct(), data, "mask", LinkPrediction(some_pairs(data)), progress=False)


class Encoder(nn.Module):
    def __init__(self, heads: int = 1) -> None:
        super().__init__()
        with seeded(0):
            self.conv = GCNConv(FEATURES, 4)
            self.more = nn.ModuleList(GCNConv(4, 3) for _ in range(heads))

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        h = self.conv(x, edge_index).relu()
        found = tuple(conv(h, edge_index) for conv in self.more)
        return found[0] if len(found) == 1 else found


@pytest.mark.parametrize("build", [lambda: GAE(Encoder()), lambda: VGAE(Encoder(2))])
def test_autoencoders_are_asked_for_logits_of_the_mean(build: Any) -> None:
    data, model = double(bridge()), build().double().train()
    pairs = some_pairs(data)
    found = nora.influence(model, data, "brute", LinkPrediction(pairs), progress=False).scores

    def mean(model: Any, data: Data) -> Tensor:
        z = model.encoder(data.x, data.edge_index)
        return z[0] if isinstance(z, tuple) else z

    task = LinkPrediction(pairs, nora.model.tasks.link_prediction.dot_product)
    # Explicitly the dot product: what is given is not guessed.
    expected = nora.influence(model, data, "brute", task, forward=mean, progress=False).scores
    assert torch.allclose(found, expected)
    assert model.training


def test_a_decoder_that_was_said_is_used_and_not_the_models_own() -> None:
    data = double(bridge())
    pairs = some_pairs(data)
    task = LinkPrediction(pairs, lambda z, p: -z[p[0], 0] - z[p[1], 0], "raw")
    found = nora.influence(InTwo(), data, "brute", task, progress=False).scores
    assert not torch.allclose(found, with_all_arguments(data, pairs))


def test_a_decode_that_returns_probabilities_needs_a_return_type() -> None:
    class Probable(InTwo):
        def decode(self, z: Tensor, edge_label_index: Tensor) -> Tensor:
            return super().decode(z, edge_label_index).sigmoid()

    data = double(bridge())
    pairs = some_pairs(data)
    with pytest.raises(ValueError, match=r"probabilities already.*return_type='probs'"):
        nora.influence(Probable(), data, "brute", LinkPrediction(pairs), progress=False)
    task = LinkPrediction(pairs, return_type="probs")
    found = nora.influence(Probable(), data, "brute", task, progress=False).scores
    assert torch.allclose(found, with_all_arguments(data, pairs))


class Sage(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = SAGEConv((-1, -1), 5), SAGEConv((-1, -1), 4)

    # Without annotations: torch 2.6 cannot trace those that are strings, see `hetero_graphs`.
    def forward(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


class Typed(nn.Module):
    """PyG's example of links between types: an encoder, and a decoder of what it gives by type."""

    def __init__(self, ends: tuple[str, str]) -> None:
        super().__init__()
        self.ends = ends
        with seeded(0):
            self.encoder = to_hetero(Sage(), library().metadata()).double()
            self.lin = nn.Linear(8, 1).double()
            with torch.no_grad():
                self.encoder(library().x_dict, library().edge_index_dict)

    def encode(self, x_dict: dict, edge_index_dict: dict) -> dict:
        return self.encoder(x_dict, edge_index_dict)

    def decode(self, z_dict: dict, edge_label_index: Tensor) -> Tensor:
        row, column = edge_label_index
        both = torch.cat([z_dict[self.ends[0]][row], z_dict[self.ends[1]][column]], dim=-1)
        return self.lin(both).view(-1)


class TypedDirect(Typed):
    def forward(self, x_dict: dict, edge_index_dict: dict, edge_label_index: Tensor) -> Tensor:
        return self.score(self.encoder(x_dict, edge_index_dict), edge_label_index)

    score = Typed.decode
    encode = decode = None  # type: ignore[assignment]


PAIRS = torch.tensor([[0, 1, 4, 3], [6, 2, 1, 0]])


def typed_truth(model: Any, data: HeteroData, ends: tuple[str, str], node: int) -> float:
    """The influence of one author, spelt out."""
    with torch.no_grad():
        before = Typed.decode(model, model.encoder(data.x_dict, data.edge_index_dict), PAIRS)
        keep = torch.arange(data["author"].num_nodes) != node
        less = data.subgraph({"author": keep})
        alive = torch.ones(4, dtype=torch.bool)
        pairs = PAIRS.clone()
        for row, kind in zip(pairs, ends, strict=True):
            if kind == "author":
                alive &= row != node
                row -= (row > node).long()
        after = Typed.decode(
            model, model.encoder(less.x_dict, less.edge_index_dict), pairs[:, alive]
        )
    return float((before[alive].sigmoid() - after.sigmoid()).abs().sum())


@pytest.mark.parametrize("build", [Typed, TypedDirect])
@pytest.mark.parametrize("ends", [("author", "paper"), ("paper", "paper")])
def test_links_between_types_are_asked_by_type(build: Any, ends: tuple[str, str]) -> None:
    data, model = library(), build(ends)
    task = LinkPrediction(PAIRS, node_types=ends)
    found = nora.influence(model, data, "brute", task, progress=False)
    for node in range(5):
        assert found["author", node] == pytest.approx(typed_truth(model, data, ends, node))


def test_a_decoder_of_ones_own_may_take_outputs_by_type() -> None:
    ends = ("author", "paper")
    data, model = library(), Typed(ends)
    decode = model.decode

    def decoder(z_dict: dict, pairs: Tensor) -> Tensor:
        return decode(z_dict, pairs)

    task = LinkPrediction(PAIRS, decoder, "raw", node_types=ends)
    found = nora.influence(
        model.encoder,
        data,
        "brute",
        task,
        forward=lambda m, d: m(d.x_dict, d.edge_index_dict),
        progress=False,
    )
    assert found["author", 1] == pytest.approx(typed_truth(model, data, ends, 1))


def test_a_graph_with_a_sparse_adjacency_alone_is_a_graph() -> None:
    data = double(directed())
    sparse = Data(
        x=data.x, adj_t=to_torch_csr_tensor(data.edge_index.flip(0), size=(6, 6)).double()
    )
    expected = nora.influence(network("sage"), data, "brute", progress=False).scores
    found = nora.influence(network("sage"), sparse, "brute", progress=False).scores
    assert torch.allclose(found, expected)
    degree = nora.influence(network("sage"), data, "degree", progress=False).scores
    assert torch.equal(nora.influence(network("sage"), sparse, "degree").scores, degree)
