"""Architectures: one file per model, built on PyG's convolutions.

`build_model("gcn", …)` makes any of them; `paper_settings` gives the sizes and training settings the
paper published for a dataset.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from nora.arguments import check_number, check_whole
from nora.registry import Registry, check_known

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class ModelFacts:
    """Facts about a model class.

    Attributes:
        needs: Sizes that training takes from the data: `num_relations`, the number of edge types;
            `relations`, their names in a `HeteroData`, and with these the `task`.
        node_type: The one node type that a model of relations takes.
    """

    needs: tuple[str, ...] = ()
    node_type: str | None = None


MODELS: Registry[Callable[..., nn.Module], ModelFacts] = Registry("model", __name__, ModelFacts())


def build_model(name: str, in_channels: int, out_channels: int, **sizes: Any) -> nn.Module:
    """A fresh model by name.

    Args:
        name: A name from `nora models`.
        in_channels: Number of node features.
        out_channels: Number of classes, or the embedding size for link prediction.
        **sizes: `hidden_channels`, `num_layers`, `dropout`, `norm`, and the model's own.

    Returns:
        The model, with fresh weights.

    Example:
        >>> build_model("gcn", 16, 2, hidden_channels=8).num_layers
        2
    """
    build = MODELS[name].value
    known = [
        key
        for part in _initialisers(build)
        for key, parameter in inspect.signature(part).parameters.items()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD and key not in ("self", "args")
    ]
    check_whole("in_channels", in_channels)
    check_whole("out_channels", out_channels)
    if not _takes_anything(build):
        takes = [key for key in dict.fromkeys(known) if key not in ("in_channels", "out_channels")]
        check_known(f"model {name!r}", sizes, takes)
    for key, size in sizes.items():
        if key in ("hidden_channels", "num_layers", "heads"):
            check_whole(key, size, 1)
        elif key == "dropout":
            check_number(key, size, 0, 1)
    return build(in_channels, out_channels, **sizes)


def _takes_anything(build: Callable[..., Any]) -> bool:
    """Whether a model is made by a function that passes whatever it is given on."""
    kinds = [p.kind for p in inspect.signature(_initialisers(build)[-1]).parameters.values()]
    return inspect.Parameter.VAR_KEYWORD in kinds


def _initialisers(build: Callable[..., Any]) -> list[Callable[..., Any]]:
    """The functions whose keywords a model takes: its own, and those it passes the rest on to."""
    if not isinstance(build, type):
        return [build]
    found = []
    for kind in build.__mro__:
        if "__init__" in vars(kind):
            found.append(kind.__init__)  # type: ignore[misc]
            kinds = [p.kind for p in inspect.signature(found[-1]).parameters.values()]
            if inspect.Parameter.VAR_KEYWORD not in kinds:
                break
    return found


def paper_settings(model: str, dataset: str, task: str = "node") -> dict[str, Any]:
    """The published settings: `sizes` for `build_model`, and `lr`, `weight_decay` for training.

    Example:
        >>> paper_settings("gcn", "cora")["sizes"]["hidden_channels"]
        1024
    """
    published = _published()
    try:
        found = published[task][dataset][model]
    except KeyError:
        known = sorted(
            f"{name} on {data}"
            for data, models in published.get(task, {}).items()
            for name in models
        )
        raise ValueError(
            f"the paper gives no settings for {model} on {dataset} ({task} task); it does for "
            f"{', '.join(known)}"
        ) from None
    return found


def paper_datasets(task: str = "node") -> list[str]:
    """The datasets the paper gives settings for.

    >>> paper_datasets()
    ['cora', 'citeseer', 'pubmed', 'ogbn-arxiv']
    """
    return list(_published().get(task, {}))


def _published() -> dict[str, Any]:
    text = resources.files("nora.models").joinpath("paper.json").read_text(encoding="utf-8")
    return json.loads(text)
