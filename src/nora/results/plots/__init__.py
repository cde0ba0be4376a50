"""Results as pictures and as notebooks show them."""
