"""The embedded network: the same every time, two camps, hubs and bridges."""

from __future__ import annotations

import torch
from torch_geometric.utils import degree

import nora
from nora.datasets.polarised import _drawn
from nora.model.fingerprint import graph_fingerprint


def test_it_is_the_same_every_time() -> None:
    """And in every process: `tests/questions/test_processes.py`."""
    here = nora.load_dataset("polarised")
    fresh = _drawn.__wrapped__()
    assert graph_fingerprint(fresh.data) == graph_fingerprint(here.data)
    assert fresh.node_names == here.node_names


def test_it_has_two_camps_of_equal_size_that_mostly_keep_to_themselves() -> None:
    dataset = nora.load_dataset("polarised")
    data = dataset.data
    assert data.num_nodes == 1000
    assert data.y.bincount().tolist() == [500, 500]
    assert dataset.num_classes == len(dataset.class_names) == 2
    assert data.is_undirected()
    assert not data.has_self_loops()
    source, target = data.edge_index
    within = (data.y[source] == data.y[target]).float().mean()
    assert 0.85 < within < 0.97


def test_it_has_hubs_and_quiet_accounts() -> None:
    data = nora.load_dataset("polarised").data
    ties = degree(data.edge_index[0], 1000).sort(descending=True).values
    assert ties[0] > 15 * ties.mean()
    assert ties[:100].sum() > 0.4 * ties.sum()
    assert (ties <= 3).float().mean() > 0.3


def test_bridges_tie_both_camps_and_say_so_in_their_name() -> None:
    dataset = nora.load_dataset("polarised")
    data = dataset.data
    bridge = torch.tensor([name.endswith("_bridge") for name in dataset.node_names])
    assert bridge.sum() == 24
    assert len(set(dataset.node_names)) == 1000
    source, target = data.edge_index
    across = (data.y[source] != data.y[target]).float()
    assert across[bridge[source]].mean() > 3 * across[~(bridge[source] | bridge[target])].mean()


def test_words_alone_do_not_place_everybody() -> None:
    """Both camps use all words; neither has a word of its own."""
    data = nora.load_dataset("polarised").data
    assert ((data.x[data.y == 0].sum(dim=0) > 0) & (data.x[data.y == 1].sum(dim=0) > 0)).all()
    guess = (data.x[:, 16:32].sum(dim=1) > data.x[:, :16].sum(dim=1)).long()
    assert 0.6 < (guess == data.y).float().mean() < 0.9
