"""Each forward pass starts from the state in which the model was found, and leaves all as found."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

import nora
from graphs import FEATURES, bridge, double, star
from networks import network
from nora.model import build_problem
from nora.model.preserve import evaluating, seeded


class Inner(nn.Module):
    """A convolution around which others do something they should not."""

    def __init__(self) -> None:
        super().__init__()
        with seeded(0):
            self.conv = GCNConv(FEATURES, 3).double()


def plain(data: Data) -> Tensor:
    """The influences of the convolution alone."""

    class Alone(Inner):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.conv(x, edge_index)

    return nora.influence(Alone(), data, "brute", progress=False).scores


def test_a_statistic_kept_on_first_use_is_taken_afresh_in_every_pass() -> None:
    class Keeping(Inner):
        def __init__(self, keep: bool) -> None:
            super().__init__()
            self.keep, self.mean, self.known = keep, None, {}

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            mean, std = x.mean(dim=0), x.std(dim=0)
            if self.keep:
                self.mean = mean = mean if self.mean is None else self.mean
                std = self.known.setdefault("std", std)
            return self.conv((x - mean) / std, edge_index)

    data, model = double(bridge()), Keeping(True)
    expected = nora.influence(Keeping(False), data, "brute", progress=False).scores
    assert torch.equal(nora.influence(model, data, "brute", progress=False).scores, expected)
    for node in (2, 5):  # many passes or one: the same
        assert nora.what_if(model, data, node, method="brute").total == pytest.approx(
            float(expected[node])
        )
    assert model.mean is None
    assert model.known == {}


def test_a_buffer_written_in_place_is_put_back_before_the_next_pass() -> None:
    class Counting(Inner):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(1).double())

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            self.calls += 1
            return self.conv(x, edge_index) * self.calls

    data, model = double(bridge()), Counting()
    model.calls += 4
    with seeded(0):
        factor = Inner()

    class Fixed(Inner):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return factor.conv(x, edge_index) * 5

    expected = nora.influence(Fixed(), data, "brute", progress=False).scores
    assert torch.allclose(nora.influence(model, data, "brute", progress=False).scores, expected)
    assert model.calls.tolist() == [4]


def test_a_model_that_writes_into_its_parameters_is_refused_and_left_as_found() -> None:
    class Shrinking(Inner):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            with torch.no_grad():
                self.conv.lin.weight.clamp_(max=0.1)
            return self.conv(x, edge_index)

    model = Shrinking()
    before = model.conv.lin.weight.clone()
    with pytest.raises(ValueError, match=r"parameter 'conv\.lin\.weight' in forward"):
        nora.influence(model, double(bridge()), "brute", progress=False)
    assert torch.equal(model.conv.lin.weight, before)


def test_a_model_may_write_into_the_data_object_it_gets() -> None:
    class Scaling(Inner):
        def forward(self, data: Data) -> Tensor:
            data.x = data.x * 2
            data.seen = True
            return self.conv(data.x / 2, data.edge_index)

    data = double(bridge())
    x = data.x.clone()

    def call(model: Any, data: Data) -> Tensor:
        return model(data)

    found = nora.influence(Scaling(), data, "brute", forward=call, progress=False).scores
    assert torch.allclose(found, plain(data))
    assert torch.equal(data.x, x)
    assert "seen" not in data


def test_a_model_may_write_into_the_tensors_it_gets() -> None:
    class InPlace(Inner):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            x.mul_(2)
            return self.conv(x / 2, edge_index)

    data = double(bridge())
    x = data.x.clone()
    found = nora.influence(InPlace(), data, "brute", progress=False).scores
    assert torch.allclose(found, plain(data))
    assert torch.equal(data.x, x)


def test_a_models_own_eval_is_called() -> None:
    class Own(Inner):
        def __init__(self) -> None:
            super().__init__()
            self.scale = 1.0

        def train(self, mode: bool = True) -> Own:
            super().train(mode)
            self.scale = 7.0 if mode else 2.0
            return self

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.scale * self.conv(x, edge_index)

    data, model = double(bridge()), Own()
    model.train()
    with torch.no_grad():
        expected = (2 * model.conv(data.x, data.edge_index)).softmax(dim=-1)
    assert torch.allclose(nora.what_if(model, data, 0, method="brute").before, expected)
    assert model.scale == 7.0
    assert model.training


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.parametrize("way", ["script", "trace"])
def test_a_scripted_model_is_asked_in_eval_mode_and_gets_its_mode_back(way: str) -> None:
    class Dropping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin, self.drop = nn.Linear(FEATURES, 3).double(), nn.Dropout(0.9)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            rows = torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]])
            return self.drop(self.lin(x + rows))

    data, model = double(bridge()), Dropping()
    example = (data.x, data.edge_index)
    scripted = (
        torch.jit.script(model) if way == "script" else torch.jit.trace(model.eval(), example)
    )
    scripted.train()
    expected = nora.influence(model, data, "brute", progress=False).scores
    assert torch.allclose(nora.influence(scripted, data, "brute", progress=False).scores, expected)
    assert scripted.training
    with evaluating(scripted):
        assert not scripted.training
    assert all(module.training for module in scripted.modules())


def test_a_compiled_model_is_asked_as_it_was_written() -> None:
    model, data = network(), double(star())
    expected = nora.influence(model, data, "brute", progress=False).scores
    compiled = torch.compile(model)
    assert build_problem(compiled, data).model is model
    assert torch.equal(nora.influence(compiled, data, "brute", progress=False).scores, expected)


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16])
def test_half_precision_is_summed_in_single_precision(dtype: torch.dtype) -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            with seeded(0):
                self.lin = nn.Linear(FEATURES, 3)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.lin(x.index_add(0, edge_index[1], x[edge_index[0]]))

    data = bridge()
    expected = nora.influence(Half(), data, "brute", progress=False).scores
    data.x = data.x.to(dtype)
    model = Half().to(dtype)
    found = nora.influence(model, data, "brute", progress=False).scores
    assert found.dtype == torch.float
    assert torch.allclose(found, expected, rtol=0.1, atol=0.02)
    effect = nora.what_if(model, data, 3, method="brute")
    assert effect.total == pytest.approx(float(found[3]), rel=1e-6)
    assert len(effect.to_frame()) == 6


def test_a_decoder_keeps_nothing_from_one_pass_to_the_next() -> None:
    class Keeping(nn.Module):
        scale: Tensor | None = None

        def forward(self, z: Tensor, pairs: Tensor) -> Tensor:
            self.scale = z.abs().max() if self.scale is None else self.scale
            return (z[pairs[0]] * z[pairs[1]]).sum(dim=-1) / self.scale

    def afresh(z: Tensor, pairs: Tensor) -> Tensor:
        return (z[pairs[0]] * z[pairs[1]]).sum(dim=-1) / z.abs().max()

    data, pairs = double(bridge()), torch.tensor([[0, 1, 4, 5], [2, 3, 6, 0]])
    found, expected = (
        nora.influence(
            network(), data, "brute", nora.LinkPrediction(pairs, decoder, "raw"), progress=False
        ).scores
        for decoder in (Keeping(), afresh)
    )
    assert torch.allclose(found, expected)
