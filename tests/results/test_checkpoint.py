"""Long runs in pieces: finished work is kept, resumed and merged, and never mixed up."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

import nora
from elsewhere import started
from graphs import bridge, double, some_pairs, two_camps
from networks import network
from nora import LinkPrediction
from nora.methods import METHODS
from nora.model import build_problem
from nora.model.fingerprint import fingerprint
from nora.questions.recomputed import RECOMPUTED
from nora.results import checkpoint as shards


class Notes:
    """What is left out of an object's state is not a part of the model that holds it."""

    def __init__(self, break_at: int | None) -> None:
        self.removals, self.break_at = 0, break_at

    def __getstate__(self) -> None:
        return None


class Counted(nn.Module):
    """Counts the graphs that are smaller than the whole, and can break off at one of them.

    Each question tries one such graph before it begins.
    """

    def __init__(self, whole: int, break_at: int | None = None) -> None:
        super().__init__()
        self.inner = network()
        self.whole = whole
        # Out of reach: attributes would be taken back after each pass, and tell models apart.
        self.notes = Notes(break_at)

    @property
    def removals(self) -> int:
        return self.notes.removals

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if x.size(0) < self.whole:
            if self.notes.removals == self.notes.break_at:
                raise KeyboardInterrupt
            self.notes.removals += 1
        return self.inner(x, edge_index)


def counted(model: Counted, data: Data, folder: Path, **changes: object) -> nora.Influence:
    return nora.influence(model, data, "brute", checkpoint=folder, progress=False, **changes)  # type: ignore[arg-type]


def test_an_interrupted_run_keeps_its_work_and_resumes_where_it_stopped(tmp_path: Path) -> None:
    data = double(two_camps())
    broken, fresh = Counted(8, break_at=1 + 5), Counted(8)
    with pytest.raises(KeyboardInterrupt):
        counted(broken, data, tmp_path / "run")
    assert broken.removals == 1 + 5
    resumed = counted(fresh, data, tmp_path / "run")
    assert fresh.removals == 1 + 3 + RECOMPUTED
    expected = nora.influence(network(), data, "brute", progress=False)
    assert torch.equal(resumed.scores, expected.scores)


def test_a_finished_run_is_read_back_and_a_few_removals_are_compared(tmp_path: Path) -> None:
    data, first, second = double(two_camps()), Counted(8), Counted(8)
    made = counted(first, data, tmp_path / "run")
    again = counted(second, data, tmp_path / "run")
    assert (first.removals, second.removals) == (1 + 8, 1 + RECOMPUTED)
    assert again.scores.dtype == torch.float64
    assert torch.equal(again.scores, made.scores)


def test_nodes_asked_for_later_add_to_those_that_are_there(tmp_path: Path) -> None:
    data, model = double(two_camps()), Counted(8)
    counted(model, data, tmp_path / "run", nodes=[0, 1, 2])
    some = counted(model, data, tmp_path / "run", nodes=[2, 3])
    assert model.removals == 2 + 4 + 1
    assert (~some.scores.isnan()).nonzero().flatten().tolist() == [2, 3]
    every = counted(model, data, tmp_path / "run")
    assert model.removals == 3 + 8 + 1 + RECOMPUTED
    assert torch.equal(every.scores, nora.influence(network(), data, "brute").scores)


@pytest.mark.parametrize("method", [entry.name for entry in METHODS])
def test_every_method_gives_the_same_scores_with_a_checkpoint(method: str, tmp_path: Path) -> None:
    data = double(two_camps())
    learns = METHODS[method].facts.labels == "required"
    more = {"labels": torch.arange(float(data.num_nodes)), "progress": False}
    more = more if learns else {"progress": False}
    plain = nora.influence(network(), data, method, **more)
    for _ in range(2):
        kept = nora.influence(network(), data, method, checkpoint=tmp_path / "run", **more)
        assert torch.equal(kept.scores, plain.scores)
        assert kept.scores.dtype == plain.scores.dtype


def other_model(model: nn.Module, data: Data) -> dict:
    return {"model": network(seed=1)}


def other_graph(model: nn.Module, data: Data) -> dict:
    data = data.clone()
    data.x = data.x + 1e-9
    return {"data": data}


def other_edges(model: nn.Module, data: Data) -> dict:
    data = data.clone()
    data.edge_index = data.edge_index.flip(1)
    return {"data": data}


def other_task(model: nn.Module, data: Data) -> dict:
    return {"task": LinkPrediction(some_pairs(data))}


def other_targets(model: nn.Module, data: Data) -> dict:
    return {"targets": [0, 1]}


