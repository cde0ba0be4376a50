"""Distillation: a teacher is trained first, then the model itself learns from the teacher's opinions.

The teacher gives more than the labels: how sure it is, which other classes are near, and all that for
nodes without a label as well. With logits `z` of the student and `t` of the teacher (fixed, in eval
mode), on `N` nodes of which `L` have training labels `y`, the student minimises

    0.95 · T²/N Σ_i KL( softmax(t_i/T) ‖ softmax(z_i/T) )  +  0.05 · 1/|L| Σ_{i∈L} −log softmax(z_i)_{y_i}

at temperature `T = 0.7`; `T²` keeps the gradients' size independent of `T`. No label outside of the
training nodes is read; validation labels decide when to stop, for both.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data

from nora.model.calling import default_forward
from nora.model.preserve import evaluating
from nora.models.drgat import DrGAT
from nora.training.fits import FITS, FitFacts, Settings
from nora.training.fits.plain import cross_entropy, fit_to_task
from nora.training.splits import LinkSplit, NodeSplit

WEIGHT, TEMPERATURE = 0.95, 0.7


@FITS.register("distillation", "a teacher first, then its student", FitFacts(models=(DrGAT,)))
def fit_with_teacher(
    network: nn.Module, data: Data, split: NodeSplit | LinkSplit, settings: Settings
) -> dict[str, float]:
    """Fit a teacher of the same architecture, then `network` in place as its student.

    The teacher is a copy of `network` as given; it is trained by `fit_to_task` and thrown away.
    Link prediction has no classes whose probabilities a teacher could pass on: there this is
    `fit_to_task`, without a teacher.

    Args:
        network: The student, with fresh weights.
        data: The graph, `data.y` `[N]` the labels.
        split: Which labels may be seen, and when.
        settings: For each of the two.

    Returns:
        The student's epochs and metrics, the teacher's as `teacher_val_accuracy` and so on.

    Example:
        >>> import nora
        >>> run = nora.train("drgat", "karate", epochs=3, progress=False)
        >>> [key for key in run.metrics if key.startswith("teacher_test")]
        ['teacher_test_accuracy', 'teacher_test_balanced_accuracy']
    """
    if isinstance(split, LinkSplit):
        return fit_to_task(network, data, split, settings)
    teacher = copy.deepcopy(network)
    taught = fit_to_task(teacher, data, split, settings)
    with evaluating(teacher), torch.no_grad():
        opinion = default_forward(teacher, data)(teacher, data)

    def objective(output: Tensor) -> Tensor:
        truth = cross_entropy(output[split.train], data.y[split.train], settings.balanced)
        return WEIGHT * divergence(output, opinion, TEMPERATURE) + (1 - WEIGHT) * truth

    learnt = fit_to_task(network, data, split, settings, objective=objective)
    return learnt | {f"teacher_{k}": v for k, v in taught.items() if k != "best_epoch"}


def divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """`T²` times the mean over nodes of `KL(teacher ‖ student)` at temperature `T`.

    Args:
        student: Logits `[N, C]`.
        teacher: Logits `[N, C]`.
        temperature: `T`; below 1 the teacher speaks more decidedly than it thinks.

    Example:
        >>> logits = torch.tensor([[0.0, 1.0]])
        >>> divergence(logits, logits, 0.7).item()
        0.0
    """
    return temperature**2 * F.kl_div(
        F.log_softmax(student / temperature, dim=-1),
        F.log_softmax(teacher / temperature, dim=-1),
        reduction="batchmean",
        log_target=True,
    )
