"""A model as on OGB's leaderboards, with known labels among its inputs: which papers matter?

    python examples/leaderboard.py

Strong models of the node classification leaderboards share three habits: convolutions with
batch norm and residuals, an average over several outputs, and *label reuse*: classes of training
nodes are given as inputs, so that they spread along the edges. The last needs care when a node is
removed: its label must be removed too. It is if the label lies in `data`, one row per
node, and `forward=` reads it from there. The graph is generated in the shape of a citation
network; with `nora.load_dataset("ogbn-arxiv")` the rest stays as it is.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.utils import to_undirected

import nora

PAPERS, TOPICS, FEATURES = 800, 6, 24
torch.manual_seed(0)


def citations() -> Data:
    """Papers cite earlier ones, more often cited ones sooner, mostly of their own topic."""
    y = torch.randint(TOPICS, (PAPERS,))
    source, target = [], []
    cited = torch.ones(PAPERS)
    for paper in range(TOPICS * 2, PAPERS):
        weight = cited[:paper] * torch.where(y[:paper] == y[paper], 10.0, 1.0)
        for other in torch.multinomial(weight, 4).tolist():
            source.append(paper)
            target.append(other)
            cited[other] += 1
    x = torch.randn(PAPERS, FEATURES) + 0.6 * torch.eye(TOPICS, FEATURES)[y]
    train = torch.arange(PAPERS) < PAPERS // 2  # the earlier half, as leaderboards split by time
    return Data(x=x, y=y, edge_index=to_undirected(torch.tensor([source, target])), train=train)


class Strong(nn.Module):
    """GCN with batch norm and residuals, which reads labels beside features."""

    def __init__(self, features: int, hidden: int, classes: int, layers: int = 3) -> None:
        super().__init__()
        self.enter = nn.Linear(features + classes, hidden)
        self.convs = nn.ModuleList(GCNConv(hidden, hidden) for _ in range(layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden) for _ in range(layers))
        self.leave = nn.Linear(hidden, classes)

    def forward(self, x: Tensor, known: Tensor, edge_index: Tensor) -> Tensor:
        """Logits `[N, classes]` from features and known labels (one-hot, 0 where unknown)."""
        h = self.enter(torch.cat([x, known], dim=1))
        total = torch.zeros_like(h)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            h = h + F.dropout(norm(conv(h, edge_index)).relu(), 0.3, self.training)
            total = total + h
        return self.leave(total / len(self.convs))


data = citations()
one_hot = F.one_hot(data.y, TOPICS).float()
model = Strong(FEATURES, 32, TOPICS)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(80):
    optimizer.zero_grad()
    # Half of the training labels are inputs, the other half is predicted; the halves change.
    shown = data.train & (torch.rand(PAPERS) < 0.5)
    asked = data.train & ~shown
    out = model(data.x, one_hot * shown.unsqueeze(1), data.edge_index)
    F.cross_entropy(out[asked], data.y[asked]).backward()
    optimizer.step()

# Labels are in the data, so that the label of a removed paper is removed too.
data.known = one_hot * data.train.unsqueeze(1)


def call(model: nn.Module, data: Data) -> Tensor:
    """How the model is called, with or without a paper."""
    return model(data.x, data.known, data.edge_index)


model.eval()
with torch.no_grad():
    predicted = call(model, data).argmax(dim=1)
right = int((predicted == data.y)[~data.train].float().mean() * 100)
print(f"Topics that are right, of papers whose label was not shown: {right}%\n")

# --- Whose removal changes the predictions for later papers? ---------------------------
later = (~data.train).nonzero().flatten()
scores = nora.influence(model, data, forward=call, targets=later, progress=False)
frame = scores.to_frame()
frame["label known"] = data.train.numpy()
print(f"Papers that later papers' predictions rest on ({scores.method}):")
print(frame.sort_values("rank").head(5).round(2).to_string(index=False), "\n")

# --- How much of that is the label, how much the rest? ----------------------------------
first = int(scores.top(1)["node"].iloc[0])
removed = nora.what_if(model, data, first, forward=call, targets=later).total
with torch.no_grad():
    unlabelled = data.clone()
    unlabelled.known[first] = 0
    change = call(model, unlabelled).softmax(dim=1) - call(model, data).softmax(dim=1)
only_label = float(change[~data.train].abs().sum())
print(f"Without paper {first}: {removed:.2f}. Without its label alone: {only_label:.2f}")
