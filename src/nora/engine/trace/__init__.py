"""Runs a model and records its operations, with the source line of each."""
