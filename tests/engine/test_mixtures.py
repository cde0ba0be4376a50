"""Values that move as a whole, against full passes without the removed node."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData

import nora
from nora.engine.engine import Engine
from nora.engine.exec.executor import Executor
from nora.engine.exec.kernels import compiled, vectorised
from nora.engine.ir.op import Chunk
from nora.engine.passes import keep_low_rank as mixers
from nora.engine.passes.keep_low_rank import Mapped, Passed, Rectified
from nora.graph.edit_batch import EditBatch
from nora.model import build_problem
from nora.models.timme import TIMME, TIMMEConv

RELATIONS = ("friend", "reply", "like")


def network(n: int, density: float, seed: int) -> HeteroData:
    """Users with three relations; some edges twice, some loops, some users without any."""
    made = torch.Generator().manual_seed(seed)
    data = HeteroData()
    data["user"].x = torch.arange(n)
    for relation in RELATIONS:
        count = int(density * n)
        edges = torch.randint(0, max(n - 2, 1), (2, count), generator=made)
        data["user", relation, "user"].edge_index = torch.cat([edges, edges[:, :2]], dim=1)
    return data


def model_of(n: int, seed: int, width: int = 6) -> TIMME:
    torch.manual_seed(seed)
    model = TIMME(n, 3, relations=RELATIONS, hidden_channels=width).double().eval()
    for weight in model.parameters():  # means that differ, so that the weights move
        nn.init.normal_(weight, std=1.0)
    return model


def without(model: nn.Module, data: HeteroData, gone: list[int]) -> tuple[Tensor, Tensor]:
    """Predictions of those who are left, by a full pass on a graph made by hand; and who they are."""
    n = int(data.num_nodes)
    left = torch.tensor([v for v in range(n) if v not in gone])
    number = torch.full((n,), -1)
    number[left] = torch.arange(len(left))
    edges = {}
    for kind in data.edge_types:
        pairs = [
            (int(number[a]), int(number[b]))
            for a, b in data[kind].edge_index.t().tolist()
            if a not in gone and b not in gone
        ]
        edges[kind] = torch.tensor(pairs, dtype=torch.long).view(-1, 2).t()
    with torch.no_grad():
        return model({"user": data["user"].x[left]}, edges)["user"].softmax(dim=-1), left


def engine_of(model: nn.Module, data: HeteroData, backend: object) -> Engine:
    return Engine.prepare(build_problem(model, data), backend)


@pytest.mark.parametrize("backend", [compiled, vectorised], ids=["compiled", "vectorised"])
@pytest.mark.parametrize("seed", range(4))
def test_predictions_after_removals(seed: int, backend: object) -> None:
    """One node, or several at once, in one chunk: all predictions are those of a full pass."""
    n = (5, 12, 40, 90)[seed]
    data, model = network(n, 1.5, seed), model_of(n, seed)
    engine = engine_of(model, data, backend)
    kinds = {type(mixer) for mixer in engine.program.executor.low_rank.values()}
    assert {Rectified, Mapped, Passed} <= kinds
    groups = [[v] for v in range(min(n, 12))] + [[0, 1, 2], [n - 1, 1], list(range(1, n - 1))]
    ptr = torch.tensor([0, *(len(group) for group in groups)]).cumsum(0)
    changed = engine.changed_output(
        EditBatch(ptr, torch.tensor([v for group in groups for v in group]), ptr * 0, ptr[:0])
    )
    for at, gone in enumerate(groups):
        expected, left = without(model, data, gone)
        span = slice(int(changed.ptr[at]), int(changed.ptr[at + 1]))
        order = changed.node[span].argsort()
        assert torch.equal(changed.node[span][order], left)
        found = changed.rows[span][order].softmax(dim=-1)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


def test_signs_that_turn_are_seen() -> None:
    """In a small graph with large weights, many signs turn far from the removed node."""
    data, model = network(40, 1.0, 7), model_of(40, 7)
    engine = engine_of(model, data, vectorised)
    whole = engine.program.executor
    relu = next(op for op in whole.ops if isinstance(whole.low_rank.get(op), Rectified))
    before = Executor.of(whole.ops[: whole.ops.index(relu)], relu.inputs[0])
    with torch.no_grad():
        chunk = Chunk(EditBatch.remove_nodes(torch.arange(40)), 40, vectorised)
        changed = before.run(chunk, {})
    turned = (changed.rows > 0) != (relu.inputs[0].base_rows()[changed.node] > 0)
    assert int(turned.any(dim=1).sum()) > 40


def test_without_room_for_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where directions would take too much memory, all rows are computed: the same numbers."""
    data, model = network(30, 2.0, 3), model_of(30, 3)
    found = nora.influence(model, data, "exact", progress=False).scores
    monkeypatch.setattr(mixers, "MOST_BYTES", 0)
    without_room = nora.influence(model, data, "exact", progress=False)
    assert "fallback" not in without_room.details
    torch.testing.assert_close(found, without_room.scores, rtol=1e-9, atol=1e-12)


class Stacked(nn.Module):
    """Three layers, of which the last is mixed: sums behind sums behind means over all."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.table = nn.Embedding(n, 7 * 4)
        self.first = TIMMEConv(None, 4, 3)
        self.second = TIMMEConv(4, 4, 3)
        self.third = TIMMEConv(4, 2, 3)

    def forward(self, x_dict: dict, edge_index_dict: dict) -> dict[str, Tensor]:
        edges = [edge_index_dict["user", name, "user"] for name in RELATIONS]
        h = self.first(self.table(x_dict["user"]).unflatten(1, (-1, 4)), edges).relu()
        h = h - 0.5 * self.second(h, edges).relu()
        return {"user": self.third(h, edges)}


@pytest.mark.parametrize("backend", ["compiled", "vectorised"])
def test_three_layers(backend: str) -> None:
    """Directions of directions of directions, and a product that is not called a linear map."""
    torch.manual_seed(0)
    data, model = network(25, 1.5, 11), Stacked(25).double().eval()
    found = nora.influence(model, data, "exact", progress=False, backend=backend)
    assert "fallback" not in found.details
    for node in range(25):
        expected, left = without(model, data, [node])
        before = without(model, data, [])[0][left]
        total = float((expected - before).abs().sum())
        assert float(found.scores[node]) == pytest.approx(total, rel=1e-8)
