"""The inner loops: compiled by Numba, or plain torch."""
