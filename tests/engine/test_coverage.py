"""Models that are followed without a fallback, and right; the oracle is made by hand."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_self_loops, to_undirected

import by_hand
import nora
from untidy import CLASSES, FEATURES, graph


def followed(
    model: nn.Module,
    data: Data,
    call: Callable[[Any, Any], Tensor] | None = None,
    by_tape: bool = True,
    **options: Any,
) -> None:
    """It is followed, and every node's influence is the definition's."""
    model = model.eval()
    nodes = list(range(data.num_nodes))
    truth = by_hand.influence(model, data, nodes, call or by_hand.plain)
    with warnings.catch_warnings():
        warnings.simplefilter("error" if by_tape else "ignore", RuntimeWarning)
        found = nora.influence(model, data, "exact", forward=call, progress=False, **options)
    torch.testing.assert_close(found.scores, truth, rtol=1e-9, atol=1e-9)
    assert not by_tape or "fallback" not in found.details


class Two(nn.Module):
    """A convolution behind another one, so that changed rows meet changed neighbourhoods."""

    def __init__(self, conv: nn.Module, width: int = CLASSES, skip: bool = False) -> None:
        super().__init__()
        self.first, self.conv = pyg.GraphConv(FEATURES, FEATURES), conv
        self.end, self.skip = nn.Linear(width, CLASSES), skip

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None) -> Tensor:
        h = self.first(x, edge_index).tanh()
        more = (h.relu(),) if self.skip else ()
        extra = {} if edge_attr is None else {"edge_attr": edge_attr}
        return self.end(self.conv(h, *more, edge_index, **extra))


class Light(nn.Module):
    """LightGCN's propagation: the mean of the messages of each hop."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(pyg.LGConv() for _ in range(3))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out = x / 4
        for conv in self.convs:
            x = conv(x, edge_index)
            out = out + x / 4
        return out


class GPR(pyg.MessagePassing):
    """Generalised PageRank: learnt weights of each hop."""

    def __init__(self, hops: int = 4) -> None:
        super().__init__(aggr="add")
        self.temp = nn.Parameter(torch.randn(hops + 1))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edge_index, norm = gcn_norm(edge_index, None, x.size(0), dtype=x.dtype)
        hidden = x * self.temp[0]
        for k in range(len(self.temp) - 1):
            x = self.propagate(edge_index, x=x, norm=norm)
            hidden = hidden + self.temp[k + 1] * x
        return hidden

    def message(self, x_j: Tensor, norm: Tensor) -> Tensor:
        return norm.view(-1, 1) * x_j


class DNA(nn.Module):
    """Dynamic neighbourhood aggregation over all earlier layers."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(pyg.DNAConv(8, heads=2, groups=2) for _ in range(2))
        self.start = nn.Linear(FEATURES, 8)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        past = self.start(x).relu().view(-1, 1, 8)
        for conv in self.convs:
            past = torch.cat([past, conv(past, edge_index).relu().view(-1, 1, 8)], dim=1)
        return past[:, -1]


F_, C_ = FEATURES, CLASSES
CONVOLUTIONS: dict[str, Callable[[], nn.Module]] = {
    "arma": lambda: Two(pyg.ARMAConv(F_, C_, num_stacks=2, num_layers=2)),
    "cheb": lambda: Two(pyg.ChebConv(F_, C_, K=3)),
    "mixhop": lambda: Two(pyg.MixHopConv(F_, C_), 9),
    "lg": lambda: Two(pyg.LGConv(), F_),
    "ssg": lambda: Two(pyg.SSGConv(F_, C_, alpha=0.1, K=2)),
    "eg": lambda: Two(pyg.EGConv(F_, 4, num_heads=2, aggregators=["symnorm", "mean", "max"]), 4),
    "fa": lambda: Two(pyg.FAConv(F_), F_, skip=True),
    "gated": lambda: Two(pyg.GatedGraphConv(F_, num_layers=2), F_),
    "dir-gnn": lambda: Two(pyg.DirGNNConv(pyg.SAGEConv(F_, C_))),
    "dir-gnn-gcn": lambda: Two(pyg.DirGNNConv(pyg.GCNConv(F_, C_))),
    "dna": lambda: Two(DNA(), 8),
    "lightgcn": lambda: Two(Light(), F_),
    "gpr": lambda: Two(GPR(), F_),
    "against": lambda: Two(pyg.GCNConv(F_, C_, flow="target_to_source")),
}
ATTRIBUTED: dict[str, Callable[[], nn.Module]] = {
    "pdn": lambda: Two(pyg.PDNConv(F_, C_, edge_dim=4, hidden_channels=6)),
    "gatv2-edges": lambda: Two(pyg.GATv2Conv(F_, C_, edge_dim=4)),
    "gatv2-mean-loops": lambda: Two(pyg.GATv2Conv(F_, C_, heads=2, edge_dim=4), 2 * C_),
    "transformer-edges": lambda: Two(pyg.TransformerConv(F_, C_, edge_dim=4, beta=True)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name):
    torch.manual_seed(1)
    followed(CONVOLUTIONS[name]().double(), graph())


@pytest.mark.parametrize("name", ATTRIBUTED)
def test_convolutions_with_edge_features(name):
    torch.manual_seed(1)
    data = graph()
    data.edge_attr = torch.randn(30, 4).double()
    followed(ATTRIBUTED[name]().double(), data)


@pytest.mark.parametrize("backend", ["vectorised", "compiled"])
def test_both_backends_follow_them(backend):
    torch.manual_seed(1)
    for name in ("arma", "eg", "gated"):
        followed(CONVOLUTIONS[name]().double(), graph(), backend=backend)


class Hyper(nn.Module):
    """Two hypergraph convolutions; the edges lead from nodes to hyperedges."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = pyg.HypergraphConv(F_, 6), pyg.HypergraphConv(6, C_)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        return self.second(self.first(x, edges).relu(), edges)


