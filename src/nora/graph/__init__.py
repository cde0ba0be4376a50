"""Graphs: node ids, edges by their ends, edits, and graphs after them."""
