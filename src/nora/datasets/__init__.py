"""Graphs to try things on: one file per source.

`NORA_DATA` names a folder to look in first; downloads go to a per-user cache.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nora.registry import NoFacts, Registry

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class Dataset:
    """A graph with what is needed to train on it.

    Attributes:
        name: The name it was loaded by.
        data: `x` `[N, F]`, `edge_index` `[2, E]`, `y` `[N]` (−1: no label).
        num_classes: Number of classes.
        node_names: The nodes' names, when they have any.
        class_names: The classes' names, when they have any.
        node_ratios: Train, validation and test shares of the nodes.
        link_ratios: The same for edges.
        negatives: Sampled non-edges per edge in link prediction.
        edge_type_names: The names of the types in `data.edge_type`, when edges have types.
        encoding: What made features from the graph's edges (`nora.ingest.encodings`), None where nothing
            did: the last columns of `x`, which training for links makes again without held-out edges.
        given_features: How many of the first columns of `x` were not made by `encoding`.
        feature_names: The names of the first columns of `x`, where they have any.
        own: Whether the graph is the caller's own: a saved run then carries it.
    """

    name: str
    data: Data
    num_classes: int
    node_names: tuple[str, ...] | None = None
    class_names: tuple[str, ...] | None = None
    node_ratios: tuple[float, float, float] = (0.5, 0.3, 0.2)
    link_ratios: tuple[float, float, float] = (0.8, 0.1, 0.1)
    negatives: int = 1
    edge_type_names: tuple[str, ...] | None = None
    encoding: str | None = None
    given_features: int = 0
    feature_names: tuple[str, ...] | None = None
    own: bool = False


DATASETS: Registry[Callable[[], Dataset], NoFacts] = Registry("dataset", __name__, NoFacts())


class DatasetUnavailableError(RuntimeError):
    """Files are missing and cannot be downloaded; the message names which, from where, to where."""


def load_dataset(name: str) -> Dataset:
    """A dataset by name (see `nora datasets`).

    Args:
        name: A name from `nora datasets`.

    Returns:
        The graph as `.data`, with the names of its nodes and classes where they have any.

    Raises:
        DatasetUnavailableError: When its files can neither be found nor downloaded.

    Example:
        >>> load_dataset("karate").data.num_nodes
        34
    """
    return DATASETS[name].value()


def given_folder() -> Path | None:
    """The folder named by `NORA_DATA`, if it is set."""
    folder = os.environ.get("NORA_DATA")
    if not folder:
        return None
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise DatasetUnavailableError(f"NORA_DATA names {path}, which is not a folder")
    return path


def cache_folder() -> Path:
    """The folder for downloads: `$XDG_CACHE_HOME/nora` or `~/.cache/nora`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "nora"