def test_hypergraphs():
    torch.manual_seed(1)
    model = Hyper().double().eval()
    edges = torch.randint(12, (2, 26))
    x = torch.randn(12, F_).double()
    data = Data(x=x, edge_index=edges)

    with torch.no_grad():
        before = model(x, edges).softmax(-1)
        truth = []
        for node in range(12):
            left = torch.arange(12) != node
            kept = edges[:, (edges != node).all(dim=0)].clone()
            kept -= (kept > node).long()
            truth.append((model(x[left], kept).softmax(-1) - before[left]).abs().sum())
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = nora.influence(model, data, "exact", progress=False)
    torch.testing.assert_close(found.scores, torch.stack(truth), rtol=1e-9, atol=1e-9)


class Flipped(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index.flip(0))


class Masked(Two):
    """Loops are dropped, and edges against the numbering of a feature."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edge_index = edge_index[:, edge_index[0] != edge_index[1]]
        return super().forward(x, edge_index)


class MaskedByData(Two):
    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        return super().forward(x, edge_index[:, edge_type == 0]) + super().forward(
            x, edge_index[:, edge_type == 1]
        )


class WithLoops(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edge_index, _ = add_self_loops(edge_index, num_nodes=x.size(0))
        return super().forward(x, edge_index)


class BothWays(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, torch.cat([edge_index, edge_index.flip(0)], dim=1))


class SwappedRows(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        row, col = edge_index
        return super().forward(x, torch.stack([col, row]))


class NodeCount(Two):
    def forward(self, data: Data) -> Tensor:
        h = super().forward(data.x, data.edge_index)
        loops, _ = add_self_loops(data.edge_index, num_nodes=data.num_nodes)
        total = torch.zeros(data.num_nodes, C_, dtype=h.dtype)
        return h + total.index_add(0, loops[1], h[loops[0]])


@pytest.mark.parametrize(
    "kind", [Flipped, Masked, WithLoops, BothWays, SwappedRows], ids=lambda kind: kind.__name__
)
@pytest.mark.parametrize("conv", [pyg.GCNConv, pyg.SAGEConv, pyg.GATConv])
def test_edges_changed_in_forward(kind, conv):
    torch.manual_seed(1)
    followed(kind(conv(F_, C_)).double(), graph())


def test_edges_masked_by_their_type():
    torch.manual_seed(1)
    data = graph()
    data.edge_type = torch.randint(2, (30,))
    followed(MaskedByData(pyg.SAGEConv(F_, C_)).double(), data)


def test_the_number_of_nodes_read_from_the_data():
    torch.manual_seed(1)
    model = NodeCount(pyg.SAGEConv(F_, C_)).double()
    followed(model, graph(), lambda m, d: m(d))


class InContainers(nn.Module):
    """Modules where `nn.Module` does not look for them."""

    def __init__(self, how: str) -> None:
        super().__init__()
        first, second = pyg.SAGEConv(F_, 6).double(), pyg.GCNConv(6, C_).double()
        scale = torch.linspace(0.5, 1.5, 6).double()
        if how == "list":
            self.layers = [first, second]
            self.run = lambda x, e: self.layers[1](self.layers[0](x, e).relu() * scale, e)
        elif how == "dict":
            self.named = {"a": first, "b": [second]}
            self.run = lambda x, e: self.named["b"][0](self.named["a"](x, e).relu(), e)
        else:
            self.run = lambda x, e: second(first(x, e).relu() * scale, e)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.run(x, edge_index)


@pytest.mark.parametrize("how", ["list", "dict", "closure"])
def test_modules_in_containers(how):
    torch.manual_seed(1)
    followed(InContainers(how), graph())


class Tuple(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        h = self.first(x, edge_index).relu()
        return self.end(self.conv(h, edge_index)), h, {"aux": h.mean()}


def test_a_tuple_of_which_one_is_picked():
    torch.manual_seed(1)
    model = Tuple(pyg.GATConv(F_, C_)).double()
    followed(model, graph(), lambda m, d: m(d.x, d.edge_index)[0])


class Dead(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.first(x, edge_index).relu()
        self.conv(h, edge_index.flip(0))
        (h - h.mean(0)).sort(dim=0)
        return self.end(self.conv(h, edge_index))


def test_code_whose_result_is_not_used():
    torch.manual_seed(1)
    followed(Dead(pyg.SAGEConv(F_, C_)).double(), graph())


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(C_, 7), nn.Linear(7, C_)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(F.elu(self.a(x)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_scripted_part():
    torch.manual_seed(1)
    model = Two(pyg.SAGEConv(F_, C_)).double()
    model.end = torch.jit.script(Head().double())
    followed(model, graph())


def test_hooks_on_a_layer():
    torch.manual_seed(1)
    for conv in (pyg.GCNConv(F_, C_), pyg.SAGEConv(F_, C_)):
        model = Two(conv).double()
        model.conv.register_forward_hook(lambda module, args, out: out.tanh() * 2)
        model.first.register_forward_pre_hook(lambda module, args: (args[0] * 3, *args[1:]))
        followed(model, graph())


class Checkpointed(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = checkpoint(self.first, x, edge_index, use_reentrant=False).relu()
        return self.end(checkpoint(self.conv, h, edge_index, use_reentrant=False))


def test_checkpointing():
    torch.manual_seed(1)
    followed(Checkpointed(pyg.SAGEConv(F_, C_)).double(), graph())


class Median(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.SAGEConv(F_, C_, aggr="median")

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index)


def test_median_aggregation():
    """PyG's median wants sorted edges, and the last node to have one, whichever is removed."""
    torch.manual_seed(1)
    ring = torch.arange(14)
    ends = torch.cat([torch.stack([ring, (ring + k) % 14]) for k in (1, 2, 5)], dim=1)
    edges = to_undirected(ends)
    edges = edges[:, edges[1].argsort(stable=True)]
    data = graph()
    data.edge_index = edges
    followed(Median().double(), data)