def other_options(model: nn.Module, data: Data) -> dict:
    return {"beta": 5.0}


def other_method(model: nn.Module, data: Data) -> dict:
    return {"method": "brute"}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (other_model, "model"),
        (other_graph, "graph"),
        (other_edges, "graph"),
        (other_task, "task"),
        (other_targets, "targets"),
        (other_options, "options"),
        (other_method, "method and options"),
    ],
)
def test_a_folder_of_another_run_is_refused_with_what_differs(
    change: Callable[[nn.Module, Data], dict], named: str, tmp_path: Path
) -> None:
    model, data = network(), double(bridge())
    asked = {"model": model, "data": data, "method": "nora-t1", "checkpoint": tmp_path / "run"}
    nora.influence(**asked, progress=False)
    before = sorted(file.name for file in (tmp_path / "run").iterdir())
    with pytest.raises(ValueError, match=rf"run belongs to another run: its {named} differ\."):
        nora.influence(**{**asked, **change(model, data)}, progress=False)
    assert sorted(file.name for file in (tmp_path / "run").iterdir()) == before


def test_a_folder_of_an_earlier_format_is_refused_and_still_merges(tmp_path: Path) -> None:
    made = nora.influence(network(), double(bridge()), "brute", checkpoint=tmp_path / "run")
    manifest = tmp_path / "run" / "manifest.json"
    about = json.loads(manifest.read_text())
    del about["format"], about["sha256"]
    manifest.write_text(json.dumps(about))
    with pytest.raises(ValueError, match=r"another version of nora.*another folder"):
        nora.influence(network(), double(bridge()), "brute", checkpoint=tmp_path / "run")
    assert torch.equal(nora.merge_checkpoints([tmp_path / "run"]).scores, made.scores)


def test_a_folder_that_names_the_option_pruning_by_its_default_goes_on(tmp_path: Path) -> None:
    model, data = network("gcn"), double(two_camps())
    ask = {"method": "exact", "checkpoint": tmp_path / "kept", "progress": False}
    first = nora.influence(model, data, nodes=[0, 1], **ask)
    path = tmp_path / "kept" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["sha256"]
    manifest["fingerprint"]["options"]["pruning"] = "random"
    path.write_text(json.dumps(manifest))
    again = nora.influence(model, data, nodes=[0, 1, 2], **ask)
    assert torch.equal(again.scores[:2], first.scores[:2])


def test_another_python_is_named_as_the_likely_cause(tmp_path: Path) -> None:
    nora.influence(network(), double(bridge()), "brute", checkpoint=tmp_path / "run")
    manifest = tmp_path / "run" / "manifest.json"
    about = json.loads(manifest.read_text())
    del about["sha256"]
    manifest.write_text(json.dumps(about | {"python": "3.9"}))
    nora.influence(network(), double(bridge()), "brute", checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match=r"its model differ.*Python 3\.9"):
        nora.influence(network(seed=1), double(bridge()), "brute", checkpoint=tmp_path / "run")


