"""What all tests share: one thread each, and where the real data is."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
import torch

from chromium import launch, require_browser

# Tests run side by side, and tiny graphs gain nothing from threads.
torch.set_num_threads(1)

DEFAULT = Path(__file__).parents[2] / "shared" / "data"

if not os.environ.get("NORA_DATA") and DEFAULT.is_dir():
    os.environ["NORA_DATA"] = str(DEFAULT)


# Files with tests that take longest: begun last, one of them would be waited for.
FIRST = ("test_wheel", "test_site", "test_ray", "test_soak", "test_examples", "test_executors")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first; all others stay in their order."""
    items.sort(key=lambda item: item.path.stem not in FIRST)


def pytest_collection_finish() -> None:
    """What was imported stays to the end: the collector need not look through it over and over."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the real datasets; without it the test is skipped, or fails if required."""
    named = os.environ.get("NORA_DATA")
    folder = Path(named) if named else DEFAULT
    if folder.is_dir():
        return folder
    reason = f"real data not found at {folder}: set NORA_DATA to the folder that holds Planetoid/"
    if os.environ.get("NORA_REQUIRE_DATA") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(autouse=True)
def engine_on_small_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests ask the engine about graphs so small that `exact` would leave them to brute force."""
    monkeypatch.setattr("nora.engine.verify.PREPARING_SHARE", float("inf"))


@pytest.fixture(scope="module")
def play():
    """Playwright; skips without Chromium."""
    require_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def browser(play):
    """A real browser, of one file of tests."""
    started = launch(play)
    yield started
    started.close()
