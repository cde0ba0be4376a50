"""The live explorer: take nodes and edges away, see at once who changes."""
