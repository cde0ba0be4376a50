"""Trained runs that commands ask about; one of each kind per file of tests, which may leave things there."""

from __future__ import annotations

from pathlib import Path

import pytest

import nora


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
