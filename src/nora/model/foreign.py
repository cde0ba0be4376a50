"""Structure that a removal would leave as it is: edges from outside of `data`, caches, odd names."""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from nora.graph.edge_sets import graph_edges, node_counts, with_plain_edges
from nora.model.input_watcher import (
    REMEDY,
    InputWatcher,
    PassInput,
    Unwatched,
    Use,
    holder_of,
    tensors_in,
)
from nora.model.precomputed import Structure
from nora.model.preserve import Cache

if TYPE_CHECKING:
    from nora.model.problem import Problem

# `(model, data) -> output`.
ModelCall = Callable[[nn.Module, Any], Any]
_PACKAGE = Path(__file__).parents[1]
# A matrix of more nodes is not looked through; fewer pairs may be edges by chance.
MOST_DENSE, FEWEST_EDGES = 20_000, 4
# Which share of a tensor's pairs must be edges of the graph for it to hold them.
MOST_OF_THEM = 0.9


def watched(problem: Problem, call: ModelCall | None = None) -> tuple[Any, InputWatcher]:
    """The model's output on `G`, and what the pass has read.

    Args:
        problem: The question.
        call: How to call the model, at first; where that fails, it is called as always.
    """
    given = problem.asked(problem.data, problem.task)
    plain = with_plain_edges(given)
    if call is not None:
        try:
            return _watched(problem, plain, call)
        except Exception:  # the same error comes again if it is the model's
            pass
    try:
        return _watched(problem, plain, problem.call)
    except Exception:  # a model may want the methods of an `EdgeIndex`, which cannot be watched
        if plain is given:
            raise
    return problem.run(given), Unwatched(given, problem.model)


def _watched(problem: Problem, data: Any, call: ModelCall) -> tuple[Any, InputWatcher]:
    made: list[InputWatcher] = []

    def watched_call(model: nn.Module, data: Any) -> Any:
        made.append(InputWatcher(data, model))
        with made[0]:
            found = call(model, data)
        made[0].finish(found)
        return found

    return problem.passes.run(watched_call, problem.model, data, *problem.decoders), made[0]


def clear_misfits(problem: Problem) -> bool:
    """If the model does not run, clear cached attributes that it makes again when they are missing.

    Returns:
        Whether there is anything of the kind, so that another try is worth it.
    """
    for module in problem.model.modules():
        for name, value in vars(module).items():
            holds = any(True for _ in tensors_in(name, value))
            if holds and not name.startswith("_"):
                found = _without(problem, module, name)
                problem.passes.caches += [] if found is None else [found[0]]
    return bool(problem.passes.caches)


def clear_caches(problem: Problem, output: Tensor, reading: InputWatcher) -> InputWatcher:
    """Have passes start without what earlier ones left on the model; what a pass reads then.

    What a pass reads from a module, or may assign to it, is a cache if the model makes it again where it is
    missing. If it then predicts otherwise, a value that does not depend on the size of the graph is kept: it
    may be a statistic of the training data.

    Raises:
        ValueError: When the model predicts otherwise without it: it was computed on another graph.
    """
    held: dict[str, tuple[nn.Module, str, bool]] = {}
    ids = [use.source for use in reading.uses]
    for source in reading.sources:
        owner = None if source.name else holder_of(source.tensor, problem.model)
        if owner is not None:
            of_graph = source in ids or _has_graph_size(problem, source.tensor)
            if of_graph or owner[1] in vars(owner[0]):
                held[owner[2]] = (owner[0], owner[1], of_graph)
    for prefix, module in problem.model.named_modules():
        for name in _assigned(type(module)) & vars(module).keys():
            if vars(module)[name] is not None:
                held.setdefault(f"{prefix}.{name}".removeprefix("."), (module, name, False))
    for path, (module, name, of_graph) in held.items():
        found = _without(problem, module, name)
        if found is None:
            continue
        cache, again = found
        if again.shape != output.shape or not torch.allclose(
            again, output, rtol=1e-3, atol=1e-4, equal_nan=True
        ):
            if not of_graph:
                continue
            raise ValueError(
                f"the model keeps {path} from an earlier pass, over another graph: computed again for "
                f"this one it gives other predictions. Clear it first (model.{path} = None)"
            )
        problem.passes.caches.append(cache)
    return watched(problem)[1] if problem.passes.caches else reading


def _assigned(kind: type) -> set[str]:
    """Names of attributes that methods of a model's class assign, `__init__` and libraries apart."""
    names = set()
    for cls in kind.__mro__:
        file = getattr(sys.modules.get(cls.__module__), "__file__", None) or ""
        if cls is object or "site-packages" in file or file.startswith(str(_PACKAGE)):
            continue
        for name, value in vars(cls).items():
            if isinstance(value, cached_property):
                names.add(name)
            method = getattr(value, "func", getattr(value, "fget", value))
            code = getattr(inspect.unwrap(method), "__code__", None) if callable(method) else None
            if code is not None and name != "__init__":
                steps = dis.get_instructions(code)
                names |= {step.argval for step in steps if step.opname == "STORE_ATTR"}
    return names


