"""A session: prepared once, asked many times, and never with what has changed meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import nora
from graphs import FEATURES, double, two_camps
from hetero_graphs import library
from hetero_graphs import network as hetero_network
from networks import network
from nora.engine.exec.kernels import choice
from nora.model.versions import SAMPLED
from nora.progress import listening
from nora.questions import staleness


class ForwardPasses:
    """How often a model was run; no part of what the model is."""

    run = 0

    def __getstate__(self) -> dict[str, int]:
        return {}


PASSES = ForwardPasses()


class Counted(torch.nn.Module):
    """A model that counts how often it is run."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network()

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        # Not on the model: its attributes are put back after every pass.
        PASSES.run += 1
        return self.inner(x, edge_index)


@pytest.fixture
def data() -> Data:
    return double(two_camps())


@pytest.fixture
def model() -> torch.nn.Module:
    PASSES.run = 0
    return Counted().double().eval()


def test_all_questions_share_one_preparation(model: torch.nn.Module, data: Data) -> None:
    session = nora.Session(model, data)
    session.influence("exact", progress=False)
    first = PASSES.run
    session.what_if([0, 3])
    session.what_if(1)
    session.top(3, progress=False)
    session.best_group(2, progress=False)
    session.influencers(2, progress=False)
    session.influence_matrix([1, 2], progress=False)
    session.influence("cauchy", progress=False)
    assert session.prepared.preparations == 1
    assert PASSES.run - first <= 2


def test_answers_are_those_of_the_functions(model: torch.nn.Module, data: Data) -> None:
    session = nora.Session(model, data, targets=[0, 1, 2])
    asked = {"targets": [0, 1, 2]}
    for method in ("exact", "brute", "cauchy", "nora"):
        ours = session.influence(method, progress=False).scores
        alone = nora.influence(model, data, method, progress=False, **asked).scores
        torch.testing.assert_close(ours, alone)
    torch.testing.assert_close(
        session.what_if([4, 5]).after, nora.what_if(model, data, [4, 5], **asked).after,
        equal_nan=True,
    )  # fmt: skip
    assert session.best_group(2, progress=False).nodes == (
        nora.best_group(model, data, 2, progress=False, **asked).nodes
    )
    assert session.top(3, progress=False).nodes == (
        nora.top(model, data, 3, progress=False, **asked).nodes
    )


def test_questions_of_one_session_do_not_change_each_other(
    model: torch.nn.Module, data: Data
) -> None:
    task = nora.NodeClassification(classes=[1])
    session = nora.Session(model, data, task)
    before = session.influence("exact", progress=False).scores
    session.influencers(2, progress=False)  # counts one prediction only
    session.what_if(1)  # tells all classes
    session.influence("exact", nodes=[3], progress=False)
    torch.testing.assert_close(session.influence("exact", progress=False).scores, before)
    torch.testing.assert_close(before, nora.influence(model, data, "brute", task).scores)


def test_names_are_in_every_result(model: torch.nn.Module, data: Data) -> None:
    names = [f"n{node}" for node in range(data.num_nodes)]
    session = nora.Session(model, data, names=names)
    assert session.influence("exact", progress=False).names == tuple(names)
    assert session.what_if(1).names == tuple(names)
    assert session.top(2, progress=False).to_frame()["name"][0].startswith("n")
    assert "name" in session.best_group(2, progress=False).to_frame()
    assert "name" in session.influencers(2, progress=False)
    with pytest.raises(ValueError, match=r"names.*got 1"):
        nora.Session(model, data, names=["x"])


