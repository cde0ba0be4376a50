"""What holds for every dataset."""

from __future__ import annotations

import pytest
from torch import Tensor

import nora
from nora.datasets import DATASETS, DatasetUnavailableError
from nora.model.fingerprint import graph_fingerprint


@pytest.mark.parametrize("name", [entry.name for entry in DATASETS])
def test_changing_a_loaded_graph_changes_no_other(name: str) -> None:
    try:
        mine = nora.load_dataset(name).data
    except (DatasetUnavailableError, ValueError) as error:
        pytest.skip(str(error))
    before = graph_fingerprint(mine)
    for store in mine.stores:
        for value in store.values():
            if isinstance(value, Tensor):
                value.zero_()
        store.more = 1
    other = nora.load_dataset(name).data
    assert graph_fingerprint(other) == before
    assert "more" not in other.stores[0]
