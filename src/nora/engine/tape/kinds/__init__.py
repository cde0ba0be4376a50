"""One file per kind of operation: what it does with rows.

A kind is a function of the walk and the operation, entered by the operation's name in ATen. It looks up
what is known of the operation's arguments and says what is known of its results, adding steps to the
plan on the way. An operation without a kind is done on the whole graph anew (`anything.py`).
"""

from nora.engine.tape.kinds import (
    anything,
    creation,
    gathers,
    joins,
    pointwise,
    products,
    reductions,
    rowwise,
    scatters,
    sparse,
    structure,
    views,
)

__all__ = [
    "anything",
    "creation",
    "gathers",
    "joins",
    "pointwise",
    "products",
    "reductions",
    "rowwise",
    "scatters",
    "sparse",
    "structure",
    "views",
]
