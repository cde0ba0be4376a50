"""The inner loops: compiled by Numba on the CPU, or plain torch on any device."""
