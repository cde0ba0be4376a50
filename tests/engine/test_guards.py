"""Sizes that a trace assumed are checked for every edit: in influences, certificates, proofs and `Live`."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv

import nora
from edit_batches import batch_of
from fuzz.branches import BRANCHES, CLASSES, FEATURES, RELATIONS, SIZES, Branching
from fuzz.branching import Definition, call, run
from nora.engine import verify as verification
from nora.engine.guards import Guard, Guards
from nora.engine.ir.space import Space
from nora.engine.prepared import Prepared
from nora.model import build_problem
from nora.model.checks import check_model
from nora.model.lines import Line

HOLDER = 7
# What the engine answers, with a full pass for the edits that break a guard; the rest falls back whole.
ANSWERED = (
    "skip_empty", "skip_by_len", "list_of_parts", "guarded_mean", "threshold", "rounded_half", "squeezed",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _engine_on_small_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "PREPARING_SHARE", math.inf)


def holders_graph(nodes: int = 200) -> Data:
    """A graph in which one node holds all edges of the last type; no sample lacks that type."""
    dice = torch.Generator().manual_seed(0)
    pairs = torch.randint(nodes, (2, 3 * nodes), generator=dice)
    pairs = pairs[:, pairs[0] != HOLDER]
    pairs[0, -20:] = HOLDER
    kind = torch.randint(RELATIONS - 1, (pairs.size(1),), generator=dice)
    kind[-20:] = RELATIONS - 1
    x = torch.randn(nodes, FEATURES, generator=dice, dtype=torch.double)
    flag = torch.arange(nodes) % 3 == 0
    return Data(x=x, edge_index=pairs, edge_type=kind, flag_mask=flag)


def model_of(name: str) -> nn.Module:
    torch.manual_seed(0)
    return Branching(BRANCHES[name]).double().eval()


@pytest.mark.parametrize("name", BRANCHES)
def test_a_branch_on_the_size_of_a_part_is_answered_right(name: str) -> None:
    model, data = model_of(name), holders_graph()
    truth = Definition(model, data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = nora.influence(model, data, "exact", forward=call, progress=False)
    for node in (0, HOLDER, 12):
        assert float(found.scores[node]) == pytest.approx(truth.total((node,)), rel=1e-9, abs=1e-10)
    if name in ANSWERED:
        assert "fallback" not in found.details
        assert found.details["full_passes"] >= 1


@pytest.mark.parametrize("name", SIZES)
def test_a_threshold_is_seen_from_whichever_size_it_is_asked(name: str) -> None:
    """Five edges of a type are left of twenty, each to another node: without one of these there are four."""
    model, data = model_of(name), holders_graph(nodes=60)
    kept = torch.arange(data.edge_index.size(1)) < data.edge_index.size(1) - 15
    data.edge_index, data.edge_type = data.edge_index[:, kept], data.edge_type[kept]
    node = int(data.edge_index[1, -1])
    truth = Definition(model, data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = nora.influence(model, data, "exact", forward=call, progress=False)
    assert float(found.scores[node]) == pytest.approx(truth.total((node,)), rel=1e-9, abs=1e-10)


class Turned(nn.Module):
    """Asks whether a turned part is contiguous, which is so for one edge and for none."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = SAGEConv(FEATURES, CLASSES)

    def forward(self, data: Data) -> Tensor:
        out = self.conv(data.x, data.edge_index)
        part = data.edge_index[:, data.edge_type == RELATIONS - 1]
        return out.flip(1) if part.t().is_contiguous() else out


def test_live_sees_that_a_part_has_become_empty() -> None:
    model, data = Turned().double().eval(), holders_graph()
    truth, live = Definition(model, data), nora.Live(model, data, forward=call)
    live.apply(nora.Edits(remove=3))
    live.apply(nora.Edits(remove=HOLDER))
    for node, row in truth.after((3, HOLDER)).items():
        torch.testing.assert_close(live.predictions[node], row, rtol=1e-9, atol=1e-12)


def test_only_the_edits_that_break_a_guard_take_a_full_pass() -> None:
    found = nora.influence(
        model_of("skip_empty"), holders_graph(), "exact", forward=call, progress=False
    )
    assert found.details["full_passes"] == 1


