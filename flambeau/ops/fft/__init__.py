"""Fourier transforms, short-time transforms and window functions."""