@pytest.mark.parametrize(
    "what",
    [
        "weights",
        "features",
        "edges",
        "buffer",
        "setting",
        "layer",
        "activation",
        "data of weights",
        "reset",
        "hook",
        "private",
        "list",
        "numpy",
    ],
)
def test_what_has_changed_meanwhile_is_refused(
    what: str, model: torch.nn.Module, data: Data
) -> None:
    model.register_buffer("scale", torch.ones(1))
    model.act, model.factors = torch.relu, [1.0]
    session = nora.Session(model, data)
    session.what_if(1)
    session.what_if(1)  # asking changes nothing
    with torch.no_grad():
        if what == "weights":
            next(model.parameters()).add_(1)
        elif what == "features":
            data.x[0] += 1
        elif what == "edges":
            data.edge_index = data.edge_index[:, :-2]
        elif what == "setting":
            model.inner.dropout = 0.75
        elif what == "layer":
            model.inner.convs[0] = torch.nn.Identity()
        elif what == "activation":
            model.act = torch.tanh
        elif what == "data of weights":
            next(model.parameters()).data.add_(1)
        elif what == "reset":
            model.inner.convs[0].reset_parameters()
        elif what == "hook":
            model.register_forward_hook(lambda module, given, output: 2 * output)
        elif what == "private":
            model._scale = 4.0
        elif what == "list":
            model.factors.append(2.0)
        elif what == "numpy":
            data.x.numpy()[0] += 1
        else:
            model.scale.fill_(3)
    with pytest.raises(RuntimeError, match=r"changed since this session was made"):
        session.what_if(1)


