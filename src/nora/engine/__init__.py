"""The exact engine, a compiler: recompute only the rows that an edit changes.

`trace/` runs the model on the graph and on a few others and records its operations. `lower/` turns these
into a program of operations between spaces (`ir/`, `ops/`), `passes/` rewrites it, `compile.py` does all
three. Every value of the program keeps its rows on the original graph. `exec/` carries the rows that a
batch of edits changes through the program, `estimate/` computes a sample of them only, `verify.py` compares
with brute force.
"""

from nora.engine.lower.lowerings import rule

__all__ = ["rule"]