def test_what_cannot_be_read_is_refused_by_name_before_any_folder_is_made(tmp_path: Path) -> None:
    model = network()
    with (tmp_path / "log").open("w") as log:
        model.log = log
        with pytest.raises(ValueError, match=r"type _io\.TextIOWrapper.*key="):
            nora.influence(model, double(bridge()), "brute", checkpoint=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_key_stands_for_what_cannot_be_read(tmp_path: Path) -> None:
    model = network()
    with (tmp_path / "log").open("w") as log:
        model.log = log
        problem = build_problem(model, double(bridge()))
        first, again, other = (fingerprint(problem, "brute", {}, key) for key in ("v1", "v1", "v2"))
        shards.Shards.open(tmp_path / "run", first, problem)
        shards.Shards.open(tmp_path / "run", again, problem)
        with pytest.raises(ValueError, match=r"belongs to another run.*key differ"):
            shards.Shards.open(tmp_path / "run", other, problem)
        other_weights = network(seed=1)
        other_weights.log = log
        changed = fingerprint(build_problem(other_weights, double(bridge())), "brute", {}, "v1")
        with pytest.raises(ValueError, match=r"its model differ"):
            shards.Shards.open(tmp_path / "run", changed, problem)


def test_a_damaged_part_is_named_with_the_remedy(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    made = nora.influence(network(), double(bridge()), "brute", checkpoint=folder)
    (part,) = folder.glob("part-*.parquet")
    part.write_bytes(b"\x80\x04cos\nsystem\n")
    with pytest.raises(ValueError, match=rf"{part.name} is not readable.*[Dd]elete it"):
        nora.influence(network(), double(bridge()), "brute", checkpoint=folder)
    part.unlink()
    again = nora.influence(network(), double(bridge()), "brute", checkpoint=folder)
    assert torch.equal(again.scores, made.scores)


def test_a_full_disk_leaves_no_half_of_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(frame: pd.DataFrame, path: Path, **_: object) -> None:
        path.write_bytes(b"PAR1 half")
        raise OSError(errno.ENOSPC, "No space left on device")

    data, folder = double(bridge()), tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(pd.DataFrame, "to_parquet", full)
        with pytest.raises(OSError, match="No space left"):
            nora.influence(network(), data, "brute", checkpoint=folder, progress=False)
    assert [file.name for file in folder.iterdir()] == ["manifest.json"]
    after = nora.influence(network(), data, "brute", checkpoint=folder, progress=False)
    assert torch.isfinite(after.scores).all()


def test_parts_are_written_while_the_work_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SECONDS_PER_SHARD", 0.0)
    counted(Counted(8), double(two_camps()), tmp_path / "run")
    assert len(list((tmp_path / "run").glob("part-*.parquet"))) == 8


def test_folders_of_several_processes_merge_into_the_whole(tmp_path: Path) -> None:
    data = double(two_camps())
    folders = [tmp_path / name for name in ("a", "b")]
    for folder, nodes in zip(folders, ([0, 1, 2, 3, 4], [4, 5, 6, 7]), strict=True):
        nora.influence(network(), data, "brute", nodes=nodes, checkpoint=folder, progress=False)
    whole = nora.merge_checkpoints(folders)
    expected = nora.influence(network(), data, "brute", progress=False)
    assert torch.equal(whole.scores, expected.scores)
    assert (whole.method, whole.task, whole.options) == ("brute", "node", {})
    half = nora.merge_checkpoints(folders[:1])
    assert half.scores.isnan().tolist() == [False] * 5 + [True] * 3


def test_merging_nothing_or_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="name at least one checkpoint folder"):
        nora.merge_checkpoints([])
    with pytest.raises(FileNotFoundError, match=r"checkpoint: it has no manifest\.json"):
        nora.merge_checkpoints([tmp_path])


SLOW = textwrap.dedent(
    """
    import sys, time
    import nora
    from graphs import double, two_camps
    from networks import network
    from nora.results import checkpoint as shards

    shards.SECONDS_PER_SHARD = 0.0

    add = shards.Shards.add
    shards.Shards.add = lambda *args: (add(*args), time.sleep(0.2))
    nora.influence(network(), double(two_camps()), "brute", checkpoint=sys.argv[1], progress=False)
    """
)


def test_a_killed_process_keeps_its_finished_parts(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = started(SLOW, folder)
    try:
        deadline = time.monotonic() + 60
        while len(list(folder.glob("part-*.parquet"))) < 3:
            assert process.is_alive(), "it ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.join()
    assert process.exitcode == -signal.SIGKILL
    done = len(shards.read_parts(folder))
    assert 3 <= done < 8
    data = double(two_camps())
    resumed = nora.influence(network(), data, "brute", checkpoint=folder, progress=False)
    assert sum(len(pd.read_parquet(part)) for part in folder.glob("part-*")) == 8
    assert torch.equal(resumed.scores, nora.influence(network(), data, "brute").scores)


def test_a_process_killed_before_its_manifest_was_there_can_start_again(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".manifest.json.k3y0.json").write_text("{")
    scores = nora.influence(network(), double(bridge()), "brute", checkpoint=folder).scores
    assert torch.isfinite(scores).all()
    assert json.loads((folder / "manifest.json").read_text())["num_nodes"] == 7


HELD = """
import os, sys, time
from pathlib import Path
from nora.results.checkpoint import _held
lock = _held(Path(sys.argv[1]))
forked = os.fork()
if not forked:
    time.sleep(600)
print(forked, flush=True)
os.waitpid(forked, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_a_forked_process_does_not_hold_the_lock_of_a_killed_driver(tmp_path) -> None:
    """As a pool's processes are, which may go on for a while."""
    driver = subprocess.Popen(
        [sys.executable, "-c", HELD, tmp_path], stdout=subprocess.PIPE, text=True
    )
    forked = int(driver.stdout.readline())
    try:
        with pytest.raises(BlockingIOError, match=f"written to by process {driver.pid}"):
            shards._held(tmp_path)
        driver.kill()
        driver.wait()
        assert shards._held(tmp_path) is not None
    finally:
        os.kill(forked, signal.SIGKILL)
