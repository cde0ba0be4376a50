"""What a large run says and does: the choice of a model, the forecast, the limit, graphs in pieces."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import nora
from nora.analysis import writing
from nora.analysis.forecast import forecast
from nora.analysis.model_choice import choose_model
from nora.analysis.stages import Stages
from nora.datasets import Dataset


def typed(types: int, width: int = 10, labelled: int = 40_000) -> Dataset:
    y = torch.zeros(labelled, dtype=torch.long)
    # As wide as stated, without the memory.
    x = torch.zeros(1, 1).expand(labelled, width)
    data = Data(x=x, y=y, edge_index=torch.zeros(2, 0, dtype=torch.long))
    return Dataset("g", data, 2, edge_type_names=tuple(map(str, range(types))) or None)


@pytest.mark.parametrize(
    ("types", "width", "labelled", "name", "sizes", "reason"),
    [
        (0, 10, 40_000, "gcn", {}, "edges have no types"),
        (1, 10, 0, "rgcn", {}, "1 type, and rgcn"),
        (2, 1_000, 30, "rgcn", {}, "2 types, and rgcn"),
        (16, 10, 40_000, "rgcn", {}, "16 types, and rgcn"),
        (
            16,
            10,
            300,
            "rgcn",
            {"num_bases": 2},
            "share 2",
        ),
        (17, 10, 40_000, "rgcn", {"num_bases": 8}, "17 types, which share 8"),
        (17, 10, 300, "rgcn", {"num_bases": 2}, "17 types, which share 2"),
        (500, 10, 40_000, "gcn", {}, "gcn ignores types"),
        (16, 100_000, 40_000, "rgcn", {"num_bases": 2}, "share 2"),
        (40, 500_000, 40_000, "gcn", {}, "would take 20.5 GB"),
    ],
)
def test_the_model_is_chosen_by_what_it_would_cost(
    types: int, width: int, labelled: int, name: str, sizes: dict, reason: str
) -> None:
    for asked in (None, "auto"):
        chosen = choose_model(asked, typed(types, width, labelled))
        assert (chosen.name, chosen.sizes) == (name, sizes)
        assert reason in chosen.reason
    assert choose_model("sage", typed(types, width, labelled)).name == "sage"


def ties(types: int = 0, nodes: int = 40) -> pd.DataFrame:
    rows = [(f"n{a}", f"n{(a + step) % nodes}") for step in (1, 2, 5) for a in range(nodes)]
    frame = pd.DataFrame(rows, columns=["source", "target"])
    if types:
        frame["type"] = [f"t{at % types}" for at in range(len(frame))]
    return frame


def labels(nodes: int = 40) -> pd.DataFrame:
    return pd.DataFrame({"id": [f"n{a}" for a in range(nodes)], "label": ["x", "y"] * (nodes // 2)})


def test_a_run_tells_which_model_and_why_and_keeps_what_each_phase_took(tmp_path: Path) -> None:
    reply: list[str] = []
    analysis = nora.analyse(
        ties(types=100),
        labels=labels(),
        epochs=3,
        top=1,
        method="degree",
        progress=False,
        on_message=reply.append,
    )
    assert analysis.run.architecture["name"] == "gcn"
    assert any("model gcn: weight matrices for 100 edge types" in text for text in reply)
    assert any("model gcn: weight matrices for 100 edge types" in text for text in analysis.notes)
    analysis.save(tmp_path / "out", progress=False)
    about = json.loads((tmp_path / "out" / "run.json").read_text())
    phases = {"reading", "training", "ranking", "effects", "writing tables and graph"}
    assert phases <= set(about["seconds"])
    assert set(about["seconds"]) == set(about["computing_seconds"]) == set(about["peak_bytes"])
    assert all(size > 1e6 for size in about["peak_bytes"].values())


def test_memory_is_honoured_or_refused() -> None:
    with pytest.raises(ValueError, match=r"about.*memory='100MB'"):
        nora.analyse(ties(), labels=labels(), memory="100MB", progress=False)
    with pytest.raises(ValueError, match=r"cannot read 'lots'.*amount of memory"):
        nora.analyse(ties(), labels=labels(), memory="lots", progress=False)


def test_a_limit_leaves_removals_in_work_what_is_left_of_it() -> None:
    analysis = nora.analyse(
        ties(), labels=labels(), epochs=2, top=1, method="exact", memory="6GB", progress=False
    )
    assert analysis.scores.options["memory"] < 3e9


def test_a_time_estimate_grows_with_the_graph_and_is_reported_when_it_is_long() -> None:
    def expected(nodes: int) -> object:
        data = Data(x=torch.eye(nodes, 50), edge_index=torch.zeros(2, 20 * nodes, dtype=torch.long))
        return forecast(data, "gcn", 200, 5)

    small, large = expected(100), expected(100_000)
    assert not small.long
    assert large.long
    assert large.memory > small.memory
    assert "about" in str(large)
    assert "GB" in str(large) or "MB" in str(large)


def test_a_phase_has_its_own_peak_of_memory() -> None:
    stages = Stages(progress=False)
    with stages.measured("much"):
        held = torch.ones(60_000_000)
        del held
    with stages.measured("little"):
        pass
    assert stages.memory["much"] > stages.memory["little"] + 1e8


def test_a_graph_written_in_pieces_is_the_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysis = nora.analyse(
        ties(types=2).assign(weight=1.5),
        labels=labels(),
        epochs=3,
        top=1,
        method="degree",
        progress=False,
    )
    analysis.save(tmp_path / "whole", progress=False)
    monkeypatch.setattr(writing, "IN_ONE_PIECE", 0)
    analysis.save(tmp_path / "pieces", progress=False)
    assert not (tmp_path / "pieces" / "graph.gexf").exists()
    whole, pieces = (
        nx.read_graphml(tmp_path / one / "graph.graphml") for one in ("whole", "pieces")
    )
    assert nx.utils.edges_equal(whole.edges, pieces.edges)
    for node, facts in pieces.nodes(data=True):
        for key in ("influence", "rank", "degree", "predicted", "probability"):
            assert (
                facts[key] == pytest.approx(whole.nodes[node][key])
                or facts[key] == whole.nodes[node][key]
            )
    assert {facts["type"] for *_, facts in pieces.edges(data=True)} == {"t0", "t1"}
    assert {facts["weight"] for *_, facts in pieces.edges(data=True)} == {1.5}


def test_a_saved_run_keeps_sparse_features_sparse_and_gives_them_back(tmp_path: Path) -> None:
    words = pd.DataFrame(
        {"id": [f"n{a}" for a in range(40)], "feature": [f"w{a:02d}" for a in range(40)]}
    )
    analysis = nora.analyse(
        ties(), words, labels(), epochs=2, top=1, method="degree", progress=False
    )
    folder = analysis.run.save(tmp_path / "run")
    from safetensors import safe_open

    with safe_open(folder / "dataset.safetensors", "pt") as file:
        assert "x" not in file.keys()  # noqa: SIM118  (it is not a dictionary)
    back = nora.load_run(folder)
    assert torch.equal(back.data.x, analysis.run.data.x)


def test_a_forecast_counts_the_maps_that_there_are() -> None:
    data = Data(
        x=torch.eye(20_000, 500),
        edge_index=torch.zeros(2, 100_000, dtype=torch.long),
        edge_type=torch.arange(100_000) % 8,
    )
    own, shared = (forecast(data, "rgcn", 200, 5, maps).training for maps in (None, 2))
    assert shared < 0.7 * own
