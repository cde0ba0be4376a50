"""Pairs of models, decoders and graphs that compute otherwise, however slightly."""

from __future__ import annotations

import functools
import types
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import (
    GATConv,
    GCNConv,
    SAGEConv,
    to_hetero,
)

from graphs import FEATURES, double
from networks import CLASSES
from nora.model.fingerprint import content_digest  # which knows how code and models are read
from nora.model.preserve import seeded


def code(text: str, **scope: Any) -> Any:
    """`made` from a piece of code, as a notebook would hold it."""
    scope = {"__name__": "__main__", "torch": torch, "nn": nn, "GCNConv": GCNConv, **scope}
    exec(compile(text, "<cell>", "exec"), scope)
    return scope["made"]


class Net(nn.Module):
    """One convolution, and an attribute of any kind that has a say in the output."""

    def __init__(self, **kept: Any) -> None:
        super().__init__()
        with seeded(0):
            self.conv = GCNConv(FEATURES, CLASSES)
        for name, value in kept.items():
            setattr(self, name, value)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index)


@dataclass
class Setting:
    scale: float
    act: Callable[[Tensor], Tensor] = torch.relu


class Slotted:
    __slots__ = ("scale",)

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def times(self, x: Tensor) -> Tensor:
        return x * self.scale


class Colour(Enum):
    RED = 1
    BLUE = 2


Point = namedtuple("Point", "a b")


def scaled(x: Any, k: int = 1, *, bias: float = 0.0) -> Any:
    return x * k + bias


def with_buffer(value: float, persistent: bool = False) -> Net:
    model = Net()
    model.register_buffer("scale", torch.tensor(value), persistent=persistent)
    return model


def hooked(hook: Any, how: str = "register_forward_hook", **more: Any) -> Net:
    model = Net()
    getattr(model.conv, how)(hook, **more)
    return model


class Wrapper:
    """A decorator with a setting of its own."""

    def __init__(self, function: Any, k: int) -> None:
        functools.update_wrapper(self, function)
        self.k = k

    def __call__(self, x: Any) -> Any:
        return self.__wrapped__(x) * self.k  # type: ignore[attr-defined]


def global_scale(value: int) -> Any:
    return code(f"SCALE = {value}\nmade = lambda z, p: z[p[0]].sum(-1) * SCALE")


def helper(operation: str) -> Any:
    """A function that calls another of its own module."""
    return code(f"def act(x): return x.{operation}()\nmade = lambda z, p: act(z[p[0]]).sum(-1)")


def settings_module(value: int) -> types.ModuleType:
    module = types.ModuleType("settings_of_mine")
    module.SCALE = value  # type: ignore[attr-defined]
    return module


def notebook_net(operation: str) -> nn.Module:
    text = f"""
class Mine(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv({FEATURES}, {CLASSES})
    def forward(self, x, edge_index):
        return self.conv(x, edge_index).{operation}()
made = Mine
"""
    with seeded(0):
        return code(text)()


def inherited(operation: str) -> nn.Module:
    text = f"""
class Base(nn.Module):
    def act(self, x): return x.{operation}()
class Mine(Base):
    def forward(self, x, edge_index): return self.act(x)
made = Mine
"""
    return code(text)()


def decorated(operation: str) -> nn.Module:
    text = f"""
class Mine(nn.Module):
    @torch.no_grad()
    def forward(self, x, edge_index): return x.{operation}()
made = Mine
"""
    return code(text)()


def typed(operation: str) -> nn.Module:
    kinds = (["a", "b"], [("a", "to", "b"), ("b", "to", "a")])
    text = f"""
class Mine(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = SAGEConv((4, 4), 4)
    def forward(self, x, edge_index):
        return self.conv(x, edge_index).{operation}()
made = Mine
"""
    with seeded(0):
        return to_hetero(code(text, SAGEConv=SAGEConv)(), kinds)


def parametrised(dim: int) -> nn.Module:
    with seeded(0):
        return nn.utils.parametrizations.weight_norm(nn.Linear(3, 3), dim=dim)


def moved(model: Net, by: float) -> Net:
    with torch.no_grad():
        model.conv.bias += by
    return model


def overridden(function: Any) -> Net:
    model = Net()
    model.forward = types.MethodType(function, model)  # type: ignore[method-assign]
    return model


def scripted(k: int) -> nn.Module:
    class Scripted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.k = k

        def forward(self, x: Tensor) -> Tensor:
            return x * self.k

    return torch.jit.script(Scripted())


