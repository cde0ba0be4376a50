"""The exact engine: recompute only what a removal changes.

The model is recorded once, operation by operation (`tape/`), and becomes a *plan* of steps between
spaces: maps of rows, rows read by edges, rows reduced at nodes (`steps`, `moves`, `weighted`, `sums`).
Every value of the plan keeps its original rows; a removal carries along only the rows that changed.
`rules/` says, one file per convolution, how a convolution is followed as one piece.
"""

from nora.engine.rules import rule

__all__ = ["rule"]
