"""Nothing is overwritten without being asked, and what a command reads never."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import nora
from nora.files import written_atomically
from nora.outputs import check_file, check_table, read_from
from shell import ok, refused

TIES = "source,target\n" + "".join(
    f"{a},{b}\n" for a, b in zip("aaabbcdddeefgghh", "bcdcddefgfgghahb", strict=True)
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with edges, the run that was made from them, and a checkpoint of its ranking."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "edges.csv").write_text(TIES)
    ok("run", "--edges", folder / "edges.csv", "--out", folder / "results", "--epochs", 3)
    ok("rank", folder / "results/run", "--method", "brute", "--checkpoint", folder / "part")
    ok("rank", folder / "results/run", "--nodes", "a,b,c,d,e", "--out", folder / "known.parquet")
    return folder


def commands(place: Path, out: Path) -> dict[str, list[object]]:
    """Every command that writes one table, writing to `out`."""
    run = place / "results" / "run"
    return {
        "rank": ["rank", run, "--method", "degree", "--out", out],
        "certify": ["rank", run, "--top", 2, "--certify", "--out", out],
        "top": ["top", run, "--top", 2, "--out", out],
        "what-if": ["what-if", run, "--remove", "a", "--out", out],
        "group": ["group", run, "--size", 2, "--out", out],
        "merge": ["merge", place / "part", "--out", out],
    }


NAMES = list(commands(Path(), Path()))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_is_replaced_only_when_forced(
    name: str, suffix: str, place: Path, tmp_path: Path
) -> None:
    out = tmp_path / f"mine{suffix}"
    out.write_text("mine")
    command = commands(place, out)[name]
    message = refused(*command)
    assert message == (
        f"error: {out} exists already; choose another --out, or add --force to replace it\n"
    )
    assert out.read_text() == "mine" and len(list(tmp_path.iterdir())) == 1
    ok(*command, "--force")
    assert out.read_bytes()[:4] != b"mine"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("force", [[], ["--force"]], ids=["plain", "forced"])
def test_the_file_that_a_run_was_made_from_is_never_replaced(
    name: str, force: list[str], place: Path
) -> None:
    if name == "merge":  # a checkpoint does not say which files its run was made from
        command = ["merge", place / "part", "--out", next((place / "part").glob("*.parquet"))]
    else:
        command = commands(place, place / "edges.csv")[name]
    assert "an input of this run" in refused(*command, *force)
    assert (place / "edges.csv").read_text() == TIES


def test_an_input_is_known_by_its_content_wherever_it_is(place: Path, tmp_path: Path) -> None:
    copy, link = tmp_path / "moved.csv", tmp_path / "link.csv"
    copy.write_text(TIES)
    link.symlink_to(place / "edges.csv")
    hard = tmp_path / "hard.csv"
    os.link(place / "edges.csv", hard)
    for out in (copy, link, hard):
        message = refused(*commands(place, out)["rank"], "--force")
        assert "is an input of this run" in message
    assert copy.read_text() == TIES and link.is_symlink()


def test_labels_are_an_input_too(place: Path) -> None:
    known = place / "known.parquet"
    before = known.read_bytes()
    command = ["rank", place / "results/run", "--method", "predict-n", "--labels", known]
    assert "is an input" in refused(*command, "--out", known, "--force")
    assert known.read_bytes() == before


def test_results_are_not_replaced_while_they_are_read(place: Path) -> None:
    graph = place / "results" / "graph.graphml"
    before = graph.read_bytes()
    message = refused("run", "--edges", graph, "--out", place / "results", "--force")
    assert "graph.graphml is an input" in message
    assert graph.read_bytes() == before
    read = nora.analyse(graph, epochs=2, top=1, progress=False)
    with pytest.raises(FileExistsError, match="is an input of this run"):
        read.save(place / "results", force=True)


def test_a_file_beside_the_table_is_not_replaced_either(place: Path, tmp_path: Path) -> None:
    mine = tmp_path / "out.csv.meta.json"
    mine.write_text('{"my": "notes"}')
    command = commands(place, tmp_path / "out.csv")["rank"]
    assert "out.csv.meta.json exists already" in refused(*command)
    assert mine.read_text() == '{"my": "notes"}'


def test_what_a_killed_process_left_beside_the_table_is_in_nobodys_way(
    place: Path, tmp_path: Path
) -> None:
    (tmp_path / "out.csv.meta.json").write_text('{"kind": "effect"}')
    (tmp_path / "out.csv.predictions.safetensors").write_bytes(b"half")
    ok(*commands(place, tmp_path / "out.csv")["what-if"])
    assert nora.Effect.load(tmp_path / "out.csv").removed == (0,)


def test_a_dangling_link_counts_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "out.csv").symlink_to(tmp_path / "nowhere.csv")
    with pytest.raises(FileExistsError, match="exists already"):
        check_table(tmp_path / "out.csv")


def test_real_data_is_an_input_whatever_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NORA_DATA", str(tmp_path))
    (tmp_path / "dict.csv").write_text("id")
    with pytest.raises(FileExistsError, match="is an input"):
        check_file(tmp_path / "dict.csv", True, read_from(tmp_path / "run"))


def test_ones_own_table_in_a_run_folder_may_be_replaced(place: Path) -> None:
    out = place / "results" / "run" / "scores.csv"
    command = commands(place, out)["rank"]
    ok(*command)
    ok(*command, "--force")
    out.unlink()
    out.with_name("scores.csv.meta.json").unlink()


def test_a_file_that_comes_meanwhile_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    with (
        pytest.raises(FileExistsError, match="exists already, and is left"),
        written_atomically(out, replace=False) as temporary,
    ):
        temporary.write_text("ours")
        out.write_text("theirs")
    assert out.read_text() == "theirs" and list(tmp_path.iterdir()) == [out]


def test_a_table_that_comes_meanwhile_keeps_what_is_beside_it(tmp_path: Path) -> None:
    import torch

    out = tmp_path / "out.csv"
    nora.Influence(torch.ones(3), "theirs").save(out)
    with pytest.raises(FileExistsError, match="left as it is"):
        nora.Influence(torch.zeros(3), "ours").save(out, replace=False)
    assert nora.Influence.load(out).method == "theirs"


def test_tuning_is_not_repeated_over_what_was_found(place: Path) -> None:
    run = place / "results" / "run"
    command = ["tune", run, "--labels", place / "known.parquet"]
    ok(*command)
    before = (run / "tuned" / "nora.json").read_bytes()
    assert "Add --force to tune it again" in refused(*command)
    assert (run / "tuned" / "nora.json").read_bytes() == before
    kept = run / "tuned" / "nora-labels.parquet"
    labels = kept.read_bytes()
    ok("tune", run, "--labels", kept, "--force")
    assert kept.read_bytes() == labels


def test_a_run_folder_with_files_of_ones_own_is_not_replaced(tmp_path: Path) -> None:
    command = ["train", "--dataset", "karate", "--epochs", 2, "--out", tmp_path / "run"]
    ok(*command)
    (tmp_path / "run" / "thesis.tex").write_text("mine")
    message = refused(*command, "--force")
    assert "holds files of yours (thesis.tex)" in message
    assert (tmp_path / "run" / "thesis.tex").read_text() == "mine"


def test_the_demo_and_the_experiments_ask_too(tmp_path: Path) -> None:
    for name in ("demo/influence.png", "results/citation.md"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("mine")
        command = (
            ["demo", "--out", tmp_path / "demo"]
            if name.startswith("demo")
            else ["reproduce", "citation", "--out", tmp_path / "results"]
        )
        assert "choose another --out, or add --force" in refused(*command)
        assert (tmp_path / name).read_text() == "mine"


def test_every_command_that_takes_out_takes_force() -> None:
    import typer

    from nora.cli import app

    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    writes = {name: {one.name for one in command.params} for name, command in commands.items()}
    assert {name for name, params in writes.items() if "out" in params} == {
        name for name, params in writes.items() if "force" in params and name != "tune"
    }
