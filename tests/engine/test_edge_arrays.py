"""Edges removed and added in place: rows with gaps hold what lists hold."""

from __future__ import annotations

import random

import pytest
import torch

from nora.engine.exec.edge_arrays import GapRows
from nora.engine.ir.edges import Edges


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_with_gaps_hold_what_lists_of_edges_hold(weighted: bool) -> None:
    chance, nodes = random.Random(0), 7
    source, target = torch.randint(nodes, (2, 30), generator=torch.Generator().manual_seed(0))
    weight = torch.rand(30) if weighted else None
    edges = Edges(source, target, weight, nodes)
    rows = GapRows(edges.by_target, edges)
    lists: list[list[tuple[float, ...]]] = [[] for _ in range(nodes)]
    for edge in range(30):
        more = () if weight is None else (float(weight[edge]),)
        lists[int(target[edge])].append((int(source[edge]), edge, *more))
    first = rows.tensors[0][1].data_ptr()
    for edge in range(30, 6000):
        row = chance.choice([0, 0, 0, *range(nodes)])
        # Long times of growth, and long ones in which rows become empty.
        if lists[row] and chance.random() < (0.2 if edge // 1000 % 2 else 0.9):
            gone = chance.choice(lists[row])
            lists[row].remove(gone)
            rows.remove(row, int(gone[1]))
        else:
            come = (chance.randrange(nodes), edge, *([chance.random()] if weighted else []))
            lists[row].append(come)
            rows.add(row, *come)
        if edge % 97 == 0 or edge > 5990:
            (start, column, number), end, weights = rows.tensors
            for node, there in enumerate(lists):
                span = slice(int(start[node]), int(end[node]))
                assert column[span].tolist() == [one[0] for one in there]
                assert number[span].tolist() == [one[1] for one in there]
                if weights is not None:
                    torch.testing.assert_close(
                        weights[span], torch.tensor([one[2] for one in there])
                    )
    assert rows.tensors[0][1].data_ptr() != first  # the arrays have grown
