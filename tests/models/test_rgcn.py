"""The relational GCN: types count, and `exact` follows them."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import RGCNConv

import nora
from graphs import FEATURES, GRAPHS, double, some_pairs
from half import half
from nora.datasets import Dataset
from nora.model.preserve import seeded

CLASSES = 3


def typed(kind: str, types: int = 3) -> Data:
    """A graph whose edges have types, the same in both directions."""
    data = double(GRAPHS[kind]())
    low, high = data.edge_index.amin(dim=0), data.edge_index.amax(dim=0)
    data.edge_type = (5 * low + 3 * high) % types
    return data


def model(relations: int = 3, **sizes: int | None) -> torch.nn.Module:
    with seeded(2):
        made = nora.build_model(
            "rgcn", FEATURES, CLASSES, num_relations=relations, hidden_channels=6, **sizes
        )
    return made.double().eval()


def test_types_count_and_without_them_all_edges_are_one() -> None:
    data, network = typed("two_camps"), model()
    plain = network(data.x, data.edge_index)
    first = network(data.x, data.edge_index, torch.zeros_like(data.edge_type))
    assert torch.equal(plain, first)
    assert not torch.allclose(network(data.x, data.edge_index, data.edge_type), plain)


@pytest.mark.parametrize(
    ("kind", "task", "bases"),
    half(
        ["two_camps", "directed", "looped", "duplicated", "isolated"], ["node", "link"], [None, 2]
    ),
)
def test_exact_follows_types_without_a_fallback(kind: str, task: str, bases: int | None) -> None:
    data, network = typed(kind), model(num_bases=bases)
    asked = None if task == "node" else nora.LinkPrediction(some_pairs(data))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = nora.influence(network, data, "exact", asked, progress=False).scores
    truth = nora.influence(network, data, "brute", asked, progress=False).scores
    torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", [{"aggr": "max"}, {"aggr": "add"}, {"num_blocks": 3}])
@pytest.mark.parametrize("root", [True, False])
def test_convolutions_with_other_options_are_followed_too(options: dict, root: bool) -> None:
    class One(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = RGCNConv(FEATURES, CLASSES, 3, root_weight=root, bias=root, **options)

        def forward(
            self, x: torch.Tensor, edge_index: torch.Tensor, edge_type: torch.Tensor
        ) -> torch.Tensor:
            return self.conv(x, edge_index, edge_type)

    data = typed("two_camps")
    with seeded(3):
        network = One().double().eval()
    found = nora.influence(network, data, "exact", progress=False)
    truth = nora.influence(network, data, "brute", progress=False)
    torch.testing.assert_close(found.scores, truth.scores, rtol=1e-9, atol=1e-12)


def test_training_takes_the_number_of_types_from_the_data(tmp_path) -> None:
    data = nora.load_dataset("karate").data.clone()
    data.edge_type = data.edge_index.sum(dim=0) % 3
    dataset = Dataset("club", data, 4, edge_type_names=("a", "b", "c", "never used"))
    run = nora.train("rgcn", dataset, epochs=3, progress=False)
    assert run.architecture["sizes"] == {"num_relations": 4}
    back = nora.load_run(run.save(tmp_path / "run"))
    assert torch.equal(back.data.edge_type, data.edge_type)
    assert back.dataset.edge_type_names == dataset.edge_type_names
    untyped = nora.train("rgcn", "karate", epochs=3, progress=False)
    assert untyped.architecture["sizes"] == {"num_relations": 1}
