"""Estimates by drawn rows: right on average, the same however the work is cut, and they know their errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

import nora
from graphs import barabasi
from nora.engine.engine import Engine
from nora.engine.estimate.calibration import FIRST
from nora.engine.estimate.sampling import folded
from nora.engine.exec.kernels import compiled, loops_sampling, row_sampling, vectorised
from nora.graph.edit_batch import EditBatch
from nora.model import build_problem
from nora.model.preserve import evaluating
from nora.models import build_model

QUIET: dict[str, Any] = {"progress": False}
BACKENDS = {"compiled": compiled, "vectorised": vectorised}


def crowd(nodes: int = 300, ties: int = 3) -> Data:
    """A graph with hubs, in double precision."""
    torch.manual_seed(1)
    return Data(x=torch.randn(nodes, 6).double(), edge_index=barabasi(nodes, ties))


class Deep(nn.Module):
    """Three convolutions of a kind, with a residual after the second."""

    def __init__(self, kind: str, linear: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        make: Any = {
            "gcn": GCNConv,
            "sage": SAGEConv,
            "sums": lambda a, b: SAGEConv(a, b, aggr="sum", root_weight=False),
            "gat": lambda a, b: GATConv(a, b // 2, heads=2),
        }[kind]
        self.convs = nn.ModuleList([make(6, 8), make(8, 8), make(8, 4)]).double()
        self.linear = linear

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.convs[0](x, edge_index)
        h = h if self.linear else h.relu()
        h = h + self.convs[1](h, edge_index)
        h = h if self.linear else h.relu()
        return self.convs[2](h, edge_index)


def prepared(model: nn.Module, data: Data, backend: str, task: Any = None) -> Engine:
    problem = build_problem(model.eval(), data, task)
    with evaluating(model):
        return Engine.prepare(problem, BACKENDS[backend])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["gcn", "sage", "gat"])
def test_a_tiny_tolerance_computes_every_row(kind: str, backend: str) -> None:
    engine = prepared(Deep(kind), crowd(), backend)
    assert len(engine.importance.rows) == 3
    assert len(engine.importance.final) == 1
    removals = EditBatch.remove_nodes(torch.arange(0, 300, 7))
    found = engine.with_tolerance(1e-9).influences(removals)
    torch.testing.assert_close(found, engine.influences(removals), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_changes_of_a_linear_model_are_right_on_average(backend: str) -> None:
    """No absolute value, no activation: what is drawn must add up to what is there."""
    data = crowd(80)
    engine = prepared(Deep("sums", linear=True), data, backend, nora.NodeRegression())
    removals = EditBatch.remove_nodes(torch.tensor([0, 5, 40]))

    def change(changed: Any) -> Tensor:
        rows = torch.zeros(3, 80, 4, dtype=torch.double)
        changed = folded(changed, engine.program.output)
        rows[changed.edit, changed.node] = changed.rows - engine.before[changed.node]
        return rows

    truth = change(engine.changed_output(removals))
    draws = torch.stack(
        [
            change(engine.with_tolerance(0.3, seed=seed).changed_output(removals))
            for seed in range(400)
        ]
    )
    assert bool((draws != truth).any()), "something must have been left out"
    error = draws.std(dim=0) / 400**0.5
    off = (draws.mean(dim=0) - truth).abs()
    # Some rows are drawn five times in 400: their mean is not quite normal.
    assert bool((off <= 6 * error + 1e-9 * truth.abs().max()).all())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["gcn", "sage", "gat"])
def test_estimates_are_near_and_unbiased_enough(kind: str, backend: str) -> None:
    engine = prepared(Deep(kind), crowd(), backend)
    removals = EditBatch.remove_nodes(torch.arange(0, 300, 3))
    truth = engine.influences(removals)
    several = torch.stack(
        [engine.with_tolerance(0.05, seed=seed).influences(removals) for seed in range(8)]
    )
    assert bool((several != truth).any())
    assert abs(float(several.mean() / truth.mean()) - 1) < 0.05
    assert np.corrcoef(several[0], truth)[0, 1] > 0.95


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["gcn", "gat"])
def test_draws_do_not_depend_on_chunks_or_threads(kind: str, backend: str) -> None:
    engine = prepared(Deep(kind), crowd(), backend).with_tolerance(0.1, seed=3)
    nodes = torch.arange(60)
    whole = engine.influences(EditBatch.remove_nodes(nodes))
    alone = torch.cat([engine.influences(EditBatch.remove_nodes(part)) for part in nodes.split(7)])
    assert torch.equal(whole, alone)
    threaded = torch.empty_like(whole)
    removals = EditBatch.remove_nodes(nodes)
    for ids, values in engine.in_chunks(engine.influences, removals, 2**20, workers=3):
        threaded[ids] = values
    # A product of one row may be rounded differently from one of many; other draws differ by far more.
    torch.testing.assert_close(whole, threaded, rtol=1e-12, atol=0)
    assert not torch.equal(
        whole, engine.with_tolerance(0.1, seed=4).influences(EditBatch.remove_nodes(nodes))
    )


def test_rows_outside_of_the_targets_are_not_computed() -> None:
    data = crowd()
    targets = torch.zeros(300, dtype=torch.bool)
    targets[250:260] = True
    problem = build_problem(Deep("gcn").eval(), data, targets=targets)
    with evaluating(problem.model):
        engine = Engine.prepare(problem, vectorised)
    removals = EditBatch.remove_nodes(torch.arange(20))
    changed = engine.with_tolerance(1e-9).changed_output(removals)
    assert bool(targets[changed.node].all())
    found = engine.with_tolerance(1e-9).influences(removals)
    torch.testing.assert_close(found, engine.influences(removals), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["gcn", "gat"])
def test_edges_that_go_are_estimated_too(kind: str) -> None:
    data = crowd(120)
    engine = prepared(Deep(kind), data, "compiled")
    ptr = torch.arange(31)
    removals = EditBatch.remove_edges(ptr, torch.arange(30))
    truth = engine.influences(removals)
    tiny = engine.with_tolerance(1e-9).influences(removals)
    torch.testing.assert_close(tiny, truth, rtol=1e-8, atol=1e-12)
    several = torch.stack(
        [engine.with_tolerance(0.1, seed=seed).influences(removals) for seed in range(8)]
    )
    assert abs(float(several.mean() / truth.mean()) - 1) < 0.1


def test_links_are_estimated_by_inner_rows_alone() -> None:
    data = crowd()
    pairs = torch.randint(0, 300, (2, 500), generator=torch.Generator().manual_seed(0))
    engine = prepared(Deep("gcn"), data, "compiled", nora.LinkPrediction(pairs))
    assert len(engine.importance.rows) == 2
    removals = EditBatch.remove_nodes(torch.arange(0, 300, 7))
    truth = engine.influences(removals)
    found = engine.with_tolerance(1e-9).influences(removals)
    torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-12)
    rough = engine.with_tolerance(0.1).influences(removals)
    assert np.corrcoef(rough, truth)[0, 1] > 0.95


def test_standard_errors_say_how_far_estimates_are_off() -> None:
    model, data = Deep("gcn"), crowd(1500)
    truth = nora.influence(model, data, "exact", **QUIET)
    found = nora.influence(model, data, "exact", tolerance=0.05, **QUIET)
    assert found.stderr is not None
    drawn = found.stderr > 0
    assert found.details["estimated"]["exact_nodes"] == 60
    assert 60 <= int((~drawn).sum()) <= 90
    assert not bool(drawn[found.scores.argsort(descending=True)[:FIRST]].any())
    torch.testing.assert_close(found.scores[~drawn], truth.scores[~drawn])
    off = (found.scores - truth.scores)[drawn] / found.stderr[drawn]
    assert 0.85 < float((off.abs() < 1.96).double().mean()) < 0.995
    assert found.details["estimated"]["spearman"] > 0.98
    assert "stderr" in found.to_frame()
    assert truth.stderr is None


def test_standard_errors_are_kept_in_files_and_checkpoints(tmp_path: Path) -> None:
    model, data = Deep("sage"), crowd()
    ask: dict[str, Any] = {"tolerance": 0.1, "seed": 5, **QUIET}
    whole = nora.influence(model, data, "exact", **ask)
    again = nora.Influence.load(whole.save(tmp_path / "scores.parquet"))
    assert whole.stderr is not None
    assert again.stderr is not None
    torch.testing.assert_close(again.stderr, whole.stderr)
    folder = tmp_path / "parts"
    nora.influence(model, data, "exact", nodes=range(100), checkpoint=folder, **ask)
    resumed = nora.influence(model, data, "exact", checkpoint=folder, **ask)
    merged = nora.merge_checkpoints([folder])
    for one in (resumed, merged):
        assert one.stderr is not None
        assert bool(one.stderr.isfinite().all())
        assert bool((one.stderr > 0).any())
    with pytest.raises(ValueError, match="belongs to another run"):
        nora.influence(model, data, "exact", checkpoint=folder, **{**ask, "seed": 6})
    assert whole[:10].stderr is not None


def test_edges_have_standard_errors_too(tmp_path: Path) -> None:
    model, data = Deep("gcn"), crowd(1000)
    truth = nora.edge_influence(model, data, progress=False)
    folder = tmp_path / "parts"
    found = nora.edge_influence(model, data, tolerance=0.05, checkpoint=folder, progress=False)
    stderr = found.columns["stderr"]
    drawn = stderr > 0
    assert found.details["estimated"]["exact_edges"] == 60 <= int((~drawn).sum())
    torch.testing.assert_close(found.scores[~drawn], truth.scores[~drawn])
    off = (found.scores - truth.scores)[drawn] / stderr[drawn]
    assert 0.85 < float((off.abs() < 1.96).double().mean()) < 0.995
    assert found.details["estimated"]["spearman"] > 0.98
    kept = nora.EdgeInfluence.load(found.save(tmp_path / "scores.parquet")).to_frame()
    kept = kept.sort_values(["source", "target"])["stderr"].to_numpy()
    assert kept == pytest.approx(found.to_frame().sort_values(["source", "target"])["stderr"])
    assert torch.equal(nora.merge_checkpoints([folder]).columns["stderr"], stderr)
    resumed = nora.edge_influence(model, data, tolerance=0.05, checkpoint=folder, progress=False)
    assert torch.equal(resumed.columns["stderr"], stderr)
    assert "stderr" in list(found.to_frame())
    assert "stderr" not in list(truth.to_frame())


def test_other_measures_count_what_was_drawn_as_often() -> None:
    model, data = Deep("gcn"), crowd()
    ask: dict[str, Any] = {"measure": ["change", "class:1"], **QUIET}
    truth = nora.influence(model, data, "exact", **ask)
    found = nora.influence(model, data, "exact", tolerance=0.02, **ask)
    assert not torch.equal(found.scores, truth.scores)
    for name, values in truth.columns.items():
        assert np.corrcoef(found.columns[name], values)[0, 1] > 0.99


def test_rows_that_are_no_numbers_are_all_computed() -> None:
    class Logarithm(Deep):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return super().forward(x.abs().log(), edge_index).nan_to_num(0.5)

    data = crowd()
    data.x[17] = 0
    engine = prepared(Logarithm("gcn"), data, "compiled")
    removals = EditBatch.remove_nodes(torch.arange(20))
    found = engine.with_tolerance(1e-9).influences(removals)
    torch.testing.assert_close(found, engine.influences(removals), rtol=1e-9, atol=1e-12)
    assert bool(engine.with_tolerance(0.5).influences(removals).isfinite().all())


def thresholds(sizes: np.ndarray, error: float) -> dict[str, float]:
    """What sizes are compared with to tell the chance of a row, by both backends."""
    rooms = np.empty((2, loops_sampling.BINS))
    plain = torch.from_numpy(sizes.clip(min=0))
    found = row_sampling._threshold(plain, torch.zeros(len(sizes), dtype=torch.long), 1, error)
    return {
        "compiled": loops_sampling.threshold(sizes, error, *rooms),
        "vectorised": float(found),
    }


@pytest.mark.parametrize("scale", [1e-60, 1e-38, 1.0, 1e37, 1e60, 1e130])
@pytest.mark.parametrize("spread", [0.0, 1.0, 8.0])
@pytest.mark.parametrize("error", [0.001, 0.03, 0.5])
def test_draws_are_as_coarse_as_the_error_allows(error: float, spread: float, scale: float) -> None:
    sizes = scale * np.exp(spread * np.random.default_rng(0).standard_normal(3000))
    sizes[::7] = 0.0
    sizes[5::50] = -1.0  # computed in any case
    known = sizes[sizes > 0] / scale
    for t in thresholds(sizes, error).values():
        below = known[known < t / scale]
        variance = (below * (t / scale - below)).sum() / (error * known.sum()) ** 2
        assert 0.9 < variance < 1.06


@pytest.mark.parametrize("scale", [1e-300, 1e160, np.inf, np.nan])
def test_sizes_beyond_squares_leave_nothing_to_chance(scale: float) -> None:
    sizes = np.linspace(1, 2, 50) * scale
    assert thresholds(sizes, 0.1) == {"compiled": 0.0, "vectorised": 0.0}


@pytest.mark.parametrize("scale", [1e-170, 1e170])
@pytest.mark.parametrize("backend", BACKENDS)
def test_hidden_rows_beyond_squares_are_estimated_too(backend: str, scale: float) -> None:
    class Scaled(Deep):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            first, second, last = self.convs
            h = second(first(x, edge_index).relu() * scale, edge_index) / scale
            return last(h.relu(), edge_index)

    engine = prepared(Scaled("gcn"), crowd(), backend)
    removals = EditBatch.remove_nodes(torch.arange(100))
    truth, found = engine.influences(removals), engine.with_tolerance(0.1).influences(removals)
    assert float(found.sum() / truth.sum()) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("tolerance", [1.0, 3.0, float("inf")])
def test_a_relative_error_of_all_is_none_to_aim_at(tolerance: float) -> None:
    with pytest.raises(ValueError, match="below 1"):
        nora.influence(Deep("gcn"), crowd(), "exact", tolerance=tolerance, **QUIET)


@pytest.mark.parametrize("kind", ["gcn", "sage", "gat"])
@pytest.mark.parametrize("tolerance", [1e-300, 0.1, 0.999])
def test_odd_graphs_and_tolerances_give_numbers(kind: str, tolerance: float) -> None:
    lonely = Data(x=torch.randn(1, 6).double(), edge_index=torch.empty(2, 0, dtype=torch.long))
    apart = Data(x=torch.randn(5, 6).double(), edge_index=torch.tensor([[0, 1, 2], [0, 2, 1]]))
    for data in (lonely, apart):
        ask: dict[str, Any] = {"backend": "vectorised", **QUIET}
        truth = nora.influence(Deep(kind), data, "exact", **ask)
        found = nora.influence(
            Deep(kind), data, "exact", tolerance=tolerance, seed=2**63 - 1, **ask
        )
        torch.testing.assert_close(found.scores, truth.scores)


def test_degrees_that_roots_are_taken_of_are_not_drawn() -> None:
    torch.manual_seed(0)
    model = build_model("drgat", 6, 4, hidden_channels=4).double()
    found = nora.influence(model, crowd(600, 4), "exact", tolerance=0.2, **QUIET)
    assert found.stderr is not None
    assert found.scores.isfinite().all()
    # One in 25 is exact on purpose, as are the first ones, and none because a root of a drawn degree is NaN.
    assert 24 <= int((found.stderr == 0).sum()) <= 24 + FIRST + 10


def test_estimates_that_are_no_numbers_are_replaced_by_the_truth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    genuine = Engine.estimates

    def rooted(self: Engine, removals: EditBatch, *more: Any) -> Tensor:
        """As if a model took roots of what draws have moved below zero."""
        found = genuine(self, removals, *more)
        return found.where(torch.arange(len(found)).unsqueeze(-1) % 3 > 0, torch.nan)

    monkeypatch.setattr(Engine, "estimates", rooted)
    data, model = crowd(), Deep("gcn").eval()
    truth = nora.influence(model, data, "brute", **QUIET).scores
    found = nora.influence(model, data, "exact", tolerance=0.3, **QUIET)
    assert found.stderr is not None
    assert found.scores.isfinite().all()
    assert found.stderr.isfinite().all()
    known = found.stderr == 0
    assert 100 < int(known.sum()) < 200
    torch.testing.assert_close(found.scores[known], truth[known])
    edges = nora.edge_influence(model, data, tolerance=0.3, **QUIET)
    assert edges.scores.isfinite().all()
