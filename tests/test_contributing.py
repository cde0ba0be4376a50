"""A newcomer's day: every example of CONTRIBUTING as the one file it says it is, in a copy of the package."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from elsewhere import printed

ROOT = Path(__file__).parents[1]

# What each of the new files is good for, from a process that knows the copy only.
SCRIPT = """
import sys, warnings
sys.path.insert(0, sys.argv[1])
import networkx as nx, torch
from torch_geometric.nn import GCN, GCNConv, MeanSubtractionNorm
import nora
from nora.methods import METHODS
from nora.model.tasks.node_embedding import NodeEmbedding

warnings.simplefilter("error", RuntimeWarning)  # falling back is one
data = nora.load_dataset("southern-women").data
assert data.num_nodes == 32

def same(model, task=None):
    graph, model = data.clone(), model.double()
    graph.x = graph.x.double()
    fast = nora.influence(model, graph, "exact", task, backend="vectorised", progress=False)
    slow = nora.influence(model, graph, "brute", task, progress=False)
    torch.testing.assert_close(fast.scores, slow.scores, rtol=1e-6, atol=1e-9)
    assert fast.details.get("backend") == "vectorised", fast.details
    assert float(slow.scores.max()) > 1e-5, slow.scores

run = nora.train("gin", "southern-women", epochs=5, progress=False)
found = nora.influence(run.model, data, "betweenness", progress=False).scores
graph = nx.DiGraph(data.edge_index.t().tolist())
truth = nx.betweenness_centrality(graph)
torch.testing.assert_close(found, torch.tensor([truth[node] for node in range(32)]))
same(run.model)
torch.manual_seed(0)
same(GCN(32, 8, 2, 4).eval(), NodeEmbedding())

session = nora.Session(GCN(32, 8, 2, 4).eval(), data)
found = session.influence("exact", measure="confidence", progress=False).scores
effect = session.what_if(3)
kept = torch.arange(32) != 3
truth = (effect.after.amax(dim=1) - effect.before.amax(dim=1))[kept].double().sum()
torch.testing.assert_close(found[3], truth.to(found.dtype), rtol=1e-4, atol=1e-7)
assert float(found.abs().max()) > 1e-5

from nora.engine.lower.conv import mean_subtraction as file  # the module
steps = []
made = file.MeanOff.changed
file.MeanOff.changed = lambda self, *given: steps.append(1) or made(self, *given)

class Centred(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = GCNConv(32, 8), MeanSubtractionNorm(), GCNConv(8, 2)

    def forward(self, x, edge_index):
        return self.last(self.norm(self.first(x, edge_index)).relu(), edge_index)

same(Centred().eval())
assert steps  # the new step was asked, not the operations one by one
print("all as promised")
"""


def test_every_example_works_as_one_new_file(tmp_path: Path) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`(src/nora/\S+\.py)`:\n\n```python\n(.*?)```", text, re.DOTALL)
    assert len(named) == text.count("```python\n"), "every block says which file it is"
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "assets")
    )
    for place, block in named:
        path = tmp_path / place
        assert not path.exists(), f"{place} is there already"
        path.write_text(block, encoding="utf-8")
    assert printed(SCRIPT, tmp_path / "src", cwd=tmp_path).splitlines()[-1] == "all as promised"