def _has_graph_size(problem: Problem, tensor: Tensor) -> bool:
    """Whether a tensor has as many rows or columns as there are nodes or edges of some type."""
    sizes = set(node_counts(problem.data).values())
    for store in problem.data.stores:
        edges = graph_edges(store)
        sizes |= set() if edges is None else {edges.size(1)}
    return tensor.layout != torch.strided or bool((sizes - {0, 1}) & set(tensor.shape))


def _without(problem: Problem, module: nn.Module, name: str) -> tuple[Cache, Tensor] | None:
    """The attribute as a cache, and the output of a pass without it, if the model then makes it itself."""
    given = problem.asked(problem.data, problem.task)
    for cache in Cache.ways(module, name):
        made: list[bool] = []

        def call(model: nn.Module, data: Any, cache: Cache = cache, made: list[bool] = made) -> Any:
            cache.clear()
            found = problem.call(model, data)
            made.append(cache.is_made)
            return found

        try:
            found = problem.passes.run(call, problem.model, given, *problem.decoders)
        except Exception:  # whatever a model does without what it holds
            continue
        if made == [True] and isinstance(found, Tensor):
            return cache, found
    return None


def check_structure(problem: Problem, reading: InputWatcher, moves: bool) -> None:
    """Raise when the model uses node ids that a removal would leave as they are.

    Args:
        problem: The question.
        reading: What a pass has read.
        moves: Whether predictions move along when nodes are renumbered.
    """
    for use in reading.uses:
        if use.source.name and not moves:
            raise ValueError(
                f"the model uses {use.source.name} as node ids, at {use.line}, but its name does not mark it "
                "as edges: a removal would neither delete them nor renumber their nodes. Name edges as in "
                "PyG (data.edge_index_follows), or use an edge type of HeteroData; compute other node ids "
                "in forward, from the edges"
            )
    for name, parameter in problem.model.named_parameters():
        if _holds_edges(problem, parameter):
            raise ValueError(
                f"the model reads edges that are not in data: its parameter {name}, of shape "
                f"{list(parameter.shape)}, is a matrix of the graph's edges. A removal would leave them as "
                f"they are. {REMEDY}"
            )
    suspects = [
        use
        for use in reading.uses
        if not use.source.name and (use.writes or _is_edge_like(use.source))
    ]
    suspects += [
        Use(one, one.line, True)
        for one in reading.sources
        if one.line is not None
        and (_holds_edges(problem, one.tensor) or _follows_from_edges(problem, one.tensor))
    ]
    if not suspects:
        return
    # What the model makes outside of torch (by NumPy, say) is another tensor in every pass.
    there = {_place(source) for source in watched(problem)[1].sources}
    for use in suspects:
        if _place(use.source) in there:
            raise ValueError(
                f"the model reads edges that are not in data, at {use.line}: {_named(problem, use)}. A "
                f"removal would leave them as they are. {REMEDY}"
            )


def _holds_edges(problem: Problem, tensor: Tensor) -> bool:
    """Whether a tensor holds the graph's own edges, as pairs of ids or as a matrix, however it is used."""
    n, tensor = problem.num_nodes, tensor.detach()
    if tensor.layout != torch.strided or tensor.dim() != 2 or not tensor.numel():
        return False
    if tensor.shape == (n, n) and n > 2:
        if n > MOST_DENSE:
            return False
        between = tensor[~torch.eye(n, dtype=torch.bool, device=tensor.device)]
        if bool((between != 0).all() & (between != between[0]).any()):
            return False  # in a complete graph, any weights `[N, N]` are where edges are
        pairs = (tensor != 0).nonzero().t()
    elif 2 in tensor.shape and not (tensor.is_floating_point() or tensor.is_complex()):
        pairs = tensor if tensor.size(0) == 2 else tensor.t()
    else:
        return False
    pairs = pairs[:, pairs[0] != pairs[1]].long()
    if pairs.size(1) < FEWEST_EDGES or int(pairs.max()) >= n or int(pairs.min()) < 0:
        return False
    low, high = problem.edge_index.min(dim=0).values, problem.edge_index.max(dim=0).values
    own = (low * n + high)[low != high].unique()
    keys = (pairs.min(dim=0).values * n + pairs.max(dim=0).values).unique().to(own.device)
    return len(own) > 0 and bool(torch.isin(keys, own).double().mean() > MOST_OF_THEM)


def _follows_from_edges(problem: Problem, tensor: Tensor) -> bool:
    """Whether a tensor holds degrees or other values of all nodes that are computed from the edges alone."""
    n = problem.num_nodes
    if not isinstance(problem.data, Data) or tensor.layout != torch.strided or tensor.numel() != n:
        return False
    structure, values = Structure(problem.edge_index.cpu(), n), tensor.detach().flatten().cpu()
    return structure.are_degrees(values) or structure.among(values) is not None


def _is_edge_like(source: PassInput) -> bool:
    return source.tensor.dim() == 2


def _place(source: PassInput) -> tuple[Any, ...]:
    tensor = source.tensor
    if tensor.layout != torch.strided:
        return (id(tensor),)
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride()


def _named(problem: Problem, use: Use) -> str:
    owner = holder_of(use.source.tensor, problem.model)
    shape = list(use.source.tensor.shape)
    if owner is None:
        return f"a tensor of shape {shape} from outside of the model (a global one, or one in a closure)"
    return f"model.{owner[2]}, of shape {shape}"
