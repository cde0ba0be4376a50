"""A run that was edited, with checksums that fit again, is refused in a line: no traceback."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import nora
import shell
from nora.datasets import Dataset
from payload import consistent, edited


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs")
    own = Dataset("mine", nora.load_dataset("karate").data, 4)
    nora.train("gcn", own, epochs=1, progress=False).save(place / "own")
    nora.train("gcn", "karate", "link", epochs=1, progress=False).save(place / "link")
    return place


def facts(file: str, **changed: Any) -> Callable[[Path], None]:
    def edit(run: Path) -> None:
        if file == RUN:
            edited(run, **changed)
        else:
            (run / file).write_text(json.dumps(json.loads((run / file).read_text()) | changed))

    return edit


def tensors(file: str, **changed: torch.Tensor) -> Callable[[Path], None]:
    def edit(run: Path) -> None:
        found = safetensors.torch.load_file(run / file)
        safetensors.torch.save_file(found | changed, run / file)

    return edit


RUN, DATA, SPLIT = "manifest.json", "dataset.json", "split.safetensors"
EDITS: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "inputs": ("own", facts(RUN, inputs=5), "inputs is not a list of files"),
    "files": ("own", facts(RUN, inputs=[5]), "inputs is not a list of files"),
    "task": ("own", facts(RUN, task=3), "the task is 3, expected 'node' or 'link'"),
    "metrics": ("own", facts(RUN, metrics=3), "metrics is 3, expected a table"),
    "architecture": ("own", facts(RUN, architecture=3), "not readable as a run"),
    "attributes": ("own", facts(DATA, attributes=[3]), "attributes are not a table"),
    "nodes": ("own", facts(DATA, num_nodes="x"), "num_nodes is not a whole number"),
    "billions": ("own", facts(DATA, num_nodes=10**14), "nodes would take"),
    "beyond": ("own", tensors(SPLIT, train=torch.tensor([10**6])), "train is [1]"),
    "below 0": ("own", tensors(SPLIT, train=torch.tensor([-99])), "train is [1]"),
    "floats": ("own", tensors(SPLIT, train=torch.ones(3)), "train is [3] of torch.float32"),
    "pairs": ("own", tensors(SPLIT, train=torch.ones(3, 3).long()), "ids of a node task"),
    "no pairs": ("link", tensors(SPLIT, train=torch.ones(3).long()), "ids of a link task"),
    "labels": ("link", tensors(SPLIT, train_labels=torch.ones(3)), "label for every pair"),
    "edges": (
        "own",
        tensors("dataset.safetensors", edge_index=torch.full((2, 156), -1)),
        "is not the graph that the run was trained on",
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_run_is_refused_in_a_line(edit: str, whole: Path, tmp_path: Path) -> None:
    folder, change, says = EDITS[edit]
    shutil.copytree(whole / folder, tmp_path / "run")
    change(tmp_path / "run")
    consistent(tmp_path / "run")
    assert says in shell.refused("what-if", tmp_path / "run", "--remove", "1")
