"""A trained run as a folder: complete or not there, and nothing in it can execute."""

from __future__ import annotations

import errno
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch_geometric.data import Data, HeteroData

import nora
from camps import camps
from nora.datasets import Dataset, DatasetUnavailableError
from nora.model.fingerprint import graph_fingerprint
from nora.training.run_split import Split
from nora.training.runs import split_of
from nora.training.splits import NodeSplit
from nora.training.trust import assess
from payload import Payload, facts_of, of_earlier_version


@pytest.fixture(scope="module")
def run() -> nora.Run:
    return nora.train(
        "gat", "karate", epochs=3, cycle=2, seed=1, hidden_channels=4, heads=3, progress=False
    )


@pytest.fixture
def folder(run: nora.Run, tmp_path: Path) -> Path:
    return run.save(tmp_path / "karate-gat")


@pytest.fixture
def unsigned(folder: Path) -> Path:
    """A run as the first versions saved it, without digests."""
    return of_earlier_version(folder, signed=False)


def without_checksums(folder: Path) -> Path:
    return of_earlier_version(folder, signed=False)


def test_a_run_comes_back_as_it_was(run: nora.Run, folder: Path) -> None:
    back = nora.load_run(folder)
    before, after = run.model.state_dict(), back.model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert back.describe() == run.describe()
    assert not back.model.training
    torch.testing.assert_close(
        back.model(back.data.x, back.data.edge_index),
        run.model(run.data.x, run.data.edge_index),
        rtol=0,
        atol=0,
    )


def test_a_link_run_comes_back_with_its_pairs_and_training_edges(tmp_path: Path) -> None:
    run = nora.train("gcn", "karate", "link", epochs=2, cycle=1, seed=4, progress=False)
    back = nora.load_run(run.save(tmp_path / "links"))
    assert isinstance(back.task, nora.LinkPrediction)
    assert isinstance(run.task, nora.LinkPrediction)
    assert torch.equal(back.task.pairs, run.task.pairs)
    assert torch.equal(back.data.edge_index, run.data.edge_index)


def test_the_folder_says_in_json_what_it_is(folder: Path) -> None:
    about = facts_of(folder)
    assert sorted(file.name for file in folder.iterdir()) == [
        "manifest.json",
        "model.safetensors",
        "split.safetensors",
    ]
    assert about["architecture"] == {
        "name": "gat",
        "in_channels": 34,
        "out_channels": 4,
        "sizes": {"hidden_channels": 4, "heads": 3},
    }
    assert (about["dataset"], about["task"], about["cycle"], about["seed"]) == (
        "karate",
        "node",
        2,
        1,
    )
    assert 0 <= about["metrics"]["test_accuracy"] <= 1


def test_an_existing_folder_is_refused_and_left_as_it_was(run: nora.Run, folder: Path) -> None:
    (folder / "note.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="exists already; choose another folder"):
        run.save(folder)
    assert (folder / "note.txt").read_text() == "mine"
    run.save(folder, replace=True)
    assert not (folder / "note.txt").exists()


@pytest.mark.parametrize("replace", [False, True])
def test_a_full_disk_leaves_no_half_of_a_run(
    run: nora.Run, folder: Path, replace: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    save = safetensors.torch.save_file

    def full(weights: dict, path: Path) -> None:
        save({key: value[:1].clone() for key, value in weights.items()}, path)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(OSError, match="No space left"):
        run.save(folder if replace else folder.parent / "other", replace)
    assert list(folder.parent.iterdir()) == [folder]
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_a_folder_that_is_no_run_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"trained run.*train --dataset cora --out"):
        nora.load_run(tmp_path)


@pytest.mark.parametrize("how", ["pickle", "torch"])
def test_weights_that_would_execute_are_refused_and_do_not(
    how: str, unsigned: Path, tmp_path: Path
) -> None:
    mark, weights = tmp_path / "exploded", unsigned / "model.safetensors"
    if how == "pickle":
        weights.write_bytes(pickle.dumps(Payload(mark)))
    else:
        torch.save(Payload(mark), weights)
    with pytest.raises(ValueError, match=r"model\.safetensors.*hold this model's weights"):
        nora.load_run(unsigned)
    assert not mark.exists()
    pickle.loads(pickle.dumps(Payload(mark)))
    assert mark.exists(), "the bomb would not have exploded anyway"


@pytest.mark.parametrize("content", [b"", b"\0" * 64, b"\xff" * 8 + b"{}", b"not weights at all"])
def test_unreadable_weights_are_named(content: bytes, unsigned: Path) -> None:
    (unsigned / "model.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match=r"model\.safetensors.*hold this model's weights"):
        nora.load_run(unsigned)


def test_weights_of_another_model_are_refused(unsigned: Path) -> None:
    other = nora.build_model("gcn", 34, 4).state_dict()
    safetensors.torch.save_file(other, unsigned / "model.safetensors")
    with pytest.raises(ValueError, match=r"this model's weights: (?s:.*)convs\.0"):
        nora.load_run(unsigned)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"\x80\x04\x95",
        b"[]",
        b"{}",
        b'"text"',
        b'{"architecture": "gat", "cycle": 0, "seed": 0, "dataset": "karate", "task": "node"}',
        b'{"architecture": {"name": "gat", "in_channels": 34, "out_channels": 4, "sizes": '
        b'{"nonsense": 1}}, "cycle": 0, "seed": 0, "dataset": "karate", "task": "node"}',
    ],
)
@pytest.mark.filterwarnings("ignore:.*has no checksums")
def test_an_unreadable_description_is_named(content: bytes, folder: Path) -> None:
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"manifest\.json is (not readable|of kind)"):
        nora.load_run(folder)
    (folder / "manifest.json").rename(folder / "run.json")
    with pytest.raises(ValueError, match="not readable as a run"):
        nora.load_run(folder)


