"""A new kind of step needs nothing but itself: here is one that no other file knows of."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg

import nora
from nora.engine.engine import Engine
from nora.engine.estimate.linear import Linearised
from nora.engine.exec.kernels.choice import pick_backend
from nora.engine.ir.changed_rows import ChangedRows
from nora.engine.ir.op import Op, Value
from nora.engine.lower import lowerings
from nora.engine.unsupported import UnsupportedError
from nora.graph.edit_batch import EditBatch
from nora.model import build_problem


class NeighbourSum(Op):
    """`out_k = Σ_{j→k} x_j`, for every removal on all nodes."""

    def __init__(self, edge_index, x):
        self.edge_index = edge_index
        super().__init__([x], Value(x.space, max(x.depth, 0) + 1))

    def set_depth(self):
        self.output.depth = max(self.inputs[0].depth, 0) + 1

    def hops(self):
        return [(self.edge_index[0], self.edge_index[1])]

    def compute(self, x):
        source, target = self.edge_index
        return torch.zeros_like(x).index_add(0, target, x[source])

    def changed(self, chunk, inputs):
        (given,), base = inputs, self.inputs[0].base_rows()
        nodes, rows, ptr = [], [], [0]
        for at in range(len(chunk.edits)):
            x = base.clone()
            span = slice(int(given.ptr[at]), int(given.ptr[at + 1]))
            if span.stop > span.start:
                x[given.node[span]] = given.rows[span]
            gone = chunk.edits.node[chunk.edits.ptr[at] : chunk.edits.ptr[at + 1]]
            x[gone] = 0
            left = torch.ones(len(x), dtype=torch.bool)
            left[gone] = False
            nodes.append(left.nonzero().flatten())
            rows.append(self.compute(x)[left])
            ptr.append(ptr[-1] + len(nodes[-1]))
        return ChangedRows(torch.tensor(ptr), torch.cat(nodes), torch.cat(rows))


class Underivable(NeighbourSum):
    """The same, but without a derivative."""

    def compute(self, x):
        return torch.from_numpy(super().compute(x).numpy())


class NeighbourSumConv(pyg.MessagePassing):
    def __init__(self):
        super().__init__(aggr="add")

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.lin, self.second = NeighbourSumConv(), nn.Linear(6, 3), NeighbourSumConv()

    def forward(self, x, edge_index):
        return self.second(self.lin(self.first(x, edge_index) / 10).tanh(), edge_index) / 10


@pytest.fixture(params=[NeighbourSum, Underivable])
def kind(request, monkeypatch):
    lowerings.load()
    monkeypatch.setattr(lowerings, "LOWERINGS", dict(lowerings.LOWERINGS))

    @nora.rule(NeighbourSumConv)
    def lowering(plan, conv, x, edge_index):
        plan.ops.append(request.param(edge_index, x))
        return plan.ops[-1].output

    return request.param


def _engine(model, data) -> Engine:
    problem = build_problem(model, data)
    return Engine.prepare(problem, pick_backend("vectorised", problem, 1))


def test_it_is_followed_exactly(kind, hubs):
    torch.manual_seed(0)
    model = Twice().double()
    engine = _engine(model, hubs)
    assert sum(type(step) is kind for step in engine.program.ops) == 2
    found = engine.influences(EditBatch.remove_nodes(torch.arange(hubs.num_nodes)))
    truth = nora.influence(model, hubs, "brute", progress=False)
    assert torch.allclose(found, truth.scores, atol=1e-12)


def test_it_is_linearised_or_refused_by_name(kind, hubs):
    engine = _engine(Twice().double(), hubs)
    if kind is Underivable:
        with pytest.raises(UnsupportedError, match="cannot be differentiated: Underivable"):
            Linearised(engine)
    else:
        assert torch.equal(Linearised(engine).prediction.detach(), engine.before)
