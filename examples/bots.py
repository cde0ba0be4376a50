"""Bots in a social network, detected by relations: which accounts change the verdicts on others?

    python examples/bots.py

Detectors of social bots are often relational GCNs over accounts: some features of the
profile and of what it writes, and edges of two types (who follows whom, who reposts whom).
Here both are generated: people in communities, and bots that follow at random, repost one
another and look almost like people. Then we ask the trained detector: whose removal
would change most verdicts, and which bots hide others? Nothing is downloaded; it takes
seconds.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import RGCNConv

import nora

PEOPLE, BOTS, COMMUNITIES, FEATURES = 500, 100, 5, 12
FOLLOWS, REPOSTS = 0, 1
torch.manual_seed(0)


# --- Data: edge_type is the type of each edge. -------------------------------------
def ties(source: Tensor, target: Tensor, kind: int) -> tuple[Tensor, Tensor]:
    """Edges from each source to its target, and their type."""
    apart = source != target
    edges = torch.stack([source[apart], target[apart]])
    return edges, torch.full((edges.size(1),), kind)


def accounts() -> Data:
    """People follow and repost within their community; bots anyone, and one another."""
    people = torch.arange(PEOPLE)
    community = people % COMMUNITIES
    bots = torch.arange(PEOPLE, PEOPLE + BOTS)

    def some_people(of: Tensor) -> Tensor:
        return torch.randint(PEOPLE // COMMUNITIES, of.shape) * COMMUNITIES + of

    def any_of(group: Tensor, count: int) -> Tensor:
        return group[torch.randint(len(group), (count,))]

    parts = [
        ties(people.repeat(6), some_people(community.repeat(6)), FOLLOWS),
        ties(bots.repeat(10), any_of(people, 10 * BOTS), FOLLOWS),
        ties(any_of(people, 6 * BOTS), bots.repeat(6), FOLLOWS),  # some follow back
        ties(people.repeat(3), some_people(community.repeat(3)), REPOSTS),
        ties(any_of(people, 2 * BOTS), bots.repeat(2), REPOSTS),
        ties(bots.repeat(2), any_of(bots, 2 * BOTS), REPOSTS),
        ties(bots.repeat(3), any_of(people, 3 * BOTS), REPOSTS),  # to look like people
    ]
    y = torch.cat([torch.zeros(PEOPLE), torch.ones(BOTS)]).long()
    x = torch.randn(PEOPLE + BOTS, FEATURES)
    x[:, :2] += 1.5 * y.unsqueeze(1)  # what gives a bot away, with people in doubt
    return Data(
        x=x,
        y=y,
        edge_index=torch.cat([edges for edges, _ in parts], dim=1),
        edge_type=torch.cat([kinds for _, kinds in parts]),
        train=torch.rand(PEOPLE + BOTS) < 0.5,
    )


# --- The detector: edge_type is passed on because its forward names it. -------------
class Detector(nn.Module):
    """Two relational convolutions between linear layers."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.profile = nn.Linear(features, hidden)
        self.first = RGCNConv(hidden, hidden, num_relations=2)
        self.second = RGCNConv(hidden, hidden, num_relations=2)
        self.verdict = nn.Linear(hidden, 2)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        """Logits `[N, 2]`: a person, a bot."""
        h = F.leaky_relu(self.profile(x))
        h = F.dropout(self.first(h, edge_index, edge_type).relu(), 0.3, self.training)
        h = self.second(h, edge_index, edge_type).relu()
        return self.verdict(h)


data = accounts()
model = Detector(FEATURES, 24)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-3)
for _ in range(60):
    optimizer.zero_grad()
    out = model(data.x, data.edge_index, data.edge_type)
    F.cross_entropy(out[data.train], data.y[data.train]).backward()
    optimizer.step()

model.eval()
with torch.no_grad():
    verdict = model(data.x, data.edge_index, data.edge_type).argmax(dim=1)
hidden = ~data.train
right = int((verdict == data.y)[hidden].float().mean() * 100)
print(f"Verdicts that are right, of accounts whose label was not shown: {right}%\n")

# --- Whose removal would change most verdicts? --------------------------------------
session = nora.Session(model, data)
scores = session.influence(progress=False)
frame = scores.to_frame()
frame["bot"] = data.y.bool().numpy()
print(f"The most influential accounts ({scores.method}):")
print(frame.sort_values("rank").head(5).round(2).to_string(index=False), "\n")
mean = frame.groupby("bot")["influence"].mean()
print(f"Mean influence of a bot {mean[True]:.2f}, of a person {mean[False]:.2f}\n")

# --- Which accounts make others look like bots? Count only the probability of class 1. -
first = int(scores.top(1)["node"].iloc[0])
effect = session.what_if(first)
toward = effect.after[effect.counted, 1] - effect.before[effect.counted, 1]
print(
    f"Without account {first}, {int((toward < -0.01).sum())} accounts look less like bots and "
    f"{int((toward > 0.01).sum())} more; {len(effect.flips())} verdicts turn\n"
)

# --- Five to take down: those that change most together. ------------------------------
bots = data.y.nonzero().flatten()
group = session.best_group(size=5, candidates=bots, progress=False)
print(f"The five bots whose removal changes most together: {sorted(group.nodes)}")
