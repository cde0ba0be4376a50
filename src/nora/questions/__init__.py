"""Questions about a model and a graph, one per file, thin over engine and methods."""
