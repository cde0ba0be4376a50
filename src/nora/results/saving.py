"""What results have in common: notebooks show them, and they are saved as a table with how it was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from nora.arguments import path_of
from nora.results.tables import write_table


class Result:
    """Base class of results: a frozen dataclass with `to_frame` and `provenance`.

    Attributes:
        beside: The fields that are tensors, which are saved beside the table.
    """

    beside: ClassVar[tuple[str, ...]] = ()

    def to_frame(self) -> pd.DataFrame:
        """The result as a table."""
        raise NotImplementedError

    def provenance(self) -> dict[str, Any]:
        """How it was made, and everything else that `load` needs, as `save` stores them."""
        raise NotImplementedError

    def _saved_frame(self) -> pd.DataFrame:
        return self.to_frame()

    def _repr_html_(self) -> str:
        from nora.results.plots.notebook_table import result_html

        return result_html(self)

    def save(self, path: str | Path, replace: bool = True) -> Path:
        """Write the result to a `.parquet` or `.csv` file, which `load` reads.

        If it has more than the table, such as all predictions of an `Effect`, these are written to
        `<name>.predictions.safetensors` in the same folder; `load` needs both files. Raises an error if the
        file exists, unless `replace` is set.
        """
        given = {name: getattr(self, name) for name in self.beside}
        tensors = {name: tensor for name, tensor in given.items() if tensor is not None}
        return write_table(
            self._saved_frame(), self.provenance(), path_of(path), tensors, replace=replace
        )