class Virtual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(F_, F_)

    def forward(self, h: Tensor) -> Tensor:
        return h + self.mix(h.sum(dim=0, keepdim=True)).relu()


class Mean(nn.Module):
    def forward(self, h: Tensor) -> Tensor:
        pooled = pyg.global_mean_pool(h, torch.zeros(len(h), dtype=torch.long))
        return torch.cat([h[:, :2], pooled.expand(len(h), -1)[:, :3]], dim=1)


class Around(nn.Module):
    def __init__(self, between: nn.Module) -> None:
        super().__init__()
        self.first, self.between = pyg.SAGEConv(F_, F_), between
        self.second = pyg.SAGEConv(F_, C_)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.between(self.first(x, edge_index)), edge_index)


@pytest.mark.parametrize(
    "between",
    [lambda: pyg.GraphNorm(F_), pyg.PairNorm, lambda: pyg.LayerNorm(F_), Virtual, Mean],
    ids=["graph-norm", "pair-norm", "layer-norm", "virtual", "mean"],
)
def test_global_statistics(between):
    torch.manual_seed(1)
    followed(Around(between()).double(), graph())


@pytest.mark.parametrize(
    ("dtype", "close"), [(torch.bfloat16, 0.1), (torch.half, 0.02), (torch.float, 1e-4)]
)
def test_models_in_their_own_precision(dtype, close):
    torch.manual_seed(1)
    data = graph()
    data.x = data.x.to(dtype)
    model = Two(pyg.SAGEConv(F_, C_)).to(dtype)
    truth = by_hand.influence(model, data, range(14), predict=lambda z: z.float().softmax(-1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = nora.influence(model, data, "exact", progress=False)
    assert "fallback" not in found.details
    assert (found.scores - truth).abs().max() <= close
