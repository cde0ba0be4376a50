"""Descriptions of traced tensors: which rows they hold, and along which axis.

There are three cases. A plain `torch.Tensor` is the same on every graph (weights, constants). A `Tracked` one
holds rows of a space along one axis. A `Uniform` one repeats the same row once per node or edge
(`torch.zeros(num_nodes, 8)`); its space is decided when it is combined with a tracked one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from nora.engine.ir.op import Value
from nora.engine.ir.space import Space

# Whole numbers that stand for rows: `id` is the number of a row, `key` orders rows by several numbers.
Ids = Literal["", "id", "scaled", "key"]


@dataclass(frozen=True)
class Layout:
    """The layout of a tensor's rows.

    Attributes:
        axis: The axis along which they lie; None where every row is a tensor of its own (a value of the whole
            graph).
        outer, inner: That axis is `outer · rows · inner` long, because other axes were merged with it.
    """

    axis: int | None
    outer: int = 1
    inner: int = 1

    def at(self, axis: int) -> Layout:
        """The same along another axis."""
        return Layout(axis, self.outer, self.inner)

    @property
    def plain(self) -> bool:
        """Whether the axis holds nothing but the rows."""
        return self.outer == self.inner == 1

    @property
    def factor(self) -> int:
        """How many entries along the axis belong to one row."""
        return self.outer * self.inner

    def tensor(self, rows: Tensor) -> Tensor:
        """From rows first `[M, …]` to the tensor's own order of axes."""
        assert self.axis is not None
        if self.plain:
            return rows.movedim(0, self.axis) if self.axis else rows
        return rows.movedim(0, self.axis + 1).flatten(self.axis, self.axis + 2)

    def rows(self, tensor: Tensor) -> Tensor:
        """From the tensor's own order of axes to rows first `[M, …]`."""
        assert self.axis is not None
        if self.plain:
            return tensor.movedim(self.axis, 0) if self.axis else tensor
        count = tensor.size(self.axis) // self.factor
        parts = tensor.unflatten(self.axis, (self.outer, count, self.inner))
        return parts.movedim(self.axis + 1, 0)


@dataclass(frozen=True, eq=False)
class Tracked:
    """A tensor that holds rows of a space."""

    value: Value
    layout: Layout
    ids: Ids = ""

    @property
    def space(self) -> Space:
        """Whose rows they are."""
        return self.value.space


@dataclass(frozen=True, eq=False)
class Uniform:
    """A tensor that repeats one row, `rows [1, …]`; `sizes` is how often, for every traced graph."""

    rows: Tensor
    layout: Layout
    sizes: tuple[int, ...]

    @property
    def single(self) -> Tensor | None:
        """The one number that fills all of it, if one does."""
        if not self.rows.numel():
            return None
        first = self.rows.reshape(-1)[0]
        same = (self.rows == first) | ((self.rows != self.rows) & (first != first))
        return first if bool(same.all()) else None


@dataclass(frozen=True, eq=False)
class Matrix:
    """A sparse matrix: an entry for every row of a space.

    Attributes:
        row, column: Where each entry stands, `[size]`.
        values: The entries.
        rows, columns: What its rows and columns are.
        in_order: Whether its entries are stored as they stand here, so that one may take it apart.
    """

    row: Tensor
    column: Tensor
    values: Value
    rows: Space
    columns: Space
    in_order: bool = True

    @property
    def space(self) -> Space:
        """Whose rows the entries are."""
        return self.values.space


@dataclass(frozen=True, eq=False)
class Picked:
    """Rows selected by a mask on values: all rows `[N, …]`, and the mask `[N]`; see `masks.py`."""

    mask: Tracked
    rows: Tracked


@dataclass(frozen=True, eq=False)
class Pointers:
    """The row pointers of a compressed matrix, represented by the row of every entry."""

    row: Tracked


# The binding of a traced tensor.
Dense = Tensor | Tracked | Uniform
Known = Dense | Matrix | Picked | Pointers


@dataclass(frozen=True)
class RowCount:
    """A size among an operation's arguments: the number of rows times a factor."""

    factor: int = 1


def filled(shape: tuple[tuple[int, ...], ...], number: Tensor) -> Tensor | Uniform | None:
    """A tensor of one number, of a shape that may depend on the graph; None with two such axes."""
    sized = [axis for axis, sizes in enumerate(shape) if len(set(sizes)) > 1]
    if len(sized) > 1:
        return None
    plain = [sizes[0] for sizes in shape]
    if not sized:
        return number.expand(plain) if plain else number
    axis = sized[0]
    rest = plain[:axis] + plain[axis + 1 :]
    return Uniform(number.expand([1, *rest]), Layout(axis), shape[axis])
