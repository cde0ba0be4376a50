"""Models of nodes of the shape of PyG's own examples, in our words."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_remaining_self_loops, degree

IN, OUT, MID = 4, 3, 8
DEGREES = torch.tensor([0, 3, 2, 1])


class Net(nn.Module):
    """Two convolutions with dropout before and an activation between them."""

    def __init__(self, first: nn.Module, second: nn.Module, act: Any = F.relu) -> None:
        super().__init__()
        self.conv1, self.conv2, self.act = first, second, act

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = F.dropout(x, p=0.6, training=self.training)
        x = self.act(self.conv1(x, edge_index))
        x = F.dropout(x, p=0.6, training=self.training)
        return self.conv2(x, edge_index)


class Cached(nn.Module):
    """One linear propagation, and the log-softmax at its end."""

    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return F.log_softmax(self.conv(x, edge_index), dim=1)


class Predicted(nn.Module):
    """Predict, then propagate."""

    def __init__(self, prop: nn.Module) -> None:
        super().__init__()
        self.lin1, self.lin2, self.prop = nn.Linear(IN, MID), nn.Linear(MID, OUT), prop

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.lin2(F.dropout(self.lin1(x).relu(), training=self.training))
        return self.prop(x, edge_index)


class GIN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList()
        for width in (IN, MID):
            mlp = nn.Sequential(
                nn.Linear(width, MID), nn.BatchNorm1d(MID), nn.ReLU(inplace=True),
                nn.Linear(MID, MID), nn.ReLU(inplace=True),
            )  # fmt: skip
            self.convs.append(pyg.GINConv(mlp, train_eps=True))
        self.out = nn.Linear(MID, OUT)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for conv in self.convs:
            x = conv(x, edge_index)
        return self.out(x)


class GCNII(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lins = nn.ModuleList([nn.Linear(IN, MID), nn.Linear(MID, OUT)])
        self.convs = nn.ModuleList(
            pyg.GCN2Conv(MID, 0.1, 0.5, layer + 1, shared_weights=True) for layer in range(3)
        )

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = x_0 = self.lins[0](x).relu()
        for conv in self.convs:
            x = conv(x, x_0, edge_index).relu()
        return self.lins[1](x)


class DNA(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin1, self.lin2 = nn.Linear(IN, MID), nn.Linear(MID, OUT)
        self.convs = nn.ModuleList(pyg.DNAConv(MID, 2, 2) for _ in range(2))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        past = F.relu(self.lin1(x)).view(-1, 1, MID)
        for conv in self.convs:
            x = F.relu(conv(past, edge_index)).view(-1, 1, MID)
            past = torch.cat([past, x], dim=1)
        return self.lin2(past[:, -1])


class Jumping(nn.Module):
    def __init__(self, mode: str) -> None:
        super().__init__()
        self.convs = nn.ModuleList([pyg.GCNConv(IN, MID), pyg.GCNConv(MID, MID)])
        self.jump = pyg.JumpingKnowledge(mode, MID, 2)
        self.lin = nn.Linear(2 * MID if mode == "cat" else MID, OUT)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        xs = []
        for conv in self.convs:
            x = conv(x, edge_index).relu()
            xs += [x]
        return self.lin(self.jump(xs))


class MixHop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = pyg.MixHopConv(IN, MID, powers=[0, 1, 2])
        self.norm, self.conv2 = nn.BatchNorm1d(3 * MID), pyg.MixHopConv(3 * MID, MID)
        self.lin = nn.Linear(3 * MID, OUT)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.lin(self.conv2(self.norm(self.conv1(x, edge_index)), edge_index))


class AGNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin1, self.lin2 = nn.Linear(IN, MID), nn.Linear(MID, OUT)
        self.prop1, self.prop2 = pyg.AGNNConv(requires_grad=False), pyg.AGNNConv()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = F.relu(self.lin1(x))
        return self.lin2(self.prop2(self.prop1(x, edge_index), edge_index))


class PNA(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        names = ["mean", "min", "max", "std"], ["identity", "amplification", "attenuation"]
        self.conv = pyg.PNAConv(IN, MID, *names, deg=DEGREES, towers=2, divide_input=True)
        self.norm, self.lin = pyg.BatchNorm(MID), nn.Linear(MID, OUT)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.lin(self.norm(self.conv(x, edge_index)).relu())


class GeniePath(nn.Module):
    """Breadth by attention, depth by an LSTM over layers."""

    def __init__(self) -> None:
        super().__init__()
        self.lin1, self.lin2 = nn.Linear(IN, MID), nn.Linear(MID, OUT)
        self.breadth = nn.ModuleList(pyg.GATConv(MID, MID) for _ in range(2))
        self.depth = nn.ModuleList(nn.LSTM(MID, MID, 1, bias=False) for _ in range(2))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.lin1(x)
        h = torch.zeros(1, x.shape[0], MID, dtype=x.dtype)
        c = torch.zeros(1, x.shape[0], MID, dtype=x.dtype)
        for breadth, depth in zip(self.breadth, self.depth, strict=True):
            x = torch.tanh(breadth(x, edge_index))[None, :]
            x, (h, c) = depth(x, (h, c))
            x = x[0]
        return self.lin2(x)


class Blocks(nn.Module):
    """Residual blocks with normalisation, as in deep networks for proteins."""

    def __init__(self) -> None:
        super().__init__()
        self.start, self.out = nn.Linear(IN, MID), nn.Linear(MID, OUT)
        self.layers = nn.ModuleList(
            pyg.DeepGCNLayer(
                pyg.GENConv(MID, MID, aggr="softmax", t=1.0, learn_t=True, num_layers=2),
                nn.LayerNorm(MID), nn.ReLU(inplace=True), block="res+", dropout=0.1,
            )
            for _ in range(2)
        )  # fmt: skip

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.start(x)
        x = self.layers[0].conv(x, edge_index)
        for layer in self.layers[1:]:
            x = layer(x, edge_index)
        return self.out(self.layers[0].act(self.layers[0].norm(x)))


class Skips(nn.Module):
    """Attention with linear skips, as for proteins."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.lin1 = pyg.GATConv(IN, 4, heads=2), nn.Linear(IN, 8)
        self.conv2, self.lin2 = pyg.GATConv(8, OUT, heads=3, concat=False), nn.Linear(8, OUT)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = F.elu(self.conv1(x, edge_index) + self.lin1(x))
        return self.conv2(x, edge_index) + self.lin2(x)


