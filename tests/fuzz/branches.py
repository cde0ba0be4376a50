"""Models whose Python branches on the size of a part of the graph, and models that keep structure.

Every one is written as people write it. `BRANCHES` are answered. `KEEPS` are refused, or answered
where what they keep is a cache that they make again.
"""

from __future__ import annotations

import functools
import math
import operator
import pickle
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction as Ratio
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

FEATURES, CLASSES, RELATIONS = 4, 3, 3


def relational(seed: int, nodes: int = 14, edges: int = 40) -> Data:
    """A random graph with types of edges; one node holds all edges of a type, two hold another's."""
    dice = torch.Generator().manual_seed(seed)
    pairs = torch.randint(nodes, (2, edges), generator=dice)
    kind = torch.randint(RELATIONS - 1, (edges,), generator=dice)
    holders = torch.randperm(nodes, generator=dice)[: 1 + seed % 2]
    mine = torch.isin(pairs, holders).any(dim=0)
    some = mine & (torch.rand(edges, generator=dice) < 0.6)
    kind[some] = RELATIONS - 1
    x = torch.randn(nodes, FEATURES, generator=dice, dtype=torch.double)
    flag = torch.rand(nodes, generator=dice) < 0.3
    return Data(x=x, edge_index=pairs, edge_type=kind, flag_mask=flag)


class Branching(nn.Module):
    """A convolution per relation, and a way to branch on how many edges or nodes there are."""

    def __init__(self, branch: Callable[..., Tensor], layer: type = SAGEConv) -> None:
        super().__init__()
        self.convs = nn.ModuleList(layer(FEATURES, CLASSES) for _ in range(RELATIONS))
        self.lin = nn.Linear(FEATURES, CLASSES)
        self.shift = nn.Parameter(torch.randn(CLASSES) * 3)
        self.branch = branch

    def forward(self, data: Data) -> Tensor:
        parts = [data.edge_index[:, data.edge_type == r] for r in range(RELATIONS)]
        return self.branch(self, data, parts)


