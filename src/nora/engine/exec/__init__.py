"""Executes programs: edits in, changed rows out."""
