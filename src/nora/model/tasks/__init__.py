"""What can be predicted: one file per task."""
