"""Cells (dataset × model × task) and profiles (sizes) of experiments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nora.models import paper_datasets, paper_settings

# Graphs with something else in place of what the paper had: its settings fit them, its figures do not.
STANDS_FOR = {"ogbn-arxiv-stand-in": "ogbn-arxiv"}


@dataclass(frozen=True)
class Cell:
    """One cell of the paper's tables."""

    dataset: str
    model: str
    task: str

    def __str__(self) -> str:
        return f"{self.dataset}-{self.model}-{self.task}"


@dataclass(frozen=True)
class Profile:
    """How large an experiment is.

    Attributes:
        name: Its name.
        hidden: Hidden sizes are cut to this; None keeps the paper's.
        epochs: Most training epochs.
        patience: Early stopping.
        cycles: How many of the five cyclic splits, unless asked otherwise.
        trials: Settings tried when a trained baseline is tuned.
    """

    name: str
    hidden: int | None
    epochs: int
    patience: int
    cycles: int
    trials: int

    def training(self, cell: Cell, hidden: int | None = None) -> dict[str, Any]:
        """Arguments for `nora.train`: the paper's settings at this profile's size.

        Args:
            cell: The cell.
            hidden: A hidden size that takes the place of the profile's.
        """
        settings = _settings(cell)
        sizes = dict(settings["sizes"])
        if hidden is not None:
            sizes["hidden_channels"] = hidden
        elif self.hidden is not None:
            sizes["hidden_channels"] = min(sizes["hidden_channels"], self.hidden)
        return {
            "epochs": self.epochs,
            "patience": settings.get("patience", self.patience),
            "lr": settings["lr"],
            "weight_decay": settings["weight_decay"],
            **sizes,
        }

    @property
    def caption(self) -> str:
        """A sentence on how a table was made with this profile."""
        if self.hidden is None:
            return f"Profile {self.name}: the paper's sizes, at most {self.epochs} epochs."
        return (
            f"Profile {self.name}: the paper's settings with hidden sizes cut to {self.hidden}, at "
            f"most {self.epochs} epochs, early stopping after {self.patience}."
        )


def _settings(cell: Cell) -> dict[str, Any]:
    """The paper's settings; for a dataset it does not have, the defaults of `nora.train`."""
    if cell.model == "timme":  # the sizes the model was published with are its defaults
        # Validation on a few dozen users is noisy: give it time.
        return {
            "sizes": {"hidden_channels": 100},
            "lr": 0.01,
            "weight_decay": 1e-5,
            "patience": 50,
        }
    dataset = STANDS_FOR.get(cell.dataset, cell.dataset)
    if dataset not in paper_datasets(cell.task):
        return {"sizes": {"hidden_channels": 64}, "lr": 0.01, "weight_decay": 1e-5}
    # The paper names no sizes of DrGAT, which has GAT's place among its models.
    return paper_settings("gat" if cell.model == "drgat" else cell.model, dataset, cell.task)


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("quick", hidden=32, epochs=60, patience=10, cycles=2, trials=3),
        Profile("compact", hidden=128, epochs=200, patience=20, cycles=5, trials=4),
        Profile("paper", hidden=None, epochs=500, patience=50, cycles=5, trials=20),
    )
}
