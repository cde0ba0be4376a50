"""An engine that was kept and opened again gives the same numbers, or is refused by name and reason."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import SAGEConv

import hetero_graphs
import nora
from elsewhere import printed
from engine.test_models_as_written import (
    LINKS,
    NODES,
    RELATIONAL,
    TYPED,
    WEIGHTED,
    restless,
)
from engine.test_relational import RELATIONS, twitter
from graphs import GRAPHS, hundred, labelled_camps
from networks import Centred, network, patchwork
from nora.engine.cost import preparation_cost
from nora.engine.store.array_folder import Writer
from nora.model import Problem, build_problem
from nora.models.timme import TIMME

pytestmark = pytest.mark.usefixtures("everything_is_large")


def both(model: nn.Module, data: Any, place: Path, task: Any = None) -> tuple[Tensor, Tensor]:
    """Scores by an engine that was prepared here, and by one that was opened."""
    folder = nora.prepare(model, data, place / "engine", task, progress=False)
    session = nora.Session.open(folder, model, task)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # nothing may fall back
        found = session.influence("exact", progress=False)
        here = nora.influence(model, data, "exact", task, progress=False)
    assert session.prepared.preparations == 0
    assert found.details["backend"] == here.details["backend"]
    return found.scores, here.scores


# What `exact` does not follow on this graph: there is nothing to keep.
FALLS_BACK = ("egc", "label-spreading", "dna", "linkx")


@pytest.mark.parametrize("kind", [*NODES, *RELATIONAL, *WEIGHTED])
def test_what_was_kept_gives_the_same_scores(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    data, model = hundred(), restless({**NODES, **RELATIONAL, **WEIGHTED}[kind]())
    if kind == "linkx":  # has weights for six nodes
        data.x, data.edge_index = data.x[:6], data.edge_index % 6
    if kind in RELATIONAL:
        data.edge_type = torch.arange(300) % 2
    if kind in WEIGHTED:
        data.edge_weight = torch.linspace(0.2, 2, 300).double()
    try:
        found, here = both(model, data, tmp_path)
    except ValueError as refusal:
        assert "no engine to save" in str(refusal)
        assert kind in FALLS_BACK
        return
    # How rows lie in memory may decide over the last digit.
    assert torch.allclose(found, here, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kind", LINKS)
def test_links_are_kept_with_their_pairs(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    data, model = hundred(), restless(LINKS[kind][0]())
    pairs = torch.randint(100, (2, 40))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    found, here = both(model, data, tmp_path, nora.LinkPrediction(pairs))
    assert torch.equal(found, here)
    again = nora.Session.open(tmp_path / "engine", model)
    assert torch.equal(again.task.pairs, pairs)


@pytest.mark.parametrize("kind", TYPED)
def test_node_types_are_kept(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    data, model = hetero_graphs.library((30, 60, 20), 90), restless(TYPED[kind]())
    found, here = both(model, data, tmp_path, nora.NodeClassification(node_type="paper"))
    assert torch.equal(found, here)
    assert isinstance(nora.Session.open(tmp_path / "engine", model).data, HeteroData)


@pytest.mark.parametrize("kind", GRAPHS)
def test_every_kind_of_graph_is_kept(kind: str, tmp_path: Path) -> None:
    data = GRAPHS[kind]()
    data.x = data.x.double()
    if "edge_weight" in data:
        data.edge_weight = data.edge_weight.double()
    found, here = both(network("gcn"), data, tmp_path)
    assert torch.equal(found, here)


def test_relations_and_blends_are_kept(tmp_path: Path) -> None:
    data = twitter(60, 150, 0)
    model = TIMME(60, 2, relations=RELATIONS, hidden_channels=5).eval()
    found, here = both(model, data, tmp_path)
    assert torch.equal(found, here)


def test_an_opened_session_answers_every_question_the_same(engine) -> None:
    folder, model = engine
    opened, fresh = nora.Session.open(folder, model), nora.Session(model, labelled_camps())
    for session in (opened, fresh):
        session.prepared.expect(1000)
    edits = {"remove_edges": [(3, 4)], "add_edges": [(0, 7)]}
    for asked in (
        {"remove": 3},
        edits,
        {"features": {2: torch.ones(3).double()}},
    ):
        one, other = opened.what_if(**asked), fresh.what_if(**asked)
        assert torch.equal(one.after.nan_to_num(), other.after.nan_to_num())
        assert one.fallback == other.fallback
    kept, made = opened.edge_influence(progress=False), fresh.edge_influence(progress=False)
    assert torch.equal(kept.scores, made.scores)
    assert opened.top(3, progress=False).nodes == fresh.top(3, progress=False).nodes
    assert opened.flip(3, progress=False).removed == fresh.flip(3, progress=False).removed
    measures = {"measure": ["loss", "flips"], "by": "y"}
    kept_, made_ = (s.influence("exact", progress=False, **measures) for s in (opened, fresh))
    assert torch.equal(kept_.scores, made_.scores)
    assert kept_.columns.keys() == made_.columns.keys()
    estimate = {"tolerance": 0.1, "seed": 3}
    kept_, made_ = (s.influence("exact", progress=False, **estimate) for s in (opened, fresh))
    assert torch.equal(kept_.scores, made_.scores)
    assert opened.prepared.preparations == 0


def test_targets_and_names_are_said_when_it_is_opened(engine) -> None:
    folder, model = engine
    names = [f"node {k}" for k in range(8)]
    opened = nora.Session.open(folder, model, targets=[0, 1], names=names)
    truth = nora.influence(model, labelled_camps(), "brute", targets=[0, 1], progress=False)
    found = opened.influence("exact", progress=False)
    assert torch.allclose(found.scores, truth.scores)
    assert opened.what_if("node 3").removed == (3,)


def test_a_checkpoint_goes_on_with_an_opened_engine(engine, tmp_path: Path) -> None:
    folder, model = engine
    parts = tmp_path / "parts"
    nora.influence(model, labelled_camps(), "exact", nodes=[0, 1], checkpoint=parts, progress=False)
    opened = nora.Session.open(folder, model)
    whole = opened.influence("exact", checkpoint=parts, progress=False)
    truth = nora.influence(model, labelled_camps(), "brute", progress=False)
    assert torch.allclose(whole.scores, truth.scores)


def test_another_process_opens_it_without_copying_the_graph(tmp_path: Path) -> None:
    run = nora.train("sage", "polarised", epochs=2, progress=False)
    run.save(tmp_path / "run")
    folder = nora.prepare(run.model, run.data, tmp_path / "engine", run.task, progress=False)
    code = f"""
