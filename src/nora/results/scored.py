"""The base of scores of nodes and of edges: rankings, files, merging of parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import pandas as pd
from torch import Tensor

from nora.arguments import check_whole
from nora.results.saving import Result
from nora.results.tables import facts_of


class Scored(Result):
    """Base class of scores: a frozen dataclass with these attributes and `to_frame`.

    Attributes:
        scores: One score each.
        measure: What the scores are sums of.
        columns: Further measures by name.
    """

    scores: Tensor
    measure: str
    columns: Mapping[str, Tensor]

    def __len__(self) -> int:
        return len(self.scores)

    def __iter__(self) -> Iterator[float]:
        return iter(self.scores.tolist())

    def sort(self) -> pd.DataFrame:
        """`to_frame()` with the most influential first; ties keep their order."""
        return self.to_frame().sort_values("rank").reset_index(drop=True)

    def top(self, k: int = 10) -> pd.DataFrame:
        """The first `k` of `sort()`."""
        check_whole("k", k, 1)
        return self.sort().head(k)

    def _saved_frame(self) -> pd.DataFrame:
        return self.sort()

    def _kept(self, *elsewhere: str, **counted: int) -> dict[str, Any]:
        """Facts for provenance, but for fields that stand elsewhere; and how many there are of what."""
        facts = facts_of(self, "scores", "columns", *elsewhere)  # type: ignore[arg-type]
        found = {**facts, **counted, "dtype": str(self.scores.dtype).removeprefix("torch.")}
        return {**found, "columns": list(self.columns)} if self.columns else found


Some = TypeVar("Some", bound=Scored)


def with_ranks(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """A table with `rank` by its `influence`: the largest first, or the largest in size."""
    by = frame["influence"] if measure == "change" else frame["influence"].abs()
    frame["rank"] = by.rank(ascending=False, method="first").astype(int)
    return frame


def same_fields(parts: Iterable[Some], fields: tuple[str, ...], what: str) -> list[Some]:
    """The parts as a list, after a check that they have the same values in these fields.

    Raises:
        ValueError: When there are none, or they differ.
    """
    given = list(parts)
    if not given:
        raise ValueError(f"nothing to {what}")
    first = given[0]
    for part in given[1:]:
        for name in fields:
            if getattr(part, name) != getattr(first, name):
                raise ValueError(
                    f"parts differ in {name}: {getattr(first, name)} and {getattr(part, name)}"
                )
        if tuple(part.columns) != tuple(first.columns):
            raise ValueError("parts differ in their further measures")
    return given