MODELS_THAT_DIFFER = {
    "weights": (Net(), moved(Net(), 1e-6)),
    "precision": (Net(), Net().double()),
    "a function on it": (Net(act=torch.relu), Net(act=torch.tanh)),
    "a function of torch.nn.functional": (Net(act=nn.functional.relu), Net(act=nn.functional.elu)),
    "a method of tensors": (Net(act=Tensor.relu), Net(act=Tensor.tanh)),
    "functions in a list": (Net(acts=[torch.relu]), Net(acts=[torch.tanh])),
    "functions in a dict": (Net(acts={"a": torch.relu}), Net(acts={"a": torch.tanh})),
    "partial": (
        Net(act=functools.partial(scaled, k=1)),
        Net(act=functools.partial(scaled, k=5)),
    ),
    "partial's position": (
        Net(act=functools.partial(torch.add, 1)),
        Net(act=functools.partial(torch.add, 2)),
    ),
    "a decorator's setting": (Net(act=Wrapper(scaled, 1)), Net(act=Wrapper(scaled, 2))),
    "what is cached": (
        Net(act=functools.cache(lambda x: x)),
        Net(act=functools.cache(lambda x: -x)),
    ),
    "what numba compiles": (Net(act=numba.njit(lambda x: x)), Net(act=numba.njit(lambda x: -x))),
    "a dataclass": (Net(set=Setting(1.0)), Net(set=Setting(2.0))),
    "a function in a dataclass": (Net(set=Setting(1.0)), Net(set=Setting(1.0, torch.tanh))),
    "a nested object": (
        Net(set=types.SimpleNamespace(deep=[Setting(1.0)])),
        Net(set=types.SimpleNamespace(deep=[Setting(2.0)])),
    ),
    "slots": (Net(set=Slotted(1.0)), Net(set=Slotted(2.0))),
    "whose method": (Net(act=Slotted(1.0).times), Net(act=Slotted(2.0).times)),
    "which method": (Net(act=[].append), Net(act=[].extend)),
    "numpy": (Net(a=np.arange(3)), Net(a=np.arange(3)[::-1])),
    "dtype of numpy": (Net(a=np.zeros(2, "f4")), Net(a=np.zeros(2, "f8"))),
    "None and missing": (Net(act=None), Net()),
    "0 and False": (Net(a=0), Net(a=False)),
    "1 and 1.0": (Net(a=1), Net(a=1.0)),
    "list and tuple": (Net(a=[1]), Net(a=(1,))),
    "an enum": (Net(a=Colour.RED), Net(a=Colour.BLUE)),
    "a named tuple": (Net(a=Point(1, 2)), Net(a=Point(2, 1))),
    "a set": (Net(a={"x", "y"}), Net(a={"x", "z"})),
    "containers of the standard library": (Net(a=deque([1])), Net(a=deque([2]))),
    "order of a dict": (Net(a=OrderedDict(b=1, a=2)), Net(a=OrderedDict(a=2, b=1))),
    "dtype on it": (Net(a=torch.float32), Net(a=torch.float64)),
    "a plain tensor": (Net(a=torch.zeros(2)), Net(a=torch.ones(2))),
    "a sparse tensor": (Net(a=torch.eye(2).to_sparse()), Net(a=(2 * torch.eye(2)).to_sparse())),
    "a buffer that is not saved": (with_buffer(1.0), with_buffer(2.0)),
    "a graph on it": (Net(a=Data(num_nodes=2)), Net(a=Data(num_nodes=3))),
    "another class": (Net(a=GCNConv), Net(a=GATConv)),
    "a class of PyG": (Net(a=SAGEConv(3, 3, bias=False)), Net(a=GCNConv(3, 3, bias=False))),
    "a setting of PyG": (Net(a=GATConv(3, 4, heads=2)), Net(a=GATConv(3, 8, heads=1))),
    "an own _alpha": (Net(_alpha=0.1), Net(_alpha=0.2)),
    "a hook": (Net(), hooked(lambda m, a, out: out + 1)),
    "another hook": (hooked(lambda m, a, out: out + 1), hooked(lambda m, a, out: out + 2)),
    "a hook before": (
        hooked(lambda m, a: (a[0] + 1, *a[1:]), "register_forward_pre_hook"),
        hooked(lambda m, a: (a[0] + 2, *a[1:]), "register_forward_pre_hook"),
    ),
    "a hook with keywords": (
        hooked(lambda *a, **k: None),
        hooked(lambda *a, **k: None, with_kwargs=True),
    ),
    "a hook of PyG": (
        hooked(lambda m, a, out: out + 1, "register_message_forward_hook"),
        hooked(lambda m, a, out: out + 2, "register_message_forward_hook"),
    ),
    "forward of a class of the same name": (notebook_net("relu"), notebook_net("tanh")),
    "a method of the class above": (inherited("relu"), inherited("tanh")),
    "a decorated forward": (decorated("relu"), decorated("tanh")),
    "forward on the module": (
        overridden(lambda self, x, e: self.conv(x, e)),
        overridden(lambda self, x, e: self.conv(x, e) * 2),
    ),
    "to_hetero": (typed("relu"), typed("tanh")),
    "parametrised weights": (parametrised(0), parametrised(1)),
    "a scripted module": (scripted(2), scripted(3)),
    "order of layers": (
        nn.Sequential(nn.ReLU(), nn.Tanh()),
        nn.Sequential(nn.Tanh(), nn.ReLU()),
    ),
}