import nora, torch
run = nora.load_run({str(tmp_path / "run")!r})
session = nora.Session.open({str(folder)!r}, run.model)
print(session.influence("exact", nodes=[5, 7], progress=False).scores[[5, 7]].tolist())
"""
    caught = printed(code)
    truth = nora.influence(run.model, run.data, "exact", nodes=[5, 7], progress=False)
    assert json.loads(caught) == pytest.approx(truth.scores[[5, 7]].tolist(), rel=1e-6)


def test_writing_into_an_opened_graph_is_noticed_and_stays_here(engine) -> None:
    folder, model = engine
    opened = nora.Session.open(folder, model)
    opened.data.x[0] = 5
    with pytest.raises(RuntimeError, match="graph has changed"):
        opened.influence("exact", progress=False)
    assert torch.equal(nora.Session.open(folder, model, check="all").data.x, labelled_camps().x)


def test_nothing_is_overwritten_without_being_asked(engine) -> None:
    folder, model = engine
    with pytest.raises(FileExistsError, match="exists already"):
        nora.prepare(model, labelled_camps(), folder, progress=False)
    nora.prepare(model, labelled_camps(), folder, replace=True, progress=False)
    other = folder.with_name("mine")
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="holds no prepared engine"):
        nora.prepare(model, labelled_camps(), other, replace=True, progress=False)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"notes\.txt"):
        nora.prepare(model, labelled_camps(), folder, replace=True, progress=False)
    with pytest.raises(NotADirectoryError):
        nora.prepare(model, labelled_camps(), other / "notes.txt", progress=False)


def test_what_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nora.engine.store.array_folder.np.lib.format.write_array_header_1_0", full)
    with pytest.raises(OSError, match="No space left") as failed:
        nora.prepare(patchwork(), labelled_camps(), tmp_path / "engine", progress=False)
    assert failed.value.filename == str(tmp_path / "engine")
    assert not list(tmp_path.iterdir())


def test_a_model_that_cannot_be_followed_has_no_engine_to_keep(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no engine to save"):
        nora.prepare(Centred(), labelled_camps(), tmp_path / "engine", progress=False)
    assert not list(tmp_path.iterdir())


def test_a_graph_with_what_no_array_holds_is_refused_by_name(tmp_path: Path) -> None:
    data = labelled_camps()
    data.story = object()
    with pytest.raises(TypeError, match=r"data\.story is a object"):
        nora.prepare(patchwork(), data, tmp_path / "engine", progress=False)
    assert not list(tmp_path.iterdir())


def test_plain_facts_about_a_graph_are_kept(tmp_path: Path) -> None:
    data = labelled_camps()
    data.title, data.sizes, data.table = "two camps", (4, 4), np.arange(3)
    model = patchwork()
    opened = nora.Session.open(
        nora.prepare(model, data, tmp_path / "engine", progress=False), model
    )
    assert (opened.data.title, opened.data.sizes) == ("two camps", (4, 4))
    assert np.array_equal(opened.data.table, np.arange(3))


def test_a_pass_of_the_model_has_the_memory_to_itself(tmp_path: Path, monkeypatch) -> None:
    """What is on disk is let go of before each pass that removals are compared with."""
    random = torch.Generator().manual_seed(0)
    edges = torch.randint(20_000, (2, 200_000), generator=random)
    data = Data(x=torch.randn(20_000, 8, generator=random), edge_index=edges)
    model = nora.build_model("sage", 8, 3, hidden_channels=16, num_layers=2).eval()
    events: list[str] = []

    def noted(name: str, method: Any) -> Any:
        def called(*given: Any) -> Any:
            events.append(name)
            return method(*given)

        return called

    monkeypatch.setattr(Writer, "release", noted("room", Writer.release))
    monkeypatch.setattr(Problem, "predict_without", noted("pass", Problem.predict_without))
    folder = nora.prepare(model, data, tmp_path / "engine", progress=False)
    passes = [at for at, event in enumerate(events) if event == "pass"]
    assert len(passes) >= 4
    assert all(events[at - 1] == "room" for at in passes)
    # What compiled loops read is mapped too, in four bytes, not made again by every process.
    kept = json.loads((folder / "manifest.json").read_text())
    (ids,) = (own["_ids"] for own in kept["engine"]["objects"].values() if "_ids" in own)
    assert [kept["files"][number]["dtype"] for number in ids["tuple"]] == ["int32", "int32"]


class TestForecast:
    @pytest.fixture(autouse=True)
    def always(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("nora.questions.prepare.FORECAST_EDGES", 0)

    def test_it_is_about_right(self, tmp_path: Path) -> None:
        random = torch.Generator().manual_seed(0)
        edges = torch.randint(20_000, (2, 200_000), generator=random)
        data = Data(x=torch.randn(20_000, 64, generator=random), edge_index=edges)
        for name in ("sage", "gcn"):
            model = nora.build_model(name, 64, 16, hidden_channels=64, num_layers=3).eval()
            problem = build_problem(model, data)
            with problem.evaluating(), torch.no_grad():
                needs = preparation_cost(problem)
            folder = nora.prepare(model, data, tmp_path / name, progress=False)
            size = sum(file.stat().st_size for file in folder.iterdir())
            assert 0.5 * size < needs.disk < 2 * size
            # A message per edge is what a pass of the model takes.
            assert 200_000 * 64 * 4 < needs.of_model < 4 * 200_000 * 64 * 4
            assert needs.of_model < needs.memory

    def test_what_does_not_fit_is_refused_before_any_work(self, tmp_path, monkeypatch) -> None:
        ran: list[int] = []
        model = network("gcn")
        model.register_forward_pre_hook(lambda module, given: ran.append(len(given[0])))
        data = hundred()
        data.x = data.x[:, :3]
        with pytest.raises(MemoryError, match="1 KB is allowed"):
            nora.prepare(model, data, tmp_path / "engine", memory=1000, progress=False)
        assert 100 not in ran  # only small graphs
        full = shutil._ntuple_diskusage(1000, 1000, 0)  # type: ignore[attr-defined]
        monkeypatch.setattr("nora.questions.prepare.shutil.disk_usage", lambda _: full)
        with pytest.raises(OSError, match="on disk") as reply:
            nora.prepare(model, data, tmp_path / "engine", progress=False)
        assert reply.value.filename == str(tmp_path / "engine")
        assert not list(tmp_path.iterdir())


class Decoder(nn.Module):
    def forward(self, z: Tensor, pairs: Tensor) -> Tensor:
        return (z[pairs[0]] - z[pairs[1]]).sum(dim=-1)


def test_a_task_with_code_of_its_own_is_said_when_it_is_opened(tmp_path: Path) -> None:
    task = nora.LinkPrediction(torch.tensor([[0, 1], [5, 6]]), decoder=Decoder())
    model = network("gcn")
    folder = nora.prepare(model, labelled_camps(), tmp_path / "engine", task, progress=False)
    with pytest.raises(ValueError, match="pass task="):
        nora.Session.open(folder, model)
    opened = nora.Session.open(folder, model, task)
    truth = nora.influence(model, labelled_camps(), "brute", task, progress=False)
    assert torch.allclose(opened.influence("exact", progress=False).scores, truth.scores)


class ById(nn.Module):
    """Rows of its own for every node."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rows = nn.Parameter(torch.randn(8, 3).double())
        self.conv = SAGEConv(3, 3).double()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x + self.rows, edge_index)


def test_weights_by_node_id_are_kept_as_such(tmp_path: Path) -> None:
    model = ById()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        folder = nora.prepare(model, labelled_camps(), tmp_path / "engine", progress=False)
        opened = nora.Session.open(folder, model)
        found = opened.influence("exact", progress=False)
        truth = nora.influence(model, labelled_camps(), "brute", progress=False)
    assert found.details["removal"] == "isolated"
    assert torch.allclose(found.scores, truth.scores)


def test_it_can_be_moved(engine) -> None:
    folder, model = engine
    moved = Path(shutil.move(folder, folder.with_name("elsewhere")))
    nora.Session.open(moved, model, check="all")
