"""Estimates: importance sampling, calibration, cost samples, the Cauchy sketch."""