def bound(k: int) -> Any:
    inner = functools.partial(scaled, k=k)
    return lambda z, p: inner(z[p[0]]).sum(-1)


def inside(k: int) -> Any:
    return lambda z, p: (lambda x: x * k)(z[p[0]]).sum(-1)


DECODERS_THAT_DIFFER = {
    "names": (
        lambda z, p: z[p[0]].sum(-1).sigmoid(),
        lambda z, p: z[p[0]].sum(-1).tanh(),
    ),
    "constants": (lambda z, p: z[p[0]].sum(-1) * 2, lambda z, p: z[p[0]].sum(-1) * 3),
    "partial in a closure": (bound(1), bound(5)),
    "a value of the enclosing function": (inside(1), inside(5)),
    "an inner function": (
        lambda z, p: (lambda x: x.relu())(z[p[0]]).sum(-1),
        lambda z, p: (lambda x: x.tanh())(z[p[0]]).sum(-1),
    ),
    "a comprehension": (
        lambda z, p: sum(z[p[0]][:, i] * 2 for i in range(2)),
        lambda z, p: sum(z[p[0]][:, i] * 4 for i in range(2)),
    ),
    "a global value": (global_scale(3), global_scale(4)),
    "a function it calls": (helper("relu"), helper("tanh")),
    "a value of a module": (
        code("made = lambda z, p: z[p[0]].sum(-1) * s.SCALE", s=settings_module(1)),
        code("made = lambda z, p: z[p[0]].sum(-1) * s.SCALE", s=settings_module(2)),
    ),
    "defaults": (lambda z, p, k=1: z[p[0]].sum(-1) * k, lambda z, p, k=2: z[p[0]].sum(-1) * k),
    "keyword defaults": (
        lambda z, p, *, k=1: z[p[0]].sum(-1) * k,
        lambda z, p, *, k=2: z[p[0]].sum(-1) * k,
    ),
    "modules": (nn.Linear(2, 2), nn.Linear(2, 2)),
    "methods": (Slotted(1.0).times, Slotted(2.0).times),
}


def a_graph(**more: Any) -> Data:
    with seeded(0):
        return Data(x=torch.rand(4, FEATURES), edge_index=torch.tensor([[0, 1], [1, 2]]), **more)


def a_sparse_graph(weight: float, layout: torch.layout = torch.sparse_csr) -> Data:
    data = a_graph()
    adjacency = torch.sparse_coo_tensor(data.edge_index, torch.full((2,), weight), (4, 4))
    data.adj_t = adjacency if layout == torch.sparse_coo else adjacency.to_sparse_csr()
    return data


def typed_graph(sizes: tuple[int, int]) -> HeteroData:
    data = HeteroData()
    data["a"].num_nodes, data["b"].num_nodes = sizes
    data["a", "to", "b"].edge_index = torch.tensor([[0], [0]])
    return data


EDGES = torch.tensor([[0, 1], [1, 2]])
GRAPHS_THAT_DIFFER = {
    "features": (a_graph(), a_graph(edge_weight=torch.ones(2))),
    "precision": (a_graph(), double(a_graph())),
    "isolated nodes": (Data(edge_index=EDGES, num_nodes=3), Data(edge_index=EDGES, num_nodes=4)),
    "text": (a_graph(kind="a"), a_graph(kind="b")),
    "numbers": (a_graph(scale=1.0), a_graph(scale=2.0)),
    "a list": (a_graph(names=["a", "b"]), a_graph(names=["b", "a"])),
    "numpy": (a_graph(a=np.zeros(2)), a_graph(a=np.ones(2))),
    "sparse rows": (a_sparse_graph(1.0), a_sparse_graph(2.0)),
    "sparse entries": tuple(a_sparse_graph(w, torch.sparse_coo) for w in (1.0, 2.0)),
    "nodes of each type": (typed_graph((2, 3)), typed_graph((3, 2))),
}


def digests() -> list[str]:
    """Of everything above that does not hold random weights."""
    pairs = {**MODELS_THAT_DIFFER, **GRAPHS_THAT_DIFFER, **DECODERS_THAT_DIFFER}
    random = ("modules", "a class of PyG", "a setting of PyG")
    return [content_digest(pair[0]) for name, pair in pairs.items() if name not in random]
