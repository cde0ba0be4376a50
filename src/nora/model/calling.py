"""How a model is called by default: the conventions of PyG's models.

Node classifiers are called as `model(x, edge_index)`. Link models have one of two shapes: `encode`
gives a row per node and `decode` scores pairs of them; or `forward` takes `edge_label_index` and returns
the pairs' scores itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GAE

from nora.model.task import Task
from nora.model.tasks.link_prediction import LinkPrediction, dot_product
from nora.options import option

Forward = Callable[[nn.Module, Any], Any]
Transform = Callable[[Any], Any]
PAIRS = "edge_label_index"
EXTRAS = ("edge_weight", "edge_attr", "edge_type")


@dataclass(frozen=True)
class Calling:
    """How a model is called for a question.

    Attributes:
        call: `(model, data) -> output`.
        task: The task, with the decoder that is used.
        direct: Whether the output is the pairs' scores; `data` then holds them as `edge_label_index`.
    """

    call: Forward
    task: Task
    direct: bool = False


@dataclass(frozen=True)
class ModelDecoder:
    """The model's own `decode(z, pairs)`.

    Attributes:
        model: The model.
        options: Further arguments of `decode`.
    """

    model: Any
    options: tuple[tuple[str, Any], ...] = ()

    def __call__(self, z: Any, pairs: Tensor, *relation: Tensor) -> Tensor:
        """Scores `[P]`."""
        found = self.model.decode(z, pairs, *relation, **dict(self.options))
        one_column = isinstance(found, Tensor) and found.shape == (pairs.size(1), 1)
        return found.squeeze(1) if one_column else found


@dataclass(frozen=True)
class HeteroDecoder:
    """A decoder of outputs by node type, for rows by global ids.

    Attributes:
        decoder: `(z_dict, pairs) -> scores`.
        ends: The types of sources and targets.
    """

    decoder: Any
    ends: tuple[str, str]

    def __call__(self, z: Tensor, pairs: Tensor, *relation: Tensor) -> Tensor:
        """Scores `[P]`: each pair's two rows are all that a decoder looks at."""
        here = torch.arange(pairs.size(1), device=pairs.device)
        source, target = z[pairs[0]], z[pairs[1]]
        if self.ends[0] == self.ends[1]:
            rows = {self.ends[0]: torch.cat([source, target])}
            return self.decoder(rows, torch.stack([here, here + len(here)]), *relation)
        rows = {self.ends[0]: source, self.ends[1]: target}
        return self.decoder(rows, torch.stack([here, here]), *relation)


class ScoredByModel:
    """The placeholder decoder of a model that returns the pairs' scores itself."""

    def __call__(self, *_: Any) -> Tensor:
        """Raise: there is no decoder to call."""
        raise ValueError(
            "the model scores pairs itself (its forward takes edge_label_index), so that there are no "
            f"rows to decode: use {option('method', 'exact')} or 'brute'"
        )


def decoder_modules(task: Task) -> Iterable[Any]:
    """The modules of a task's decoder."""
    decoder = getattr(task, "decoder", None)
    while isinstance(decoder, HeteroDecoder):
        decoder = decoder.decoder
    return [decoder]


def parameters(function: Any) -> tuple[str, ...]:
    """Names of a function's parameters; none where they are not known."""
    schema = getattr(function, "schema", None)
    if schema is not None:  # scripted
        return tuple(argument.name for argument in schema.arguments)
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def calling(
    model: nn.Module, data: Data | HeteroData, task: Task, forward: Forward | None
) -> Calling:
    """How this model is called for this question; with `forward` as the user has given it."""
    open_link = isinstance(task, LinkPrediction) and task.leaves_decoder_open
    if isinstance(task, LinkPrediction) and (open_link or not _has_forward(model)):
        if _has(model, "encode") and _has(model, "decode"):
            call = default_forward(model, data, "encode") if forward is None else forward
            return Calling(call, _with_decode(model, task) if open_link else task)
        if forward is None and PAIRS in parameters(model.forward):
            if task.relation is not None:
                raise ValueError(
                    "relation is for a decoder of your own: decoder(z, pairs, relation)"
                )
            task = replace(task, decoder=ScoredByModel())
            return Calling(default_forward(model, data, "forward", (PAIRS,)), task, direct=True)
    if isinstance(task, LinkPrediction) and task.relation is not None and open_link:
        raise ValueError("relation is for a decoder of your own: decoder(z, pairs, relation)")
    return Calling(default_forward(model, data) if forward is None else forward, task)


