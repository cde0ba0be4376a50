"""A model of your own, in PyTorch Geometric: who matters for what it predicts?

    python examples/own_model.py

Writes a model, trains it to place the 1,000 accounts of a generated social network
in one of two camps, and then asks: which accounts change the others' predictions most,
who changes, is the top ten proven, and does the degree give the same ranking?
Nothing is downloaded; it takes seconds.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GATConv, SAGEConv

import nora

# --- Data: any torch_geometric.data.Data with x and edge_index will do. -----------
dataset = nora.load_dataset("polarised")
data, names, camps = dataset.data, dataset.node_names, dataset.class_names


# --- A model: plain PyTorch Geometric. --------------------------------------------
class TwoViews(nn.Module):
    """A mean over neighbours, then attention."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.mean = SAGEConv(features, hidden)
        self.attention = GATConv(hidden, hidden, heads=2, concat=False)
        self.norm = nn.BatchNorm1d(hidden)
        self.out = nn.Linear(hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits `[N, classes]`."""
        h = self.norm(self.mean(x, edge_index)).relu()
        h = F.dropout(h, 0.5, self.training)
        return self.out(h + self.attention(h, edge_index).relu())


# --- Training: half of the accounts are labelled. ---------------------------------
torch.manual_seed(0)
model = TwoViews(data.num_features, 32, dataset.num_classes)
known = torch.rand(data.num_nodes) < 0.5
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3)
for _ in range(60):
    model.train()
    optimizer.zero_grad()
    F.cross_entropy(model(data.x, data.edge_index)[known], data.y[known]).backward()
    optimizer.step()

model.eval()
with torch.no_grad():
    right = model(data.x, data.edge_index).argmax(dim=1) == data.y
# A model that has learnt nothing has influential nodes too, but they mean nothing.
print(f"Accuracy on accounts it was not shown: {right[~known].float().mean():.0%}")

# --- Influence: how much would all other predictions change without each? ---------
scores = nora.influence(model, data, progress=False)
scores = replace(scores, names=names)  # names are optional
print(f"\nThe most influential accounts ({scores.method}):")
print(scores.top(5).to_string(index=False, float_format="{:.1f}".format))

# --- What if: who changes without the first one, and to which camp? --------------
first = int(scores.top(1)["node"][0])
effect = nora.what_if(model, data, remove=first)
flips = replace(effect, names=names).flips()
print(f"\nWithout {names[first]}, predictions change by {effect.total:.1f} in total.")
print(f"{len(flips)} accounts would be placed in the other camp:")
for flip in flips.head(5).itertuples():
    print(f"  {flip.name}: {camps[flip.from_class]} → {camps[flip.to_class]}")

# The total of an effect is the node's influence: they are one definition.
assert abs(effect.total - scores[first]) < 1e-3

# --- Is the top ten proven? -------------------------------------------------------
best = nora.top(model, data, k=10, progress=False)
print(f"\nTop ten: {best.certificate}")

# --- Does the degree give the same ranking? ---------------------------------------
degree = nora.influence(model, data, "degree", progress=False)
agreement = degree.compare(scores)
print(
    f"\nDegree against influence: Pearson {agreement['pearson']:.2f}, Spearman "
    f"{agreement['spearman']:.2f}, {agreement['top_10%']:.0%} of the top tenth in common."
)

# --- Save it: scores load with their method and options. --------------------------
path = scores.save("runs/own-model.parquet")
again = nora.Influence.load(path)
print(f"\nSaved in {path}: {len(again):,} scores by {again.method!r}.")
