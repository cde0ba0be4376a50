"""Results: values that can be sliced, sorted, compared, drawn, saved and loaded."""
