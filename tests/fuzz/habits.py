"""How users hold things: state that a pass leaves behind, and layers wrapped in something else."""

from __future__ import annotations

from fuzz.layers import Piece
from fuzz.pieces import LINEAR, far, row


def kept(made: str) -> Piece:
    """A module of its own."""
    return Piece("h = self.m{i}(h)", f"self.m{{i}} = {made}")


STATE = {
    "keeps input": kept("KeepsInput()"),
    "first use": kept("FirstUse()"),
    "counts": kept("Counts()"),
    "uses count": kept("Counts(use=True)"),
    "history": kept("History()"),
    "cache by shape": kept("ByShape()"),
    "running mean": kept("RunningMean()"),
    "on self": row("self.before = h", "h = self.l{i}(h).tanh() + self.before", init=LINEAR),
    "flag on self": far(
        "if not hasattr(self, 'scale'):",
        "    self.scale = h.abs().mean() + 0.1",
        "h = h / self.scale",
    ),
    "writes data": Piece("data.hidden = h\nh = h + data.hidden.tanh()", data=True, row=True),
    "doubles data": Piece("data.x = 2 * data.x\nh = h + data.x", data=True, row=True),
    "writes into data": Piece("data.x.mul_(0.5)\nh = h + data.x", data=True, row=True),
    "writes weights": Piece("data.edge_weight.mul_(0.5)", data=True, row=True),
}

WRAPPED = {
    "closure": row("f = lambda v: self.l{i}(v).tanh()", "h = f(h) + f(h0)", init=LINEAR),
    "list of modules": row(
        "h = sum(m(h) for m in self.l{i})",
        init="self.l{i} = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])",
    ),
    "plain list": row(
        "for m in self.l{i}:", "    h = m(h)", init="self.l{i} = [torch.tanh, F.elu]"
    ),
    "dict of modules": row(
        'h = self.l{i}["b"](h) + self.l{i}["a"](h0)',
        init='self.l{i} = nn.ModuleDict({{"a": nn.Linear(8, 8), "b": nn.Linear(8, 8)}})',
    ),
    "hook": row(
        "h = self.l{i}(h)",
        init=LINEAR + "\nself.l{i}.register_forward_hook(lambda m, a, o: o.tanh() * 2)",
    ),
    "hook before": row(
        "h = self.l{i}(h)",
        init=LINEAR + "\nself.l{i}.register_forward_pre_hook(lambda m, a: (a[0] * 0.5,))",
    ),
    "hook on layer": far(
        "h = self.c{i}(h, edge_index)",
        init="self.c{i} = {0}(8, 8)\n"
        "self.c{i}.register_forward_hook(lambda m, a, o: o - o.mean(dim={1}, keepdim=True))",
        slots=(("SAGEConv", "GCNConv", "GATConv"), ("1", "0")),
    ),
    "checkpoint": row("h = checkpoint(self.l{i}, h, use_reentrant=False)", init=LINEAR),
    "checkpoint layer": far(
        "h = checkpoint(self.c{i}, h, edge_index, use_reentrant=False)",
        init="self.c{i} = {0}(8, 8)",
        slots=(("SAGEConv", "GCNConv", "GATConv"),),
    ),
    "twice": far(
        "h = self.c{i}(self.c{i}(h, edge_index).tanh(), edge_index)",
        init="self.c{i} = {0}(8, 8)",
        slots=(("SAGEConv", "GCNConv", "GATConv"),),
    ),
    "several kinds": far(
        "h = self.a{i}(h, edge_index) + self.b{i}(h, edge_index)",
        init="self.a{i} = {0}(8, 8)\nself.b{i} = {1}(8, 8)",
        slots=(("SAGEConv", "GCNConv"), ("GATConv", "GraphConv")),
    ),
    "parametrized": row(
        "h = self.l{i}(h)",
        init="self.l{i} = nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))",
    ),
    "scripted": row(
        "h = self.l{i}(h)",
        init="self.l{i} = torch.jit.script(nn.Sequential(nn.Linear(8, 8), nn.Tanh()))",
    ),
}
