"""What a process has loaded after a question, comparing and drawing; one for all: starting takes longest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elsewhere import printed

SCRIPT = """
import json, sys
import torch, nora
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

def loaded():
    return [name for name in ("scipy.stats", "scipy.optimize", "matplotlib") if name in sys.modules]

pyg = loaded()
data = Data(x=torch.randn(5, 3), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
nora.influence(GCNConv(3, 2), data, progress=False)
nora.what_if(GCNConv(3, 2), data, 1)
asked = loaded()
import nora.results.agreement
compared = loaded()
from nora.results.plots.overview import influence_figure
from nora.results.plots.style import save_figure
picture = nora.Influence(torch.arange(9.0), "brute").plot()._repr_png_()
data = nora.load_dataset("karate").data
scores = nora.Influence(torch.rand(34), "random")
save_figure(influence_figure(scores, torch.ones(34), data.edge_index, data.y), sys.argv[1])
pyplot = "matplotlib.pyplot" in sys.modules
facts = {"pyg": pyg, "asked": asked, "compared": compared}
print(json.dumps({**facts, "picture": picture[:4].hex(), "pyplot": pyplot}))
"""


@pytest.fixture(scope="module")
def reply(tmp_path_factory: pytest.TempPathFactory) -> dict:
    place: Path = tmp_path_factory.mktemp("figure") / "figure.png"
    caught = printed(SCRIPT, place)
    assert place.stat().st_size > 1000
    return json.loads(caught)


def test_the_first_question_loads_no_statistics_and_no_optimisers(reply: dict) -> None:
    assert reply["asked"] == reply["pyg"]  # which is not ours to spare


def test_agreement_is_imported_without_the_slow_part_of_scipy(reply: dict) -> None:
    assert "scipy.stats" not in reply["compared"]


def test_a_picture_shows_itself_in_a_notebook(reply: dict) -> None:
    assert bytes.fromhex(reply["picture"]) == b"\x89PNG"


def test_drawing_leaves_pyplot_alone(reply: dict) -> None:
    assert reply["pyplot"] is False
