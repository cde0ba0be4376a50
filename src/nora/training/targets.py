"""Which predictions count: groups of nodes by a word, and a note where nodes of another kind count as well.

The nodes of a person's own graph may be of several kinds, e.g. users and films, of which one has labels. A
model predicts a class for every node, and the influence sums the changes of all of them, those without
meaning included. `labelled` and 0/1 features (`kind=user`) name the nodes that are meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import exp, log

from torch import Tensor

from nora.datasets import Dataset
from nora.graph.naming import Naming
from nora.graph.node_index import Nodes
from nora.graph.removal import node_ids
from nora.options import option

LABELLED = "labelled"
# Nodes: ids, names, masks or groups; or a function of the dataset that gives them.
Targets = Nodes | Callable[[Dataset], Nodes]
# How unlikely it must be that so many nodes have no label by chance.
BY_CHANCE = 1e-3


def group_of(dataset: Dataset, word: str) -> list[int] | None:
    """Ids of the nodes that a word means: `labelled`, or a 0/1 feature's name; None for other words.

    A node that is called so comes first: its name does not stand for a group.

    Example:
        >>> from nora.datasets import load_dataset
        >>> len(group_of(load_dataset("karate"), "labelled")), group_of(load_dataset("karate"), "tall")
        (34, None)
    """
    if word in (dataset.node_names or ()):
        return None
    if word == LABELLED:
        return (dataset.data.y >= 0).nonzero().flatten().tolist()
    names = dataset.feature_names or ()
    if word not in names or not _is_binary(column := dataset.data.x[:, names.index(word)]):
        return None
    return (column == 1).nonzero().flatten().tolist()


def target_ids(dataset: Dataset, targets: Targets) -> Tensor:
    """Sorted ids of the nodes whose predictions count.

    Args:
        dataset: The graph.
        targets: Ids, names, a mask `[N]`, the words of `group_of`, or a function of the dataset.

    Example:
        >>> from nora.datasets import load_dataset
        >>> target_ids(load_dataset("karate"), ["member 1", 33])
        tensor([ 0, 33])
    """
    given = targets(dataset) if callable(targets) else targets
    given = [given] if isinstance(given, str) else given
    if isinstance(given, list | tuple):
        naming = Naming(dataset.node_names)
        ids: list[int] = []
        for one in given:
            group = group_of(dataset, one) if isinstance(one, str) else None
            ids += [naming.id(one)] if group is None else group
        given = ids
    found = node_ids(given, int(dataset.data.num_nodes or 0), "target node")
    if not len(found):
        raise ValueError(
            f"{option('targets')} is empty: name at least one node, or leave it out for all"
        )
    return found


def kinds_without_labels(dataset: Dataset) -> tuple[str, ...]:
    """Notes on nodes that seem to be of a kind without labels; empty where there are none.

    Two signs: a 0/1 feature that no labelled node has, and that too many others have for that to be chance;
    and no edge between two labelled nodes.
    """
    labelled = dataset.data.y >= 0
    share = float(labelled.double().mean())
    if not 0 < share < 1:
        return ()
    counted = "are predicted all the same, and the change of their predictions counts"
    found = [
        f"none of the {many:,} nodes with {name} has a label: they {counted}; "
        f"{option('targets', LABELLED)} counts the labelled nodes alone"
        for name, many in _without_labels(dataset, labelled, share)
    ]
    source, target = dataset.data.edge_index
    expected = share**2 * int((source != target).sum())
    if (
        not found
        and exp(-expected) < BY_CHANCE
        and not bool((labelled[source] & labelled[target]).any())
    ):
        found.append(
            "no edge joins two labelled nodes, so the others seem to be of another kind: they "
            f"{counted}; {option('targets', LABELLED)} counts the labelled nodes alone"
        )
    return tuple(found)


def _without_labels(dataset: Dataset, labelled: Tensor, share: float) -> Iterator[tuple[str, int]]:
    """Names of 0/1 features that unlabelled nodes alone have, and how many have each."""
    for at, name in enumerate(dataset.feature_names or ()):
        if "=" not in name:  # a column of words has one feature per word, `kind=film`
            continue
        column = dataset.data.x[:, at]
        many = int((column == 1).sum())
        by_chance = many * log(1 - share)  # that none of them is among the labelled ones
        if by_chance < log(BY_CHANCE) and _is_binary(column) and not bool(column[labelled].any()):
            yield name, many


def _is_binary(column: Tensor) -> bool:
    return bool(((column == 0) | (column == 1)).all())


def about_targets(targets: Tensor, dataset: Dataset) -> str:
    """A sentence on what a restriction to targets means."""
    nodes = f"{len(targets):,} of {int(dataset.data.num_nodes or 0):,} nodes"
    return f"only the change of the predictions for {nodes} counts ({option('targets')})"
