"""What tests of kept engines begin with."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

import nora
from graphs import labelled_camps
from networks import patchwork


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tensors go to disk as soon as they are made, as only large ones do otherwise."""
    monkeypatch.setattr("nora.engine.store.array_store.LARGE", 1)
    # Nor does the clock of a busy machine decide whether full passes would be quicker.
    monkeypatch.setattr("nora.engine.verify.SHORT_SECONDS", float("inf"))


@pytest.fixture
def engine(everything_is_large: None, tmp_path: Path) -> tuple[Path, nn.Module]:
    """An engine on disk, and its model."""
    model = patchwork()
    return nora.prepare(model, labelled_camps(), tmp_path / "engine", progress=False), model