def test_types_that_are_left_out_when_empty_are_guarded() -> None:
    class NonEmpty(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            kinds = [("a", "to", "a"), ("a", "by", "a")]
            self.conv = HeteroConv({kind: SAGEConv(FEATURES, CLASSES) for kind in kinds})

        def forward(self, x_dict: dict, edge_index_dict: dict) -> Tensor:
            edges = {kind: e for kind, e in edge_index_dict.items() if e.size(1) > 0}
            return self.conv(x_dict, edges)

    torch.manual_seed(0)
    model, data = NonEmpty().double().eval(), HeteroData()
    data["a"].x = torch.randn(30, FEATURES, dtype=torch.double)
    data["a", "to", "a"].edge_index = torch.randint(30, (2, 120))
    held = torch.stack([torch.full((5,), 3), torch.arange(10, 15)])
    data["a", "by", "a"].edge_index = held
    exact = nora.influence(model, data, "exact", progress=False)
    brute = nora.influence(model, data, "brute", progress=False)
    torch.testing.assert_close(exact.scores, brute.scores, rtol=1e-9, atol=1e-10)
    assert exact.details["full_passes"] >= 1


def test_a_certificate_counts_what_takes_another_branch() -> None:
    model, data = model_of("skip_empty"), holders_graph()
    truth = Definition(model, data)
    best = nora.top(model, data, 1, budget=1e-9, screen="degree", forward=call, progress=False)
    first = max(truth.nodes, key=lambda node: truth.total((node,)))
    assert first == HOLDER
    assert best.certified == 0 or best.nodes == (HOLDER,)


def test_a_proof_of_no_flip_tries_pairs_that_empty_a_part_together() -> None:
    data = holders_graph(16)
    data.edge_type[data.edge_type == RELATIONS - 1] = 0
    for node in (3, 11):  # each holds half of the last type, far from most others
        at = int((data.edge_index[0] == node).nonzero()[0])
        data.edge_type[at] = RELATIONS - 1
    model = model_of("skip_empty")
    truth = Definition(model, data)
    for node in (0, 1, 2):
        found = nora.flip(model, data, node, at_most=2, forward=call, progress=False)
        now = int(truth.before[node].argmax())
        flips = int(truth.after((3, 11))[node].argmax()) != now if node not in (3, 11) else False
        assert not flips or found.size in (1, 2)


@pytest.mark.parametrize("seed", range(24))
def test_every_question_agrees_with_the_definition(seed: int) -> None:
    assert run(seed).category in ("equal", "fallback", "refused"), run(seed)


def test_edges_that_come_are_answered_within_the_guards() -> None:
    model, data = model_of("threshold"), holders_graph()
    few = torch.ones(data.num_edges, dtype=torch.bool)
    few[-16:] = False  # four edges of the last type are left: one more takes the other branch
    data.edge_index, data.edge_type = data.edge_index[:, few], data.edge_type[few]
    session = nora.Session(model, data, forward=call)
    for pair, kind in (((1, 2), 0), ((HOLDER, 2), RELATIONS - 1)):
        edges = [(*pair, {"edge_type": kind})]
        found = session.what_if(nora.Edits(add_edges=edges, undirected=False))
        after = data.clone()
        after.edge_index = torch.cat([data.edge_index, torch.tensor([pair]).t()], dim=1)
        after.edge_type = torch.cat([data.edge_type, torch.tensor([kind])])
        with torch.no_grad():
            true = (model(after).softmax(-1) - model(data).softmax(-1)).abs().sum()
        assert float(found.total) == pytest.approx(float(true), rel=1e-9)


def test_a_saved_engine_keeps_its_guards(tmp_path) -> None:
    model, data = model_of("skip_empty"), holders_graph()
    nora.prepare(model, data, tmp_path / "engine", forward=call, progress=False)
    opened = nora.Session.open(tmp_path / "engine", model, forward=call)
    truth = Definition(model, data)
    found = opened.influence("exact", nodes=[HOLDER], progress=False)
    assert float(found.scores[HOLDER]) == pytest.approx(truth.total((HOLDER,)), rel=1e-9)


@pytest.mark.parametrize(("name", "line"), [("types_present", "_unique2")])
def test_what_cannot_be_checked_is_refused_with_its_line(name: str, line: str) -> None:
    problem = check_model(build_problem(model_of(name), holders_graph(), forward=call))
    with problem.evaluating(), torch.no_grad(), pytest.raises(Exception, match=line) as caught:
        Prepared().engine(problem)
    assert "branches.py" in str(caught.value)


def test_len_is_python_s_own_again_after_a_pass() -> None:
    nora.influence(model_of("skip_by_len"), holders_graph(), "exact", forward=call, progress=False)
    assert len.__module__ == "builtins" and type(len(torch.zeros(3))) is int


def test_estimates_are_exact_where_a_guard_is_broken() -> None:
    model, data = model_of("skip_empty"), holders_graph()
    truth = Definition(model, data)
    found = nora.influence(model, data, "exact", tolerance=0.3, forward=call, progress=False)
    assert "fallback" not in found.details
    assert float(found.scores[HOLDER]) == pytest.approx(truth.total((HOLDER,)), rel=1e-9)
    assert float(found.stderr[HOLDER]) == 0


def test_every_edit_of_a_batch_that_adds_edges_is_checked_by_itself() -> None:
    edges = torch.stack([torch.arange(29), torch.arange(29) + 1])
    data = Data(x=torch.zeros(30, 1), edge_index=edges)
    rows = Space("edges", (29,), edges, 30, origin=torch.arange(29))
    guards = Guards(
        30, [rows], [Guard("gt", (("rows", rows, 1), 30), Line("model.py", 1, "forward"))]
    )
    one, three = nora.Edits(add_edges=[(9, 0)]), nora.Edits(add_edges=[(9, 0), (8, 0), (7, 0)])
    fewer = nora.Edits(remove=20, add_edges=[(9, 0), (8, 0), (7, 0)])
    batch = batch_of([one, three, fewer, one], data)
    assert guards.broken(batch).tolist() == [False, True, False, False]
    assert guards.broken(batch.pick(torch.tensor([2, 1]))).tolist() == [False, True]


def by_threshold(model, data):
    rows = model(data.x, data.edge_index)
    return rows if data.num_nodes < 200 else 2 * rows


def by_parity(model, data):
    return model(data.x, data.edge_index) * (1 + data.num_nodes % 2)


def never_crossed(model, data):
    rows = model(data.x, data.edge_index)
    return 2 * rows if data.num_nodes > 5 else rows


def zeros_of_that_many(model, data):
    rows = model(data.x, data.edge_index)
    return data.x.new_zeros(data.num_nodes, 3).index_add(
        0, data.edge_index[1], rows[data.edge_index[0]]
    )


@pytest.mark.parametrize("forward", [by_threshold, by_parity, never_crossed, zeros_of_that_many])
def test_python_that_reads_a_stored_number_of_nodes_is_answered_right(forward) -> None:
    torch.manual_seed(0)
    model, data = SAGEConv(FEATURES, 3).double().eval(), holders_graph()
    data.num_nodes = 200
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = nora.influence(model, data, "exact", forward=forward, progress=False)
    with torch.no_grad():
        before = forward(model, data).softmax(-1)
        for node in (0, HOLDER, 12):
            keep = torch.arange(200) != node
            stays = keep[data.edge_index].all(dim=0)
            edges = (keep.cumsum(0) - 1)[data.edge_index[:, stays]]
            less = Data(x=data.x[keep], edge_index=edges, num_nodes=199)
            truth = float((forward(model, less).softmax(-1) - before[keep]).abs().sum())
            assert float(found.scores[node]) == pytest.approx(truth, rel=1e-9, abs=1e-10)


@torch.jit.script
def _as_many(rows: Tensor) -> Tensor:
    """Ones in place of zeros for more than so many rows."""
    count = rows.size(0)
    return torch.ones(1, dtype=torch.double) * (1 if count > 150 else 0)


class Scripted(nn.Module):
    """A branch that Python does not see."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = SAGEConv(FEATURES, CLASSES)

    def forward(self, data: Data) -> Tensor:
        few = data.edge_index[:, data.edge_type == RELATIONS - 1]
        return self.conv(data.x, data.edge_index) + _as_many(data.x) + _as_many(few.t())


def test_sizes_that_torch_script_reads_fall_back_with_the_line() -> None:
    with pytest.warns(RuntimeWarning, match=r"TorchScript at test_guards\.py:\d+.*reads sizes"):
        nora.influence(
            Scripted().double().eval(),
            holders_graph(),
            "exact",
            nodes=[3],
            forward=call,
            progress=False,
        )
    assert float(_as_many(torch.ones(200, 1))) == 1.0  # scripts are called as before
