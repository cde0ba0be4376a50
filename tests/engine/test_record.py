"""What a recording makes of statements in place."""

from __future__ import annotations

import builtins
import threading
import time

import pytest
import torch
import torch_geometric.backend
import torch_geometric.utils
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data

import by_hand
import nora
from nora.engine.trace.recorder import record


class Recurrent(nn.Module):
    """A recurrent network over what a node says and hears; it turns its input in place."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.SAGEConv(6, 6)
        self.cells, self.out = nn.GRU(6, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        caught = torch.stack([x, self.conv(x, edge_index)], dim=1)
        return self.out(self.cells(caught)[0][:, -1])


class Turned(nn.Module):
    """Windows on one memory, one of which is turned in place before all are written to."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = pyg.SAGEConv(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.conv(x, edge_index)
        part = h[:, :3]
        turned = h.view(-1, 6)
        turned.t_()
        turned.unsqueeze_(0)
        turned.squeeze_(0)
        turned[0] += 1
        part.mul_(2)
        return self.out(h + turned.t())


@pytest.mark.parametrize("make", [Recurrent, Turned])
def test_a_tensor_that_is_turned_in_place_is_followed(make: type[nn.Module], hubs: Data) -> None:
    torch.manual_seed(0)
    model = make().double().eval()
    found = nora.influence(model, hubs, "exact", progress=False)
    nodes = [0, 1, 70, 149]
    assert "fallback" not in found.details
    truth = by_hand.influence(model, hubs, nodes)
    torch.testing.assert_close(found.scores[nodes], truth, rtol=1e-9, atol=1e-9)


class Switched(nn.Module):
    """The same line uses one map twice or two maps, by whether the graph is whole."""

    def __init__(self, whole: int) -> None:
        super().__init__()
        self.whole, self.conv = whole, pyg.SAGEConv(6, 6)
        self.maps = nn.ModuleList([nn.Linear(6, 6, bias=False) for _ in range(2)])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.conv(x, edge_index)
        for turn in (0, int(edge_index.size(1) == self.whole)):
            x = self.maps[turn](x)
        return x


def test_where_graphs_part_at_one_line_it_is_named_once(hubs: Data) -> None:
    torch.manual_seed(0)
    model = Switched(hubs.num_edges).double().eval()
    found = nora.influence(model, hubs, "exact", progress=False)
    assert "before" in found.details["fallback"]
    assert found.details["fallback"].count("test_record.py") == 1


def switches() -> tuple[object, ...]:
    """Everything of the process that a recording changes while it runs."""
    return (
        torch.backends.mha.get_fastpath_enabled(),
        torch._C._get_mkldnn_enabled(),
        torch_geometric.backend.use_segment_matmul,
        torch_geometric.utils.coalesce.__code__,
        builtins.len,
    )


def test_recordings_that_overlap_leave_the_process_as_found() -> None:
    before, x = switches(), torch.ones(3, 2)
    inside, begun = threading.Event(), threading.Event()

    def first() -> torch.Tensor:
        inside.set()
        begun.wait(5)
        time.sleep(0.1)  # the other one would be inside by now
        return x.relu()

    def second() -> None:
        inside.wait(5)
        begun.set()

        def slow() -> torch.Tensor:
            time.sleep(0.3)  # longer than the first one
            return x.relu()

        record(slow, {"x": x})

    thread = threading.Thread(target=second)
    thread.start()
    record(first, {"x": x})
    thread.join()
    assert switches() == before


def test_a_recording_that_fails_leaves_the_process_as_found() -> None:
    before = switches()

    def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        record(fails, {})
    assert switches() == before
