"""From scores to something to look at."""
