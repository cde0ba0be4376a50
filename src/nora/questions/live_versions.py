"""Predictions at one time, of which only the newest are held whole."""

from __future__ import annotations

import torch
from torch import Tensor

from nora.model.edited import Changes


class Version:
    """Predictions at one time, of which only the newest are held whole; each older one knows what came next.

    Args:
        table: The predictions, which the next version writes to.
    """

    def __init__(self, table: Tensor) -> None:
        self.count = len(table)
        self._table: Tensor | None = table
        self._next: tuple[Version, Tensor, Tensor] | None = None

    def whole(self) -> Tensor:
        """All predictions of that time, a copy."""
        version, patches = self, []
        while version._next is not None:
            version, *patch = version._next
            patches.append(patch)
        assert version._table is not None
        table = version._table.clone()  # patches may be of nodes that were added later
        for item, rows in reversed(patches):
            table[item] = rows
        return table[: self.count]

    def at(self, item: Tensor) -> Tensor:
        """Some of the newest predictions."""
        assert self._table is not None, "only the newest version is asked for rows"
        return self._table.index_select(0, item)

    def replaced(self, changes: Changes, removed: Tensor, added: Tensor) -> Version:
        """The next version, with changed and added predictions; this one keeps the earlier ones.

        Args:
            changes: What changes, with `before`.
            removed: Nodes that are removed.
            added: Predictions of added nodes `[k, C]`.
        """
        table, item, before = self._table, changes.item, changes.before
        assert table is not None and before is not None, "only the newest version has a next one"
        if len(removed):
            item, before = torch.cat([item, removed]), torch.cat([before, table[removed]])
        table.index_copy_(0, changes.item, changes.after)
        table[removed] = float("nan")
        made = Version(torch.cat([table, added]) if len(added) else table)
        self._next, self._table = (made, item, before), None
        return made
