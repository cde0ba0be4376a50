"""A generated social network of two camps: the default for demos and tests.

A thousand accounts fall into two camps. Ties form mostly within a camp, in proportion to each
account's activity, which is heavy-tailed (hubs); a few *bridge* accounts tie to both camps.
Each account's features count the words of its posts: most words are neutral, some are favoured by
one camp, and quiet accounts write too little to be placed by their words alone, so that a model has to
look at whom they are tied to.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from nora.datasets import DATASETS, Dataset

ACCOUNTS, WORDS, BRIDGES, TIES, SEED = 1000, 128, 24, 3600, 7
CAMPS = ("amber", "teal")


@DATASETS.register("polarised", "generated social network: 1,000 accounts in two camps (embedded)")
def polarised() -> Dataset:
    """The same network every time, from a fixed seed; each call returns a new copy."""
    drawn = _drawn()
    return replace(drawn, data=drawn.data.clone())


@cache
def _drawn() -> Dataset:
    random = np.random.default_rng(SEED)
    camp = random.permutation(np.arange(ACCOUNTS) % 2)
    activity = random.pareto(1.6, ACCOUNTS) + 0.3
    bridge = np.zeros(ACCOUNTS, dtype=bool)
    bridge[random.choice(ACCOUNTS, BRIDGES, replace=False)] = True

    def draw(weights: np.ndarray, count: int) -> np.ndarray:
        return random.choice(ACCOUNTS, count, p=weights / weights.sum())

    source = draw(activity, TIES)
    target = np.empty(TIES, dtype=np.int64)
    across = random.random(TIES) < np.where(bridge[source], 0.5, 0.05)
    for side in (0, 1):
        chosen = (camp[source] == side) ^ across
        target[chosen] = draw(activity * (camp == side), int(chosen.sum()))
    ties = np.stack([source, target])[:, source != target]
    edge_index = to_undirected(torch.from_numpy(ties), num_nodes=ACCOUNTS)

    favour = np.ones((2, WORDS))
    for side in (0, 1):
        favour[side, side * 16 : side * 16 + 16] = 2.2
    posts = random.poisson(6 + 4 * np.log1p(activity))
    share = favour[camp] / favour[camp].sum(axis=1, keepdims=True)
    words = np.stack([random.multinomial(n, p) for n, p in zip(posts, share, strict=True)])
    features = torch.from_numpy(np.log1p(words)).float()

    data = Data(x=features, edge_index=edge_index, y=torch.from_numpy(camp))
    return Dataset(
        "polarised", data, num_classes=2, node_names=_handles(random, bridge), class_names=CAMPS
    )


def _handles(random: np.random.Generator, bridge: np.ndarray) -> tuple[str, ...]:
    """Distinct pronounceable account names; those of bridges end in `_bridge`."""
    consonants, vowels = list("bdfklmnprstz"), list("aeiou")
    names: list[str] = []
    seen: set[str] = set()
    while len(names) < ACCOUNTS:
        name = "".join(random.choice(letters) for letters in (consonants, vowels) * 3)
        if name not in seen:
            seen.add(name)
            names.append(f"@{name}" + ("_bridge" if bridge[len(names)] else ""))
    return tuple(names)
