"""Rows that are handed on in blocks are those that steps one after the other would make."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data

import nora
from half import half
from nora.engine.engine import Engine
from nora.engine.exec.kernels import pages
from nora.engine.exec.kernels.choice import pick_backend
from nora.engine.ir.op import Chunk
from nora.graph.edit_batch import EditBatch
from nora.model import build_problem

NODES = 300


@pytest.fixture
def data() -> Data:
    torch.manual_seed(0)
    edge_index = torch.randint(NODES, (2, 2500))
    return Data(
        x=torch.randn(NODES, 12).double(),
        edge_index=edge_index,
        edge_weight=torch.rand(edge_index.size(1)).double() + 0.1,
    )


class Stack(nn.Module):
    """Two convolutions with a norm in between; the second reads the first's rows twice if it has two maps."""

    def __init__(
        self, conv: type[nn.Module], width: int, weighted: bool, twice: bool = False
    ) -> None:
        super().__init__()
        self.first, self.second = conv(12, width), conv(width, 4)
        self.norm, self.weighted, self.twice = nn.BatchNorm1d(width), weighted, twice
        self.beside = nn.Linear(width, 4)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        more = (edge_weight,) if self.weighted else ()
        x = self.norm(self.first(x, edge_index, *more)).relu()
        out = self.second(x, edge_index, *more)
        return out + self.beside(x) if self.twice else out


CONVS = [
    (pyg.GCNConv, False, False),
    (pyg.GCNConv, True, False),
    (pyg.SAGEConv, False, False),
    (pyg.GraphConv, True, True),
]


@pytest.mark.parametrize(
    ("layers", "width", "backend"), half(CONVS, [5, 33, 200], ["compiled", "vectorised"])
)
def test_blocks_give_what_steps_give_one_after_the_other(
    data: Data, layers: tuple[type[nn.Module], bool, bool], width: int, backend: str
) -> None:
    conv, weighted, twice = layers
    torch.manual_seed(1)
    model = Stack(conv, width, weighted, twice).double().eval()
    problem = build_problem(model, data)
    engine = Engine.prepare(problem, pick_backend(backend, problem, NODES))
    assert engine.program.executor.epilogues, "nothing is handed on"
    removals = EditBatch.remove_nodes(torch.arange(NODES))
    with torch.no_grad():
        at_once = engine.program.run(Chunk(removals, NODES, engine.backend))
        engine.program.executor = replace(engine.program.executor, epilogues={}, low_rank={})
        one_by_one = engine.program.run(Chunk(removals, NODES, engine.backend))
    assert torch.equal(at_once.ptr, one_by_one.ptr)
    assert torch.equal(at_once.node, one_by_one.node)
    assert len(at_once) > 64 * 10, "too few rows for more than one block"
    torch.testing.assert_close(at_once.rows, one_by_one.rows, rtol=1e-12, atol=1e-12)


def test_what_others_read_too_is_not_handed_on(data: Data) -> None:
    torch.manual_seed(1)
    model = Stack(pyg.GraphConv, 40, True, twice=True).double().eval()
    plan = Engine.prepare(
        build_problem(model, data), pick_backend("vectorised", build_problem(model, data), 1)
    ).program
    for then in plan.executor.epilogues.values():
        inside = {id(then.start), *(id(step.output) for step in then.ops)}
        kept = {id(value) for value in then.made}
        for step in plan.ops:
            if step not in then.ops:
                assert not ({id(value) for value in step.inputs} & (inside - kept))


def test_a_map_that_hands_its_rows_on_as_they_are_does_not_share_the_blocks_memory(
    data: Data,
) -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = pyg.GraphConv(12, 200), pyg.GraphConv(100, 4)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.second(self.first(x, edge_index)[:, :100], edge_index)

    torch.manual_seed(0)
    model = Plain().double().eval()
    exact = nora.influence(model, data, "exact", backend="compiled", progress=False)
    brute = nora.influence(model, data, "brute", progress=False)
    torch.testing.assert_close(exact.scores, brute.scores, rtol=1e-9, atol=1e-9)


def test_large_pages_change_nothing() -> None:
    rows = torch.randn(3000, 700)
    before = rows.clone()
    pages.use_large_pages(rows)
    pages.use_large_pages(rows[:, 1:])
    pages.use_large_pages(None)
    assert torch.equal(rows, before)
    new = pages.room(3, 4, dtype=torch.float64)
    assert new.shape == (3, 4)
    assert new.dtype == torch.float64
