"""`nora methods`, `nora models`, `nora datasets`: what there is, one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nora.cli.display import Json, print_entries, print_json

if TYPE_CHECKING:
    from nora.registry import Registry


def methods(json: Json = False) -> None:
    """List the ways to score nodes, one line each.

    \b
    Example:
      nora methods
      nora rank runs/cora-gcn --method nora --option beta=4
    """
    from nora.methods import METHODS

    _show(METHODS, json)


def models(json: Json = False) -> None:
    """List the built-in architectures, one line each.

    \b
    Example:
      nora models
      nora train --dataset karate --model gat --out runs/karate-gat
    """
    from nora.models import MODELS

    _show(MODELS, json)


def datasets(json: Json = False) -> None:
    """List the built-in graphs, one line each.

    Those marked embedded need no file and no network. The others are downloaded on first use, or
    read from the folder that the environment variable NORA_DATA names.

    \b
    Example:
      nora datasets
      NORA_DATA=~/graphs nora train --dataset cora --model gcn --out runs/cora-gcn
    """
    from nora.datasets import DATASETS

    _show(DATASETS, json)


def _show(registry: Registry[Any, Any], json: bool) -> None:
    print_json(registry.listing()) if json else print_entries(registry.listing())
