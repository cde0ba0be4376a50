"""The memory that a model takes on a large graph, extrapolated from two small ones: before any long work.

The peak grows with the graph: it is measured on a small graph with as many edges per node, and on one of
twice the size. Every tensor that an operation makes is counted until it is freed, in three kinds of work:

    training     forth and back, by sparse products where `nora.training.fixed_graph` knows the layers
    passing      one pass of the model as it is, which checking it and `exact` need
    explaining   one pass forth and back to the features, which NORA needs

PyG's layers make a message per edge: with `E` edges, `H` heads of width `C` they take `4 E H C` bytes,
several times over where attention weighs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch_geometric.data import Data

from nora.model.calling import default_forward
from nora.model.preserve import seeded
from nora.models import build_model
from nora.training.fixed_graph import fixed_graph

# Nodes of the small graph; the other has twice as many.
SMALL = 600
# What Python, torch and copies of the graph take, and the ratio of a process to what is counted: on 169,343
# nodes a process held at most 9.8 GB with a GCN and 11.7 GB with a GCNII, where 6.0 and 6.7 are counted.
PROCESS, INSIDE = 1.5e9, 1.5


@dataclass(frozen=True)
class Needs:
    """The most bytes held at a time, about, in each kind of work; see the module."""

    training: float
    passing: float
    explaining: float

    @property
    def most(self) -> float:
        """Of all of them."""
        return max(asdict(self).values())


def needs(
    model: str, sizes: dict[str, Any], channels: tuple[int, int], nodes: int, edges: int
) -> Needs:
    """Memory in bytes of a model of `build_model` on a graph with these numbers of nodes and edges.

    Args:
        model: Its name.
        sizes: Its sizes.
        channels: Numbers of features and of classes.
        nodes, edges: Of the graph.

    Example:
        >>> small, large = (needs("gcn", {}, (8, 3), n, 10 * n).passing for n in (10**5, 10**6))
        >>> large > 3 * small
        True
    """
    return Needs(*_peaks(model, tuple(sorted(sizes.items())), channels, nodes, edges))


@lru_cache(maxsize=64)
def _peaks(
    model: str,
    sizes: tuple[tuple[str, Any], ...],
    channels: tuple[int, int],
    nodes: int,
    edges: int,
) -> list[float]:
    found = []
    with seeded(0):
        network = build_model(model, *channels, **dict(sizes))
        graphs = [_graph(count, edges / max(nodes, 1), channels) for count in (SMALL, 2 * SMALL)]
        for work in (_training, _passing, _explaining):
            one, two = (_peak(partial(work, network, graph)) for graph in graphs)
            grown = one + (two - one) / SMALL * max(0, nodes - SMALL)
            found.append(PROCESS + INSIDE * grown)
    return found


def _graph(nodes: int, edges_per_node: float, channels: tuple[int, int]) -> Data:
    edges = torch.randint(nodes, (2, round(edges_per_node * nodes)))
    return Data(
        x=torch.randn(nodes, channels[0]),
        edge_index=edges,
        y=torch.randint(channels[1], (nodes,)),
    )


def _training(network: nn.Module, data: Data) -> None:
    with fixed_graph(network, data) as seen:
        network.train()
        F.cross_entropy(_output(network, seen), data.y).backward()
        network.zero_grad()


def _passing(network: nn.Module, data: Data) -> None:
    network.eval()
    with torch.no_grad():
        _output(network, data)


def _explaining(network: nn.Module, data: Data) -> None:
    network.eval()
    x = data.x.clone().requires_grad_()
    given = Data(x=x, edge_index=data.edge_index)
    torch.autograd.grad(_output(network, given).softmax(dim=-1).square().sum(), [x])


def _output(network: nn.Module, data: Data) -> Tensor:
    return default_forward(network, data)(network, data)


def _peak(work: Callable[[], None]) -> int:
    counter = _Counter()
    with counter:
        work()
    return counter.peak


class _Counter(TorchDispatchMode):
    """Counts the bytes of all tensors that operations have made and that are not freed.

    Attributes:
        peak: The most there were at a time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for one in tree_leaves(out):
            if isinstance(one, Tensor) and one.layout == torch.strided:
                storage = one.untyped_storage()
                self._alive[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self._alive = {key: one for key, one in self._alive.items() if not one[0].expired()}
        self.peak = max(self.peak, sum(size for _, size in self._alive.values()))
        return out
