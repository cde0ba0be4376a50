"""The published truth: read it, and compare scores with it, without training or removing anything.

benchmark = Benchmark.load("results/paper/truth.parquet")
benchmark.compare({"cora": my_scores})              # the same scores for all models of a dataset
benchmark.compare({"cora-gcn-node": [s0, s1, …]})   # one vector per cycle's model
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from nora.experiments import lookup, published
from nora.experiments.cells import Cell
from nora.experiments.single import METRICS, median_error, spread_in_words
from nora.model.fingerprint import digest
from nora.registry import nearest
from nora.results.agreement import agreement

KEY = b"nora_benchmark"


def model_fingerprint(model: nn.Module) -> str:
    """Digest of a model's weights, the same for equal models.

    >>> model_fingerprint(nn.Identity()) == model_fingerprint(nn.Linear(1, 1))
    False
    """
    weights = model.state_dict()
    return digest([part for name in sorted(weights) for part in (name, weights[name])])


def write_benchmark(
    path: Path, truth: pd.DataFrame, models: pd.DataFrame, about: Mapping[str, Any]
) -> None:
    """Write what `Benchmark.load` reads."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(
        truth.astype({"cycle": "int8", "node": "int32"}), preserve_index=False
    )
    card = {"about": dict(about), "models": models.to_dict("records")}
    table = table.replace_schema_metadata({KEY: json.dumps(card).encode()})
    pq.write_table(
        table,
        path,
        compression="zstd",
        use_dictionary=["dataset", "model", "task"],
        column_encoding={"influence": "BYTE_STREAM_SPLIT", "node": "DELTA_BINARY_PACKED"},
    )


@dataclass(frozen=True)
class Benchmark:
    """Exact influences of trained models.

    Attributes:
        frame: One row per model and node: `dataset`, `model`, `task`, `cycle`, `node`, `influence`,
            `labelled`.
        models: One row per model, with `fingerprint` and `graph`.
        about: How it was made.
    """

    frame: pd.DataFrame
    models: pd.DataFrame
    about: Mapping[str, Any]

    @classmethod
    def load(cls, path: str | Path) -> Benchmark:
        """Read a file that `nora reproduce truth` wrote."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(path)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{path} is not a Parquet file ({error})") from error
        if KEY not in (table.schema.metadata or {}):
            raise ValueError(f"{path} is not a benchmark: 'nora reproduce truth' writes one")
        card = json.loads(table.schema.metadata[KEY])
        return cls(table.to_pandas(), pd.DataFrame(card["models"]), card["about"])

    @cached_property
    def _parts(self) -> dict[tuple[Cell, int], pd.DataFrame]:
        keys = ["dataset", "model", "task", "cycle"]
        found: dict[tuple[Cell, int], pd.DataFrame] = {}
        for key, part in self.frame.groupby(keys, sort=False, observed=True):
            dataset, model, task, cycle = (str(one) for one in tuple(key))
            found[Cell(dataset, model, task), int(cycle)] = part
        return found

    @property
    def cells(self) -> list[Cell]:
        """All cells."""
        return list(dict.fromkeys(cell for cell, _ in self._parts))

    def cycles(self, cell: Cell) -> int:
        """How many models a cell has."""
        return sum(one == cell for one, _ in self._parts)

    def truth(self, cell: Cell, cycle: int) -> Tensor:
        """The influence of every node `[N]` of one model."""
        return torch.from_numpy(self._part(cell, cycle)["influence"].to_numpy(copy=True))

    def labelled(self, cell: Cell) -> Tensor:
        """Which nodes a method may learn from, a mask `[N]`."""
        return torch.from_numpy(self._part(cell, 0)["labelled"].to_numpy(copy=True))

    def fingerprint(self, cell: Cell, cycle: int) -> str:
        """The result of `model_fingerprint` for the cell's model."""
        self._part(cell, cycle)
        keys = ["dataset", "model", "task", "cycle"]
        found = self.models.set_index(keys)["fingerprint"].to_dict()
        return str(found[cell.dataset, cell.model, cell.task, cycle])

    def _part(self, cell: Cell, cycle: int) -> pd.DataFrame:
        if (cell, cycle) not in self._parts:
            known = ", ".join(str(one) for one in self.cells)
            raise ValueError(f"there is no cycle {cycle} of {cell} here; there are {known}")
        return self._parts[cell, cycle]

    def compare(self, scores: Mapping[str, Tensor | Sequence[Tensor]]) -> pd.DataFrame:
        """How well scores agree with the truth, on the nodes that are not labelled.

        Args:
            scores: `[N]` for every model of a dataset (`"cora"`) or of a cell (`"cora-gcn-node"`), or a
                list with one `[N]` per cycle.

        Returns:
            One row per cell: mean and range of each metric over single models, Pearson of the averages
            over cycles, and the paper's Pearson of NORA.
        """
        self._check_names(scores)
        rows = []
        for cell in self.cells:
            given = scores.get(str(cell), scores.get(cell.dataset))
            if given is None:
                continue
            count = self.cycles(cell)
            each = [given] * count if isinstance(given, Tensor) else list(given)
            rows.append(self._row(cell, each, count))
        return pd.DataFrame(rows)

    def _row(self, cell: Cell, scores: list[Tensor], count: int) -> dict[str, Any]:
        unseen = ~self.labelled(cell)
        if len(scores) != count:
            raise ValueError(
                f"expected one vector for each of the {count} models of {cell}, got {len(scores)}"
            )
        for one in scores:
            if one.shape != unseen.shape:
                raise ValueError(
                    f"scores of {cell} must have the shape [{len(unseen)}], got {list(one.shape)}"
                )
            if not one.isfinite().all():
                raise ValueError(f"scores for {cell} must be finite, got NaN or infinity")
        truths = [self.truth(cell, cycle) for cycle in range(count)]
        pairs = [(a[unseen], b[unseen]) for a, b in zip(scores, truths, strict=True)]
        found = pd.DataFrame(
            [{**agreement(a, b), "median error": median_error(a, b)} for a, b in pairs]
        )
        mean = [
            torch.stack([one.double() for one in part]).mean(dim=0) for part in (scores, truths)
        ]
        average = agreement(mean[0][unseen], mean[1][unseen])["pearson"]
        paper = lookup(published()["pearson"], cell.task, cell.dataset, cell.model, "nora")
        return {
            "cell": str(cell),
            "models": count,
            **{metric: spread_in_words(found[metric]) for metric in METRICS},
            "pearson of averages": average,
            "paper's nora": paper,
        }

    def _check_names(self, scores: Mapping[str, Any]) -> None:
        known = [name for cell in self.cells for name in (str(cell), cell.dataset)]
        for name in scores:
            if name not in known:
                raise ValueError(f"there is no {name!r} here.{nearest(name, known)}")