def test_an_architecture_that_does_not_exist_is_answered_with_the_nearest(unsigned: Path) -> None:
    about = json.loads((unsigned / "run.json").read_text())
    about["architecture"]["name"] = "gatt"
    (unsigned / "run.json").write_text(json.dumps(about))
    with pytest.raises(ValueError, match="unknown model 'gatt'"):
        nora.load_run(unsigned)


@pytest.mark.parametrize("name", ["model.safetensors", "split.safetensors", "manifest.json"])
@pytest.mark.parametrize("where", [0.2, 0.5, 0.7])
def test_a_flipped_byte_is_named_with_its_file(name: str, where: float, folder: Path) -> None:
    content = bytearray((folder / name).read_bytes())
    content[int(where * len(content))] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(
        ValueError, match=rf"{name} (was changed after it was written|is (not readable|of kind))"
    ):
        nora.load_run(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "split.safetensors"])
def test_a_file_of_another_run_is_named(name: str, folder: Path, tmp_path: Path) -> None:
    other = nora.train(
        "gat", "karate", epochs=3, cycle=1, seed=5, hidden_channels=4, heads=3, progress=False
    ).save(tmp_path / "other")
    (other / name).replace(folder / name)
    with pytest.raises(ValueError, match=f"{name} was changed"):
        nora.load_run(folder)


def test_a_graph_that_the_run_never_had_is_not_read(folder: Path, tmp_path: Path) -> None:
    graph = nora.load_dataset("karate").data
    graph.x = graph.x * 2
    other = nora.train("gcn", Dataset("mine", graph, 4), epochs=1, progress=False)
    (other.save(tmp_path / "other") / "dataset.safetensors").replace(folder / "dataset.safetensors")
    assert not nora.load_run(folder).dataset.own


def test_files_of_ones_own_in_a_run_do_no_harm(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    nora.load_run(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("in_channels", 10**12),
        ("out_channels", -1),
        ("sizes", {"hidden_channels": 10**9}),
        ("sizes", {"num_layers": 10**9}),
        ("sizes", None),
        ("sizes", {"hidden_channels": "4"}),
        ("in_channels", "34"),
    ],
)
def test_sizes_that_no_memory_holds_are_refused_at_once(
    key: str, value: object, unsigned: Path
) -> None:
    about = json.loads((unsigned / "run.json").read_text())
    about["architecture"][key] = value
    (unsigned / "run.json").write_text(json.dumps(about))
    with pytest.raises(ValueError, match=r"not readable as a run|weights"):
        nora.load_run(unsigned)


def test_a_run_without_checksums_loads_with_a_warning(unsigned: Path) -> None:
    with pytest.warns(UserWarning, match="has no checksums"):
        nora.load_run(unsigned)


class TestEarlierVersions:
    @pytest.fixture
    def earlier(self, folder: Path) -> Path:
        return of_earlier_version(folder)

    def test_their_runs_open_and_are_saved_in_the_new_layout(
        self, run: nora.Run, earlier: Path, tmp_path: Path
    ) -> None:
        back = nora.load_run(earlier)
        assert back.describe() == run.describe()
        assert (back.save(tmp_path / "new") / "manifest.json").exists()

    def test_their_digests_are_compared(self, earlier: Path) -> None:
        about = json.loads((earlier / "run.json").read_text())
        (earlier / "run.json").write_text(json.dumps({**about, "seed": 9}))
        with pytest.raises(ValueError, match=r"run\.json is not.*written"):
            nora.load_run(earlier)
        (earlier / "run.json").write_text(json.dumps(about))
        weights = (earlier / "model.safetensors").read_bytes()
        (earlier / "model.safetensors").write_bytes(weights[:-1] + b"!")
        with pytest.raises(ValueError, match=r"model\.safetensors is not.*written"):
            nora.load_run(earlier)