def test_an_unchanged_session_is_checked_without_reading_it(
    model: torch.nn.Module, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = nora.Session(model, data)
    read = []
    digest = staleness.content_digest
    monkeypatch.setattr(
        staleness,
        "content_digest",
        lambda *given, **named: read.append(1) or digest(*given, **named),
    )
    session.what_if(1)
    session.influence("exact", nodes=[1], progress=False)
    assert not read
    with torch.no_grad():
        data.x += 0  # another version of the same content
    session.what_if(1)
    assert read
    read.clear()
    nora.Session(model, data, check="all").what_if(1)
    assert len(read) > 3


def test_one_entry_of_a_large_tensor_written_past_torch_is_seen_by_reading_all(
    model: torch.nn.Module,
) -> None:
    nodes = 2 * SAMPLED
    edges = torch.stack([torch.arange(nodes), torch.arange(nodes).roll(1)])
    data = Data(x=torch.randn(nodes, FEATURES).double(), edge_index=edges)
    quick, whole = nora.Session(model, data), nora.Session(model, data, check="all")
    data.x.numpy()[1, 0] += 1
    assert not quick._stale.changed()  # what the guide says of it
    with pytest.raises(RuntimeError, match="the graph has changed since"):
        whole.what_if(1)
    data.x.numpy()[:] += 1
    with pytest.raises(RuntimeError, match="the graph has changed since"):
        quick.what_if(1)


def test_an_effect_makes_whole_tensors_only_when_they_are_read(
    model: torch.nn.Module, data: Data
) -> None:
    session = nora.Session(model, data)
    session.prepared.expect(10_000)
    effect = session.what_if(1)
    whole = session.what_if(1, method="brute")
    assert effect.total == pytest.approx(whole.total, rel=1e-4)
    assert effect.top(3)["node"].tolist() == whole.top(3)["node"].tolist()
    assert effect.noticed == whole.noticed
    assert effect.flips()["node"].tolist() == whole.flips()["node"].tolist()
    assert not {"after", "counted"} & set(vars(effect))
    assert torch.allclose(effect.after, whole.after, atol=1e-5, equal_nan=True)
    assert torch.equal(effect.counted, whole.counted)
    assert len(effect.to_frame()) == len(whole.to_frame())


def test_an_unsupported_model_is_reported_and_tried_once(data: Data) -> None:
    class Inverse(torch.nn.Module):
        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            total = x.new_zeros(x.shape).index_add(0, edge_index[1], x[edge_index[0]])
            return torch.linalg.pinv(total @ total.t() + torch.eye(len(x))) @ total[:, :2]

    session = nora.Session(Inverse(), data)
    with pytest.warns(RuntimeWarning, match="falls back"):
        found = session.influence("exact", progress=False)
    with pytest.warns(RuntimeWarning, match="falls back"):
        session.what_if(1)
    assert session.prepared.preparations == 1
    torch.testing.assert_close(found.scores, session.influence("brute", progress=False).scores)


def test_warnings_point_at_the_line_that_asked(data: Data) -> None:
    class ById(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Parameter(torch.randn(data.num_nodes, 2).double())

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return torch.zeros_like(self.table).index_add(
                0, edge_index[1], self.table[edge_index[0]]
            )

    for ask in (
        lambda: nora.influence(ById(), data, "brute", progress=False),
        lambda: nora.Session(ById(), data).what_if(1),
    ):
        with pytest.warns(RuntimeWarning, match="weights per node id") as caught:
            ask()
        assert caught[0].filename == __file__


def test_an_engine_is_prepared_once_passes_have_cost_as_much(
    model: torch.nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nora.engine.verify.PREPARING_SHARE", 0.2)
    random = torch.Generator().manual_seed(0)
    edges = torch.randint(3000, (2, 60_000), generator=random)
    data = Data(x=torch.randn(3000, FEATURES, generator=random).double(), edge_index=edges)
    session = nora.Session(model, data)
    session.what_if(0)
    assert session.prepared.preparations == 0  # one pass is all it takes
    asked = 1
    while not session.prepared.preparations and asked < 100:
        session.what_if(asked)
        asked += 1
    assert 5 < asked < 60
    before = PASSES.run
    found = session.what_if(99)
    assert PASSES.run == before
    truth = nora.what_if(model, data, 99, method="brute")
    torch.testing.assert_close(found.after, truth.after, equal_nan=True)


def test_what_nora_itself_puts_back_is_no_change(data: Data) -> None:
    class Numbered(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = torch.nn.Embedding(data.num_nodes, FEATURES)
            self.inner = network()
            self.register_buffer("asked", torch.zeros(1))

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            self.asked += 1
            return self.inner(self.rows.weight, edge_index)

    model = Numbered().double().eval()
    with pytest.warns(RuntimeWarning, match="weights per node id"):
        assert len(nora.top(model, data, 3, progress=False).nodes) == 3
    session = nora.Session(model, data)
    with pytest.warns(RuntimeWarning, match="weights per node id"):
        session.influence("exact", progress=False)
    assert session.what_if(3).removal == "isolated"


def test_a_decoder_that_has_changed_is_seen(data: Data) -> None:
    class Weighed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(3).double())

        def forward(self, z: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
            return (z[pairs[0]] * self.weight.exp() * z[pairs[1]]).sum(dim=-1)

    decoder = Weighed()
    task = nora.LinkPrediction(data.edge_index, decoder, return_type="raw")
    session = nora.Session(network(), data, task)
    session.what_if(3)
    with torch.no_grad():
        decoder.weight.add_(1)
    with pytest.raises(RuntimeError, match="the task has changed"):
        session.what_if(3)


def test_names_that_several_nodes_have_are_refused(model: torch.nn.Module, data: Data) -> None:
    session = nora.Session(model, data, names=["same"] * data.num_nodes)
    with pytest.raises(ValueError, match="nodes are named 'same': give ids"):
        session.what_if("same")


def test_the_first_of_a_type_with_targets_are_found_without_an_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nora.engine.verify.PREPARING_SHARE", 0.2)
    found = nora.top(
        hetero_network(),
        library(),
        2,
        nora.NodeClassification(node_type="paper"),
        targets=[1, 2],
        progress=False,
    )
    assert found.certified == 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_first_are_found_in_half_precision(dtype: torch.dtype, data: Data) -> None:
    data.x = data.x.to(dtype)
    model = network().to(dtype)
    assert len(nora.top(model, data, 3, progress=False).nodes) == 3
    with pytest.raises(ValueError, match="single or double precision"):
        nora.influence(model, data, "cauchy", progress=False)


def test_compiling_the_loops_for_the_first_time_is_announced(
    model: torch.nn.Module, data: Data, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def labels(backend: str) -> list[str]:
        seen: list[str] = []
        with listening(lambda what, *_: seen.append(what)):
            nora.Session(model, data).influence("exact", backend=backend, progress=False)
        return [label for label in seen if "compiling" in label]

    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    labels("compiled")
    assert not labels("compiled")  # they are kept by now
    monkeypatch.setattr(choice, "__file__", str(tmp_path / "choice.py"))
    assert labels("compiled")
    assert not labels("vectorised")
