"""Engines saved to disk."""
