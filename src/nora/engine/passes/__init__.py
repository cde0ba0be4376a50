"""Passes: rewrites of a program, each in its file; `optimise.py` declares their order."""
