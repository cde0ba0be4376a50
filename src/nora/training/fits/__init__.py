"""Ways to fit a network to a split: one file per way.

Most networks are fitted to the task they are trained for (`plain`). A way that is made for some
architectures names their classes here, above them: a model does not know how it is trained.

Facts given on registration:
    models: The classes of networks the way is for; without it, the way is for all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from torch import nn

from nora.registry import Registry

Selection = Literal["eval", "dropout"]

# What a progress bar shows beside its bar.
SHOWN = "loss {task.fields[loss]}  {task.fields[metric]}"


@dataclass(frozen=True)
class Settings:
    """How long and how fast to train.

    Attributes:
        epochs: Most passes over the data.
        patience: Stop when the validation metric has not improved for so many epochs.
        lr: Adam's learning rate.
        weight_decay: Adam's weight decay.
        progress: Show a progress bar.
        selection: Which weights are kept: `eval`, those after the epoch with the best validation metric in
            eval mode; `dropout`, those before it, with dropout on in validation, as the paper's scripts do.
        balanced: Every class counts the same, in the loss and in the choice of the epoch, however many labels
            it has; node classification only.
    """

    epochs: int = 200
    patience: int = 50
    lr: float = 0.01
    weight_decay: float = 1e-5
    progress: bool = True
    selection: Selection = "eval"
    balanced: bool = False


class Fit(Protocol):
    """A way to fit."""

    def __call__(self, network: Any, data: Any, split: Any, settings: Settings) -> dict[str, float]:
        """Fit `network` in place on one split of `data`; returns epochs and metrics."""


@dataclass(frozen=True)
class FitFacts:
    """Which models a way to fit is made for."""

    models: tuple[type[nn.Module], ...] = ()


FITS: Registry[Fit, FitFacts] = Registry("way to fit", __name__, FitFacts())


def fit_for(network: nn.Module) -> Fit:
    """The way made for this kind of network, or the plain one.

    >>> from nora.models import build_model
    >>> fit_for(build_model("gcn", 16, 2)).__name__
    'fit_to_task'
    """
    for entry in FITS:
        if isinstance(network, entry.facts.models):
            return entry.value
    return FITS["plain"].value
