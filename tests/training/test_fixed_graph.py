"""Networks on a fixed graph: the same numbers and gradients, from products instead of scatters."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

import nora
from graphs import GRAPHS
from nora.model.calling import default_forward
from nora.sparse import FixedMatrix
from nora.training.fixed_graph import fixed_graph

MODELS = [
    ("gcn", {}),
    ("sage", {}),
    ("gat", {}),
    ("gcnii", {}),
    ("drgat", {}),
    ("rgcn", {"num_relations": 3}),
    ("rgcn", {"num_relations": 4, "num_bases": 2}),
]


def graph(kind: str, sparse: bool, seed: int = 0) -> Data:
    """A typed graph with features of which few or all are not zero."""
    data = copy.copy(GRAPHS[kind]())
    count = int(data.num_nodes or 0)
    random = torch.Generator().manual_seed(seed)
    data.x = torch.rand(count, 40, generator=random)
    if sparse:
        data.x[data.x < 0.95] = 0
    low, high = data.edge_index.amin(dim=0), data.edge_index.amax(dim=0)
    data.edge_type = (5 * low + 3 * high) % 3
    return data


def passed(network: nn.Module, seen: Data) -> tuple[Tensor, list[Tensor]]:
    """Output and gradients."""
    network.zero_grad()
    output = default_forward(network, seen)(network, seen)
    output.square().sum().backward()
    return output.detach(), [p.grad.clone() for p in network.parameters() if p.grad is not None]


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(
    "kind", ["two_camps", "directed", "looped", "duplicated", "isolated", "weighted"]
)
@pytest.mark.parametrize(("name", "sizes"), MODELS)
def test_outputs_and_gradients_are_those_of_the_network(
    name: str, sizes: dict, kind: str, sparse: bool
) -> None:
    data = graph(kind, sparse)
    network = nora.build_model(name, 40, 4, hidden_channels=6, **sizes).eval()
    output, gradients = passed(network, data)
    attributes = {where: set(vars(module)) for where, module in network.named_modules()}
    with fixed_graph(network, data) as seen:
        assert (seen.x.layout == torch.sparse_csr) == sparse
        with torch.no_grad():
            validated = default_forward(network, seen)(network, seen)
        found, theirs = passed(network, seen)
    torch.testing.assert_close(found, output, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(validated, output, rtol=1e-4, atol=1e-5)
    for mine, own in zip(theirs, gradients, strict=True):
        torch.testing.assert_close(mine, own, rtol=1e-3, atol=1e-4)
    assert {where: set(vars(module)) for where, module in network.named_modules()} == attributes


@pytest.mark.parametrize(("name", "sizes"), MODELS)
def test_a_step_is_seen_by_the_pass_that_follows(name: str, sizes: dict) -> None:
    data = graph("two_camps", sparse=True)
    network = nora.build_model(name, 40, 4, hidden_channels=6, **sizes).eval()
    with fixed_graph(network, data) as seen:
        passed(network, seen)
        with torch.no_grad():
            default_forward(network, seen)(network, seen)
            for parameter in network.parameters():
                parameter.add_(0.1)
            found = default_forward(network, seen)(network, seen)
    torch.testing.assert_close(
        found, default_forward(network, data)(network, data), rtol=1e-4, atol=1e-5
    )


def test_another_graph_given_to_the_network_is_not_taken_for_the_fixed_one() -> None:
    data, other = graph("two_camps", sparse=True), graph("two_camps", sparse=True, seed=1)
    other.edge_index = other.edge_index[:, ::2].contiguous()
    for name in ("gcn", "sage", "gat"):
        network = nora.build_model(name, 40, 4).eval()
        expected = network(other.x, other.edge_index)
        with fixed_graph(network, data):
            torch.testing.assert_close(network(other.x, other.edge_index), expected)


def test_a_network_that_cannot_do_with_sparse_features_gets_dense_ones() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.rand(40))

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return (x * self.weight).cumsum(dim=1)

    data = graph("two_camps", sparse=True)
    with fixed_graph(Own(), data) as seen:
        assert seen.x is data.x


def test_rows_of_a_fixed_matrix_are_those_of_the_dense_one() -> None:
    x = graph("two_camps", sparse=True).x
    chosen = torch.tensor([3, 0, 3])
    part = FixedMatrix.of(x.to_sparse_csr()).rows(chosen)
    assert torch.equal(part.forth.to_dense(), x[chosen])
    assert torch.equal(part.back.to_dense(), x[chosen].t())
