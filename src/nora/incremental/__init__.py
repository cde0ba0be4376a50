"""The exact engine: recompute only what a removal changes.

The model is traced once into a *plan* of a few kinds of steps: row-wise maps, weighted sums over
neighbours, and convolutions that recompute whole neighbourhoods. Every value of the plan keeps its
original rows; a removal carries along only the rows that changed. `rules/` says, one file per
convolution, how a convolution is written in these steps.
"""

from nora.incremental.rules import rule

__all__ = ["rule"]