class Shared(nn.Module):
    """A list of convolutions with batch norms, as for `ogbn-arxiv`."""

    def __init__(self) -> None:
        super().__init__()
        widths = [IN, MID, MID, OUT]
        self.convs = nn.ModuleList(pyg.SAGEConv(a, b) for a, b in pairwise(widths))
        self.bns = nn.ModuleList(nn.BatchNorm1d(MID) for _ in range(2))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for at, conv in enumerate(self.convs):
            x = conv(x, edge_index)
            if at + 1 < len(self.convs):
                x = F.dropout(self.bns[at](x).relu_(), training=self.training)
        return x.log_softmax(dim=-1)


class EGC(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Linear(IN, MID)
        aggregators = ["sum", "mean", "max"]
        self.convs = nn.ModuleList(pyg.EGConv(MID, MID, aggregators, 4, 2) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm1d(MID) for _ in range(2))
        self.out = nn.Linear(MID, OUT)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.start(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + norm(conv(x, edge_index)).relu_()
        return self.out(x)


class GPR(pyg.MessagePassing):
    def __init__(self) -> None:
        super().__init__(aggr="add")
        self.temp = nn.Parameter(0.1 * 0.9 ** torch.arange(5))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edge_index, norm = gcn_norm(edge_index, None, num_nodes=x.size(0), dtype=x.dtype)
        hidden = x * self.temp[0]
        for k in range(4):
            x = self.propagate(edge_index, x=x, norm=norm)
            hidden = hidden + self.temp[k + 1] * x
        return hidden

    def message(self, x_j: Tensor, norm: Tensor) -> Tensor:
        return norm.view(-1, 1) * x_j


class Tutorial(pyg.MessagePassing):
    """The convolution that PyG's tutorial builds."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(aggr="add")
        self.lin, self.bias = nn.Linear(a, b, bias=False), nn.Parameter(torch.ones(b))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edge_index, _ = add_remaining_self_loops(edge_index, num_nodes=x.size(0))
        x = self.lin(x)
        row, col = edge_index
        deg = degree(col, x.size(0), dtype=x.dtype)
        scale = deg.pow(-0.5)
        scale[scale == float("inf")] = 0
        return self.propagate(edge_index, x=x, norm=scale[row] * scale[col]) + self.bias

    def message(self, x_j: Tensor, norm: Tensor) -> Tensor:
        return norm.view(-1, 1) * x_j


class Edges(pyg.MessagePassing):
    """The tutorial's other convolution: a network of both ends, and the largest of it."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(aggr="max")
        self.mlp = nn.Sequential(nn.Linear(2 * a, b), nn.ReLU(), nn.Linear(b, b))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x)

    def message(self, x_i: Tensor, x_j: Tensor) -> Tensor:
        return self.mlp(torch.cat([x_i, x_j - x_i], dim=1))


class Spread(nn.Module):
    """Label propagation, with what each node itself says mixed in and bounds kept."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Linear(IN, OUT)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out = caught = self.start(x).softmax(dim=-1)
        row, col = edge_index
        deg = degree(col, x.size(0), dtype=x.dtype).clamp(min=1)
        for _ in range(3):
            received = torch.zeros_like(out).index_add_(0, col, out[row] / deg[col].unsqueeze(1))
            out = (0.8 * received + 0.2 * caught).clamp_(0, 1)
        return 4 * out


class Light(nn.Module):
    """LightGCN over given features."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(IN, MID)
        self.convs = nn.ModuleList(pyg.LGConv() for _ in range(2))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out = [self.lin(x)]
        for conv in self.convs:
            out.append(conv(out[-1], edge_index))
        return torch.stack(out, dim=1).mean(dim=1)[:, :OUT]


class Relations(nn.Module):
    """Two layers of a relational convolution."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.conv1, self.conv2 = first, second

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        x = F.relu(self.conv1(x, edge_index, edge_type))
        return F.log_softmax(self.conv2(x, edge_index, edge_type), dim=-1)


class Weighted(nn.Module):
    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.conv1, self.conv2 = first, second

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        return self.conv2(self.conv1(x, edge_index, edge_weight).relu(), edge_index, edge_weight)


class LINKX(nn.Module):
    """The wrapped zoo model, whose weights go by node id."""

    def __init__(self) -> None:
        super().__init__()
        self.model = pyg.LINKX(6, IN, MID, OUT, num_layers=1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.model(x, edge_index)


def pair(kind: Callable[..., nn.Module], **options: Any) -> Net:
    return Net(kind(IN, MID, **options), kind(MID, OUT, **options))


NODES: dict[str, Callable[[], nn.Module]] = {
    "gcn": lambda: pair(pyg.GCNConv),
    "gat": lambda: Net(pyg.GATConv(IN, 4, heads=2), pyg.GATConv(8, OUT, concat=False), F.elu),
    "gatv2": lambda: Net(pyg.GATv2Conv(IN, 4, heads=2), pyg.GATv2Conv(8, OUT), F.elu),
    "transformer": lambda: pair(pyg.TransformerConv),
    "sage": lambda: pair(pyg.SAGEConv),
    "sage-max": lambda: pair(pyg.SAGEConv, aggr="max", project=True),
    "arma": lambda: pair(pyg.ARMAConv, num_stacks=2, num_layers=2, shared_weights=True),
    "cheb": lambda: pair(pyg.ChebConv, K=2),
    "tagcn": lambda: pair(pyg.TAGConv),
    "super-gat": lambda: Net(
        pyg.SuperGATConv(IN, 4, heads=2, attention_type="MX", is_undirected=True),
        pyg.SuperGATConv(8, OUT, attention_type="SD"),
    ),
    "film": lambda: pair(pyg.FiLMConv),
    "dir-gnn": lambda: Net(
        pyg.DirGNNConv(pyg.GCNConv(IN, MID)), pyg.DirGNNConv(pyg.GCNConv(MID, OUT))
    ),
    "cluster-gcn": lambda: pair(pyg.ClusterGCNConv),
    "le": lambda: pair(pyg.LEConv),
    "res-gated": lambda: pair(pyg.ResGatedGraphConv),
    "tutorial-gcn": lambda: pair(Tutorial),
    "tutorial-edges": lambda: pair(Edges),
    "sgc": lambda: Cached(pyg.SGConv(IN, OUT, K=2)),
    "ssgc": lambda: Cached(pyg.SSGConv(IN, OUT, alpha=0.05, K=4)),
    "appnp": lambda: Predicted(pyg.APPNP(K=4, alpha=0.1)),
    "gpr": lambda: Predicted(GPR()),
    "gin": GIN,
    "gcnii": GCNII,
    "dna": DNA,
    "jk-cat": lambda: Jumping("cat"),
    "jk-max": lambda: Jumping("max"),
    "jk-lstm": lambda: Jumping("lstm"),
    "mixhop": MixHop,
    "agnn": AGNN,
    "pna": PNA,
    "geniepath": GeniePath,
    "deep-gcn": Blocks,
    "gat-skips": Skips,
    "arxiv-sage": Shared,
    "egc": EGC,
    "label-spreading": Spread,
    "lightgcn": Light,
    "linkx": LINKX,
}
RELATIONAL: dict[str, Callable[[], nn.Module]] = {
    "rgcn": lambda: Relations(pyg.RGCNConv(IN, MID, 2, num_bases=2), pyg.RGCNConv(MID, OUT, 2)),
    "rgat": lambda: Relations(pyg.RGATConv(IN, MID, 2), pyg.RGATConv(MID, OUT, 2)),
    "film-typed": lambda: Relations(
        pyg.FiLMConv(IN, MID, num_relations=2), pyg.FiLMConv(MID, OUT, num_relations=2)
    ),
}
WEIGHTED: dict[str, Callable[[], nn.Module]] = {
    "gcn-weighted": lambda: Weighted(pyg.GCNConv(IN, MID), pyg.GCNConv(MID, OUT)),
    "graph-conv-weighted": lambda: Weighted(pyg.GraphConv(IN, MID), pyg.GraphConv(MID, OUT)),
}
