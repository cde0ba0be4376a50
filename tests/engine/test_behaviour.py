"""What `exact` promises beside the numbers: options, chunks, tolerance, checkpoints."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data

import nora
from graphs import GRAPHS, double
from nora.engine.engine import Engine
from nora.engine.exec.chunks import Chunks
from nora.engine.exec.kernels.choice import pick_backend
from nora.engine.ir.op import Tally
from nora.graph.edit_batch import EditBatch
from nora.model import build_problem


def test_a_star_with_a_thousand_leaves():
    leaves = torch.arange(1, 1001)
    out = torch.stack([torch.zeros_like(leaves), leaves])
    data = Data(
        x=torch.randn(1001, 6, generator=torch.Generator().manual_seed(0)).double(),
        edge_index=torch.cat([out, out.flip(0)], dim=1),
    )
    torch.manual_seed(1)
    model = pyg.GCN(6, 8, 3, 3).double()
    nodes = [0, 1, 500]
    truth = nora.influence(model, data, "brute", nodes=nodes, progress=False)
    for backend in ("compiled", "vectorised"):
        found = nora.influence(model, data, "exact", nodes=nodes, backend=backend, progress=False)
        assert torch.allclose(found.scores[nodes], truth.scores[nodes], rtol=1e-9)


@pytest.mark.parametrize(
    "options", [{"memory": "20KB"}, {"workers": 1}, {"workers": 3}, {"verify": 0}]
)
@pytest.mark.parametrize("backend", ["compiled", "vectorised"])
def test_how_the_work_is_done_does_not_change_the_numbers(options, backend, hubs, gcn):
    threads = torch.get_num_threads()
    plain = nora.influence(gcn, hubs, "exact", progress=False)
    other = nora.influence(gcn, hubs, "exact", backend=backend, progress=False, **options)
    assert torch.allclose(plain.scores, other.scores, rtol=1e-10)
    assert torch.get_num_threads() == threads


def test_chunks_fit_the_memory_and_cover_every_node(hubs, gcn):
    engine = Engine.prepare(
        build_problem(gcn.eval(), hubs), pick_backend("vectorised", build_problem(gcn, hubs), 1)
    )
    nodes, cost, budget = torch.arange(150), engine.cost, 200_000
    for node in nodes:
        tally = Tally()
        engine.influences(EditBatch.remove_nodes(node.reshape(1)), tally)
        assert 0 < tally.bytes <= cost[node]
    cautious = [chunk for chunk, _ in Chunks(nodes, cost, budget)]
    assert torch.cat(cautious).equal(nodes)
    assert len(cautious) > 1
    assert all(len(chunk) == 1 or float(cost[chunk].sum()) <= budget for chunk in cautious)


def test_chunks_grow_as_far_as_finished_ones_say_there_is_room():
    nodes, bound = torch.arange(1000), torch.full((1000,), 100.0)
    chunks = Chunks(nodes, bound, budget=1000)
    sizes = []
    for chunk, most in chunks:
        assert most == 100 * len(chunk)
        sizes.append(len(chunk))
        chunks.learn(0.01)
    assert sum(sizes) == 1000
    assert sizes[:4] == [10, 20, 40, 80]
    assert all(size * 100 * 0.015 <= 1000 for size in sizes)


def test_tolerance_trades_accuracy_for_work_and_says_how_much():
    run = nora.train("sage", "polarised", epochs=10, num_layers=3, progress=False)
    ask = {"progress": False}
    exact = nora.influence(run.model, run.data, "exact", **ask)
    assert exact.stderr is None
    errors = [0.0]
    for tolerance in (1e-2, 1e-1):
        rough = nora.influence(run.model, run.data, "exact", tolerance=tolerance, **ask)
        errors.append(float(rough.stderr.mean()))
        assert rough.compare(exact)["pearson"] > 0.99
    assert 0 < errors[1] < errors[2] < 1


@pytest.mark.parametrize("pruning", ["drop", "random"])
def test_pruning_is_refused_by_a_message_that_names_tolerance(pruning):
    run = nora.train("gcn", "karate", epochs=2, progress=False)
    with pytest.raises(TypeError, match=r"pruning.*tolerance="):
        nora.influence(run.model, run.data, "exact", tolerance=0.1, pruning=pruning)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": -1.0}, "tolerance must not be negative"),
        ({"tolerance": float("nan")}, "tolerance must not be negative"),
        ({"verify": -1}, "verify must not be negative"),
        ({"memory": "lots"}, "cannot read 'lots'.*amount of memory"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"backend": "gpu"}, "backend is 'gpu'"),
    ],
)
def test_options_out_of_range_are_refused(options, message, hubs, gcn):
    with pytest.raises(ValueError, match=message):
        nora.influence(gcn, hubs, "exact", progress=False, **options)


def test_a_checkpointed_run_resumes_and_ignores_how_the_work_was_done(hubs, gcn, tmp_path):
    folder = tmp_path / "run"
    first = nora.influence(
        gcn, hubs, "exact", nodes=range(60), checkpoint=folder, progress=False, workers=1
    )
    whole = nora.influence(gcn, hubs, "exact", checkpoint=folder, progress=False, memory="1GB")
    truth = nora.influence(gcn, hubs, "exact", progress=False)
    assert torch.equal(whole.scores[:60], first.scores[:60])
    assert torch.allclose(whole.scores, truth.scores, rtol=1e-10)
    with pytest.raises(ValueError, match=r"belongs to another run.*options differ"):
        nora.influence(gcn, hubs, "exact", checkpoint=folder, tolerance=0.1, progress=False)


def test_the_compiled_backend_is_used_where_there_is_enough_to_do(hubs, gcn):
    problem = build_problem(gcn, hubs)
    assert pick_backend("auto", problem, 1).__name__.endswith("vectorised")
    assert pick_backend("auto", problem, 10**6).__name__.endswith("compiled")


@pytest.mark.parametrize("kind", [pyg.APPNP, pyg.GCN2Conv])
@pytest.mark.parametrize("weighted", [False, True])
def test_residual_propagation_with_and_without_weights(kind, weighted, hubs):
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(6, 4)
            self.deep = kind is pyg.GCN2Conv
            self.conv = (
                pyg.GCN2Conv(4, 0.2, 0.5, 2, shared_weights=False)
                if self.deep
                else pyg.APPNP(K=3, alpha=0.1)
            )

        def forward(self, x, edge_index, edge_weight=None):
            x = self.lin(x).relu()
            return self.conv(*([x, x] if self.deep else [x]), edge_index, edge_weight)

    if weighted:
        hubs.edge_weight = torch.rand(hubs.num_edges).double()
    model = Residual().double()
    truth = nora.influence(model, hubs, "brute", progress=False)
    for backend in ("compiled", "vectorised"):
        found = nora.influence(model, hubs, "exact", backend=backend, progress=False)
        assert torch.allclose(found.scores, truth.scores, atol=1e-12)


def test_messages_may_flow_against_the_edges(hubs):
    class Against(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.SAGEConv(6, 3, flow="target_to_source")

        def forward(self, x, edge_index):
            return self.conv(x, edge_index)

    hubs.edge_index = hubs.edge_index[:, ::2]
    model = Against().double()
    truth = nora.influence(model, hubs, "brute", progress=False)
    found = nora.influence(model, hubs, "exact", progress=False)
    assert torch.allclose(found.scores, truth.scores, atol=1e-12)


def test_a_decoder_module_is_evaluated_and_left_as_found(hubs, gcn):
    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.lin = nn.BatchNorm1d(3), nn.Linear(3, 1)

        def forward(self, z, pairs):
            return self.lin(self.norm(z[pairs[0]] * z[pairs[1]])).squeeze(-1)

    decoder = Decoder().double().train()
    before = decoder.norm.running_mean.clone()
    task = nora.LinkPrediction(torch.randint(150, (2, 80)), decoder, return_type="raw")
    truth = nora.influence(gcn, hubs, "brute", task, nodes=range(9), progress=False)
    found = nora.influence(gcn, hubs, "exact", task, nodes=range(9), progress=False)
    assert torch.allclose(found.scores[:9], truth.scores[:9], atol=1e-12)
    assert decoder.training
    assert torch.equal(decoder.norm.running_mean, before)


def test_what_forward_leaves_on_the_model_is_taken_back(hubs):
    class Remembering(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.GCNConv(6, 3)
            self.last = "mine"

        def forward(self, x, edge_index):
            self.last = self.conv(x, edge_index)
            return self.last

    model = Remembering().double()
    nora.influence(model, hubs, "exact", nodes=[3], progress=False)
    nora.what_if(model, hubs, 3)
    assert model.last == "mine"


def test_a_checkpoint_refuses_the_same_weights_used_otherwise(hubs, tmp_path):
    class One(nn.Module):
        def __init__(self, **options) -> None:
            super().__init__()
            self.conv = pyg.GCNConv(6, 3, **options)

        def forward(self, x, edge_index):
            return self.conv(x, edge_index)

    model = One().double()
    other = One(add_self_loops=False).double()
    other.load_state_dict(model.state_dict())
    ask = {"nodes": [1, 2], "checkpoint": tmp_path / "run", "progress": False}
    nora.influence(model, hubs, "exact", **ask)
    with pytest.raises(ValueError, match="its model differ"):
        nora.influence(other, hubs, "exact", **ask)
    with pytest.raises(ValueError, match="its model differ"):
        nora.influence(model, hubs, forward=lambda m, d: m(2 * d.x, d.edge_index), **ask)


def test_an_explicit_number_of_checks_is_honoured(hubs, gcn):
    found = nora.influence(gcn, hubs, "exact", verify=5, progress=False)
    assert found.details["verified"] == 5
    # Of its own accord 2, or 4 where a pass is quick.
    assert nora.influence(gcn, hubs, "exact", progress=False).details["verified"] in (2, 4)


def test_float32_is_close_enough(hubs, gcn):
    hubs.x = hubs.x.float()
    truth = nora.influence(gcn.float(), hubs, "brute", progress=False)
    found = nora.influence(gcn.float(), hubs, "exact", progress=False)
    assert (found.scores - truth.scores).abs().max() <= 1e-4 * truth.scores.max()


class InPlace(torch.nn.Module):
    """Activations in place, as many models are written."""

    def __init__(self, conv: type) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = conv(3, 8), conv(8, 3)
        self.act = torch.nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.second(self.act(self.first(x, edge_index)), edge_index)


@pytest.mark.parametrize("conv", ["GCNConv", "SAGEConv", "GATConv", "GINConv"])
@pytest.mark.parametrize("kind", ["bridge", "two_camps"])
def test_activations_in_place_do_not_overwrite_what_all_removals_share(
    conv: str, kind: str
) -> None:
    data = double(GRAPHS[kind]())
    features = data.x.size(1)

    def make(a: int, b: int) -> torch.nn.Module:
        a = features if a == 3 else a
        if conv == "GINConv":
            return pyg.GINConv(torch.nn.Linear(a, b))
        return getattr(pyg, conv)(a, b)

    model = InPlace(make).double()
    truth = nora.influence(model, data, "brute", progress=False).scores
    found = nora.influence(model, data, "exact", progress=False, verify=0).scores
    torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-12)
    sketch = nora.influence(model, data, "cauchy", progress=False).scores
    model.act = torch.nn.ReLU()
    plain = nora.influence(model, data, "cauchy", progress=False).scores
    torch.testing.assert_close(sketch, plain, rtol=1e-9, atol=1e-12)


def test_where_a_pass_for_every_node_is_quicker_no_engine_is_prepared(monkeypatch):
    share = 0.2  # as it is by default; the tests' own fixture lets the engine answer everything
    monkeypatch.setattr("nora.engine.verify.PREPARING_SHARE", share)
    data = Data(x=torch.randn(12, 3), edge_index=torch.randint(12, (2, 60)))
    model = pyg.GCNConv(3, 2)
    found = nora.influence(model, data, "exact", progress=False)
    assert found.details["backend"] == "brute"
    assert "takes no longer" in found.details["reason"]
    asked = nora.influence(model, data, "exact", backend="vectorised", progress=False)
    assert asked.details["backend"] == "vectorised"
    torch.testing.assert_close(found.scores, asked.scores)


def test_where_the_engine_pays_it_is_prepared(monkeypatch):
    monkeypatch.setattr("nora.engine.verify.PREPARING_SHARE", 0.2)
    random = torch.Generator().manual_seed(0)
    edges = torch.randint(3000, (2, 9000), generator=random)
    data = Data(x=torch.randn(3000, 64, generator=random), edge_index=edges)
    found = nora.influence(pyg.GCNConv(64, 2), data, "exact", progress=False)
    assert found.details["backend"] != "brute"


def test_a_model_that_fails_without_a_node_is_named_with_it():
    class Needs(torch.nn.Module):
        def forward(self, x, edge_index):
            if not bool((x[:, 0] == 5).any()):
                raise IndexError("no node is five")
            return x.new_zeros(len(x), 2).index_add(0, edge_index[1], x[edge_index[0]])

    data = Data(x=torch.arange(8.0).repeat(2, 1).t(), edge_index=torch.randint(8, (2, 20)))
    with pytest.raises(ValueError, match="run without node 5: no node is five"):
        nora.influence(Needs(), data, "brute", progress=False)
