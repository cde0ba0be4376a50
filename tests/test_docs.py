"""What the pages show must run as it stands."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch_geometric.nn import MessagePassing

from nora.datasets import DATASETS
from nora.engine import rules
from nora.methods import METHODS
from nora.models import MODELS
from shell import ok

ROOT = Path(__file__).parents[1]


class MyConv(MessagePassing):
    """The convolution that the README's rule is about."""

    def __init__(self) -> None:
        super().__init__(aggr="mean")
        self.lin = torch.nn.Linear(3, 3)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=self.lin(x))


@pytest.fixture
def unregistered_afterwards(monkeypatch):
    for registry in (METHODS, MODELS, DATASETS):
        list(registry)
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    rules.rule_for(torch.nn.Identity())
    monkeypatch.setattr(rules.RULES, "_entries", dict(rules.RULES._entries))


PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")),
]


WITHOUT_CODE = {"docs/api.md", "docs/command-line.md", "docs/coverage.md", "docs/mathematics.md"}


@pytest.mark.parametrize("page", [page for page in PAGES if page not in WITHOUT_CODE])
def test_every_python_block_runs(page, tmp_path, monkeypatch, unregistered_afterwards, capsys):
    if page == "docs/own-data.md":  # it reads files of the reader's own
        ok("example", tmp_path / "files")
        tmp_path /= "files"
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL
    )
    assert blocks
    # A module like any other: dataclasses look theirs up.
    module = ModuleType("page")
    module.MyConv = MyConv
    monkeypatch.setitem(sys.modules, "page", module)
    for block in blocks:
        # A block of a page is a file of its own there, and a future import must come first in it.
        exec(compile(block, page, "exec"), vars(module))


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("http"):
            assert (ROOT / page).parent.joinpath(target).exists(), target
