"""What can be asked of a model and a graph: one file per question, thin over engine and methods."""
