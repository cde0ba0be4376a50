"""A graph with node types: authors write papers, papers cite papers, venues print them.

    python examples/hetero.py

Generates a small library of two fields, trains a `HeteroConv` model to predict the
field of every paper, and then asks who matters for that: across all types, among
the authors alone, and what would happen without one author or a whole venue.
Nothing is downloaded; it takes seconds.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv
from torch_geometric.transforms import ToUndirected

import nora

FIELDS = ("biology", "physics")
AUTHORS, PAPERS, VENUES = 80, 400, 8
WORDS, INTERESTS = 40, 12


# --- Data: authors and venues keep mostly to one field, and so do citations. ------
def library(seed: int = 0) -> HeteroData:
    """Authors, papers and venues of two fields; features of papers are their words."""
    random = torch.Generator().manual_seed(seed)

    def chosen(field: Tensor, fields_of: Tensor, weight: Tensor, stray: float) -> Tensor:
        """For each field one node, in most cases of the same field."""
        same = fields_of == field.unsqueeze(1)
        chance = weight * torch.where(same, 1.0, stray)
        return torch.multinomial(chance, 1, generator=random).flatten()

    def described(field: Tensor, count: int, faint: float) -> Tensor:
        """0/1 features of which some are more frequent in one field than in the other."""
        chance = torch.full((len(field), count), 0.4)
        chance[field == 0, : count // 4] += faint
        chance[field == 1, count // 4 : count // 2] += faint
        return torch.bernoulli(chance, generator=random)

    field, home = torch.arange(PAPERS) % 2, torch.arange(AUTHORS) % 2
    data = HeteroData()
    data["paper"].x, data["paper"].y = described(field, WORDS, 0.1), field
    data["author"].x = described(home, INTERESTS, 0.4)
    data["venue"].x = torch.ones(VENUES, 1)  # nothing is known of a venue but its papers

    # A few authors write a lot; each paper has two of them.
    industry = torch.rand(AUTHORS, generator=random) ** -0.4
    by = torch.cat([chosen(field, home, industry, 0.05) for _ in range(2)])
    papers = torch.arange(PAPERS)
    data["author", "writes", "paper"].edge_index = torch.stack([by, papers.repeat(2)]).unique(dim=1)
    size = torch.arange(VENUES, 0, -1.0)
    printed = chosen(field, torch.arange(VENUES) % 2, size, 0.3)
    data["venue", "prints", "paper"].edge_index = torch.stack([printed, papers])
    cited = torch.cat([chosen(field, field, torch.ones(PAPERS), 0.2) for _ in range(2)])
    data["paper", "cites", "paper"].edge_index = torch.stack([papers.repeat(2), cited])
    # Reverse edges, so that authors and venues hear of their papers.
    return ToUndirected(merge=False)(data)


# --- A model: one convolution per edge type, as PyG's HeteroConv has it. ----------
class Library(nn.Module):
    """Two rounds of messages along every edge type; an output for each node type."""

    def __init__(self, data: HeteroData, hidden: int = 16) -> None:
        super().__init__()
        self.start = nn.ModuleDict(
            {kind: nn.Linear(x.size(1), hidden) for kind, x in data.x_dict.items()}
        )
        self.rounds = nn.ModuleList(
            HeteroConv(
                {edge_type: SAGEConv((hidden, hidden), hidden) for edge_type in data.edge_types}
            )
            for _ in range(2)
        )
        self.end = nn.Linear(hidden, len(FIELDS))

    def forward(self, x_dict: dict, edge_index_dict: dict) -> dict[str, Tensor]:
        """Logits by node type; only the papers' are asked for."""
        h = {kind: self.start[kind](x).relu() for kind, x in x_dict.items()}
        for convolution in self.rounds:
            h = {kind: x.relu() for kind, x in convolution(h, edge_index_dict).items()}
        return {kind: self.end(x) for kind, x in h.items()}


# --- Training, on the fields of a quarter of the papers. --------------------------
data = library()
torch.manual_seed(0)
model = Library(data)
known = torch.arange(PAPERS) % 8 < 2
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3)
for _ in range(60):
    optimizer.zero_grad()
    found = model(data.x_dict, data.edge_index_dict)["paper"]
    F.cross_entropy(found[known], data["paper"].y[known]).backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    right = model(data.x_dict, data.edge_index_dict)["paper"].argmax(dim=1) == data["paper"].y
print(f"Accuracy on papers it was not shown: {right[~known].float().mean():.0%}")

# --- Say which type is predicted; any node of any type can be removed. ------------
task = nora.NodeClassification(node_type="paper")
scores = nora.influence(model, data, task=task, progress=False)
print(f"\nAcross all types ({scores.method}):")
print(scores.top(6).to_string(index=False, float_format="{:.1f}".format))

authors = scores.of("author")
print("\nAmong the authors alone:")
print(authors.top(3).to_string(index=False, float_format="{:.1f}".format))

# --- What if this author had never written? ---------------------------------------
first = int(authors.top(1)["node"][0])
effect = nora.what_if(model, data, remove=("author", first), task=task)
print(f"\nWithout author {first}, the papers change by {effect.total:.1f} in total;")
print(f"{len(effect.flips())} would be placed in the other field. The most changed:")
for change in effect.top(3).itertuples():
    fields = f"{FIELDS[change.from_class]} → {FIELDS[change.to_class]}"
    print(f"  paper {change.node}: {change.change:.2f} ({fields})")

# --- Several at once, of different types. -----------------------------------------
venue = int(scores.of("venue").top(1)["node"][0])
both = nora.what_if(model, data, {"author": [first], "venue": [venue]}, task)
alone = scores["author", first] + scores["venue", venue]
print(f"\nWithout author {first} and venue {venue}: {both.total:.1f} (one by one: {alone:.1f}).")
