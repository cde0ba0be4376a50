"""The clean and the published protocol: what each does, and one cell of each remade from nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nora.datasets import load_dataset
from nora.experiments.cells import PROFILES, Cell
from nora.experiments.lab import TRUTH, Lab
from nora.experiments.protocol import CLEAN, PROTOCOLS, PUBLISHED, Protocol
from nora.registry import member_of
from nora.results.agreement import pearson
from nora.training.runs import load_run
from recipes import reproduce

NODE = Cell("cora", "gcn", "node")
METHODS = ("nora", "mask", "predict-e")


def a_lab(cache: Path, protocol: Protocol) -> Lab:
    profile = replace(PROFILES["quick"], hidden=16, epochs=40, trials=1)
    return Lab(cache, profile, ("cora",), ("gcn",), ("node", "link"), cycles=2, protocol=protocol)


@pytest.mark.data
@pytest.mark.parametrize("protocol", [CLEAN, PUBLISHED], ids=lambda one: one.name)
def test_a_cell_remade_from_nothing_is_the_same(protocol: Protocol, tmp_path: Path) -> None:
    found = []
    for place in ("first", "second"):
        lab = replace(a_lab(tmp_path / place, protocol), cycles=1)
        truth = lab.mean_scores(NODE, TRUTH)
        unseen = torch.ones(len(truth), dtype=torch.bool)
        unseen[lab.labelled(NODE)] = False
        several = [lab.mean_scores(NODE, method) for method in METHODS]
        found.append([truth, *several])
        agreement = [pearson(one[unseen], truth[unseen]) for one in several]
        assert agreement[0] > 0.8
        assert min(agreement) > 0.3
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


@pytest.mark.data
def test_the_published_protocol_does_what_the_papers_scripts_do(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, PUBLISHED)
    run = lab.run(replace(NODE, task="link"), 1)
    assert run.architecture["sizes"]["self_loops"] is False
    assert run.training["selection"] == "dropout"
    assert run.training["patience"] == run.training["epochs"] == 40
    assert run.metrics["epochs"] == 40
    # Messages pass along every edge, and features are shares of their row.
    assert run.data.edge_index.size(1) == load_dataset("cora").data.edge_index.size(1)
    assert torch.allclose(run.data.x.sum(dim=1), torch.ones(2708))
    assert lab.labelled(NODE).tolist() == list(range(271))
    assert lab.tuned(NODE, "nora").options["beta"] == 8.0
    again = load_run(lab.run_step(replace(NODE, task="link"), 1, None).path)
    assert torch.equal(again.data.x, run.data.x)
    assert torch.equal(again.data.edge_index, run.data.edge_index)


@pytest.mark.data
def test_published_predictors_learn_the_mean_over_the_models(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, PUBLISHED)
    labels = lab.labels(NODE, 0)
    mean = torch.stack([lab.scores(NODE, cycle, TRUTH).scores for cycle in range(2)]).mean(dim=0)
    assert torch.equal(labels[:271], mean[:271])
    assert labels[271:].isnan().all()


def test_the_clean_protocol_changes_nothing() -> None:
    karate = load_dataset("karate")
    settings = {"epochs": 5, "patience": 2, "lr": 0.1}
    assert CLEAN.prepared(karate) is karate
    assert CLEAN.training(Cell("karate", "gcnii", "node"), settings) == settings
    split = CLEAN.split(karate, "link", 0, 0)
    assert split.data.edge_index.size(1) < karate.data.edge_index.size(1)


def test_cells_without_published_options_are_refused_before_any_work() -> None:
    PUBLISHED.check([Cell("pubmed", "gat", "link")])
    CLEAN.check([Cell("karate", "gcn", "node")])
    with pytest.raises(ValueError, match=r"publishes no options of 'nora'.*karate"):
        PUBLISHED.check([Cell("karate", "gcn", "node")])
    with pytest.raises(ValueError, match=r"unknown protocol 'publish'.*you mean 'published'"):
        member_of("protocol", "publish", PROTOCOLS)


def test_where_the_paper_has_no_options_for_links_those_for_nodes_are_taken() -> None:
    links, nodes = (
        PUBLISHED.published_options(Cell("pubmed", "gat", task), "predict-n")
        for task in ("link", "node")
    )
    assert links == nodes


def test_both_protocols_stand_side_by_side_and_the_same_protocol_is_refused(
    tmp_path: Path,
) -> None:
    settings = {"datasets": ("karate",), "models": ("gcn",), "tasks": ("node",), "cycles": 1}
    profile = replace(PROFILES["quick"], epochs=3, trials=1)
    clean = Lab(tmp_path / "cache", profile, **settings, share=0.3)
    reproduce("citation", clean, tmp_path / "clean", "a command")
    file = tmp_path / "clean" / "citation.json"
    # Karate has no published options: the same figures under the other name will do.
    other = replace(clean, protocol=replace(CLEAN, name="published"))
    document = json.loads(file.read_text())
    document["about"]["protocol"] = "published"
    beside = tmp_path / "published.json"
    beside.write_text(json.dumps(document))
    report = reproduce("citation", clean, tmp_path / "both", "a command", beside=beside)
    heading, table = report.tables[0]
    assert heading.startswith("Both protocols")
    ours, theirs = table["nora"][0].split(" / ")
    assert ours == theirs
    with pytest.raises(ValueError, match="clean, and published is asked"):
        reproduce("citation", clean, tmp_path / "no", "a command", beside=file)
    assert other.caption.endswith(
        "published: as the paper's scripts do it, with test links in "
        "message passing, the first nodes as the labelled ones, and the paper's options."
    )
