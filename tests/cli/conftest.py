"""Trained runs and files that commands are asked about; every file of tests has its own, to spoil."""

from __future__ import annotations

from pathlib import Path

import pytest

import nora
from people import write_files


@pytest.fixture(scope="module")
def karate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "karate"
    nora.train("gcn", "karate", epochs=20, progress=False).save(folder)
    return folder


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "links"
    nora.train("gcn", "karate", "link", epochs=5, progress=False).save(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("files"))
