"""Return types of models, in the words of PyG's `ModelConfig`: logits, probabilities or their logarithms."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

ReturnType = Literal["raw", "probs", "log_probs"]
RETURN_TYPES = ("raw", "probs", "log_probs")


class DefaultReturnType(str):
    """`raw`, as long as the output does not speak against it."""


DEFAULT = DefaultReturnType("raw")


def checked_return_type(return_type: str | None) -> str:
    """The return type that was given; `DEFAULT` for none."""
    if return_type is None:
        return DEFAULT
    if return_type not in RETURN_TYPES:
        raise ValueError(f"return_type is {return_type!r}; it must be one of {RETURN_TYPES}")
    return return_type


def by_itself(output: Tensor, return_type: str | None) -> Tensor:
    """Probabilities of independent decisions, not of exclusive classes."""
    if return_type == "raw":
        return output.sigmoid()
    return output.exp() if return_type == "log_probs" else output


def reject_rows_that_sum_to_one(output: Tensor) -> None:
    """Raise when logits look like probabilities, and no return type was given.

    Log-probabilities need no word: they are logits too, whose softmax is the probabilities.
    """
    output = output.float()
    if output.numel() == 0 or bool((output < 0).any()):
        return
    if bool(((output.sum(dim=-1) - 1).abs() < 1e-4).all()):
        raise ValueError(
            "the model seems to return probabilities already (no row has a negative number, and each "
            "sums to one): pass task=nora.NodeClassification(return_type='probs'), or "
            "return_type='raw' if these are logits"
        )


def reject_unit_interval(score: Tensor, source: str, task: str) -> None:
    """Raise when logits all lie in [0, 1], and none was declared to be logits."""
    score = score.float().flatten()
    # Of one or two numbers, or the same one throughout, nothing can be concluded.
    if score.numel() <= 2 or bool((score == score[0]).all()):
        return
    if float(score.min()) >= 0 and float(score.max()) <= 1:
        raise ValueError(
            f"{source} returns numbers between {float(score.min()):.3g} and {float(score.max()):.3g}, "
            f"which may be probabilities already: pass task=nora.{task}(…, return_type='probs'), or "
            "return_type='raw' if they are logits"
        )


def check_range(prediction: Tensor, return_type: str) -> None:
    """Raise when predictions are not probabilities, which means a wrong `return_type`."""
    if not bool(torch.isfinite(prediction).all()):
        raise ValueError("the model predicts NaN or infinite values on this graph")
    if prediction.numel() and not (
        float(prediction.min()) >= -1e-4 and float(prediction.max()) <= 1 + 1e-4
    ):
        raise ValueError(
            f"with return_type={return_type!r} the predictions should lie in [0, 1] but span "
            f"[{float(prediction.min()):.3g}, {float(prediction.max()):.3g}]; does the model "
            "return raw logits (return_type='raw') or log-probabilities ('log_probs')?"
        )
