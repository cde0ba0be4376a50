"""Reach into any PyG model from outside: the node input of every message-passing layer, by hooks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

Visit = Callable[[Tensor], Tensor]


class LayerInputs(AbstractContextManager[None]):
    """While it is entered, every outermost message-passing call gets `visit(h)` in place of `h`.

    `h` `[N, F]` is the layer's node input: where a layer takes a pair of source and target inputs,
    the sources'. A convolution inside another one is part of it, and not visited.

    Args:
        model: The model; its hooks are removed on leaving.
        num_nodes: `N`, to tell node inputs from others.
        visit: Called in the order of the layers.
    """

    def __init__(self, model: nn.Module, num_nodes: int, visit: Visit) -> None:
        self._model = model
        self._num_nodes = num_nodes
        self._visit = visit
        self._depth = 0
        self._handles: list[Any] = []

    def __enter__(self) -> None:
        layers = [module for module in self._model.modules() if isinstance(module, MessagePassing)]
        if not layers:
            raise ValueError(
                f"the model {type(self._model).__name__} has no torch_geometric MessagePassing "
                "layer, which this method needs; use method='brute'"
            )
        for layer in layers:
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
        if "x" in kwargs:
            return args, {**kwargs, "x": self._replaced(kwargs["x"])}
        return (self._replaced(args[0]), *args[1:]), kwargs

    def _leave_layer(self, *_: Any) -> None:
        self._depth -= 1

    def _replaced(self, value: Any) -> Any:
        if isinstance(value, tuple | list):
            same = len(value) == 2 and value[0] is value[1]
            first = self._replaced(value[0])
            return (first, first) if same else (first, *value[1:])
        if not isinstance(value, Tensor) or value.size(0) != self._num_nodes:
            raise ValueError(
                "the first argument of every message-passing layer must be a node tensor "
                f"[{self._num_nodes}, F] for this method; got {type(value).__name__}"
            )
        return self._visit(value)
