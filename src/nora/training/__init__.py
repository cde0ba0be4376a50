"""From a dataset to a trained run: splits, training, and how far the model can be trusted."""
