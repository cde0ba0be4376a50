"""A network on a graph that does not change while it is trained.

Convolutions of PyG normalise, sort and scatter again in every pass, because the graph may be another one
each time. In training it never is. Inside `fixed_graph` a network's convolutions therefore are products
with sparse matrices that are made once, forth and back:

    GCNConv, GCN2Conv   Â (x W)                       Â the normalised adjacency
    SAGEConv            M (x W_l) + x W_r             M the mean over neighbours
    RGCNConv            Σ_t M_t (x W_t) + x W_0       M_t the mean over neighbours by edges of type t
    GATConv             A (x W)                       A the attention; see `nora.training.attention`

Features are mapped before they are summed, and where few of them are not zero the map is a sparse product
too, whatever the architecture. What the first layer gives is kept as long as its weights stay as they are:
a pass for validation and the next pass of training share it.
The weights, the state and the mathematics are the network's own; outside it is as it was.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN2Conv, GCNConv, RGCNConv, SAGEConv
from torch_geometric.nn.aggr import MeanAggregation
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.nn.dense.linear import Linear

from nora.model.calling import default_forward
from nora.model.preserve import evaluating
from nora.sparse import FixedMatrix, fixed_matrix, sparse_where_sparse
from nora.training.attention import FixedAttention, gat_forward, is_plain

FixedForward = Callable[..., Tensor]


@contextmanager
def fixed_graph(network: nn.Module, data: Data) -> Iterator[Data]:
    """Make `network` ready for `data`; yields the graph to give it, its features sparse where sparse.

    Args:
        network: Any network; convolutions that are not known here stay as they are, and where one of
            them takes the features first, these stay dense.
        data: The graph, with dense features `x` `[N, F]`.
    """
    seen = copy.copy(data)
    changed: list[tuple[nn.Module, str]] = []
    try:
        graph = _Graph(data, sparse_where_sparse(data.x))
        for module in network.modules():
            for name, value in graph.replacements(module).items():
                vars(module)[name] = value
                changed.append((module, name))
        seen.x = graph.x
        if graph.x is not data.x and not _runs(network, seen):
            seen.x = graph.x = data.x
        yield seen
    finally:
        for module, name in changed:
            vars(module).pop(name, None)
            if name == "_cached_edge_index":  # an attribute of the instance to begin with
                module._cached_edge_index = None  # type: ignore[assignment]


def _runs(network: nn.Module, data: Data) -> bool:
    """Whether the network can do with these features: tried."""
    try:
        with evaluating(network), torch.no_grad():
            default_forward(network, data)(network, data)
    except (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError):
        return False
    return True


class _Graph:
    """The matrices of one graph, made when they are first needed.

    Attributes:
        x: The features, `[N, F]`, dense or CSR.
    """

    def __init__(self, data: Data, x: Tensor) -> None:
        self.data, self.x = data, x
        self.num_nodes = int(data.num_nodes or 0)
        self._features: FixedMatrix | None = None
        self._made: dict[Any, Any] = {}
        self._memory: dict[int, tuple[tuple[Any, ...], Any]] = {}
        self._inside: set[int] = set()

    def replacements(self, module: nn.Module) -> dict[str, Any]:
        """The replacements of a module's attributes, by name.

        Asked of every module before those inside it, as `modules()` goes: what a convolution is made of
        need not remember what the convolution does.
        """
        kind = type(module)
        if kind in (Linear, nn.Linear):
            inner = id(module) in self._inside
            linear = self._linear(module)
            return {"forward": linear if inner else self._remembered(module, linear)}
        if kind in (GCNConv, GCN2Conv) and not module.cached and module.normalize:
            return self._gcn(module)
        mean = isinstance(getattr(module, "aggr_module", None), MeanAggregation)
        if isinstance(module, SAGEConv) and mean and not module.project and not module.normalize:
            return {"forward": self._remembered(module, self._sage(module))}
        if isinstance(module, RGCNConv) and mean and module.num_blocks is None:
            return {"forward": self._remembered(module, self._rgcn(module))}
        if is_plain(module):
            return {"forward": self._gat(module)}
        return {}

    def mapped(self, x: Tensor, weight: Tensor) -> Tensor:
        """`x @ weight` for a weight `[F, out]`; `x` dense, or the features themselves."""
        if x.layout == torch.strided:
            return x @ weight
        return self._matrix(x) @ weight

    def _matrix(self, x: Tensor) -> FixedMatrix:
        if x is not self.x:
            return FixedMatrix.of(x)
        if self._features is None:
            self._features = FixedMatrix.of(x)
        return self._features

    def _remembered(self, module: nn.Module, forward: FixedForward) -> FixedForward:
        """A layer on the features themselves gives the same until its weights change."""

        def remembering(x: Tensor, *more: Any, **named: Any) -> Tensor:
            if x is not self.x or named:
                return forward(x, *more, **named)
            state = (*((id(one), one._version) for one in module.parameters()), *map(id, more))
            before, out = self._memory.pop(id(module), ((), None))
            if out is None or before != state:
                with torch.enable_grad():  # for the pass of training that comes next
                    out = forward(x, *more, **named)
            if torch.is_grad_enabled():  # a graph can be gone back through once
                return out
            self._memory[id(module)] = state, out
            return out.detach()

        return remembering

    def _linear(self, module: Any) -> FixedForward:
        def forward(x: Tensor) -> Tensor:
            if x.layout == torch.strided:
                return F.linear(x, module.weight, module.bias)
            out = self.mapped(x, module.weight.t())
            return out if module.bias is None else out + module.bias

        return forward

    def _is_own(self, edge_index: Any) -> bool:
        return edge_index is self.data.edge_index

    def _gcn(self, conv: Any) -> dict[str, Any]:
        """The normalisation once, and a product for a scatter."""
        options = getattr(conv, "improved", False), conv.add_self_loops
        weight = self.data.get("edge_weight")
        if options not in self._made:
            index, norm = gcn_norm(self.data.edge_index, weight, self.num_nodes, *options)
            self._made[options] = index, norm, self._adjacency(index, norm)
        index, norm, matrix = self._made[options]
        own = type(conv).forward

        def forward(*given: Any, **named: Any) -> Tensor:
            edge_index, edge_weight = _edges_of(conv, given, named)
            fits = self._is_own(edge_index) and edge_weight is weight
            conv._cached_edge_index = (index, norm) if fits else None
            return own(conv, *given, **named)

        def propagate(edge_index: Tensor, x: Tensor, **named: Any) -> Tensor:
            if edge_index is index:
                return matrix @ x
            return type(conv).propagate(conv, edge_index, x=x, **named)

        self._inside |= {id(inner) for inner in conv.modules()}
        remembered = self._remembered(conv, forward) if type(conv) is GCNConv else forward
        return {"forward": remembered, "propagate": propagate, "_cached_edge_index": None}

    def _adjacency(self, index: Tensor, weight: Tensor) -> FixedMatrix:
        return fixed_matrix(index.flip(0), weight, (self.num_nodes, self.num_nodes))

    def _mean(self) -> FixedMatrix:
        if "mean" not in self._made:
            index = self.data.edge_index
            self._made["mean"] = self._adjacency(index, _shares(index[1], self.num_nodes))
        return self._made["mean"]

    def _sage(self, conv: Any) -> FixedForward:
        def forward(x: Any, edge_index: Any, size: Any = None) -> Tensor:
            if not isinstance(x, Tensor) or not self._is_own(edge_index) or size is not None:
                return type(conv).forward(conv, x, edge_index, size)
            out = self._mean() @ self.mapped(x, conv.lin_l.weight.t())
            if conv.lin_l.bias is not None:
                out = out + conv.lin_l.bias
            return out + self.mapped(x, conv.lin_r.weight.t()) if conv.root_weight else out

        return forward

    def _rgcn(self, conv: Any) -> FixedForward:
        def forward(x: Any, edge_index: Any, edge_type: Tensor | None = None) -> Tensor:
            fits = isinstance(x, Tensor) and x.is_floating_point() and self._is_own(edge_index)
            if not fits or edge_type is not self.data.get("edge_type"):
                return type(conv).forward(conv, x, edge_index, edge_type)
            senders, means = self._typed(conv.num_relations)
            if conv.num_bases is None:
                sent = [
                    self._sent(x, rows, one) for rows, one in zip(senders, conv.weight, strict=True)
                ]
            else:  # what all types share is mapped once, then mixed
                shared = torch.stack([self.mapped(x, one) for one in conv.weight], dim=1)
                sent = [
                    torch.einsum("b,nbo->no", mix, shared[rows])
                    for rows, mix in zip(senders, conv.comp, strict=True)
                ]
            out = means @ torch.cat(sent)
            if conv.root is not None:
                out = out + self.mapped(x, conv.root)
            return out if conv.bias is None else out + conv.bias

        return forward

    def _gat(self, conv: Any) -> FixedForward:
        key = "attention", conv.heads, conv.add_self_loops
        if key not in self._made:
            self._made[key] = FixedAttention(self.data.edge_index, self.num_nodes, *key[1:])
        attend = gat_forward(conv, self._made[key])

        def forward(x: Any, edge_index: Any, *more: Any, **named: Any) -> Any:
            plain = all(one is None for one in (*more, *named.values()))
            fits = isinstance(x, Tensor) and self._is_own(edge_index) and plain
            return attend(x) if fits else type(conv).forward(conv, x, edge_index, *more, **named)

        if conv.dropout:  # dropout is sampled again in every pass; the mapped rows are the same
            return forward
        self._inside |= {id(inner) for inner in conv.modules()}
        return self._remembered(conv, forward)

    def _typed(self, relations: int) -> tuple[list[Tensor], FixedMatrix]:
        """The senders by each type, and the means `[N, all senders]` over what they send."""
        key = "types", relations
        if key not in self._made:
            source, target = self.data.edge_index
            kind = self.data.get("edge_type")
            kind = torch.zeros_like(source) if kind is None else kind
            pair, row = (kind * self.num_nodes + source).unique(return_inverse=True)
            of = pair // max(1, self.num_nodes)
            senders = [pair[of == number] % self.num_nodes for number in range(relations)]
            shares = _shares(kind * self.num_nodes + target, relations * self.num_nodes)
            size = self.num_nodes, len(pair)
            self._made[key] = senders, fixed_matrix(torch.stack([target, row]), shares, size)
        return self._made[key]

    def _sent(self, x: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
        """The messages of some nodes, `[rows, out]`: mapped alone if they are few."""
        if 2 * len(rows) > self.num_nodes:
            return self.mapped(x, weight)[rows]
        if x.layout == torch.strided:
            return x[rows] @ weight
        key = "rows", id(rows)
        if key not in self._made:
            self._made[key] = self._matrix(x).rows(rows)
        return self._made[key] @ weight


def _shares(target: Tensor, size: int) -> Tensor:
    """The weight of each edge in a mean over the edges with the same target, `[E]`."""
    return 1 / target.bincount(minlength=size)[target].float()


def _edges_of(conv: Any, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any]:
    """`edge_index` and `edge_weight` of a call, wherever they stand."""
    at = 2 if isinstance(conv, GCN2Conv) else 1
    found = dict(zip(("edge_index", "edge_weight"), given[at:], strict=False)) | named
    return found.get("edge_index"), found.get("edge_weight")