class TestTheGraphOfARun:
    @pytest.fixture
    def own(self, tmp_path: Path) -> Path:
        names = tuple(f"node {number}" for number in range(34))
        dataset = Dataset("edges", nora.load_dataset("karate").data, 4, node_names=names)
        return nora.train("gcn", dataset, epochs=1, progress=False).save(tmp_path / "own")

    def test_a_missing_graph_is_named_without_digests_too(self, own: Path) -> None:
        without_checksums(own)
        (own / "dataset.safetensors").unlink()
        with pytest.raises(
            (ValueError, FileNotFoundError), match=r"dataset\.safetensors is missing"
        ):
            nora.load_run(own)

    def test_names_that_are_no_text_are_named(self, own: Path) -> None:
        facts = json.loads((without_checksums(own) / "dataset.json").read_text())
        facts["node_names"] = list(range(34))
        (own / "dataset.json").write_text(json.dumps(facts))
        with pytest.raises(ValueError, match=r"dataset\.json is.*node_names holds 0"):
            nora.load_run(own)

    def test_another_graph_is_distinguished(self, own: Path) -> None:
        graph = safetensors.torch.load_file(without_checksums(own) / "dataset.safetensors")
        graph["x.values"] = graph["x.values"] * 2  # one-hot: kept by what is not zero
        safetensors.torch.save_file(graph, own / "dataset.safetensors")
        with pytest.raises(ValueError, match=r"graph that the run.*trained on"):
            nora.load_run(own)

    @pytest.mark.data
    def test_a_dataset_is_looked_up_where_the_user_says_and_not_the_run(
        self, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NORA_DATA", str(data_folder))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
        monkeypatch.setattr("nora.datasets.planetoid.urlopen", lambda *_, **__: 1 / 0)
        run = nora.train("gcn", "cora", epochs=1, hidden_channels=4, progress=False)
        folder = run.save(tmp_path / "cora")
        back = nora.load_run(folder)
        assert back.describe() == run.describe()
        assert back.data_folder == data_folder.absolute()
        monkeypatch.delenv("NORA_DATA")
        with pytest.raises(
            DatasetUnavailableError, match=f"with NORA_DATA='{data_folder}': set it"
        ):
            nora.load_run(folder)
        again = back.save(tmp_path / "again")
        monkeypatch.setenv("NORA_DATA", str(data_folder))
        assert nora.load_run(again).data_folder == data_folder.absolute()


def test_a_dataset_that_has_changed_is_noticed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = nora.load_dataset("karate").data.clone()
    changed.x = changed.x * 2
    monkeypatch.setattr("nora.training.runs.load_dataset", lambda _: Dataset("karate", changed, 4))
    with pytest.raises(ValueError, match="version of 'karate'; train it again"):
        nora.load_run(folder)


def same_split(one: Split, other: Split) -> bool:
    """Whether two splits have the same parts, and messages pass along the same edges."""
    return graph_fingerprint(posed(one)) == graph_fingerprint(posed(other)) and all(
        torch.equal(getattr(one, key), getattr(other, key))
        for key, value in vars(one).items()
        if isinstance(value, torch.Tensor)
    )


def posed(split: Split) -> Data:
    return Data() if isinstance(split, NodeSplit) else split.data


@pytest.mark.parametrize("task", ["node", "link"])
def test_the_split_is_the_one_of_the_training_even_if_another_is_drawn(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = nora.train("gcn", "karate", task, epochs=2, cycle=1, seed=4, progress=False)
    assert same_split(run.split, split_of(run.dataset, task, 1, 4))
    run.save(tmp_path / "run")
    monkeypatch.setattr("nora.seeds.torch.randperm", lambda *_, **__: pytest.fail("drawn again"))
    back = nora.load_run(tmp_path / "run")
    assert same_split(back.split, run.split)
    assess(back)


def test_a_run_saved_without_its_split_has_that_of_its_cycle_and_seed(unsigned: Path) -> None:
    split = nora.load_run(unsigned).split
    (unsigned / "split.safetensors").unlink()
    assert same_split(nora.load_run(unsigned).split, split)


def test_a_split_of_another_graph_is_refused(folder: Path, tmp_path: Path) -> None:
    run = nora.train("gcn", "karate", "link", epochs=1, progress=False)
    links = without_checksums(run.save(tmp_path / "links"))
    edges = safetensors.torch.load_file(links / "split.safetensors")
    safetensors.torch.save_file(
        {**edges, "message": edges["message"][1:].clone()}, links / "split.safetensors"
    )
    with pytest.raises(ValueError, match="a graph of 155 edges, this one has 156"):
        nora.load_run(links)
    (folder / "split.safetensors").replace(links / "split.safetensors")
    with pytest.raises(ValueError, match=r"split of a link task.*link task"):
        nora.load_run(links)


class TestGraphsOfOnesOwn:
    @pytest.mark.parametrize("task", ["node", "link"])
    def test_relations_come_back_with_everything_they_have(self, task: str, tmp_path: Path) -> None:
        dataset = replace(camps(), node_names=tuple(f"user {number}" for number in range(40)))
        data = dataset.data
        data["user"].city = ["Bonn", "Ulm"] * 20
        data["user", "reply", "user"].since = 2019
        data.source = {"place": "here", "lines": [1, 2.5, None]}
        data.mean = torch.tensor([0.5])
        run = nora.train("timme", dataset, task, epochs=2, hidden_channels=4, progress=False)
        back = nora.load_run(run.save(tmp_path / "run"))
        assert back.describe() == run.describe()
        assert back.dataset.own and back.dataset == replace(
            dataset, data=back.dataset.data, own=True
        )
        found = back.dataset.data
        assert graph_fingerprint(found) == graph_fingerprint(data)
        assert (found.node_types, found.edge_types) == (data.node_types, data.edge_types)
        assert found["user"].city == data["user"].city
        assert found["user"].num_nodes == 40
        assert found["user", "reply", "user"].since == 2019
        assert found.source == data.source and torch.equal(found.mean, data.mean)
        assert same_split(back.split, run.split)
        assert same_split(back.split.nodes, run.split.nodes)
        before, after = (one.influence(nodes=[0, 5], progress=False) for one in (run, back))
        torch.testing.assert_close(before.scores, after.scores, equal_nan=True)

    @pytest.mark.parametrize("data", [camps().data, nora.load_dataset("karate").data])
    @pytest.mark.parametrize("what", [{1, 2}, torch.eye(2).to_sparse()])
    def test_what_cannot_be_kept_is_named_and_nothing_is_written(
        self, data: Data, what: object, tmp_path: Path
    ) -> None:
        store, model = (data["user"], "timme") if isinstance(data, HeteroData) else (data, "gcn")
        run = nora.train(model, Dataset("mine", data, 4), epochs=1, progress=False)
        store.seen = what
        with pytest.raises(
            TypeError, match=r"data(\['user'\])?\.seen is a (set|sparse tensor).*del"
        ):
            run.save(tmp_path / "run")
        assert list(tmp_path.iterdir()) == []
        del store["seen"]
        nora.load_run(run.save(tmp_path / "run"))

    def test_plain_attributes_come_back(self, tmp_path: Path) -> None:
        data = nora.load_dataset("karate").data
        data.club, data.num_nodes = "Zachary's", 34
        run = nora.train("gcn", Dataset("mine", data, 4), epochs=1, progress=False)
        assert nora.load_run(run.save(tmp_path / "run")).data.club == "Zachary's"

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda data: data.rename("user", "person"), r"nodes of the type 'user'.*'person'"),
            (lambda data: setattr(data["bot"], "x", torch.arange(3)), r"'user'.*'user', 'bot'"),
            (lambda data: setattr(data["user"], "x", torch.rand(40, 2)), r"x .*ids 0 … 39"),
            (lambda data: data["user"].__delattr__("x"), r"x .*ids 0 … 39.*torch.arange\(40\)"),
        ],
    )
    def test_relations_that_timme_cannot_take_are_reported(self, change: Any, message: str) -> None:
        data = camps().data
        data = change(data) or data
        with pytest.raises(ValueError, match=message):
            nora.train("timme", Dataset("mine", data, 2), epochs=1, progress=False)


class TestAsking:
    def test_a_run_answers_with_names(self) -> None:
        run = nora.train("gcn", "karate", epochs=5, progress=False)
        scores = run.influence(progress=False)
        assert scores.top(1)["name"].iloc[0].startswith("member ")
        effect = run.what_if("member 34")
        assert effect.removed == (33,)
        assert "name" in effect.to_frame()
        assert effect.total == pytest.approx(scores[33], rel=1e-4)

    def test_an_unknown_name_is_rejected_with_the_nearest(self) -> None:
        run = nora.train("gcn", "karate", epochs=5, progress=False)
        with pytest.raises(ValueError, match=r"named 'membre 3'. Did you mean 'member 3'"):
            run.what_if("membre 3")
        with pytest.raises(TypeError, match=r"run.what_if\('member 3'\)"):
            nora.what_if(run.model, run.data, "member 3")
