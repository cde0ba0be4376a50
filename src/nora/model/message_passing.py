"""Reach into any PyG model from outside: the node input of every message-passing layer, by hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

from nora.model.problem import Problem
from nora.options import option

# From a layer's node input `[n, F]`, and which global ids its rows are, to what it gets instead.
Visit = Callable[[Tensor, slice], Tensor]


def message_passing(model: nn.Module) -> list[MessagePassing]:
    """The model's message-passing layers; without any, methods that look into layers cannot run."""
    layers = [module for module in model.modules() if isinstance(module, MessagePassing)]
    if not layers:
        raise ValueError(
            f"the model {type(model).__name__} has no torch_geometric MessagePassing layer, which "
            f"this method needs; use {option('method', 'brute')}"
        )
    return layers


def message_edges(problem: Problem) -> Tensor:
    """Edges `[2, E]` from each source to its target.

    A layer that passes messages against the edges too says so by `both_directions = True`.
    """
    edges = problem.edge_index
    layers = [m for m in problem.model.modules() if isinstance(m, MessagePassing)]
    flows = {layer.flow for layer in layers} or {"source_to_target"}
    if any(getattr(layer, "both_directions", False) for layer in layers):
        flows = {"source_to_target", "target_to_source"}
    ways = [edges if flow == "source_to_target" else edges.flip(0) for flow in sorted(flows)]
    return ways[0] if len(ways) == 1 else torch.cat(ways, dim=1)


class Ends:
    """Which node types a layer's call is about, from the edges it gets.

    Args:
        problem: The question.
    """

    def __init__(self, problem: Problem) -> None:
        self.index = problem.node_index
        self._edges: dict[int, tuple[str, str] | None] = {}
        if not isinstance(problem.data, Data):
            for kind in problem.data.edge_types:
                key, ends = id(problem.data[kind].edge_index), (kind[0], kind[2])
                # One tensor for several edge types tells nothing.
                self._edges[key] = ends if self._edges.get(key, ends) == ends else None

    def of(self, args: tuple, kwargs: Mapping[str, Any]) -> tuple[str, str] | None:
        """The types of senders and receivers; None where the call does not tell."""
        for part in _leaves((args, kwargs)):
            if id(part) in self._edges:
                return self._edges[id(part)]
        return None

    def senders(self, h: Any, args: tuple, kwargs: Mapping[str, Any]) -> slice:
        """Which global ids the rows of `h`, a layer's source input, are."""
        if not self.index.types:
            return slice(0, self.index.total)
        ends = self.of(args, kwargs)
        if ends is not None:
            return self.index.span(ends[0])
        rows = h.size(0) if isinstance(h, Tensor) and h.dim() else -1
        fitting = [t for t, n in zip(self.index.types, self.index.counts, strict=True) if n == rows]
        if len(fitting) == 1:
            return self.index.span(fitting[0])
        raise ValueError(
            "a message-passing layer gets edges that are not those of the data, so that the types "
            f"of its nodes are unknown; use {option('method', 'exact')} or 'brute'"
        )


def _leaves(argument: Any) -> Iterator[Any]:
    if isinstance(argument, tuple | list):
        for part in argument:
            yield from _leaves(part)
    elif isinstance(argument, Mapping):
        for part in argument.values():
            yield from _leaves(part)
    else:
        yield argument


class LayerInputs(AbstractContextManager[None]):
    """While it is entered, every outermost message-passing call gets `visit(h, span)` for `h`.

    `h` `[n, F]` is the layer's node input, and `span` says which nodes it is about: where a layer
    takes a pair of source and target inputs, the sources'; where it takes inputs by node type, each
    of them. A convolution inside another one is part of it, and not visited.

    Args:
        problem: The question; the hooks on its model are removed on leaving.
        visit: Called in the order of the layers.
    """

    def __init__(self, problem: Problem, visit: Visit) -> None:
        self._model = problem.model
        self._ends = Ends(problem)
        self._visit = visit
        self._depth = 0
        self._handles: list[Any] = []

    def __enter__(self) -> None:
        for layer in message_passing(self._model):
            self._handles += [
                layer.register_forward_pre_hook(self._enter_layer, with_kwargs=True),
                layer.register_forward_hook(self._leave_layer, always_call=True),
            ]

    def __exit__(self, *_: Any) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _enter_layer(self, _: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict]:
        self._depth += 1
        if self._depth > 1:
            return args, kwargs
        place = next((name for name in ("x", "x_dict") if name in kwargs), None)
        given = args[0] if place is None else kwargs[place]
        if isinstance(given, Mapping):
            index = self._ends.index
            new: Any = {t: self._replaced(h, index.span(t)) for t, h in given.items()}
        else:
            first = given[0] if isinstance(given, tuple | list) else given
            new = self._replaced(given, self._ends.senders(first, args, kwargs))
        if place is None:
            return (new, *args[1:]), kwargs
        return args, {**kwargs, place: new}

    def _leave_layer(self, *_: Any) -> None:
        self._depth -= 1

    def _replaced(self, value: Any, span: slice) -> Any:
        if isinstance(value, tuple | list):
            same = len(value) == 2 and value[0] is value[1]
            first = self._replaced(value[0], span)
            return (first, first) if same else (first, *value[1:])
        if not isinstance(value, Tensor) or value.size(0) != span.stop - span.start:
            raise ValueError(
                "the first argument of every message-passing layer must be a node tensor "
                f"[{span.stop - span.start}, F] for this method; got {type(value).__name__}"
            )
        return self._visit(value, span)