def _all(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    return sum(
        (conv(data.x, part) for conv, part in zip(model.convs, parts, strict=True)),
        model.lin(data.x),
    )


def skip_empty(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    out = model.lin(data.x)
    for conv, part in zip(model.convs, parts, strict=True):
        if part.size(1) == 0:
            continue
        out = out + conv(data.x, part) + model.shift
    return out


def skip_by_len(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    out = model.lin(data.x)
    for conv, part in zip(model.convs, parts, strict=True):
        if not len(part[0]):
            continue
        out = out + conv(data.x, part) + model.shift
    return out


def list_of_parts(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    kept = [
        conv(data.x, part) + model.shift
        for conv, part in zip(model.convs, parts, strict=True)
        if part.numel()
    ]
    return model.lin(data.x) + torch.stack(kept).mean(dim=0) if kept else model.lin(data.x)


def guarded_mean(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    part, out = parts[-1], _all(model, data, parts)
    return out * model.lin(data.x[part[0]]).mean(dim=0) if part.shape[1] else out


def threshold(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    out = _all(model, data, parts)
    return out + model.shift if parts[-1].size(1) > 4 else out


def at_most(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    out = _all(model, data, parts)
    return out * (1 + min(5, parts[-1].size(1)))


def share(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    out = _all(model, data, parts)
    return out + model.shift if parts[-1].size(1) / data.edge_index.size(1) > 0.2 else out


def whole_half(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    out = _all(model, data, parts)
    return out + model.shift if int(0.5 * parts[-1].size(1)) >= 2 else out


def rounded_half(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    out = _all(model, data, parts)
    return out + model.shift if math.ceil(parts[-1].size(1) / 2) >= 2 else out


def squeezed(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    rows = data.x[parts[-1][0]].sum(dim=1, keepdim=True).squeeze()
    weight = rows.softmax(dim=0) if rows.dim() else rows * 7
    return _all(model, data, parts) * (1 + weight.sum())


def std_of_flagged(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    out = _all(model, data, parts)
    some = out[data.flag_mask]
    return out / (1 + some.std(dim=0)) if some.size(0) > 1 else out


def even_nodes(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    out = _all(model, data, parts)
    return out + model.shift if data.x.size(0) % 2 else out


def by_table(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    scale = {0: 1.0, 1: 2.0, 2: 3.0}.get(parts[-1].size(1), 4.0)
    return _all(model, data, parts) * scale


def types_present(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    out = model.lin(data.x)
    for relation in data.edge_type.unique().tolist():
        out = out + model.convs[relation](data.x, parts[relation]) + model.shift
    return out


def _half(count: int) -> float:
    return 0.5 * count


def _capped(limit: float, count: int) -> float:
    return min(limit, 0.5 * count)


def _fits(part: Tensor) -> bool:
    try:
        part.view(2, 2, -1)
    except RuntimeError:
        return False
    return True


def _looked_up(part: Tensor) -> bool:
    try:
        return bool([0, 0, 0, 0, 0][part.size(1)])
    except IndexError:
        return True


def _divided(part: Tensor) -> bool:
    try:
        return 1 / (part.size(1) - part.size(1) % 7) > 1
    except ZeroDivisionError:
        return True


def _matched(part: Tensor) -> bool:
    match part.size(1):
        case 3 | 4 | 5:
            return True
    return False


def _counted(part: Tensor) -> bool:
    count = 0
    while count < part.size(1) and count < 5:
        count += 1
    return count == 5


def _by_another_thread(part: Tensor) -> bool:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: part.size(1) > 4).result()


_measure, _at_most_ten = len, functools.partial(min, 10.0)
# Ways to ask how many edges a part has in which the number is computed with before it is compared.
SIZES: dict[str, Callable[[Tensor], Any]] = {
    "a float on the left": lambda part: 0.5 * part.size(1) > 2,
    "a helper of ours": lambda part: _half(part.size(1)) > 2,
    "a helper with a limit": lambda part: _capped(10.0, part.size(1)) > 2,
    "numel of a shape": lambda part: part.shape.numel() > 8,
    "a tensor of the shape": lambda part: int(torch.as_tensor(part.shape)[1]) > 4,
    "a tensor of a size": lambda part: bool(torch.tensor(part.size(1)) > 4),
    "a tensor of a third": lambda part: torch.tensor(part.size(1) // 3) > 1,
    "__len__": lambda part: part[0].__len__() > 4,
    "len by another name": lambda part: _measure(part[0]) > 4,
    "len of torch": lambda part: Tensor.__len__(part[0]) > 4,
    "mapped len": lambda part: max(map(_measure, part)) > 4,
    "a comprehension": lambda part: [0.5 * n for n in part.shape][1] > 2,
    "a comprehension of lengths": lambda part: sum(1.5 * len(row) for row in part) > 12,
    "partial": lambda part: _at_most_ten(part.size(1)) > 4,
    "the largest of both": lambda part: max(4.5, part.size(1)) > 4.5,
    "a logarithm": lambda part: math.log(1 + part.size(1)) > 1.7,
    "a square root": lambda part: math.sqrt(part.size(1)) > 2.1,
    "a whole root": lambda part: math.isqrt(part.size(1)) > 1,
    "a power": lambda part: math.pow(part.size(1), 2) > 20 or 2.0 ** part.size(1) > 20,
    "text": lambda part: f"{part.size(1)}" in "01234",
    "a key": lambda part: {0: 1, 1: 1, 2: 1, 3: 1}.get(part.size(1), 0),
    "a key of text": lambda part: {"0": 1, "1": 1, "2": 1}.get(str(part.size(1))) is None,
    "a set": lambda part: part.size(1) in {0, 1, 2, 3, 4},
    "a range": lambda part: len(range(0, part.size(1), 2)) > 2,
    "a loop over a range": lambda part: sum(1 for _ in range(part.size(1))) > 4,
    "repetition": lambda part: len([0] * part.size(1)) > 4,
    "repeated text": lambda part: len("a" * part.size(1)) > 4,
    "an array": lambda part: np.zeros(part.size(1)).sum() > 4,
    "an array of sizes": lambda part: np.array([part.size(1), 2]).max() > 4,
    "a number of NumPy": lambda part: np.float64(0.5) * part.size(1) > 2,
    "a function of NumPy": lambda part: np.maximum(part.size(1), 4) > 4,
    "a list of values": lambda part: len(part[0].tolist()) > 4,
    "a counted mask": lambda part: int((part[0] >= 0).sum()) > 4,
    "a sum": lambda part: (part[0] >= 0).sum().item() > 4,
    "bits": lambda part: part.size(1).bit_length() > 2 or part.size(1) & 4,
    "text by percent": lambda part: len("%s" % (10 ** part.size(1),)) > 5,  # noqa: UP031
    "divmod": lambda part: divmod(part.size(1), 3)[0] > 1 or divmod(9.5, 1 + part.size(1))[0] > 3,
    "decimal": lambda part: Decimal(part.size(1)) > 4,
    "a ratio": lambda part: Ratio(part.size(1), 3) > 1,
    "sorted": lambda part: sorted([part.size(1), 4.5])[0] == 4.5,
    "an enumeration": lambda part: sum(1 for _ in enumerate(part[0])) > 4,
    "zipped rows": lambda part: len(list(zip(part[0], part[1], strict=True))) > 4,
    "the size in bytes": lambda part: part.nbytes > 64,
    "a stride": lambda part: part.contiguous().stride(0) > 4,
    "a shape that fits": _fits,
    "an error of a list": _looked_up,
    "an error of arithmetic": _divided,
    "a match": _matched,
    "a while loop": _counted,
    "a slice of text": lambda part: "000001"[: part.size(1)].endswith("1"),
    "a slice of a list": lambda part: sum([0, 0, 0, 0, 1][: part.size(1)]),
    "an index": lambda part: operator.index(part.size(1)) > 4,
    "a truth value": lambda part: bool(part.size(1) // 5),
    "not a size": lambda part: not part.size(1) // 5,
    "a chosen number": lambda part: (4, part.size(1))[part.size(1) > 4] > 4,
    "attributes by name": lambda part: part.shape[-1] * 0.5 > 2,
    "equal shapes": lambda part: part.shape == (2, 5) or part.shape < (2, 4),
    "pickle": lambda part: pickle.loads(pickle.dumps(part.size(1))) > 4,
    "struct": lambda part: struct.unpack("i", struct.pack("i", part.size(1)))[0] > 4,
    "torch's largest": lambda part: torch.sym_max(part.size(1), 4) > 4,
    "torch's float": lambda part: torch.sym_float(part.size(1)) > 4.5,
    "a storage": lambda part: torch.empty(part.size(1)).storage().size() > 4,
    "text of a tensor": lambda part: len(repr(part)) > 60,
    "a broadcast shape": lambda part: torch.broadcast_shapes(part[0].shape, (1,))[0] * 0.5 > 2,
    "a shape as a tensor": lambda part: int(torch._shape_as_tensor(part)[1]) > 4,
    "an operation of ATen": lambda part: torch.ops.aten.sym_size.int(part, 1) > 4,
    "an offset": lambda part: part.contiguous()[1].storage_offset() > 4,
    "another thread": _by_another_thread,
    "a script": lambda part: _scripted(part.size(1)) > 2,
    "a scripted branch": lambda part: _scripted_branch(part) > 0,
}


@torch.jit.script
def _scripted(count: int) -> float:
    return 0.5 * count


@torch.jit.script
def _scripted_branch(part: Tensor) -> Tensor:
    if part.size(1) > 4:
        return torch.ones(1)
    return torch.zeros(1)


def _by_size(ask: Callable[[Tensor], Any]) -> Callable[..., Tensor]:
    def branch(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
        out = _all(model, data, parts)
        return out + model.shift if ask(parts[-1]) else out

    return branch


def scaled_by_third(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    return _all(model, data, parts) * (1 + parts[-1].size(1) // 7)


def written_third(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    return _all(model, data, parts) + torch.full((CLASSES,), 0.5 * (parts[-1].size(1) // 7))


def first_few(model: Branching, data: Data, parts: list[Tensor]) -> Tensor:
    out = _all(model, data, parts)
    return out + model.lin(data.x[parts[-1][0, : 1 + parts[-1].size(1) // 9]]).sum(dim=0)


BRANCHES = {
    **{
        function.__name__: function
        for function in (
            skip_empty, skip_by_len, list_of_parts, guarded_mean, threshold, at_most, share, whole_half,
            rounded_half, squeezed, std_of_flagged, even_nodes, by_table, types_present, scaled_by_third,
            written_third, first_few,
        )
    },
    **{name: _by_size(ask) for name, ask in SIZES.items()},
}  # fmt: skip


def _looped(keeps: Keeps, x: Tensor, *_: Any) -> Tensor:
    h = keeps.lin(x)
    out = h.clone()
    for source, target in keeps.pairs:
        out[target] = out[target] + h[source]
    return out


def _neighbours(keeps: Keeps, x: Tensor, *_: Any) -> Tensor:
    h = keeps.lin(x)
    around = [[s for s, t in keeps.pairs if t == node] for node in range(len(x))]
    return torch.stack([h[near].sum(0) if near else h[i] for i, near in enumerate(around)])


# Edges that are not tensors before the pass, or parameters.
ELSEWHERE: dict[str, Callable[..., Tensor]] = {
    "a list of pairs": lambda m, x, *_: m.conv(x, torch.tensor(m.pairs).t()),
    "a list beside the edges": lambda m, x, edges, _: (
        m.conv(x, edges) + 0.2 * m.conv(x, torch.tensor(m.pairs).t())
    ),
    "a few pairs in the code": lambda m, x, edges, _: m.conv(
        x, torch.cat([edges, torch.tensor([[0, 1], [3, 4]])], dim=1)
    ),
    "an array of NumPy": lambda m, x, *_: m.conv(x, torch.from_numpy(np.array(m.pairs).T.copy())),
    "SciPy in forward": lambda m, x, *_: m.lin(torch.from_numpy(m.scipy @ x.numpy())),
    "a frozen parameter": lambda m, x, edges, _: m.frozen @ m.lin(x) + m.conv(x, edges),
    "a normalised parameter": lambda m, x, edges, _: (
        (m.frozen / m.frozen.sum(1, keepdim=True).clamp(min=1)) @ m.lin(x) + m.conv(x, edges)
    ),
    "a loop over pairs": _looped,
    "lists of neighbours": _neighbours,
    "degrees of a global": lambda m, x, edges, _: (
        m.conv(x, edges) / m.kept["held"].sqrt().unsqueeze(1)
    ),
    "anchors": lambda m, x, edges, _: m.conv(x, edges) + m.lin(x[[0, 2, 3]].mean(dim=0)),
    "a list in data, by neighbour": lambda m, x, edges, data: m.conv(
        x, torch.tensor([[s, i] for i, near in data.around.items() for s in near]).t()
    ),
}


class Keeps(nn.Module):
    """A model that holds structure of its own."""

    def __init__(self, data: Data, how: str) -> None:
        super().__init__()
        self.conv, self.lin = SAGEConv(FEATURES, CLASSES), nn.Linear(FEATURES, CLASSES)
        self.how, self.cache, self.kept = how, None, {}
        n, (source, target) = data.num_nodes, data.edge_index
        self.edges = data.edge_index.clone()
        dense = torch.zeros(n, n, dtype=torch.double)
        dense[target, source] = 1.0
        self.register_buffer("adjacency", dense)
        self.matrix = self.adjacency.to_sparse_coo()
        self.pairs = data.edge_index.t().tolist()
        self.scipy = scipy.sparse.csr_matrix(dense.numpy())
        if "parameter" in how:
            self.frozen = nn.Parameter(dense.clone(), requires_grad=False)
        if "degrees" in how:
            self.kept["held"] = torch.bincount(target, minlength=n).clamp(min=1).double()

    def forward(self, data: Data) -> Tensor:
        x, edges = data.x, data.edge_index
        if self.how == "edges on the module":
            return self.conv(x, self.edges)
        if self.how == "a dense adjacency":
            return self.adjacency @ self.lin(x)
        if self.how == "a sparse adjacency":
            return torch.sparse.mm(self.matrix, self.lin(x)) + self.conv(x, edges)
        if self.how == "an odd name":
            return self.conv(x, edges) + self.conv(x, data.follows)
        if self.how == "an odd name in a list":
            return self.conv(x, edges) + self.conv(x, data.sets[0])
        if self.how in ELSEWHERE:
            return ELSEWHERE[self.how](self, x, edges, data)
        if self.how == "a cached adjacency":
            if self.cache is None:
                ones = torch.ones(edges.size(1), dtype=x.dtype)
                self.cache = torch.sparse_coo_tensor(edges.flip(0), ones, (len(x), len(x)))
            return torch.sparse.mm(self.cache, self.lin(x))
        if self.how == "a cached degree":
            if "degree" not in self.kept:
                self.kept["degree"] = torch.bincount(edges[1], minlength=len(x)).clamp(min=1)
            return self.conv(x / self.kept["degree"].unsqueeze(1), edges)
        raise AssertionError(self.how)


# How a model keeps structure, and whether it is answered all the same.
KEEPS = {
    "edges on the module": False,
    "a dense adjacency": False,
    "a sparse adjacency": False,
    "an odd name": False,
    "an odd name in a list": False,
    **dict.fromkeys(ELSEWHERE, False),
    "a cached adjacency": True,
    "a cached degree": True,
}
LAYERS = {"sage": SAGEConv, "gcn": GCNConv, "gat": GATConv}


def with_odd_names(data: Data) -> Data:
    """The graph with edges under names that do not say so."""
    new = data.clone()
    new.follows = data.edge_index.flip(0).clone()
    new.sets = [data.edge_index.flip(1).clone()]
    new.around = {node: [] for node in range(data.num_nodes)}
    for source, target in data.edge_index.t().tolist():
        new.around[target].append(source)
    return new
