"""Tasks, one per file."""
