"""`nora train`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from nora.artefact import MANIFEST
from nora.cli.display import Json, print_json, print_text
from nora.options import Options, setting
from nora.outputs import OLD_RUN, RUN_FILES, check_own_folder
from nora.wording import duration


@dataclass(frozen=True)
class FitOptions(Options):
    """Sizes of a model and settings of its training."""

    hidden: int | None = setting(None, "Width of the hidden layers.", metavar="N", least=1)
    layers: int | None = setting(None, "Number of convolutions.", metavar="N", least=1)
    dropout: float | None = setting(
        None, "Dropout of the hidden layers.", metavar="P", least=0, most=1
    )
    lr: float | None = setting(None, "Adam's learning rate.", metavar="X", least=0)
    weight_decay: float | None = setting(None, "Adam's weight decay.", metavar="X", least=0)
    balanced: bool = setting(False, "Every class counts the same in training, however rare it is.")
    paper: bool = setting(False, "Use the sizes and settings that the paper published.")

    def over_published(
        self, dataset: str, model: str, task: str
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Sizes and training settings: what was given, over the paper's if asked for."""
        from nora.models import paper_settings

        published = dict(paper_settings(model, dataset, task)) if self.paper else {}
        sizes = {
            "hidden_channels": self.hidden,
            "num_layers": self.layers,
            "dropout": self.dropout,
        }
        settings = {"lr": self.lr, "weight_decay": self.weight_decay}
        return {**published.pop("sizes", {}), **_known(sizes)}, {**published, **_known(settings)}


def _known(given: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if value is not None}


def train(
    dataset: Annotated[str, typer.Option(help="A name from 'nora datasets'.")],
    model: Annotated[str, typer.Option(help="A name from 'nora models'.")] = "gcn",
    task: Annotated[
        str, typer.Option(help="node: classify nodes. link: predict edges.", metavar="node|link")
    ] = "node",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the run.", show_default="runs/DATASET-MODEL"),
    ] = None,
    cycle: Annotated[int, typer.Option(min=0, max=4, help="Which of the five cyclic splits.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same run.")] = 0,
    epochs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Maximum number of epochs.")
    ] = 200,
    fitting: FitOptions = FitOptions(),
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier run.")] = False,
    json: Json = False,
) -> None:
    """Train a model and save it as a run: a folder with its weights, split, seed and metrics.

    Training is full-batch Adam with early stopping. With --paper, the sizes and settings are those
    the paper published for this model and dataset; options given beside it take precedence.

    \b
    Example:
      nora train --dataset cora --model gcn --out runs/cora-gcn
      nora train --dataset karate --model sage --task link --epochs 50
      nora train --dataset pubmed --model gat --cycle 3 --paper
    """
    from nora.datasets import DATASETS
    from nora.models import MODELS

    DATASETS.check(dataset)
    MODELS.check(model)
    if task not in ("node", "link"):
        raise ValueError(f"--task is {task!r}; it must be 'node' or 'link'")
    folder = out or default_folder(dataset, model, task, cycle)
    check_own_folder(folder, force, RUN_FILES, (MANIFEST, OLD_RUN), "'nora train'")

    import nora

    sizes, settings = fitting.over_published(dataset, model, task)
    trained = nora.train(
        model,
        dataset,
        task,
        cycle=cycle,
        seed=seed,
        epochs=epochs,
        balanced=fitting.balanced,
        **settings,
        **sizes,
    )
    trained.save(folder, replace=force)
    if json:
        print_json({"run": str(folder), **trained.describe()})
        return
    metrics = trained.metrics
    quality = ", ".join(
        f"{key.replace('_', ' ')} {value:.3f}"
        for key, value in metrics.items()
        if key.endswith(("accuracy", "auc"))
    )
    print_text(
        f"{model} on {dataset}: {quality} ({metrics['epochs']} epochs, {duration(metrics['seconds'])})"
    )
    print_text(f"Run in {folder}. Next: nora rank {folder}")


def default_folder(dataset: str, model: str, task: str, cycle: int) -> Path:
    """The default folder of a run.

    >>> default_folder("cora", "gcn", "link", 2).as_posix()
    'runs/cora-gcn-link-cycle2'
    """
    name = f"{dataset}-{model}" + ("" if task == "node" else f"-{task}")
    return Path("runs") / (name + (f"-cycle{cycle}" if cycle else ""))
