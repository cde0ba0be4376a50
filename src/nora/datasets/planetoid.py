"""The citation networks Cora, CiteSeer and PubMed (Yang et al., 2016), read by PyG."""

from __future__ import annotations

import warnings
from pathlib import Path

from torch_geometric.datasets import Planetoid
from torch_geometric.io import read_planetoid_data

from nora.datasets import (
    DATASETS,
    Dataset,
    DatasetUnavailableError,
    cache_folder,
    given_folder,
)

PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
CLASSES = {"Cora": 7, "CiteSeer": 6, "PubMed": 3}


def _raw_folder(name: str) -> Path:
    """The folder with the eight raw files, downloaded if need be."""
    files = [f"ind.{name.lower()}.{part}" for part in PARTS]
    places = [
        base / "Planetoid" / name / "raw" for base in (given_folder(), cache_folder()) if base
    ]
    for place in places:
        if all((place / file).exists() for file in files):
            return place
    target = places[-1]
    try:
        Planetoid(str(target.parent.parent), name)
    except Exception as error:  # any network or file error ends in the same remedy
        missing = [file for file in files if not (target / file).exists()]
        raise DatasetUnavailableError(
            f"{name} could not be downloaded ({type(error).__name__}). Missing: "
            f"{', '.join(missing)}. Get them from {Planetoid.url} and put them into {target}, or "
            f"set NORA_DATA to a folder that holds Planetoid/{name}/raw"
        ) from None  # a hundred lines of a network library tell no more
    return target


def _load(name: str) -> Dataset:
    with warnings.catch_warnings():
        # SciPy warns about the age of the pickles these datasets are published as.
        warnings.simplefilter("ignore")
        data = read_planetoid_data(str(_raw_folder(name)), name)
    for key in ("train_mask", "val_mask", "test_mask"):
        del data[key]
    return Dataset(name.lower(), data, num_classes=CLASSES[name])


@DATASETS.register("cora", "citations: 2,708 papers, 7 topics (PyG Planetoid)")
def cora() -> Dataset:
    """Cora."""
    return _load("Cora")


@DATASETS.register("citeseer", "citations: 3,327 papers, 6 topics (PyG Planetoid)")
def citeseer() -> Dataset:
    """CiteSeer."""
    return _load("CiteSeer")


@DATASETS.register("pubmed", "citations: 19,717 papers, 3 topics (PyG Planetoid)")
def pubmed() -> Dataset:
    """PubMed."""
    return _load("PubMed")
