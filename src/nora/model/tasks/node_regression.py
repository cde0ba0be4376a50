"""A number for every node, or several: `F(r) = Σ_{i≠r} ‖ŷ_i(G) − ŷ_i(G−r)‖₁`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nora.model.task import NodeTask, Predicts


@dataclass(frozen=True)
class NodeRegression(NodeTask):
    """Every node's predicted numbers, as the model returns them.

    Args:
        node_type: The node type that has predictions, in a `HeteroData`.

    Example:
        >>> NodeRegression().predict(torch.tensor([0.5, 2.0]))
        tensor([[0.5000],
                [2.0000]])
    """

    node_type: str | None = None
    name = "regression"

    @property
    def predicts(self) -> Predicts:
        """Values."""
        return "values"

    def predict(self, output: Tensor) -> Tensor:
        """Predicted numbers `[N, K]` from an output `[N]` or `[N, K]`."""
        return output.unsqueeze(-1) if output.dim() == 1 else output

    def largest_change(self, columns: int) -> float:
        """A number may move as far as it likes."""
        return float("inf")

    def scale(self, prediction: Tensor) -> float:
        """The largest number there is."""
        return float(prediction.abs().max()) if prediction.numel() else 1.0

    def check(self, output: Tensor, num_nodes: int, rows: Tensor | None = None) -> None:
        """Raise when `output` is not one row of finite numbers per node."""
        if output.dim() not in (1, 2) or output.size(0) != num_nodes:
            raise ValueError(
                f"node regression needs a model output of shape [{num_nodes}] or [{num_nodes}, values]; "
                f"the model returned {list(output.shape)}"
            )
        if not output.is_floating_point():
            raise ValueError(f"node regression needs floating-point outputs, got {output.dtype}")
        if not bool(torch.isfinite(output if rows is None else output[rows]).all()):
            raise ValueError("the model predicts NaN or infinite values on this graph")
