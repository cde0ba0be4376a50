"""A running explorer of the karate club, and a client that has its cookie."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import nora
from chromium import Watched
from explorer_page import visit
from loopback import Client

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="package")
def run():
    return nora.train("gcn", "karate", epochs=60, progress=False)


@pytest.fixture(scope="package")
def names(run):
    """The second member has a script for a name."""
    named = list(run.dataset.node_names)
    named[1] = EVIL
    return named


@pytest.fixture(scope="package")
def explorer(run, names):
    with nora.explore(
        run.model,
        run.data,
        names=names,
        class_names=run.dataset.class_names,
        title=f"Karate {EVIL}",
        groups={"half": ["first"] * 17 + ["second"] * 17},
        browser=False,
    ) as started:
        yield started


@pytest.fixture(scope="package")
def client(explorer):
    return Client(explorer)


@pytest.fixture
def watched(browser, explorer) -> Iterator[Watched]:
    found = visit(browser, explorer)
    # All influences are there.
    found.page.wait_for_selector("#panel h4:text-is('Most influential')")
    yield found
    assert not found.complaints
    found.page.context.close()