def _has(model: nn.Module, name: str) -> bool:
    return callable(getattr(model, name, None))


def _has_forward(model: nn.Module) -> bool:
    return type(model).forward is not nn.Module.forward


def _with_decode(model: nn.Module, task: LinkPrediction) -> LinkPrediction:
    """The task with the model's own decoder; without its sigmoid, where it lets itself be asked."""
    inner = getattr(model.decoder, "forward", model.decoder) if isinstance(model, GAE) else None
    named = parameters(inner if inner is not None else model.decode)
    if "sigmoid" in named:
        decoder = ModelDecoder(model, (("sigmoid", False),))
        return replace(task, decoder=decoder, return_type="raw")
    return replace(task, decoder=ModelDecoder(model))


def _signature(model: nn.Module, part: str) -> tuple[str, ...]:
    if part == "encode" and isinstance(model, GAE):
        return parameters(getattr(model.encoder, "forward", model.encoder))
    return parameters(getattr(model, part))


def _part(model: nn.Module, part: str) -> Callable[..., Any]:
    return model if part == "forward" else getattr(model, part)


def default_forward(
    model: nn.Module, data: Data | HeteroData, part: str = "forward", more: tuple[str, ...] = ()
) -> Forward:
    """PyG's calling convention: `model(x, edge_index)`, with `edge_weight`, `edge_attr` and
    `edge_type` added where the data has them and the model's `forward` names them; with node types
    `model(x_dict, edge_index_dict)`, with `edge_weight_dict` and `edge_attr_dict`.

    Args:
        model: The model.
        data: The graph; where it has an `adj_t` instead of an `edge_index`, that is given.
        part: The method that is called, `forward` or `encode`.
        more: Keys that are given too.
    """
    typed = isinstance(data, HeteroData)
    if not typed and data.x is None:
        raise ValueError(
            "data has no node features x; add them, or pass forward=lambda model, data: … that "
            "says how to call the model"
        )
    named, suffix = _signature(model, part), "_dict" if typed else ""

    def has(key: str) -> bool:
        return any(store.get(key) is not None for store in data.edge_stores)

    sparse = has("adj_t") and (f"adj_t{suffix}" in named or not has("edge_index"))
    features, edges = f"x{suffix}", f"{'adj_t' if sparse else 'edge_index'}{suffix}"
    attributes = {key: key for key in more}  # by the argument that takes them
    for key in EXTRAS[:2] if typed else EXTRAS:
        argument = next((name for name in (f"{key}{suffix}", key) if name in named), None)
        if argument is not None and has(key):
            attributes[argument] = f"{key}{suffix}"

    def forward(model: nn.Module, data: Any) -> Any:
        given = {argument: getattr(data, key) for argument, key in attributes.items()}
        return _part(model, part)(getattr(data, features), getattr(data, edges), **given)

    return forward


def transformed(transform: Transform, data: Data | HeteroData) -> Data | HeteroData:
    """The graph after the transform, which must return one of the same kind."""
    found = transform(data)
    if not isinstance(found, Data | HeteroData):
        raise TypeError(
            f"transform must return the graph, got {type(found).__name__}; end it with `return data`"
        )
    return found


def hetero_decoder(task: Task, ends: tuple[str, str] | None) -> Task:
    """The task with a decoder that takes outputs by node type brought to global ids of all nodes."""
    if not isinstance(task, LinkPrediction) or ends is None or task.decoder is dot_product:
        return task
    decoder = task.decoder
    if isinstance(decoder, ModelDecoder):
        asked = decoder.model.decode
    else:
        asked = decoder.forward if isinstance(decoder, nn.Module) else decoder
    named = [name for name in parameters(asked) if name != "self"]
    if named and "dict" in named[0]:
        return replace(task, decoder=HeteroDecoder(decoder, ends))
    return task
