"""What the exact engine makes of a model, and how every answer was made."""

from __future__ import annotations

import json
import warnings

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

import nora
from nora.engine.prepared import Prepared
from public_shapes import asked_of
from shell import document, ok


def model_of(name, nodes=80):
    return asked_of(name, nodes, (6, 8, 3), torch.double)


def test_a_model_that_is_followed_is_reported_with_its_operations_and_times():
    found = nora.explain_engine(*model_of("SignedFrequency"))
    assert found.followed == "engine"
    assert found.reasons == ()
    assert found.reaches == "nearby"
    assert found.traced > sum(count for _, count in found.operations) > 3
    assert found.passes[0][0] == "lowered"
    assert found.passes[-1][0] == "fuse_rows"
    assert found.passes[-1][1] == sum(count for _, count in found.operations)
    assert found.speedup == pytest.approx(found.pass_seconds / found.removal_seconds)
    assert "follows the model" in str(found)


def test_layers_that_are_lowered_as_one_are_named():
    found = nora.explain_engine(*model_of("Peephole"))
    assert "convs.0 (GraphConv)" in found.layers


def test_all_lines_that_block_the_engine_are_named_not_only_the_first():
    class Blocked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = GCNConv(6, 3)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            numbers = torch.arange(x.size(0)).float().sum()
            out = self.conv(x, edge_index)
            return out + 0 * numbers + 0 * out[out[:, 0] > 0].sum()

    torch.manual_seed(0)
    _, data = model_of("SignedFrequency")
    found = nora.explain_engine(Blocked().double(), data)
    assert found.followed == "brute"
    assert any("ids" in reason for reason in found.reasons)
    assert any("mask" in reason for reason in found.reasons)
    assert all("test_explain_engine.py" in reason for reason in found.reasons)


def test_operations_on_all_rows_and_guards_are_named_with_their_lines():
    diffusion = nora.explain_engine(*model_of("Diffusion"))
    assert diffusion.reaches == "all"
    assert any(
        line.startswith("linalg_vector_norm at transformers.py") for line in diffusion.all_rows
    )
    relations = nora.explain_engine(*model_of("LoopOverRelations"))
    assert relations.all_rows == ()
    assert len(relations.guards) == 1


def test_a_report_is_plain_data():
    found = nora.explain_engine(*model_of("WholeSoftmax"))
    assert json.loads(json.dumps(found.to_dict()))["followed"] == "brute"
    assert "What blocks the engine" in str(found)


def test_every_answer_says_how_it_was_made(monkeypatch):
    asked = {"progress": False, "method": "exact", "verify": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert nora.influence(*model_of("SignedFrequency"), **asked).details["followed"] == "engine"
        assert nora.influence(*model_of("WholeSoftmax"), **asked).details["followed"] == "brute"
    monkeypatch.setattr(Prepared, "pays", lambda *_: False)  # there are few nodes
    few = nora.influence(*model_of("SignedFrequency"), progress=False, method="exact")
    assert few.details["followed"] == "brute"


def test_an_answer_with_some_full_passes_is_mixed():
    model, data = model_of("LoopOverRelations")
    last = (data.edge_type == 2).nonzero().flatten()
    data.edge_type[last[1:]] = 0
    a, b = data.edge_index[:, last[0]].tolist()
    both = (data.edge_index[0] == b) & (data.edge_index[1] == a)
    data.edge_type[both] = 2
    asked = {"progress": False, "method": "exact", "verify": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = nora.influence(model, data, **asked)
    assert found.details["followed"] == "mixed"
    assert found.details["full_passes"] >= 2
    truth = nora.influence(model, data, "brute", progress=False)
    assert torch.allclose(found.scores, truth.scores, rtol=1e-9, atol=1e-9)


def test_a_run_is_inspected_from_the_shell(tmp_path):
    nora.train("gcn", "karate", epochs=2, progress=False).save(tmp_path / "run")
    assert "follows the model" in ok("inspect", tmp_path / "run")
    reply = document("inspect", tmp_path / "run")
    assert reply["followed"] == "engine"
    assert reply["layers"] == ["convs.0 (GCNConv)", "convs.1 (GCNConv)"]
