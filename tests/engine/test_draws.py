"""Which of the reached rows are drawn, and with what inclusion probability, by both backends."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from graphs import barabasi
from nora.engine.exec.kernels import compiled, vectorised
from nora.engine.exec.kernels.row_sampling import BITS
from nora.engine.ir.changed_rows import ChangedRows, SamplingBounds
from nora.engine.ir.edges import Edges
from nora.engine.ir.op import Chunk
from nora.graph.edit_batch import EditBatch

BACKENDS = {"compiled": compiled, "vectorised": vectorised}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_infinite_sum_matters_where_its_factor_changes(backend: str, turned: bool) -> None:
    """All rows are computed where the size of a change is unknown, and else as many as without that sum."""
    source, target = barabasi(300, 3)
    edges, loops = Edges(source, target, None, 300, "mean"), BACKENDS[backend]
    removals, moved = EditBatch.remove_nodes(torch.tensor([0])), torch.arange(1, 40)
    changed = ChangedRows(torch.tensor([0, len(moved)]), moved, torch.zeros(len(moved), 2).double())
    chunk = Chunk(removals, edges.num_nodes, loops)
    none = torch.zeros(2, dtype=torch.long), torch.empty(0, dtype=torch.long)

    def chances(mass: Tensor) -> Tensor:
        reach = chunk.frontier(edges, changed, none)
        size = torch.linspace(0.1, 3, len(reach.source)).double()
        ones = torch.ones(300).double()
        start = torch.tensor([12345])
        bounds = SamplingBounds(None, size, size[:0], mass, ones, torch.inf, size[:0], 0.2, start)
        return loops.sample(edges, reach, bounds)[1]

    reach = chunk.frontier(edges, changed, none)
    some = reach.node[(reach.norm_dst != edges.norm_dst[reach.node]) == turned]
    ones = torch.ones(300).double()
    finite, infinite = chances(ones), chances(ones.index_fill(0, some[:1], torch.inf))
    assert 0 < len(finite) < len(reach.node)
    assert torch.equal(
        infinite, finite.new_full([len(reach.node)], 1 << BITS) if turned else finite
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_row_that_decides_is_computed_for_certain(backend: str) -> None:
    """It would be missed seldom, but then nothing that was drawn would show it."""
    hub = torch.zeros(200, dtype=torch.long)
    leaves = torch.arange(1, 201)
    edges = Edges(torch.cat([leaves, hub]), torch.cat([hub, leaves]), None, 201, "none")
    loops, moved = BACKENDS[backend], torch.tensor([0, 7])
    removals = EditBatch.remove_nodes(torch.tensor([3]))
    changed = ChangedRows(torch.tensor([0, 2]), moved, torch.zeros(2, 2).double())
    chunk = Chunk(removals, edges.num_nodes, loops)
    none = torch.zeros(2, dtype=torch.long), torch.empty(0, dtype=torch.long)
    ones = torch.ones(201).double()
    for start in range(0, 1 << BITS, 1 << (BITS - 6)):
        reach = chunk.frontier(edges, changed, none)
        size = torch.where(reach.source == 0, 1e-4, 1.0).double()
        at = torch.tensor([start])
        bounds = SamplingBounds(None, size, size[:0], 0 * ones, ones, torch.inf, size[:0], 0.3, at)
        found, chance, _ = loops.sample(edges, reach, bounds)
        assert int(chance[found.node == 0]) == 1 << BITS  # all but a fiftieth arrives there
        assert len(found.node) < 20


@pytest.mark.parametrize("backend", BACKENDS)
def test_importance_saturates_and_no_row_is_moved_too_far(backend: str) -> None:
    source, target = barabasi(300, 3)
    edges, loops = Edges(source, target, None, 300, "mean"), BACKENDS[backend]
    removals, moved = EditBatch.remove_nodes(torch.tensor([0])), torch.arange(1, 40)
    changed = ChangedRows(torch.tensor([0, len(moved)]), moved, torch.zeros(len(moved), 2).double())
    chunk = Chunk(removals, edges.num_nodes, loops)
    none = torch.zeros(2, dtype=torch.long), torch.empty(0, dtype=torch.long)
    ones = torch.ones(300).double()

    def chances(most: float, least: float) -> Tensor:
        reach = chunk.frontier(edges, changed, none)
        size = torch.linspace(0.1, 3, len(reach.source)).double()
        start = torch.tensor([12345])
        bounds = SamplingBounds(None, size, size[:0], ones, ones, most, least * ones, 0.5, start)
        return loops.sample(edges, reach, bounds)[1]

    plain, saturated = chances(torch.inf, 0.0), chances(0.01, 0.0)
    assert len(plain) < len(chances(torch.inf, 0.5))
    assert float(saturated.double().std()) < float(plain.double().std())
    assert bool((chances(torch.inf, 1e9) == 1 << BITS).all())


@pytest.mark.parametrize("backend", BACKENDS)
def test_where_few_rows_are_reached_all_are_computed(backend: str) -> None:
    """One of ten that was missed took a sixth of a leaf's influence with it, at a tolerance of 3 %."""
    hub, leaves = torch.zeros(50, dtype=torch.long), torch.arange(1, 51)
    edges = Edges(torch.cat([leaves, hub]), torch.cat([hub, leaves]), None, 51, "none")
    loops, removals = BACKENDS[backend], EditBatch.remove_nodes(torch.tensor([3]))
    changed = ChangedRows(torch.tensor([0, 1]), torch.tensor([0]), torch.zeros(1, 2).double())
    chunk = Chunk(removals, edges.num_nodes, loops)
    none = torch.zeros(2, dtype=torch.long), torch.empty(0, dtype=torch.long)
    # One leaf matters much more than others: these need not be computed for the sum of all.
    importance = torch.ones(51).double().index_fill(0, torch.tensor([1]), 1e5)

    def drawn(error: float) -> int:
        reach = chunk.frontier(edges, changed, none)
        size = torch.ones(len(reach.source)).double()
        mass, start = 0 * importance, torch.tensor([12345])
        bounds = SamplingBounds(
            None, size, size[:0], mass, importance, torch.inf, size[:0], error, start
        )
        return len(loops.sample(edges, reach, bounds)[1])

    reached = len(chunk.frontier(edges, changed, none).node)
    assert drawn(0.9 / reached) == reached
    assert drawn(1.5 / reached) < reached / 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_planned_variance_is_that_of_what_is_left_to_chance(backend: str) -> None:
    """Every row's inclusion probability is how often it is drawn, over all that draws can start with."""
    source, target = barabasi(300, 3)
    edges, loops = Edges(source, target, None, 300, "none"), BACKENDS[backend]
    removals, moved = EditBatch.remove_nodes(torch.tensor([0])), torch.arange(1, 40)
    changed = ChangedRows(torch.tensor([0, len(moved)]), moved, torch.zeros(len(moved), 2).double())
    chunk = Chunk(removals, edges.num_nodes, loops)
    none = torch.zeros(2, dtype=torch.long), torch.empty(0, dtype=torch.long)
    ones, starts = torch.ones(300).double(), 400

    def drawn(error: float, start: int) -> tuple[Tensor, Tensor, Tensor]:
        reach = chunk.frontier(edges, changed, none)
        size = torch.linspace(0.1, 3, len(reach.source)).double()
        arrives = torch.zeros(300).double()
        for s, amount in enumerate(size):
            lands = reach.slot[reach.edge_ptr[s] : reach.edge_ptr[s + 1]]
            arrives.index_add_(
                0, reach.node[lands[lands >= 0]], amount.expand(int((lands >= 0).sum()))
            )
        at = torch.tensor([start])
        bounds = SamplingBounds(
            None, size, size[:0], 0 * ones, ones, torch.inf, size[:0], error, at
        )
        found, _, planned = loops.sample(edges, reach, bounds)
        return found.node, planned, arrives

    often, weights = torch.zeros(300).double(), []
    for start in range(starts):
        node, planned, arrives = drawn(0.3, start * (1 << BITS) // starts)
        often[node] += 1 / starts
        weights.append(planned)
    some = (often > 0) & (often < 1)
    expected = (arrives.square() * (1 / often - 1))[some].sum()
    assert some.sum() > 20
    torch.testing.assert_close(weights[0][0], expected, rtol=0.05, atol=0)
    assert len(torch.cat(weights).unique()) == 1
    assert float(drawn(1e-6, 0)[1]) == 0
