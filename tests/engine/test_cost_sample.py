"""What a sample of removals predicts, on a clock that the test sets."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from nora.engine.estimate import cost_sample
from nora.engine.estimate.cost_sample import CostSample
from nora.graph.edit_batch import EditBatch


class Engine:
    """Takes a while to start, and then so long for each removal."""

    def __init__(self, starting: float, each: float) -> None:
        self.starting, self.each, self.now = starting, each, 0.0

    def perf_counter(self) -> float:
        return self.now

    def cost_of(self, removals: EditBatch) -> Tensor:
        return torch.ones(len(removals))

    def influences(self, removals: EditBatch, tally: object) -> Tensor:
        return torch.ones(len(removals))

    def in_chunks(
        self, ask: Callable[..., Tensor], removals: EditBatch, *rest: Any
    ) -> Iterator[tuple[Tensor, Tensor]]:
        self.now += self.starting + self.each * len(removals)
        yield torch.arange(len(removals)), ask(removals, None)


@pytest.mark.parametrize("starting", [0.0, 0.04, 0.2])
@pytest.mark.parametrize("each", [0.0002, 0.001, 0.02])
def test_what_starting_takes_is_not_foreseen_for_every_removal(
    starting: float, each: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: Any = Engine(starting, each)
    monkeypatch.setattr(cost_sample, "time", engine)
    found = CostSample(engine, EditBatch.remove_nodes(torch.arange(100_000)), 1, seconds=12.0)
    assert found.seconds == pytest.approx(100_000 * each + starting, rel=0.6)
    assert found.spent <= 12.0
