"""The tape: what a model does, recorded operation by operation, and followed."""
