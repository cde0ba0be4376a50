"""The citation graph of ogbn-arxiv with stand-in features: real papers and links, other features.

The official 128 features, means of word embeddings, are not in the copy of the graph that is read here. In
their place stand a language model's guesses of a paper's area, published with TAPE (He et al., 2024): of
each paper up to five areas in order of their likelihood, entered as `1 / rank`, and its standardised year.
Citations, labels and the sizes of the official split are real. No figure made with it is one on ogbn-arxiv.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from nora.datasets import (
    DATASETS,
    Dataset,
    DatasetUnavailableError,
    cache_folder,
    given_folder,
)
from nora.wording import short

NAME, FOLDER, CLASSES = "ogbn-arxiv-stand-in", "ogbn_arxiv_graph", 40
GRAPH, GUESSES = "ogbn_arxiv_nofeat.npz", "gpt_preds_tape.csv"
PARTS = ("train", "valid", "test")
# What the graph's file holds, with its shapes.
ARRAYS = "edge_index [2, E], y [N], year [N] and the split's node ids train, valid, test"
GRAPH_URL = "https://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip"
GUESSES_URL = "https://github.com/XiaoxinHe/TAPE (gpt_preds/ogbn-arxiv.csv)"


@dataclass(frozen=True)
class StandIn:
    """The content of the files.

    Attributes:
        data: `x` `[N, 41]`, `edge_index` `[2, E]` with citations in both directions, `y` `[N]`.
        split: Node ids of the official split, by the names in `PARTS`.
    """

    data: Data
    split: dict[str, Tensor]


@DATASETS.register(
    "ogbn-arxiv-stand-in",
    "ogbn-arxiv's citations with stand-in features, not ogbn-arxiv: for speed and scale",
)
def ogbn_arxiv_stand_in() -> Dataset:
    """The graph with stand-in features; splits have the official split's sizes."""
    found = read_stand_in(_folder())
    sizes = [len(found.split[part]) for part in PARTS]
    train, val, test = (size / sum(sizes) for size in sizes)
    return Dataset(NAME, found.data, num_classes=CLASSES, node_ratios=(train, val, test))


def read_stand_in(folder: Path) -> StandIn:
    """Graph, features and official split from a folder with both files.

    Args:
        folder: Where `ogbn_arxiv_nofeat.npz` and `gpt_preds_tape.csv` are.
    """
    try:
        with np.load(folder / GRAPH, allow_pickle=False) as raw:
            y = torch.from_numpy(raw["y"].astype(np.int64))
            links = torch.from_numpy(raw["edge_index"].astype(np.int64))
            year = torch.from_numpy(raw["year"].astype(np.float32))
            split = {part: torch.from_numpy(raw[part].astype(np.int64)) for part in PARTS}
    except (ValueError, TypeError, KeyError, EOFError, BadZipFile) as error:
        raise ValueError(
            f"{folder / GRAPH} does not hold the arrays {ARRAYS}: {short(error)}"
        ) from error
    x = torch.zeros(len(y), CLASSES + 1)
    lines = (folder / GUESSES).read_text(encoding="utf-8").splitlines()
    if len(lines) != len(y):
        raise ValueError(
            f"{folder / GUESSES} has {len(lines):,} lines for {len(y):,} papers: is it complete? Get it "
            f"again from {GUESSES_URL}"
        )
    for node, line in enumerate(lines):
        for rank, guess in enumerate(guess for guess in line.strip().split(",") if guess):
            x[node, int(guess)] = 1 / (rank + 1)
    x[:, -1] = (year - year.mean()) / year.std()
    edge_index = to_undirected(links, num_nodes=len(y))
    return StandIn(Data(x=x, edge_index=edge_index, y=y), split)


def _folder() -> Path:
    """The first of the given and the cached folder that holds both files."""
    places = [base / FOLDER for base in (given_folder(), cache_folder()) if base]
    for place in places:
        if all((place / file).exists() for file in (GRAPH, GUESSES)):
            return place
    begun = [place for place in places if place.exists()]
    place = begun[0] if begun else places[-1]
    missing = [file for file in (GRAPH, GUESSES) if not (place / file).exists()]
    raise DatasetUnavailableError(
        f"{NAME} is not complete. Missing: {', '.join(missing)}. {GRAPH} holds the arrays {ARRAYS}, made "
        f"from {GRAPH_URL} without its features; {GUESSES} comes from {GUESSES_URL}. Put them into {place}, "
        f"or set NORA_DATA to a folder that holds {FOLDER} with them"
    )
